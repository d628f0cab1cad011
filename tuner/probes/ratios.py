"""Ratios of times with and without the preload, measured in turn, over launches."""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table

from collforge.tuner.decide.evidence import Interval, compare
from collforge.tuner.probes import Result, programs
from collforge.tuner.run.pictures import DotPicture, Dots
from collforge.variant import Variant

ROUNDS = 200  # at most 1000: templates/overhead.c.j2


@dataclass(frozen=True)
class Ratio:
    """Median seconds without and with the preload; the ratio with / without, and its 95 % interval."""

    what: str
    without: float
    preloaded: float
    ratio: float
    low: float
    high: float
    launches: int
    note: str = ""

    @property
    def speed(self) -> Interval:
        """How many times as fast as without."""
        return Interval(1 / self.ratio, 1 / self.high, 1 / self.low if self.low else math.inf)


@dataclass(frozen=True)
class Ratios(Result):
    rows: Sequence[Ratio]
    unit: str
    """The unit in the table: ms or us"""

    def table(self) -> Table:
        scale = {"ms": 1e3, "us": 1e6}[self.unit]
        table = Table(title=self.title)
        table.add_column("what")
        for heading in (f"{self.unit} without", f"{self.unit} preloaded", "ratio", "95 % interval"):
            table.add_column(heading, justify="right")
        if any(row.note for row in self.rows):
            table.add_column("note")
        for row in self.rows:
            table.add_row(
                row.what,
                f"{row.without * scale:.4g}",
                f"{row.preloaded * scale:.4g}",
                f"{row.ratio:.4f}",
                f"{row.low:.4f} .. {row.high:.4f}",
                *[row.note][: len(table.columns) - 5],
            )
        return table

    def picture(self) -> DotPicture:
        values = {row.what: Interval(row.ratio, row.low, row.high) for row in self.rows}
        panels = {"time preloaded over time without": [Dots("95 % interval", values)]}
        return DotPicture(panels, self.title, mark=1.0)


def add_arguments(parser: argparse.ArgumentParser, layout: str) -> None:
    text = "nodes x ranks per node, of ranks on this machine (default: %(default)s)"
    parser.add_argument("--layout", default=layout, help=text)
    programs.add_launches(parser)
    parser.add_argument(
        "--rounds", type=int, default=ROUNDS, help="in each launch (default: %(default)s)"
    )


def ratio(what: str, launches: Sequence[Sequence[tuple[float, float]]]) -> Ratio:
    """The ratio over launches, each a sequence of pairs of seconds (without, preloaded).

    The two times of a pair were measured one right after the other.
    """
    without, preloaded = Variant("program"), Variant("program", "preloaded")
    # Both times of a pair were measured under the same load, so ratios are taken per pair.
    ratios = [
        {without: [1.0], preloaded: [statistics.median(b / a for a, b in pairs)]}
        for pairs in launches
    ]
    medians = [[statistics.median(times) for times in zip(*pairs)] for pairs in launches]
    first, second = (statistics.median(times) for times in zip(*medians))
    found = compare(without, preloaded, ratios)
    return Ratio(what, first, second, found.ratio, found.low, found.high, found.launches)
