"""The kernels of docs/papers.md with MPI, MPI+OpenMP and hybrid collectives, compared.

Zhou et al. (2020), section 5.3.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table

from collforge import papers
from collforge.errors import CollforgeError
from collforge.home import home, new_folder
from collforge.mpi_library import MpiLibrary
from collforge.papers.programs import kernels
from collforge.papers.programs.kernels import KERNELS, Line, versions
from collforge.tuner.decide import evidence
from collforge.tuner.decide.evidence import Interval
from collforge.tuner.probes import Result, programs
from collforge.tuner.run import measuring
from collforge.tuner.run.jobs import Check, run_check
from collforge.tuner.run.options import split_choices
from collforge.tuner.run.pictures import DotPicture, Dots
from collforge.variant import Variant

SUMMARY = "the kernels of docs/papers.md with MPI, MPI+OpenMP and hybrid collectives"
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
    in_collectives: float
    """Of these seconds, those in collectives; mean over ranks, median over launches."""
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
        for name in (
            "ranks",
            "seconds",
            "in collectives",
            "over MPI",
            "95 % interval",
            "lines",
            "added",
        ):
            table.add_column(name, justify="right")
        for row in self.rows:
            table.add_row(
                row.kernel,
                row.version,
                str(row.ranks),
                f"{row.seconds:.3g}",
                f"{row.in_collectives:.3g}",
                f"{row.over_mpi:.2f}",
                f"{row.over_mpi_low:.2f} .. {row.over_mpi_high:.2f}",
                str(row.code_lines),
                str(row.added_lines),
            )
        return table

    def picture(self) -> DotPicture:
        whole, part = [], []
        for version in dict.fromkeys(row.version for row in self.rows):
            rows = [row for row in self.rows if row.version == version]
            named = {row.kernel: Interval(row.seconds, row.low, row.high) for row in rows}
            whole.append(Dots(version, named))
            inside = {row.kernel: Interval(*[row.in_collectives] * 3) for row in rows}
            part.append(Dots(version, inside))
        return DotPicture({"seconds": whole, "seconds in collectives": part}, self.title)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    measuring.add_system(parser)
    text = "of summa, poisson, bpmf, separated by commas (default: all)"
    parser.add_argument("--kernel", default=",".join(KERNELS), metavar="NAME[,NAME...]", help=text)
    text = "rounded up to one that can be cut evenly (default: the kernel's)"
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--size", type=int, default=0, help=text)
    text = "those of the paper, which grow with the nodes"
    size.add_argument("--paper-sizes", action="store_true", help=text)
    text = "default: the kernel's"
    parser.add_argument("--iterations", type=int, default=0, help=text)
    programs.add_launches(parser, LAUNCHES)


def run(library: MpiLibrary, args: argparse.Namespace) -> Timings:
    at = measuring.parse_layout(args.layout, args.system)
    args.layout = at.name
    site = measuring.site(args, library.name)
    folder = new_folder(home() / "runs", "kernels")
    settings = {"layout": at.name, "launches": args.launches, "iterations": args.iterations}
    rows: list[Timing] = []
    for kernel in split_choices("kernel", args.kernel, KERNELS):
        check = Check(f"Kernel %kernel={kernel}", papers.CHECKS / "kernels.py")
        size = kernels.paper_size(kernel, at.nodes) if args.paper_sizes else args.size
        where = folder / kernel
        text = run_check(site, check, {**settings, "size": size}, where, TIME_LIMIT)
        lines = kernels.printed(kernel, text)
        if not lines:
            raise CollforgeError(f"{kernel} failed; see {folder / kernel / 'reframe.out'}")
        rows += timings(kernel, lines)
    words = f"median of {args.launches} launches"
    return Timings(
        f"{library.short_version}, {measuring.system_name(args)} {at.name}: {words}", rows
    )


def timings(kernel: str, lines: Sequence[Line]) -> list[Timing]:
    """``lines``: of all versions; the versions were launched in turn, equally often."""
    seconds = {v: [line.seconds for line in lines if line.version == v] for v in versions(kernel)}
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
                statistics.median(line.in_collectives for line in lines if line.version == version),
                over.ratio,
                *ends,
                len(kernels.code_lines(source)),
                kernels.added_lines(of_mpi, source),
                tuple(samples),
            )
        )
    return found
