"""Whether two correct programs end that need progress on all interfaces: Zambre et al. (2020), Fig. 9."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table

from collforge import papers
from collforge.errors import CollforgeError
from collforge.home import home, new_folder
from collforge.mpi_library import MpiLibrary
from collforge.papers.probes.message_rate import TWO_NODES
from collforge.toolchain import vcis
from collforge.toolchain.build import OPENMP_FLAGS
from collforge.toolchain.process import outcome
from collforge.tuner.probes import Result, programs
from collforge.tuner.run import measuring
from collforge.tuner.run.pictures import Line, LinePicture

SUMMARY = "whether two correct programs end that need progress on all interfaces (VCIs)"
SOURCE = papers.PROGRAMS / "shared_progress.c"
PROGRAMS = ("ssend", "put")
NUMBERS = (1, 2, 3, 4, 8)
SECONDS = 20
"""A program that takes longer is taken to wait for ever."""


@dataclass(frozen=True)
class Row:
    program: str
    vcis: int
    ends: int
    """1: within SECONDS; 0: it was killed. A program that fails, e.g. for want of windows, has no row."""
    seconds: float
    """Of the whole launch."""


@dataclass(frozen=True)
class Found(Result):
    rows: Sequence[Row]

    def table(self) -> Table:
        table = Table(title=self.title)
        for name in ("program", "VCIs", "ends", "s"):
            table.add_column(name)
        for row in self.rows:
            table.add_row(
                row.program, str(row.vcis), "yes" if row.ends else "no", f"{row.seconds:.1f}"
            )
        return table

    def picture(self) -> LinePicture:
        panels = {}
        for name in dict.fromkeys(row.program for row in self.rows):
            points = [(row.vcis, row.seconds) for row in self.rows if row.program == name]
            panels[name] = [Line(f"killed after {SECONDS} s", "o-", points)]
        return LinePicture(panels, "VCIs", "s", scale=1.0, title=self.title)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    text = "two processes of this machine, or of two nodes of an emulated cluster (default: %(default)s)"
    parser.add_argument("--system", choices=("local", "emulated"), default="local", help=text)
    measuring.add_rails(parser)


def run(library: MpiLibrary, args: argparse.Namespace) -> Found:
    most = vcis.most_vcis(library)
    program = new_folder(home() / "runs", "progress") / "shared_progress"
    command = [str(library.mpicc), *OPENMP_FLAGS, "-o", str(program), str(SOURCE)]
    programs.run_program(command, {}, "shared_progress cannot be compiled")
    cluster = None if args.system == "local" else measuring.rails(args, TWO_NODES)
    start = programs.start_command(library, cluster, TWO_NODES)
    rows = []
    for name in PROGRAMS:
        for number in (one for one in NUMBERS if one <= most):
            env = {vcis.VARIABLE: str(number)} if most > 1 else {}
            begin = time.monotonic()
            done = outcome([*start, str(program), name], SECONDS, env)
            seconds = time.monotonic() - begin
            if done.returncode != 0 and seconds < SECONDS:
                print(f"{name}: left out, since it fails:\n{done.stderr[-1000:]}", file=sys.stderr)
                continue
            rows.append(Row(name, number, int(done.returncode == 0), seconds))
    if not rows:
        raise CollforgeError("neither program runs here")
    words = f"programs that end within {SECONDS} s"
    return Found(f"{library.short_version}, {args.system}: {words}", rows)
