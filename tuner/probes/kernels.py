"""The kernels of docs/application.md with MPI, MPI+OpenMP and hybrid collectives, compared.

Zhou et al. (2020), section 5.3.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table

from collforge.errors import CollforgeError
from collforge.home import home
from collforge.mpi_library import MpiLibrary
from collforge.reframe_checks import kernels
from collforge.reframe_checks.kernels import KERNELS, VERSIONS, Line
from collforge.tuner import evidence, request, target
from collforge.tuner.evidence import Interval
from collforge.tuner.parsing import split_choices
from collforge.tuner.plots import DotPicture, Dots
from collforge.tuner.probes import Result, programs
from collforge.tuner.run import run_program
from collforge.variant import Variant

SUMMARY = "the kernels of docs/application.md with MPI, MPI+OpenMP and hybrid collectives"
LAUNCHES = 5
TIME_LIMIT = 1800.0


@dataclass(frozen=True)
class Timing:
    """One version of a kernel."""

    kernel: str
    version: str
    ranks: int
    seconds: float
    """Median over launches, and its 95 % interval."""
    low: float
    high: float
    over_mpi: float
    """Time over that of the MPI version, and its 95 % interval over launches."""
    over_mpi_low: float
    over_mpi_high: float
    code_lines: int
    added_lines: int
    """New or changed ones with respect to the MPI version."""
    samples: tuple[float, ...]


@dataclass(frozen=True)
class Timings(Result):
    rows: Sequence[Timing]

    def table(self) -> Table:
        table = Table(title=self.title)
        for name in ("kernel", "version"):
            table.add_column(name)
        for name in ("ranks", "seconds", "over MPI", "95 % interval", "lines", "added"):
            table.add_column(name, justify="right")
        for row in self.rows:
            table.add_row(
                row.kernel,
                row.version,
                str(row.ranks),
                f"{row.seconds:.3g}",
                f"{row.over_mpi:.2f}",
                f"{row.over_mpi_low:.2f} .. {row.over_mpi_high:.2f}",
                str(row.code_lines),
                str(row.added_lines),
            )
        return table

    def picture(self) -> DotPicture:
        values = {
            version: {
                row.kernel: Interval(row.over_mpi, row.over_mpi_low, row.over_mpi_high)
                for row in self.rows
                if row.version == version
            }
            for version in VERSIONS[1:]
        }
        dots = [Dots(version, named) for version, named in values.items()]
        return DotPicture({"time over that of the MPI version": dots}, self.title, mark=1.0)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    target.add_system(parser)
    text = "of summa, poisson, bpmf, separated by commas (default: all)"
    parser.add_argument("--kernel", default=",".join(KERNELS), metavar="NAME[,NAME...]", help=text)
    text = "rounded up to one that can be cut evenly (default: the kernel's)"
    parser.add_argument("--size", type=int, default=0, help=text)
    programs.add_launches(parser, LAUNCHES)


def run(library: MpiLibrary, args: argparse.Namespace) -> Timings:
    if not kernels.SOURCES.is_dir():
        raise CollforgeError("the kernels are in a checkout only, in examples/kernels")
    at = request.parse_layout(args.layout, args.system)
    args.layout = at.name
    site = target.site(args, library.name)
    folder = request.new_folder(home() / "runs", "kernels")
    settings = {"layout": at.name, "size": args.size, "launches": args.launches}
    rows: list[Timing] = []
    for kernel in split_choices("kernel", args.kernel, KERNELS):
        check = f"Kernel %kernel={kernel}"
        text = run_program(site, check, settings, folder / kernel, TIME_LIMIT)
        lines = kernels.printed(kernel, text)
        if not lines:
            raise CollforgeError(f"{kernel} failed; see {folder / kernel / 'reframe.out'}")
        rows += timings(kernel, lines)
    words = f"median of {args.launches} launches"
    return Timings(f"{library.short_version}, {target.system_name(args)} {at.name}: {words}", rows)


def timings(kernel: str, lines: Sequence[Line]) -> list[Timing]:
    """``lines``: of all versions; the versions were launched in turn, equally often."""
    seconds = {v: [line.seconds for line in lines if line.version == v] for v in VERSIONS}
    of_mpi = kernels.source(kernel, "mpi")
    found = []
    for version, samples in seconds.items():
        own = evidence.median_interval(samples)
        mpi, other = Variant(kernel, "mpi"), Variant(kernel, version)
        launches = [{mpi: [a], other: [b]} for a, b in zip(seconds["mpi"], samples)]
        over = evidence.compare(mpi, other, launches)
        ends = (over.low, over.high) if over.low > 0 else (over.ratio, over.ratio)  # one launch
        source = kernels.source(kernel, version)
        found.append(
            Timing(
                kernel,
                version,
                next(line.ranks for line in lines if line.version == version),
                statistics.median(samples),
                own.low,
                own.high,
                over.ratio,
                *ends,
                len(kernels.code_lines(source)),
                kernels.added_lines(of_mpi, source),
                tuple(samples),
            )
        )
    return found
