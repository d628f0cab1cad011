"""Renders the tables of docs/results.md from the measurements in docs/results/*.json (`make results`).

``python tests/results.py`` renders the stored files. With ``--measure`` it first repeats the command of each
file, which should be done on an idle machine.

A table stands in results.md between ``<!-- FILE: COLUMN; COLUMN; ... -->`` and ``<!-- end -->``. A COLUMN is
TITLE=TEXT, where TEXT is a Python format of a row's fields, such as ``{ratio:.2f} ({low:.2f} .. {high:.2f})``.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

TOP = Path(__file__).resolve().parent.parent
PAGE = TOP / "docs" / "results.md"
FOLDER = TOP / "docs" / "results"
TABLE = re.compile(r"(<!-- (\S+\.json): (.*?) -->\n).*?(<!-- end -->)", re.S)


def render(text: str) -> str:
    """The page with each table made anew from its file."""
    return TABLE.sub(lambda found: found[1] + _table(found[2], found[3]) + found[4], text)


def _table(name: str, columns: str) -> str:
    measured: dict[str, Any] = json.loads((FOLDER / name).read_text(encoding="utf-8"))
    pairs = [column.strip().partition("=")[::2] for column in columns.split(";")]
    lines = [
        f"{measured['mpi']}, {measured['date'][:10]}:",
        "",
        "```sh",
        measured["command"],
        "```",
        "",
        _row([title for title, _ in pairs]),
        _row(["---"] * len(pairs)).replace(" ", ""),
        *(_row([form.format(**row) for _, form in pairs]) for row in measured["rows"]),
    ]
    return "\n".join(lines) + "\n"


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
    PAGE.write_text(render(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
