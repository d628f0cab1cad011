"""Renders the tables of README.md and of pages of docs from docs/results/ (`make results`).

``python tests/results.py`` renders the stored files. With ``--measure`` it first repeats the command of each
file, on an idle machine; not those of docs/results/figures, which take hours (`reproduce --all`).

A table stands between ``<!-- FILE: COLUMN; COLUMN; ... -->`` and ``<!-- end -->``. A COLUMN is TITLE=TEXT,
where TEXT is a Python format of a row's fields, such as ``{ratio:.2f} ({low:.2f} .. {high:.2f})``.

``<!-- FILE FILE by FIELD FIELD: ... -->`` has one line for the rows of all files with the same values of the
first FIELD. The values of the second one tell them apart: ``{1[65536].ratio:.2f}`` is from the row with 65536
there of the second file. Lines without rows for all its values are left out. README.md has no headings.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

TOP = Path(__file__).resolve().parent.parent
README = TOP / "README.md"
PAGES = [README, *(TOP / "docs" / f"{name}.md" for name in ("results", "papers", "figures"))]
FOLDER = TOP / "docs" / "results"
TABLE = re.compile(
    r"(<!-- (\S+\.json(?: \S+\.json)*)(?: by (\w+) (\w+))?: (.*?) -->\n).*?(<!-- end -->)", re.S
)


def render(path: Path) -> str:
    """The page with each table made anew from its files."""

    def table(found: re.Match[str]) -> str:
        files = [
            json.loads((FOLDER / name).read_text(encoding="utf-8")) for name in found[2].split()
        ]
        lines = [] if path == README else [line for one in files for line in _heading(one)]
        pairs = [column.strip().partition("=")[::2] for column in found[5].split(";")]
        lines.append(_row([title for title, _ in pairs]))
        lines.append(_row(["---"] * len(pairs)).replace(" ", ""))
        rows = _joined(files, found[3], found[4]) if found[3] else _plain(files)
        lines += [_row([form.format(*each, **named) for _, form in pairs]) for each, named in rows]
        return found[1] + "\n".join(lines) + "\n" + found[6]

    return TABLE.sub(table, path.read_text(encoding="utf-8"))


def _heading(measured: dict[str, Any]) -> list[str]:
    words = f"{measured['mpi']}, {measured['date'][:10]}:"
    return [words, "", "```sh", measured["command"], "```", ""]


Line = tuple[list[Any], dict[str, Any]]
"""The positional and the named fields of a table's line."""


def _plain(files: list[dict[str, Any]]) -> list[Line]:
    return [([], row) for one in files for row in one["rows"]]


def _joined(files: list[dict[str, Any]], line: str, column: str) -> list[Line]:
    columns = {row[column] for one in files for row in one["rows"]}
    lines: list[Line] = []
    for key in dict.fromkeys(row[line] for one in files for row in one["rows"]):
        found = [
            {row[column]: SimpleNamespace(**row) for row in one["rows"] if row[line] == key}
            for one in files
        ]
        if all(one.keys() == columns for one in found):
            lines.append((found, {line: key}))
    return lines


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def measure() -> None:
    """Repeats the command of each file and replaces the file. Raises CalledProcessError if one fails."""
    for path in sorted(FOLDER.glob("*.json")):
        command = json.loads(path.read_text(encoding="utf-8"))["command"]
        print(f"{path.name}: {command}", flush=True)
        words = [str(Path(sys.executable).with_name("collforge")), *shlex.split(command)[1:]]
        made = path.with_suffix(".new")
        subprocess.run([*words, "--json", str(made)], check=True, cwd=TOP)
        made.replace(path)


if __name__ == "__main__":
    if "--measure" in sys.argv[1:]:
        measure()
    for page in PAGES:
        page.write_text(render(page), encoding="utf-8")
