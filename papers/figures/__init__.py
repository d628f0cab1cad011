"""The figures and tables of the papers, for `collforge reproduce`.

A figure is a command line of Collforge and what the paper found: a TOML file each, with no further change.
Those without a command are rows of `without_command.toml`, with the reason.
"""

from __future__ import annotations

import fnmatch
import statistics
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from typing import Any, Literal, Optional

import msgspec

from collforge.errors import CollforgeError, unknown
from collforge.variant import ParameterValue

WITHOUT_COMMAND = "without_command.toml"

TAKE: Mapping[str, Callable[[Sequence[float]], float]] = {
    "largest": max,
    "smallest": min,
    "median": statistics.median,
}


class Figure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One figure. Its value is taken from the rows of a command's --json file."""

    paper: str
    figure: str
    source: str
    """Authors, year, section."""
    shows: str
    finding: str
    """What the paper found, as a sentence."""
    layout: str = ""
    """Of the emulated cluster, unless --layout gives another; empty: the command takes none."""
    over: tuple[str, ...] = ()
    """The layouts of the figure's axis, by their nodes; empty: all is measured on one layout."""
    mpi: str = ""
    """The MPI library that the finding is about, openmpi or mpich; empty: any."""
    words: tuple[str, ...] = ()
    """Of the command, without system and library."""
    value: str = ""
    """The member of a row that the finding is about, such as ``families.full_lane``. A name may have ``*``."""
    divided_by: str = ""
    """A member by which the value is divided."""
    take: Literal["largest", "smallest", "median"] = "median"
    """Which of the rows' values."""
    at_least: Optional[float] = None  # noqa: UP045 (msgspec evaluates it, on Python 3.9, too)
    """The finding holds if the value is at least this ..."""
    at_most: Optional[float] = None  # noqa: UP045 (likewise)
    """... or at most this. One of the two is given."""
    quick: tuple[str, ...] = ()
    """Words that replace or extend those of the command, for --quick."""
    cases: tuple[str, ...] = ()
    """Cases to measure, with {layout} and {bytes}; empty: the command has its own."""
    bytes: tuple[int, ...] = ()
    where: Mapping[str, ParameterValue] = msgspec.field(default_factory=dict)
    """Only rows whose members have these values count."""
    none: str = ""
    """Why there is no command: no measurement, or hardware, a library or code is missing. In the rows of
    `without_command.toml` only."""

    @property
    def name(self) -> str:
        return f"{self.paper} {self.figure}"

    @property
    def title(self) -> str:
        """As the paper calls it: ``Fig. 6``, or ``Table 1`` for T1."""
        return f"Table {self.figure[1:]}" if self.figure.startswith("T") else f"Fig. {self.figure}"

    def command(self, layout: str, where: Sequence[str], quick: bool) -> list[str]:
        """The words after `collforge`. --quick measures the smallest and the largest size alone.

        ``where``: the options that select library and system; the figure's own words override them.
        """
        sizes = sorted({min(self.bytes), max(self.bytes)}) if quick and self.bytes else self.bytes
        cases = [case.format(layout=layout, bytes=size) for case in self.cases for size in sizes]
        first = 2 if self.words[0] == "probe" else 1
        words = [*self.words[:first], *where, *self.words[first:], *(self.quick if quick else ())]
        return [*words, *(["--layout", layout] if layout else []), *cases]

    def measured(self, rows: Sequence[Mapping[str, Any]]) -> float | None:
        """The value that is taken of the rows that count; None if there is none."""
        wanted = self.where.items()
        counted = [row for row in rows if all(_member(row, name) == v for name, v in wanted)]
        found = [value for row in counted if (value := self._value(row)) is not None]
        return TAKE[self.take](found) if found else None

    def _value(self, row: Mapping[str, Any]) -> float | None:
        value = _member(row, self.value)
        over = _member(row, self.divided_by) if self.divided_by else 1.0
        return None if value is None or over is None else float(value) / float(over)

    def holds(self, value: float) -> bool:
        return value <= self.at_most if self.at_most is not None else value >= (self.at_least or 0)


def _member(row: Mapping[str, Any], path: str) -> Any:
    """The member at the end of a path; None if there is none. A name with ``*`` is the first that matches."""
    value: Any = row
    for name in path.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(next(iter(fnmatch.filter(value, name)), name))
    return value


def read() -> dict[str, Figure]:
    """Every figure by name, sorted. Raises CollforgeError if one is described twice."""
    figures: dict[str, Figure] = {}
    for file in resources.files(__package__).iterdir():
        if not file.name.endswith(".toml"):
            continue
        for figure in _figures(file.name, file.read_bytes()):
            if figure.name in figures:
                raise CollforgeError(f"{file.name}: there is already a figure {figure.name}")
            figures[figure.name] = figure
    return dict(sorted(figures.items(), key=lambda item: _order(item[1])))


def _figures(name: str, text: bytes) -> list[Figure]:
    if name != WITHOUT_COMMAND:
        return [msgspec.toml.decode(text, type=Figure)]
    return msgspec.toml.decode(text, type=dict[str, list[Figure]])["figures"]


def _order(figure: Figure) -> tuple[str, bool, int]:
    """By paper; tables, then figures, by number."""
    return figure.paper, figure.figure.isdigit(), int(figure.figure.lstrip("T"))


def find(paper: str, figure: str) -> Figure:
    figures = read()
    if f"{paper} {figure}" not in figures:
        raise unknown("figure", f"{paper} {figure}", figures)
    return figures[f"{paper} {figure}"]
