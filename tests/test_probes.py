"""`collforge probe`: how probes are found, and that their tables are right; times are not tested."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from conftest import Installation

from collforge import layout
from collforge.db import Store
from collforge.errors import CollforgeError
from collforge.generator import manifest
from collforge.layout import Layout
from collforge.mpi_library import MpiLibrary
from collforge.reframe_checks.launches import Outcome
from collforge.tuner import probes
from collforge.tuner.cli import main, registry
from collforge.tuner.probes import instructions, overhead, programs, small, startup
from collforge.tuner.probes.instructions import Cost
from collforge.tuner.probes.programs import Programs
from collforge.tuner.probes.ratios import Ratio
from collforge.tuner.run.jobs import Site

AT = layout.from_name("2x1")
AT_3 = layout.from_name("3x1")
LIBRARY = MpiLibrary("mpich", Path("mpicc"), Path("mpirun"), "MPICH", True)
NOWHERE = Programs(LIBRARY, Path("o"), Path("c"), Path("p"), Path("d"))


@pytest.fixture(scope="module")
def compiled(built: Installation, tmp_path_factory: pytest.TempPathFactory) -> Programs:
    return programs.prepare(built.library, [AT], tmp_path_factory.mktemp(built.library.name))


@pytest.mark.either
def test_native_is_the_winner_of_every_collective(compiled: Programs, built: Installation) -> None:
    made = manifest.load(built.home / "generated" / "manifest.json")
    with Store(compiled.database, create=False) as store:
        winners = store.winners(layout=AT.name)
    native = {w.choice.variant.collective for w in winners if w.choice.variant.is_native}
    assert native == {entry.collective for entry in made.variants}


@pytest.mark.either
@pytest.mark.parametrize(
    ("kind", "preloaded", "database"),
    [
        ("native", False, False),
        ("inactive", True, False),
        ("profiled", True, False),
        ("tuned", True, True),
    ],
)
def test_what_is_launched(
    compiled: Programs, tmp_path: Path, kind: str, preloaded: bool, database: bool
) -> None:
    script = tmp_path / "script"
    script.write_text(
        "#!/bin/sh\n"
        '[ "${PMI_RANK:-${OMPI_COMM_WORLD_RANK:-0}}" = 0 ] || exit 0\n'
        'printf \'{"number": %s, "preload": "%s", "database": "%s", "nodes": "%s", "profile": "%s"}\\n\' '
        '"$1" "$LD_PRELOAD" "$COLLFORGE_DB" "$COLLFORGE_NODE_MAP" "$COLLFORGE_PROFILE"\n'
    )
    script.chmod(0o755)
    found = compiled.launch(AT, script, kind, 17)
    assert found["number"] == 17
    assert found["nodes"] == AT.node_map
    assert str(compiled.preload) in found["preload"].split(":") or not preloaded
    assert preloaded or str(compiled.preload) not in found["preload"]
    assert found["database"] == (str(compiled.database) if database else "")
    assert (found["profile"] != "") == (kind == "profiled")


class Recorded(Programs):
    """Programs whose launches return recorded times."""

    records: Iterator[dict[str, Any]]

    def launch(self, at: Layout, program: Path, kind: str, *numbers: int) -> dict[str, Any]:
        found = next(self.records)
        assert found.pop("kind") == kind
        return found


def recorded(records: list[dict[str, Any]]) -> Programs:
    started = Recorded(**vars(NOWHERE))
    object.__setattr__(started, "records", iter(records))
    return started


def test_ratios_are_of_pairs() -> None:
    """The machine is ten times slower during the second launch, and in every other round."""

    def record(kind: str, factor: float, slow: float) -> dict[str, Any]:
        direct = [slow, 10 * slow, slow]
        wrapped = [factor * seconds for seconds in direct]
        times = {"init": slow, "calls": factor * slow - slow / 2, "finalize": -slow / 2}
        ways = {"direct": direct, "wrapped": wrapped}
        halves = {
            way: {"scan": [s / 2 for s in seconds], "bcast": [s / 2 for s in seconds]}
            for way, seconds in ways.items()
        }
        return {"kind": kind, **halves, **times}

    kinds = {"tuned": 1.5, "native": 1.0, "profiled": 2.0}
    records = [record(kind, factor, 1.0) for kind, factor in kinds.items()]
    records += [record(kind, factor, 10.0) for kind, factor in reversed(kinds.items())]
    program, calls, profiled, control = overhead.measure(recorded(records), AT, 2, 3)
    for row, expected in ((program, 1.5), (calls, 1.5), (profiled, 2.0), (control, 1.0)):
        assert row.ratio == pytest.approx(expected)
        assert row.low == pytest.approx(row.high)
    assert (program.without, program.preloaded) == (5.5, 8.25)


def test_small_calls_are_compared_one_by_one() -> None:
    def record(slow: float) -> dict[str, Any]:
        direct = {"scan": [50 * slow] * 3, "bcast": [100 * slow] * 3}
        wrapped = {"scan": [25 * slow] * 3, "bcast": [200 * slow] * 3}
        return {"kind": small.FAMILY, "burst": 50, "direct": direct, "wrapped": wrapped}

    scan, bcast = small.measure(recorded([record(1.0), record(3.0)]), AT, 2, 3)
    assert (scan.what, scan.without, scan.preloaded) == ("scan", 2.0, 1.0)
    assert (bcast.what, bcast.without, bcast.preloaded) == ("bcast", 4.0, 8.0)
    assert scan.ratio == pytest.approx(0.5)
    assert bcast.ratio == pytest.approx(2.0)
    assert (scan.note, bcast.note) == ("", "forced; tune would not choose it")


def test_a_row_has_one_number_a_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    def stages(seconds: float) -> dict[str, Any]:
        cell = {"seconds": [seconds, 100.0, seconds], "bytes": 7e6 * seconds}
        return {"start": seconds, **dict.fromkeys(startup.STAGES, cell)}

    records: list[dict[str, Any]] = []
    for number in (1.0, 2.0, 6.0):
        for _ in (AT, AT_3):
            records += [{"init": number}] * len(startup.STARTS)
            records += [{"start": number * 1e-6}, stages(number * 1e-6)]
    outcomes = [Outcome(0, 1.0, f"said before {json.dumps(one)}", "") for one in records]
    monkeypatch.setattr(startup, "run_launches", lambda *_: outcomes)
    site = Site("local", "mpich")
    rows = startup.measure(NOWHERE, site, [AT, AT_3], 3)
    assert {(row.layout, row.cores) for row in rows} == {("2x1", 2), ("3x1", 3)}
    for row in rows:
        scale = {"ms": 1e3, "us": 1.0, "bytes": 7.0}[row.unit]
        assert row.costs == pytest.approx((scale, 2 * scale, 6 * scale)), row
    cells = startup.Startup("", rows).table().columns[2].cells
    assert next(iter(cells)) == "2000 (1000 .. 6000)"
    outcomes[3] = Outcome(1, 1.0, "", "no MPI")
    with pytest.raises(CollforgeError, match="no MPI"):
        startup.measure(NOWHERE, site, [AT, AT_3], 3)


@pytest.mark.either
@pytest.mark.parametrize(
    "system",
    ["local", pytest.param("emulated", marks=[pytest.mark.emulated, pytest.mark.wide])],
)
def test_start_is_measured(compiled: Programs, system: str) -> None:
    found = startup.measure(compiled, Site(system, compiled.library.name), [AT], 1)
    rows = {row.primitive: row.costs[0] for row in found}
    parts = (startup.STARTS, startup.ADDED, startup.STAGES, startup.MEMORY)
    assert len(rows) == sum(map(len, parts))
    assert all(value > 0 for value in rows.values())
    # Microseconds since the start of MPI_Init, not since the machine was booted.
    assert all(rows[words] < 60e6 for words in startup.ADDED.values())
    one, two = (rows[f"memory: {startup.STAGES[name]}"] for name in ("stage_one", "stage_two"))
    # At least the layout's arrays, and not much more.
    assert 100 < one < 10_000
    assert 100 < two < 200_000


@pytest.mark.either
def test_small_calls_are_measured(compiled: Programs) -> None:
    rows = small.measure(compiled, layout.from_name(small.LAYOUT), 2, 2)
    assert {"allreduce", "bcast", "barrier"} <= {row.what for row in rows}
    assert all(row.without > 0 and row.preloaded > 0 for row in rows)


@pytest.mark.either
def test_overhead_is_measured(compiled: Programs) -> None:
    for row in overhead.measure(compiled, AT, 2, 2):
        assert row.launches == 2
        assert row.without > 0
        assert row.preloaded > 0


ROW = startup.Row("MPI_Init, native", "ms", "3x1", 3, (1.0, 1.25, 1.5))
RATIO = Ratio("scan", 2.0, 2.01, 1.005, 0.995, 1.015, 4, small.SLOWER)
COST = Cost("MPI_Scan", 31.0, ())


@pytest.mark.either
@pytest.mark.parametrize(
    ("probe", "row", "words"),
    [
        (startup, ROW, ["1.25 (1 .. 1.5)", "median of 4", "3x1: 3 ranks"]),
        (overhead, RATIO, ["2010", "1.0050", "0.9950 .. 1.0150", "3x1"]),
        (small, RATIO, ["2.01e+06", "shared_window", small.SLOWER, "3x1"]),
        (instructions, COST, ["MPI_Scan", "31", "none"]),
        (instructions, replace(COST, instructions=81.0), ["81"]),
    ],
)
def test_commands(
    probe: Any,
    row: Any,
    words: list[str],
    built: Installation,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A table, the same rows as JSON, and a plot; exit status 1 if a call takes too many instructions."""

    def measured(*given: Any) -> list[Any]:
        assert probe is instructions or (4 in given and (AT_3 in given or [AT_3] in given))
        return [row]

    monkeypatch.setattr(programs, "prepare", lambda *_: NOWHERE)
    monkeypatch.setattr(probe, "count" if probe is instructions else "measure", measured)
    name = probe.__name__.rsplit(".", 1)[1]
    arguments = ["probe", name, "--mpi", built.library.name]
    arguments += [] if probe is instructions else ["--layout", "3x1", "--launches", "4"]
    arguments += ["--system", "local"] if probe is startup else []
    json_file, plot = tmp_path / "found.json", tmp_path / "found.svg"
    outputs = ["--json", str(json_file), f"--plot={plot}"]
    assert main.main([*arguments, *outputs]) == int(words == ["81"])
    shown = capsys.readouterr().out
    for word in words:
        assert word in shown
    found = json.loads(json_file.read_text())
    crowded = {"doubt": found["rows"][0]["doubt"]} if probe is startup else {}  # of this machine
    assert found["rows"] == [json.loads(json.dumps({**asdict(row), **crowded}))]
    assert found["command"] == " ".join(["collforge", *arguments])
    assert plot.read_text().startswith("<?xml")


