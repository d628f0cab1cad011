"""The figures and tables of the papers, for `collforge reproduce`.

A figure is a command line of Collforge, the picture that the paper drew, and what the paper says of it: a TOML
file each, with no further change. Those without a command are rows of `without_command.toml`, with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any, Literal, Optional

import msgspec

from collforge.errors import CollforgeError, unknown
from collforge.papers.figures.claims import Claim

WITHOUT_COMMAND = "without_command.toml"


class Drawn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The picture that a paper drew of the rows (rows.py)."""

    kind: Literal["lines", "bars", "stacked", "map", "histogram", "table"]
    unit: str
    """Of the values, after ``scale``."""
    value: str = ""
    """A quantity."""
    values: tuple[str, ...] = ()
    """Stacked: the quantities, from the bottom."""
    scale: float = 1.0
    across: str = ""
    """The key of the axis; of groups of bars; of a table's columns."""
    up: str = ""
    """The key of a map's other axis."""
    series: tuple[str, ...] = ()
    """The keys that tell lines, bars, or the rows of a table apart."""
    panels: tuple[str, ...] = ()
    """The keys of panels; the MPI library always is one."""
    over: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """The rows by which the values are divided, with the same other keys; empty: the values themselves."""
    gap: bool = False
    """The difference to them in per cent, not the ratio."""
    where: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """Only these rows."""

    label: str = ""
    """Of the axis; empty: the last part of its key."""

    @property
    def axis(self) -> str:
        return self.label or self.across.rpartition(".")[2]

    @property
    def names(self) -> tuple[str, ...]:
        """The keys that tell its values apart."""
        return tuple(filter(None, [*self.panels, *self.series, self.up, self.across]))


class Figure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One figure or table of a paper."""

    paper: str
    figure: str
    source: str
    """Authors, year, section."""
    shows: str
    layout: str = ""
    """Of the emulated cluster, unless --layout gives another; empty: the command takes none."""
    all_nodes: bool = False
    """Whether a site measures it on all its nodes, although the layout has but two."""
    over: tuple[str, ...] = ()
    """The layouts of the figure's axis, by their nodes; empty: all is measured on one layout."""
    words: tuple[str, ...] = ()
    """Of the command, without system and library."""
    picture: Optional[Drawn] = None  # noqa: UP045 (msgspec evaluates it, on Python 3.9, too)
    claims: tuple[Claim, ...] = ()
    quick: tuple[str, ...] = ()
    """Words that replace or extend those of the command, for --quick."""
    cases: tuple[str, ...] = ()
    """Cases to measure, with {layout} and {bytes}; empty: the command has its own."""
    bytes: tuple[int, ...] = ()
    rails: bool = False
    """Whether its claims are about several rails of a node."""
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

    def speaks_of(self, flavor: str) -> bool:
        """Whether a claim is about this MPI library."""
        return any(claim.mpi in ("", flavor) for claim in self.claims)

    @property
    def names(self) -> tuple[str, ...]:
        """The keys that tell its cells apart."""
        names = self.picture.names if self.picture else ()
        return tuple(dict.fromkeys([*names, *(["layout"] if self.over else [])]))


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
