"""A Monte Carlo program whose allreduce is split over its idle OpenMP threads: Mahéo et al. (2014), Fig. 2."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table

from collforge.errors import CollforgeError
from collforge.home import home, new_folder
from collforge.layout import Layout
from collforge.mpi_library import MpiLibrary
from collforge.papers.programs import applications
from collforge.papers.programs.applications import Line
from collforge.reframe_checks.mpirun import PRELOAD
from collforge.toolchain import build, vcis
from collforge.tuner.decide.evidence import Interval, median_interval
from collforge.tuner.probes import Result, programs
from collforge.tuner.run import measuring
from collforge.tuner.run.launches import Launch, Outcome, failure, run_launches
from collforge.tuner.run.pictures import DotPicture, Dots

SUMMARY = "a Monte Carlo program (MPI+OpenMP): its allreduce native or split over its idle threads"
LAUNCHES = 5
NAME = "monte_carlo"
NATIVE, SPLIT, SHIFTED = "native", "split", "shifted"
VARIANTS = {
    SPLIT: "thread_split[threads={threads}]",
    SHIFTED: "rank_shift[chunks={threads},carrier=threads,node_order=ranks]",
}


@dataclass(frozen=True)
class Way:
    way: str
    """native, split, or shifted (split, with the ranks of each thread's communicator rotated)."""
    threads: int
    """That carry the allreduce; those of the program are the layout's."""

    @property
    def variant(self) -> str:
        """Of the allreduce; '' if native."""
        return VARIANTS.get(self.way, "").format(threads=self.threads)


@dataclass(frozen=True)
class Time:
    """The program's time in one way, for each launch: of the slowest rank, in seconds."""

    way: str
    threads: int
    """As in Way."""
    seconds: tuple[float, ...]
    in_allreduce: tuple[float, ...]
    doubt: str
    """Why the times say nothing of a system whose threads have cores of their own; '' if they do."""


@dataclass(frozen=True)
class Found(Result):
    rows: Sequence[Time]

    def table(self) -> Table:
        table = Table(title=self.title)
        table.add_column("allreduce")
        for name in ("threads", "seconds", "95 % interval", "in allreduce"):
            table.add_column(name, justify="right")
        for row in self.rows:
            own, part = median_interval(row.seconds), median_interval(row.in_allreduce)
            table.add_row(
                row.way,
                str(row.threads),
                f"{own.median:.3g}",
                f"{own.low:.3g} .. {own.high:.3g}",
                f"{part.median:.3g}",
            )
        return table

    def picture(self) -> DotPicture:
        named: dict[str, dict[str, Interval]] = {}
        for row in self.rows:
            times = named.setdefault(row.way, {})
            times[f"{row.threads} threads"] = median_interval(row.seconds)
        return DotPicture({"seconds": [Dots(*one) for one in named.items()]}, self.title)

    def remark(self) -> str:
        return next((f"beware: {row.doubt}" for row in self.rows if row.doubt), "")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    measuring.add_system(parser, "nodes x ranks per node x threads, e.g. 4x1x8")
    programs.add_launches(parser, LAUNCHES)


def run(library: MpiLibrary, args: argparse.Namespace) -> Found:
    at = measuring.parse_layout(args.layout or "2x1x2", args.system)
    if at.nodes < 2 or at.threads < 2:
        raise CollforgeError(f"layout {at.name}: give two nodes and two threads or more: 4x1x2")
    site = measuring.site(args, library.name)
    runtime = build.build(library).library_path
    folder = new_folder(home() / "runs", "monte-carlo")
    mpicc = str(library.mpicc)
    variables = {"OMP_NUM_THREADS": str(at.threads)}
    doubt = measuring.crowded(args, at)
    if doubt:  # threads that poll would keep others from running
        variables["OMP_WAIT_POLICY"] = "passive"
    preloaded = {**variables, **vcis.thread_settings(library, at.threads), "COLLFORGE_VERBOSE": "2"}
    program = [str(folder / NAME)]
    native = Launch(program, at.name, variables)
    preload = ["sh", "-c", PRELOAD, str(runtime), *program]
    forced = "COLLFORGE_FORCE"
    launches = [
        Launch(preload, at.name, {**preloaded, forced: f"allreduce={way.variant}"})
        if way.variant
        else native
        for way in ways(at)
    ]
    compiled = [applications.compile_command(mpicc, NAME, folder)]
    outcomes = run_launches(site, folder / "job", compiled, launches * args.launches)
    title = f"{library.short_version}, {args.system} {at.name}: {args.launches} launches in turns"
    return Found(title, rows(at, outcomes, doubt))


def ways(at: Layout) -> list[Way]:
    """In the order of their launches in a round: the allreduce by 2, 4, ... and all threads of a rank."""
    threads = sorted({*(1 << n for n in range(1, at.threads.bit_length())), at.threads})
    return [Way(NATIVE, 1), *(Way(way, number) for number in threads for way in VARIANTS)]


def rows(at: Layout, outcomes: Sequence[Outcome], doubt: str) -> list[Time]:
    """Of the launches of all rounds. Raises CollforgeError if one failed or has another result."""
    every = ways(at)
    lines: dict[Way, list[Line]] = {way: [] for way in every}
    doubts: dict[Way, str] = dict.fromkeys(every, doubt)
    for number, outcome in enumerate(outcomes):
        way = every[number % len(every)]
        found = applications.printed(NAME, outcome.out)
        if outcome.code or len(found) != 1:
            raise failure(outcome, f"{NAME}, {way.way},")
        lines[way] += found
        if way.variant and not ran(way.variant, outcome.err):
            doubts[way] = f"{way.variant} cannot run: a rank has fewer cores than threads"
    sums = {line.checksum for found in lines.values() for line in found}
    if len(sums) > 1:
        raise CollforgeError(f"{NAME}: checksums differ: {', '.join(sorted(sums))}")
    return [
        Time(
            way.way,
            way.threads,
            tuple(line.seconds for line in found),
            tuple(line.in_allreduce for line in found),
            doubts[way],
        )
        for way, found in lines.items()
    ]


def ran(variant: str, log: str) -> bool:
    """Whether the library says (COLLFORGE_VERBOSE=2) that the allreduce went by a variant."""
    return bool(re.search(rf": allreduce@.* bytes: {re.escape(variant)}", log))
