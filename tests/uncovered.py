"""Prints the lines of the runtime that were never run in an instrumented library (`make coverage`).

``python tests/uncovered.py OBJ`` reads gcov's data below OBJ, the folder of the runtime's objects.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

SOURCES = Path(__file__).resolve().parent.parent / "runtime" / "src"


def counts(objects: Path) -> dict[Path, dict[int, int]]:
    """Source -> line -> number of runs; the counts of a header are summed over all sources that include it.

    Raises SystemExit if nothing has run.
    """
    data = sorted(objects.rglob("*.gcda"))
    if not data:
        raise SystemExit(f"{objects}: nothing with coverage has run")
    command = ["gcov", "--json-format", "--stdout", *map(str, data)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[Path, dict[int, int]] = {}
    for report in map(json.loads, done.stdout.splitlines()):
        for file in report["files"]:
            path = Path(report["current_working_directory"], file["file"]).resolve()
            if SOURCES in path.parents:
                lines = found.setdefault(path, {})
                for line in file["lines"]:
                    number = line["line_number"]
                    lines[number] = lines.get(number, 0) + line["count"]
    return found


def spans(numbers: Iterable[int]) -> str:
    """``3, 7-9``"""
    groups: list[list[int]] = []
    for number in sorted(numbers):
        if groups and number == groups[-1][1] + 1:
            groups[-1][1] = number
        else:
            groups.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in groups)


def main(objects: Path) -> None:
    total = missed = 0
    for path, lines in sorted(counts(objects).items()):
        never = [number for number, count in lines.items() if count == 0]
        total, missed = total + len(lines), missed + len(never)
        if never:
            name = path.relative_to(SOURCES.parent.parent)
            print(f"{name}: {len(never)} of {len(lines)} never run: {spans(never)}")
    print(f"runtime: {missed} of {total} lines never run ({1 - missed / total:.0%} covered)")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
