// Fills the views from the rows in the page: the choice in the address decides what is shown.

const VIEWS = ["overview", "explore", "evidence", "profile"].filter((name) => document.getElementById(name));
const CHOOSING = ["explore", "evidence"];
const CHOICES = ["system", "layout", "collective", "library", "bytes"];
const SIGNS = { decided: "●", tie: "=", neighbour: "≈", fallback: "–", undecided: "?", predicted: "○", extrapolated: "◌", learnt: "✓" };

const stored = JSON.parse(document.getElementById("data").textContent);
const specs = JSON.parse(document.getElementById("charts").textContent);
const tables = Object.fromEntries(Object.entries(stored).map(([name, columns]) => [name, rowsOf(columns)]));
const form = document.getElementById("choice");
const views = {}; // chart -> Vega view, once it has been shown
let shown = "";

function rowsOf(columns) {
  const names = Object.keys(columns);
  const values = names.map((name) => {
    const column = columns[name];
    return Array.isArray(column) ? column : column.at.map((index) => column.of[index]);
  });
  return (values[0] ?? []).map((_, row) => Object.fromEntries(names.map((name, i) => [name, values[i][row]])));
}

const bytesText = (bytes) => {
  const unit = [["GiB", 30], ["MiB", 20], ["KiB", 10]].find(([, shift]) => bytes % 2 ** shift === 0 && bytes > 0);
  return unit ? `${bytes / 2 ** unit[1]} ${unit[0]}` : `${bytes} B`;
};
const secondsText = (seconds) => {
  if (!seconds) return "";
  const short = Number(seconds.toPrecision(3));
  const [unit, scale] = short >= 1 ? ["s", 1] : short >= 1e-3 ? ["ms", 1e3] : ["us", 1e6];
  const value = seconds * scale;
  return `${value < 999.5 ? value.toPrecision(3) : value.toFixed(0)} ${unit}`;
};
const ratioText = (ratio) => (ratio ? `${ratio.toFixed(2)} x` : "");

// ---- the choice ---------------------------------------------------------------------------------

const viewOf = (link) => link.hash.slice(1).split("?")[0];

function read() {
  const [view, words] = location.hash.slice(1).split("?");
  return { view: VIEWS.includes(view) ? view : "overview", asked: Object.fromEntries(new URLSearchParams(words)) };
}

// Each choice is among the rows that fit those before it; by default the first one with measured times.
function choose(asked) {
  let rows = tables.winners;
  const chosen = {};
  for (const name of CHOICES) {
    const known = [...new Set(rows.map((row) => row[name]))].sort((a, b) => name === "bytes" ? a - b : byName(a, b));
    const select = form.elements[name];
    const wanted = name === "bytes" ? Number(asked[name]) : asked[name];
    const usual = known.find((value) => rows.some((row) => row[name] === value && row.seconds)) ?? known[0];
    chosen[name] = known.includes(wanted) ? wanted : usual;
    select.replaceChildren(...known.map((value) => new Option(name === "bytes" ? bytesText(value) : value, value)));
    select.value = chosen[name];
    rows = rows.filter((row) => row[name] === chosen[name]);
  }
  return chosen;
}

const byName = (a, b) => String(a).localeCompare(String(b), undefined, { numeric: true });
const same = (chosen, ...names) => (row) => names.every((name) => row[name] === chosen[name]);

// ---- views --------------------------------------------------------------------------------------

