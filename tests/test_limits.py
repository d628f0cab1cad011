"""The product's files and functions are as short as CONTRIBUTING.md says."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from support import TOP

FILE, FUNCTION, ARGUMENTS = 450, 60, 7
PRODUCT = [
    path
    for folder in (
        "collforge",
        "db",
        "generator",
        "reframe_checks",
        "runtime",
        "toolchain",
        "tuner",
    )
    for ending in ("*.py", "*.c", "*.h")
    for path in sorted((TOP / folder).rglob(ending))
]


def lengths(path: Path) -> Iterator[tuple[str, int, int]]:
    """Of each function its name, its lines and its arguments."""
    text = path.read_text()
    if path.suffix == ".py":
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                own = [one for one in node.args.args if one.arg not in ("self", "cls")]
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                yield node.name, length, len(own) + len(node.args.kwonlyargs)
        return
    for found in re.finditer(r"^\w[^;={(]*[ *](\w+)\(([^;{]*)\) \{\n(.*?)^\}", text, re.M | re.S):
        yield found[1], found[0].count("\n") + 1, found[2].count(",") + 1


def test_files_and_functions_are_short() -> None:
    limits = re.search(
        r"at most (\d+) lines per file, (\d+) per function, (\d+)",
        (TOP / "CONTRIBUTING.md").read_text(),
    )
    assert limits is not None and [*map(int, limits.groups())] == [FILE, FUNCTION, ARGUMENTS]
    long = [str(path) for path in PRODUCT if len(path.read_text().splitlines()) > FILE]
    found = {
        f"{path.name}: {name}": (lines, count)
        for path in PRODUCT
        for name, lines, count in lengths(path)
    }
    assert len(found) > 1000
    long += [
        name
        for name, (lines, count) in found.items()
        if lines > FUNCTION or count > ARGUMENTS + (": cf_" in name)
    ]
    assert long == []
