"""Whether two correct programs end that need progress on all interfaces: Zambre et al. (2020), Fig. 9."""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rich.markup import escape
from rich.table import Table

from collforge.mpi_library import MpiLibrary
from collforge.papers.probes.rounds import MISSING, Rounds, source
from collforge.papers.programs.message_rate import thread_variables
from collforge.toolchain import vcis
from collforge.tuner.probes import Result, programs
from collforge.tuner.run import measuring
from collforge.tuner.run.launches import KILLED, Launch, Outcome
from collforge.tuner.run.options import add_rails
from collforge.tuner.run.pictures import Line, LinePicture

SUMMARY = "whether two correct programs end that need progress on all interfaces (VCIs)"
PROGRAMS = ("ssend", "get")
OWN = {"MPIR_CVAR_CH4_GLOBAL_PROGRESS": "0"}
"""MPICH: a call makes progress on its own interface only."""
SETTINGS = ((1, "shared"), (4, "shared"), (4, "own"))
"""Interfaces, and those on which a call makes progress."""
SECONDS = 10
"""A program that takes longer is taken to wait for ever."""
LAUNCHES = 3
LAYOUT = "2x1x2"


@dataclass(frozen=True)
class Row:
    program: str
    vcis: int
    progress: str
    """shared: on all interfaces, as the library has it; own: on that of the call only."""
    ends: Sequence[float]
    """One a launch. 1: within SECONDS; 0: it was killed; MISSING: it failed, e.g. for want of windows."""
    doubt: str
    """Why they certify nothing, or ''. Threads that take turns may be slow, but end."""


@dataclass(frozen=True)
class Found(Result):
    rows: Sequence[Row]

    def table(self) -> Table:
        table = Table(title=self.title)
        for name in ("program", "VCIs", "progress", "ends", "doubt"):
            table.add_column(name)
        for row in self.rows:
            good = [one for one in row.ends if not math.isnan(one)]
            ends = f"{sum(good):.0f} of {len(good)}"
            table.add_row(row.program, str(row.vcis), row.progress, ends, escape(row.doubt))
        return table

    def picture(self) -> LinePicture:
        panels: dict[str, list[Line]] = {}
        for name in dict.fromkeys(row.program for row in self.rows):
            for progress in ("shared", "own"):
                rows = [r for r in self.rows if (r.program, r.progress) == (name, progress)]
                points = [(row.vcis, statistics.fmean(row.ends)) for row in rows if not row.doubt]
                if points:
                    panels.setdefault(name, []).append(Line(progress, "o-", points))
        unit = "launches that end"
        return LinePicture(panels, "VCIs", unit, scale=1.0, title=self.title, linear=True)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    programs.add_launches(parser, LAUNCHES)
    measuring.add_place(parser, "local")
    add_rails(parser)
    parser.set_defaults(layout=None)


def run(library: MpiLibrary, args: argparse.Namespace) -> Found:
    rounds = Rounds.of(library, args, "progress", [source("shared_progress")])
    most = vcis.most_vcis(library)
    settings = [
        (name, number, progress)
        for name in PROGRAMS
        for number, progress in SETTINGS
        if number <= most
    ]
    launches = [
        Launch(
            [rounds.program("shared_progress"), name],
            LAYOUT,
            {**thread_variables(2, number), **(OWN if progress == "own" else {})},
            seconds=SECONDS,
        )
        for name, number, progress in settings
    ]
    found = rounds.run(launches, args.launches)
    rows = [
        Row(*setting, tuple(map(ends, outcomes)), doubt(rounds, outcomes))
        for setting, outcomes in zip(settings, found)
    ]
    rows = [unlike(row, rows) for row in rows]
    words = f"launches of {args.launches} that end within {SECONDS} s"
    return Found(f"{library.short_version}, {args.system}: {words}", rows)


def unlike(row: Row, rows: Sequence[Row]) -> Row:
    """Doubts a row of own progress if the program does not end with shared progress either."""
    twin = next(
        r for r in rows if (r.program, r.vcis, r.progress) == (row.program, row.vcis, "shared")
    )
    if row.doubt or twin is row or any(one == 1 for one in twin.ends):
        return row
    return replace(row, doubt="it does not end with shared progress either")


def ends(outcome: Outcome) -> float:
    if outcome.code == KILLED:
        return 0.0
    return 1.0 if outcome.code == 0 else MISSING


def doubt(rounds: Rounds, outcomes: Sequence[Outcome]) -> str:
    """A program that is killed is a finding; one that fails is none."""
    failed = [one for one in outcomes if one.code not in (0, KILLED)]
    return rounds.doubt(LAYOUT, failed) if failed else ""
