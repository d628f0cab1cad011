"""The time of MPI_Init and MPI_Finalize by the number of interfaces: Zambre et al. (2020), section 4.2."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table

from collforge.home import home, new_folder
from collforge.mpi_library import MpiLibrary
from collforge.papers import PROGRAMS
from collforge.toolchain import vcis
from collforge.tuner.decide.evidence import Interval, median_interval
from collforge.tuner.probes import Result, programs
from collforge.tuner.run import measuring
from collforge.tuner.run.pictures import Line, LinePicture

SUMMARY = "the time of MPI_Init and MPI_Finalize, by the number of interfaces (VCIs)"
SOURCE = PROGRAMS / "start_end.c"
NUMBERS = (1, 2, 4, 8, 16, 32)


@dataclass(frozen=True)
class Row:
    """Seconds on rank 0: median over launches, and its 95 % interval."""

    call: str
    """init or finalize"""
    vcis: int
    seconds: float
    low: float
    high: float
    over_one: float
    """Time over that with one interface."""
    samples: tuple[float, ...]


@dataclass(frozen=True)
class Found(Result):
    rows: Sequence[Row]

    def table(self) -> Table:
        table = Table(title=self.title)
        for name in ("call", "VCIs", "ms", "95 % interval", "over one VCI"):
            table.add_column(name, justify="left" if name == "call" else "right")
        for row in self.rows:
            table.add_row(
                f"MPI_{row.call.capitalize()}",
                str(row.vcis),
                f"{row.seconds * 1e3:.3g}",
                f"{row.low * 1e3:.3g} .. {row.high * 1e3:.3g}",
                f"{row.over_one:.2f}",
            )
        return table

    def picture(self) -> LinePicture:
        panels = {}
        for call in dict.fromkeys(row.call for row in self.rows):
            mine = [row for row in self.rows if row.call == call]
            points = [(row.vcis, row.seconds) for row in mine]
            ends = [Interval(row.seconds, row.low, row.high) for row in mine]
            panels[f"MPI_{call.capitalize()}"] = [Line("median", "o-", points, ends)]
        return LinePicture(panels, "VCIs", title=self.title)

    def remark(self) -> str:
        return "" if len({row.vcis for row in self.rows}) > 1 else "the library has one interface"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    text = "on ranks of this machine or of an emulated cluster (default: %(default)s)"
    parser.add_argument("--system", choices=("local", "emulated"), default="local", help=text)
    measuring.add_rails(parser)
    text = "nodes x ranks per node (default: %(default)s)"
    parser.add_argument("--layout", default="2x1", help=text)
    programs.add_launches(parser)


def run(library: MpiLibrary, args: argparse.Namespace) -> Found:
    at = measuring.parse_layout(args.layout, args.system)
    program = new_folder(home() / "runs", "vcis") / "start_end"
    compile_command = [str(library.mpicc), "-std=c11", "-O2", "-o", str(program), str(SOURCE)]
    programs.run_program(compile_command, {}, "start_end cannot be compiled")
    most = vcis.most_vcis(library)
    cluster = None if args.system == "local" else measuring.rails(args, at)
    command = [*programs.start_command(library, cluster, at), str(program)]
    rows = measure(command, [n for n in NUMBERS if n <= most], args.launches)
    words = f"{args.system} {at.name}, median of {args.launches} launches"
    return Found(f"{library.short_version}: {words}", rows)


def measure(command: Sequence[str], numbers: Sequence[int], launches: int) -> list[Row]:
    """In each of ``launches`` rounds, all numbers of interfaces are measured in turn."""
    samples: dict[tuple[str, int], list[float]] = {}
    for _ in range(launches):
        for number in numbers:
            env = {vcis.VARIABLE: str(number)} if number > 1 else {}
            text = programs.run_program(command, env, "start_end failed")
            for call, seconds in json.loads(text[text.index("{") :]).items():
                samples.setdefault((call, number), []).append(seconds)
    middle = {key: median_interval(each) for key, each in samples.items()}
    return [
        Row(*key, one.median, one.low, one.high, one.median / middle[key[0], 1].median, tuple(each))
        for key, each in sorted(
            samples.items(), key=lambda item: (item[0][0] != "init", item[0][1])
        )
        for one in [middle[key]]
    ]