async function show() {
  const { view, asked } = read();
  for (const name of VIEWS) document.getElementById(name).hidden = name !== view;
  for (const link of document.querySelectorAll("nav a")) {
    if (viewOf(link) === view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  form.hidden = !CHOOSING.includes(view) || tables.winners.length === 0;
  // The browser would go on behind the form, at the section that the address names.
  if (shown !== view) {
    document.getElementById("main").focus({ preventScroll: true });
    scrollTo(0, 0);
  }
  shown = view;
  if (view === "overview") return draw("gains", gains());
  if (view === "profile") return undefined;
  const chosen = choose(asked);
  for (const link of document.querySelectorAll("nav a")) {
    const target = viewOf(link);
    if (CHOOSING.includes(target)) link.hash = `${target}?${new URLSearchParams(chosen)}`;
  }
  return view === "explore" ? explore(chosen) : evidence(chosen);
}

async function explore(chosen) {
  const rows = tables.winners.filter(same(chosen, "system", "layout", "collective"));
  fill("sizes", rows.map((row) => [
    row.library, bytesText(row.bytes), secondsText(row.seconds), secondsText(nativeOf(row)), ratioText(row.ratio),
    row.low && row.high ? `${row.low.toPrecision(3)} to ${row.high.toPrecision(3)}` : "",
    row.variant, row.reason ? `${row.evidence}: ${row.reason}` : row.evidence, row.launches, row.decided, commandOf(row),
  ]));
  await draw("times", rows.filter((row) => row.seconds).flatMap(pointsOf));
  const cells = tables.winners.filter(same(chosen, "system", "collective", "library"));
  const layouts = [...new Set(cells.map((row) => row.layout))].sort(byName);
  await draw("map", cells.map((row) => ({
    ...row, ...told(row), ratio: row.ratio ?? null, sign: SIGNS[row.evidence] ?? "", order: layouts.indexOf(row.layout),
  })));
}

const told = (row) => ({ size: bytesText(row.bytes), gain: ratioText(row.ratio), command: commandOf(row) });
const quoted = (word) => (/^[\w.,:+-]+$/.test(word) ? word : `'${word.replaceAll("'", `'"'"'`)}'`);
const commandOf = (row) => `${row.tune} --collective ${quoted(row.collective)} --sizes ${row.bytes}`;
// Of a tie or a fallback native serves, so both are the same.
const nativeOf = (row) => row.seconds && row.seconds * row.ratio;

function pointsOf(row) {
  const common = { ...row, ...told(row), low: null, high: null };
  const point = (what, seconds, ends) => ({ ...common, what, seconds, time: secondsText(seconds), ...ends });
  const found = [
    point("tuned", row.seconds),
    point("native", nativeOf(row), row.low && row.high ? { low: row.seconds * row.low, high: row.seconds * row.high } : {}),
  ];
  if (row.best) found.push(point("native's best algorithm", row.best, { variant: row.algorithm, gain: "", evidence: "", command: "" }));
  return row.limit ? [...found, point("limit of the links", row.limit)] : found;
}

async function evidence(chosen) {
  const own = tables.winners.filter(same(chosen, "system", "layout", "collective", "library"));
  fill("spread", own.flatMap((row) => ["tuned", "native"].map((what) => {
    const times = (row[`${what}_us`] ?? []).filter((us) => us).sort((a, b) => a - b);
    const at = (share) => secondsText(1e-6 * times[Math.min(times.length - 1, Math.floor(share * times.length))]);
    return times.length && [bytesText(row.bytes), what, times.length, at(0.5), at(0.9), at(0.99), ratioText(times.at(-1) / times[0])];
  })).filter((cells) => cells));
  const changes = tables.history.filter(same(chosen, "system", "layout", "collective", "library"));
  fill("changes", changes.map((row) => [
    row.day, bytesText(row.bytes), row.was || "none", row.is || "none", ratioText(row.ratio), row.evidence,
  ]));
  await draw("drift", own.filter(same(chosen, "bytes")).flatMap(launchesOf));
}

function launchesOf(row) {
  return ["tuned", "native"].flatMap((what) => (row[`${what}_us`] ?? []).flatMap((us, at) => {
    const run = tables.runs[row.runs[at]];
    return us ? [{ what, seconds: 1e-6 * us, time: secondsText(1e-6 * us), day: run.day, nodes: run.nodes }] : [];
  }));
}

// The geometric mean over the decided sizes of each collective, with each library of each system.
function gains() {
  const decided = tables.winners.filter((row) => row.evidence === "decided" || row.evidence === "tie");
  const several = new Set(decided.map((row) => row.system)).size > 1;
  const found = new Map();
  for (const row of decided) {
    const library = several ? `${row.library}, ${row.system}` : row.library;
    const key = `${row.collective}\n${library}`;
    found.set(key, [...(found.get(key) ?? []), { ...row, library }]);
  }
  return [...found.values()].map((rows) => {
    const mean = Math.exp(rows.reduce((sum, row) => sum + Math.log(row.ratio), 0) / rows.length);
    return { collective: rows[0].collective, library: rows[0].library, gain: Number(mean.toFixed(3)), problems: rows.length };
  });
}

async function draw(name, rows) {
  const target = document.getElementById(`chart-${name}`);
  if (rows.length === 0) {
    views[name] = undefined;
    target.textContent = "Nothing was measured.";
    return;
  }
  const spec = { ...specs[name], datasets: { [name]: rows } };
  views[name]?.finalize();
  const made = await vegaEmbed(target, spec, { ast: true, renderer: "svg", actions: false, tooltip: { theme: matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light" } });
  views[name] = made.view;
  target.querySelector("svg")?.setAttribute("aria-label", target.closest("figure").querySelector("figcaption").textContent.trim());
}

// ---- tables -------------------------------------------------------------------------------------

function fill(name, rows) {
  const body = document.getElementById(name).tBodies[0];
  body.replaceChildren(...rows.map((cells) => {
    const line = document.createElement("tr");
    for (const cell of cells) {
      const made = line.insertCell();
      made.textContent = cell ?? "";
      made.classList.toggle("text", made.textContent.length > 40);
    }
    return line;
  }));
  if (rows.length === 0) body.insertRow().insertCell().textContent = "none";
}

function csv(table) {
  const inQuotes = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const lines = [...table.rows].map((row) => [...row.cells].map((cell) => inQuotes(cell.textContent.trim())).join(","));
  return `${lines.join("\n")}\n`;
}

// The address tells the view, so this link must not change it.
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  document.getElementById("main").focus();
});
document.addEventListener("click", (event) => {
  const button = event.target.closest("button.csv");
  if (!button) return;
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([csv(document.getElementById(button.dataset.table))], { type: "text/csv" }));
  link.download = `collforge-${button.dataset.table}.csv`;
  link.click();
  URL.revokeObjectURL(link.href);
  document.getElementById("said").textContent = `${link.download} was saved`;
});
form.addEventListener("change", () => {
  const chosen = new URLSearchParams(new FormData(form));
  location.hash = `${read().view}?${chosen}`;
});
form.addEventListener("submit", (event) => event.preventDefault());
addEventListener("hashchange", show);
// After the browser has gone to the section that the address names, and left the heading and the choice above.
addEventListener("load", () => scrollTo(0, 0));
await show();
document.body.dataset.ready = "yes";
