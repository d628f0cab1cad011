"""The time of MPI_Init and MPI_Finalize by the number of interfaces: Zambre et al. (2020), section 4.2."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass

from rich.markup import escape
from rich.table import Table

from collforge.mpi_library import MpiLibrary
from collforge.papers.probes.rounds import MISSING, Rounds, source
from collforge.toolchain import vcis
from collforge.tuner.decide.evidence import Interval, median_interval
from collforge.tuner.probes import Result, programs
from collforge.tuner.run import measuring
from collforge.tuner.run.launches import Launch, Outcome
from collforge.tuner.run.pictures import Line, LinePicture

SUMMARY = "the time of MPI_Init and MPI_Finalize, by the number of interfaces (VCIs)"
NUMBERS = (1, 2, 4, 8, 16, 32)
CALLS = ("init", "finalize")


@dataclass(frozen=True)
class Row:
    call: str
    """Of CALLS."""
    vcis: int
    seconds: Sequence[float]
    """On rank 0, one a launch; MISSING where it failed."""
    doubt: str
    """Why they certify nothing, or ''."""

    @property
    def interval(self) -> Interval:
        return median_interval([one for one in self.seconds if one > 0] or [MISSING])


@dataclass(frozen=True)
class Found(Result):
    rows: Sequence[Row]

    def table(self) -> Table:
        table = Table(title=self.title)
        for name in ("call", "VCIs", "ms", "95 % interval", "doubt"):
            table.add_column(name, justify="left" if name in ("call", "doubt") else "right")
        for row in self.rows:
            of = row.interval
            table.add_row(
                f"MPI_{row.call.capitalize()}",
                str(row.vcis),
                f"{of.median * 1e3:.3g}",
                f"{of.low * 1e3:.3g} .. {of.high * 1e3:.3g}",
                escape(row.doubt),
            )
        return table

    def picture(self) -> LinePicture:
        panels = {}
        for call in CALLS:
            mine = [row for row in self.rows if row.call == call and max(row.seconds) > 0]
            points = [(row.vcis, row.interval.median) for row in mine]
            ends = [row.interval for row in mine]
            panels[f"MPI_{call.capitalize()}"] = [Line("median", "o-", points, ends)]
        return LinePicture(panels, "VCIs", title=self.title)

    def remark(self) -> str:
        return "" if len({row.vcis for row in self.rows}) > 1 else "the library has one interface"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    measuring.add_system(parser)
    parser.set_defaults(fallback_system="local")
    programs.add_launches(parser)


def run(library: MpiLibrary, args: argparse.Namespace) -> Found:
    at = measuring.parse_layout(args.layout, args.system)
    rounds = Rounds.of(library, args, "vcis", [source("start_end")])
    most = vcis.most_vcis(library)
    numbers = [number for number in NUMBERS if number <= most]
    launches = [
        Launch([rounds.program("start_end")], at.name, {vcis.VARIABLE: str(number)})
        for number in numbers
    ]
    found = list(zip(numbers, rounds.run(launches, args.launches)))
    rows = [
        Row(call, number, tuple(seconds(one, call) for one in each), rounds.doubt(at.name, each))
        for call in CALLS
        for number, each in found
    ]
    words = f"{args.system} {at.name}, median of {args.launches} launches"
    return Found(f"{library.short_version}: {words}", rows)


def seconds(outcome: Outcome, call: str) -> float:
    if outcome.code != 0:
        return MISSING
    return float(json.loads(outcome.out[outcome.out.index("{") :])[call])
