"""The figures of the papers that `collforge reproduce` can draw again, one TOML file each.

A figure is a command line of Collforge and what the paper found. A new one is one file, with no further change.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from typing import Any, Literal

import msgspec

from collforge.errors import CollforgeError, unknown

TAKE: Mapping[str, Callable[[Sequence[float]], float]] = {
    "largest": max,
    "smallest": min,
    "median": statistics.median,
}


class Figure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One figure. What is measured is a row of a command's --json file (docs/using.md)."""

    paper: str
    figure: str
    source: str
    """Authors, year, section."""
    shows: str
    finding: str
    """What the paper found, as a sentence."""
    layout: str
    """Of the emulated cluster, unless --layout gives another."""
    words: tuple[str, ...]
    """Of the command, without system and library."""
    value: str
    """The member of a row that the finding is about, such as ``families.full_lane``."""
    take: Literal["largest", "smallest", "median"]
    """Which of the rows' values."""
    at_least: float | None = None
    """The finding holds if the value is at least this ..."""
    at_most: float | None = None
    """... or at most this. One of the two is given."""
    quick: tuple[str, ...] = ()
    """Words that replace or extend those of the command, for --quick."""
    cases: tuple[str, ...] = ()
    """Cases to measure, with {layout} and {bytes}; empty: the command has its own."""
    bytes: tuple[int, ...] = ()
    where: Mapping[str, str | int] = msgspec.field(default_factory=dict)
    """Only rows with these values count."""

    @property
    def name(self) -> str:
        return f"{self.paper} {self.figure}"

    def command(self, layout: str, quick: bool) -> list[str]:
        """The words after `collforge`. --quick measures the smallest and the largest size alone."""
        sizes = sorted({min(self.bytes), max(self.bytes)}) if quick and self.bytes else self.bytes
        cases = [case.format(layout=layout, bytes=size) for case in self.cases for size in sizes]
        return [*self.words, *(self.quick if quick else ()), "--layout", layout, *cases]

    def measured(self, rows: Sequence[Mapping[str, Any]]) -> float | None:
        """The value that is taken of the rows that count; None if there is none."""
        counted = [row for row in rows if self.where.items() <= row.items()]
        found = [value for row in counted if (value := _member(row, self.value)) is not None]
        return TAKE[self.take](found) if found else None

    def holds(self, value: float) -> bool:
        return value <= self.at_most if self.at_most is not None else value >= (self.at_least or 0)


def _member(row: Mapping[str, Any], path: str) -> float | None:
    value: Any = row
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return None if value is None else float(value)


def read() -> dict[str, Figure]:
    """Every figure by name, sorted. Raises CollforgeError if two files describe the same one."""
    figures: dict[str, Figure] = {}
    for file in resources.files(__package__).iterdir():
        if file.name.endswith(".toml"):
            figure = msgspec.toml.decode(file.read_bytes(), type=Figure)
            if figure.name in figures:
                raise CollforgeError(f"{file.name}: there is already a figure {figure.name}")
            figures[figure.name] = figure
    return dict(sorted(figures.items()))


def find(paper: str, figure: str) -> Figure:
    figures = read()
    if f"{paper} {figure}" not in figures:
        raise unknown("figure", f"{paper} {figure}", figures)
    return figures[f"{paper} {figure}"]
