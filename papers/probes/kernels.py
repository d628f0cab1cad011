"""The kernels of docs/papers.md with MPI, MPI+OpenMP and hybrid collectives, compared.

Zhou et al. (2020), section 5.3.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rich.table import Table

from collforge.errors import CollforgeError
from collforge.home import home, new_folder
from collforge.layout import Layout
from collforge.mpi_library import MpiLibrary
from collforge.papers.programs import kernels
from collforge.papers.programs.kernels import KERNELS, Line, versions
from collforge.tuner.decide import evidence
from collforge.tuner.probes import Result, programs
from collforge.tuner.run import measuring
from collforge.tuner.run.launches import Launch, Outcome, failure, run_launches
from collforge.tuner.run.options import split_choices
from collforge.tuner.run.pictures import DotPicture, Dots
from collforge.variant import Variant

SUMMARY = "the kernels of docs/papers.md with MPI, MPI+OpenMP and hybrid collectives"
LAUNCHES = 5
TIME_LIMIT = 120.0
"""Seconds of a launch."""


@dataclass(frozen=True)
class Timing:
    """One version of a kernel, with one number of seconds a launch."""

    kernel: str
    version: str
    processes: int
    size: int
    code_lines: int
    added_lines: int
    """New or changed ones with respect to the MPI version."""
    seconds: tuple[float, ...]
    """Of the slowest rank."""
    collectives: tuple[float, ...]
    """Of these, in collectives and in waits for ranks of the node; mean over ranks."""
    computation: tuple[float, ...]
    """The rest."""
    doubt: str = ""
    """measuring.crowded"""


@dataclass(frozen=True)
class Timings(Result):
    rows: Sequence[Timing]

    def table(self) -> Table:
        table = Table(title=self.title)
        for name in ("kernel", "version"):
            table.add_column(name)
        names = ("ranks", "seconds", "in collectives", "over MPI", "95 % interval")
        for name in (*names, "lines", "added"):
            table.add_column(name, justify="right")
        of_mpi = {row.kernel: row.seconds for row in self.rows if row.version == "mpi"}
        for row in self.rows:
            ratio, low, high = over(of_mpi[row.kernel], row.seconds)
            table.add_row(
                row.kernel,
                row.version,
                str(row.processes),
                f"{statistics.median(row.seconds):.3g}",
                f"{statistics.median(row.collectives):.3g}",
                f"{ratio:.2f}",
                f"{low:.2f} .. {high:.2f}",
                str(row.code_lines),
                str(row.added_lines),
            )
        return table

    def picture(self) -> DotPicture:
        panels: dict[str, list[Dots]] = {"seconds": [], "seconds in collectives": []}
        for version in dict.fromkeys(row.version for row in self.rows):
            rows = [row for row in self.rows if row.version == version]
            parts = [{r.kernel: r.seconds for r in rows}, {r.kernel: r.collectives for r in rows}]
            for dots, part in zip(panels.values(), parts):
                cells = {name: evidence.median_interval(each) for name, each in part.items()}
                dots.append(Dots(version, cells))
        return DotPicture(panels, self.title)


def over(of_mpi: Sequence[float], seconds: Sequence[float]) -> tuple[float, float, float]:
    """Time over that of the MPI version, and its 95 % interval over launches; none of a single launch."""
    mpi, other = Variant("kernel", "mpi"), Variant("kernel", "other")
    launches = [{mpi: [a], other: [b]} for a, b in zip(of_mpi, seconds)]
    found = evidence.compare(mpi, other, launches)
    return (found.ratio, found.low, found.high) if found.low > 0 else (found.ratio,) * 3


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
    runtime = programs.build_all(library)[0].library_path
    chosen = split_choices("kernel", args.kernel, KERNELS)
    each = [(kernel, version) for kernel in chosen for version in versions(kernel)]
    compiled = [kernels.compile_command(str(library.mpicc), *one, folder, runtime) for one in each]
    shares = bool(measuring.crowded(args, at))
    sizes = {kernel: size_of(kernel, at, args) for kernel in chosen}
    round_of = [
        launch(
            f"{folder / kernel}_{version}", version, at, (sizes[kernel], args.iterations), shares
        )
        for kernel, version in each
    ]
    outcomes = run_launches(site, folder / "job", compiled, round_of * args.launches)
    lines: dict[str, dict[str, list[Line]]] = {kernel: {} for kernel in chosen}
    for number, (kernel, version) in enumerate(each):
        lines[kernel][version] = [line_of(kernel, one) for one in outcomes[number :: len(each)]]
    doubt = measuring.crowded(args, at)
    found = [row for kernel in chosen for row in timings(kernel, sizes[kernel], lines[kernel])]
    rows = [replace(row, doubt=doubt) for row in found]
    words = f"median of {args.launches} launches"
    return Timings(
        f"{library.short_version}, {measuring.system_name(args)} {at.name}: {words}", rows
    )


def size_of(kernel: str, at: Layout, args: argparse.Namespace) -> int:
    paper = kernels.paper_size(kernel, at.size, at.nodes)
    wanted = paper if args.paper_sizes else args.size
    return kernels.problem_size(kernel, at.size, at.nodes, wanted)


def launch(
    program: str, version: str, at: Layout, arguments: tuple[int, int], shares: bool
) -> Launch:
    """``arguments``: size and iterations, 0 for the kernel's. ``shares``: nodes share this machine's cores."""
    words = [program, *(str(one) for one in arguments if one)]
    if version != "openmp":
        return Launch(words, at.name, seconds=TIME_LIMIT)
    # One rank a node with a thread on each core, as in the paper; threads that poll would keep other nodes,
    # which share the cores, from running.
    threads = max(at.node_sizes)
    variables = {"OMP_NUM_THREADS": str(threads)}
    pinned = {"OMP_PLACES": "cores", "OMP_PROC_BIND": "close"}
    variables |= {"OMP_WAIT_POLICY": "passive"} if shares else pinned
    return Launch(words, f"{at.nodes}x1x{threads}", variables, TIME_LIMIT)


def line_of(kernel: str, outcome: Outcome) -> Line:
    """What a launch printed. Raises CollforgeError if it failed."""
    lines = kernels.printed(kernel, outcome.out)
    if outcome.code != 0 or len(lines) != 1:
        raise failure(outcome, f"a launch of {kernel}")
    return lines[0]


def timings(kernel: str, size: int, lines: Mapping[str, Sequence[Line]]) -> list[Timing]:
    """``lines``: of each version, one a launch. Raises CollforgeError if their results differ."""
    if not kernels.agree(line for each in lines.values() for line in each):
        sums = ", ".join(f"{v} {line.checksum!r}" for v, each in lines.items() for line in each)
        raise CollforgeError(f"{kernel}: checksums differ: {sums}")
    of_mpi = kernels.source(kernel, "mpi")
    found = []
    for version, each in lines.items():
        source = kernels.source(kernel, version)
        found.append(
            Timing(
                kernel,
                version,
                each[0].ranks,
                size,
                len(kernels.code_lines(source)),
                kernels.added_lines(of_mpi, source),
                tuple(line.seconds for line in each),
                tuple(line.in_collectives for line in each),
                tuple(line.seconds - line.in_collectives for line in each),
            )
        )
    return found