@pytest.mark.either
def test_missing_valgrind_is_named(
    built: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Collforge reports it before the launcher would."""
    made = manifest.load(built.home / "generated" / "manifest.json")
    monkeypatch.setattr(instructions.shutil, "which", lambda _: None)
    with pytest.raises(CollforgeError, match="apt-get install valgrind"):
        instructions.count(built.library, built.built, made, tmp_path)


TOY = """
from dataclasses import dataclass
from rich.table import Table
from collforge.tuner.decide.evidence import Interval
from collforge.tuner.run.pictures import DotPicture, Dots
from collforge.tuner.probes import Result

SUMMARY = "roll a die"

@dataclass(frozen=True)
class Roll:
    eyes: int

class Rolls(Result):
    def table(self):
        return Table(*(str(row.eyes) for row in self.rows), title=self.title)

    def picture(self):
        return DotPicture({"eyes": [Dots("die", {"roll": Interval(5, 5, 5)})]})

    def failed(self):
        return self.rows[0].eyes > 6

def add_arguments(parser):
    parser.add_argument("--eyes", type=int, default=6)

def run(library, args):
    return Rolls("die", [Roll(args.eyes)])
"""


@pytest.mark.either
def test_a_toy_probe_is_one_file(
    tmp_path: Path,
    built: Installation,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It is found in its folder and has --list, --json and --plot as every probe."""
    (tmp_path / "toy_die.py").write_text(TOY)
    monkeypatch.setattr(probes, "__path__", [*probes.__path__, str(tmp_path)])
    plot, found = tmp_path / "plot.svg", tmp_path / "found"
    try:
        assert main.main(["probe", "--list"]) == 0
        listed = dict(line.split(None, 1) for line in capsys.readouterr().out.splitlines())
        assert listed["toy-die"] == "roll a die"
        words = ["probe", "toy-die", "--mpi", built.library.name, "--eyes"]
        assert main.main([*words, "5", "--json", str(found), "--plot", str(plot)]) == 0
        assert main.main([*words, "7"]) == 1
    finally:
        sys.modules.pop(f"{probes.__name__}.toy_die", None)
    assert "die" in capsys.readouterr().out
    assert json.loads(found.read_text())["rows"] == [{"eyes": 5}]
    assert "<!-- roll -->" in plot.read_text()


def test_probes_are_listed_and_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["probe", "--list"]) == 0
    listed = dict(line.split(None, 1) for line in capsys.readouterr().out.splitlines())
    names = {"instructions", "kernels", "lanes", "message-rate", "overhead", "overlap"}
    names |= {"mini-apps", "monte-carlo", "progress", "small", "startup", "vcis"}
    assert names <= set(listed) == set(registry.find(probes, "run"))
    assert all(0 < len(summary) < 100 for summary in listed.values())
    assert main.main(["probe"]) == main.USER_ERROR
    assert "message-rate" in capsys.readouterr().err


def test_a_file_that_cannot_be_written_is_refused_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["probe", "small", "--mpi", "openmpi", "--json", str(tmp_path / "no" / "file")]
    assert main.main(words) == main.USER_ERROR
    assert f"there is no folder {tmp_path / 'no'}" in capsys.readouterr().err
