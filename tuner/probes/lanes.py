"""How many lanes a node has: by how much more ranks of a node communicate faster than one.

The lane pattern benchmark and the multi-collective benchmark of Träff and Hunold, 2020,
section II and Figures 1 to 3.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
from rich.table import Table

from collforge import units
from collforge.db import Lanes, Store
from collforge.errors import CollforgeError
from collforge.home import home, new_folder
from collforge.layout import Layout
from collforge.mpi_library import MpiLibrary
from collforge.place import Place
from collforge.toolchain.build import RUNTIME
from collforge.tuner.decide.evidence import Interval, mean_interval
from collforge.tuner.probes import Result, programs
from collforge.tuner.run import measuring
from collforge.tuner.run.launches import Launch, failure, run_launches
from collforge.tuner.run.options import output_file, split_choices
from collforge.tuner.run.pictures import Line, LinePicture

SUMMARY = "how many lanes (rails, adapters) a node has, and their bandwidth"
SIZES = "64KiB,1MiB"
LAUNCHES, REPETITIONS, EXCHANGES = 3, 10, 5
PAPER_REPETITIONS, PAPER_EXCHANGES = 80, 100
TIME_LIMIT = 1800.0
"""Seconds for a launch."""


SOURCE = RUNTIME / "bench" / "programs" / "lanes.c"
PATTERN, ALLTOALL = BENCHMARKS = ("pattern", "alltoall")
"""The lane pattern benchmark and the multi-collective benchmark."""

STARVED = 2.0
"""Where ranks share cores, times above this many times what the links take are those of the cores."""
SHORTEST = 1e-3
"""Seconds. So are shorter ones of an exchange."""
BAND = 0.95
"""A limit is drawn where nothing that was measured lies below this part of it."""


class Series(msgspec.Struct, frozen=True):
    """What a launch measured of one size with so many ranks of each node at work."""

    benchmark: str
    bytes: int
    """pattern: what a node sends and receives in one exchange; alltoall: what each working rank sends."""
    lanes: int
    """The first so many ranks of each node communicate: virtual lanes."""
    seconds: tuple[float, ...]
    """Of each repetition, on the slowest rank; pattern: of all exchanges of the repetition together."""


@dataclass(frozen=True)
class Point:
    """What so many ranks of each node take."""

    benchmark: str
    """pattern or alltoall."""
    bytes: int
    lanes: int
    """Ranks of each node that communicate: virtual lanes."""
    whole: bool
    """All ranks of the node."""
    seconds: tuple[float, ...]
    """Of each launch: the mean over its repetitions."""
    doubt: str = ""
    """Why the times certify nothing; '' if they may."""

    @property
    def mean(self) -> float:
        return statistics.fmean(self.seconds)


@dataclass(frozen=True)
class Found(Result):
    rows: Sequence[Point]
    intervals: Mapping[Point, Interval]
    """The mean over all repetitions of all launches, and its 95 % interval, as the paper prints it."""
    physical: int
    """Lanes of a node, k' in the paper."""
    tied: bool
    """Each rank uses one lane, in turn; else the ranks share all."""
    at_least: bool
    """No more ranks than that were tried."""
    rate: float
    """Bytes a second of a lane, in each direction."""
    fastest: float
    """Rate of a node over the best number of its ranks / over one, with the largest size."""

    def relative(self, row: Point) -> float:
        """How many times as fast as one rank a node; alltoall: the time over that of one collective."""
        return relative(row, self.rows)

    def table(self) -> Table:
        table = Table(title=self.title)
        for name in ("benchmark", "bytes", "ranks a node", "ms", "95 % interval", "relative"):
            table.add_column(name, justify="left" if name == "benchmark" else "right")
        table.add_column("expected", justify="right")
        for row, interval in self.intervals.items():
            table.add_row(
                row.benchmark,
                units.format_size(row.bytes),
                str(row.lanes),
                f"{row.mean * 1e3:.4g}",
                f"{interval.low * 1e3:.4g} .. {interval.high * 1e3:.4g}",
                f"{self.relative(row):.2f} x {'faster' if row.benchmark == PATTERN else 'the time'}",
                f"{expected(row, self.physical, self.tied):.2f}",
            )
        return table

    def picture(self) -> LinePicture:
        """A panel for each benchmark and size: time against ranks at work, and what the lanes would give.

        The latter only where it is a limit: nothing that was measured lies below.
        """
        panels: dict[str, list[Line]] = {}
        for row in self.rows:
            title = f"{row.benchmark}, {units.format_size(row.bytes)}"
            if title in panels:
                continue
            mine = [r for r in self.rows if (r.benchmark, r.bytes) == (row.benchmark, row.bytes)]
            one = mine[0].mean
            sign = -1 if row.benchmark == PATTERN else 1
            limits = [one * expected(r, self.physical, self.tied) ** sign for r in mine]
            measured = Line(
                "measured",
                "o-",
                [(r.lanes, r.mean) for r in mine],
                [self.intervals[r] for r in mine],
            )
            panels[title] = [measured]
            if all(r.mean >= BAND * limit for r, limit in zip(mine, limits)):
                points = [(r.lanes, limit) for r, limit in zip(mine, limits)]
                panels[title].append(Line(f"{self.physical} lanes", "--", points))
        return LinePicture(panels, across="ranks of a node that communicate", title=self.title)

    def remark(self) -> str:
        more = "at least " if self.at_least else ""
        many = "s" if self.physical > 1 else ""
        return (
            f"{more}{self.physical} physical lane{many} a node, {self.rate * 8e-6:.4g} Mbit/s each: "
            f"{units.format_size(self.rows[-1].bytes)} of a node go {self.fastest:.2f} times as fast "
            "over the best number of ranks as over one"
        )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    measuring.add_system(parser)
    text = "bytes that a node exchanges (default: %(default)s)"
    parser.add_argument("--sizes", default=SIZES, help=text)
    text = f"of {','.join(BENCHMARKS)} (default: both)"
    parser.add_argument("--benchmark", default=",".join(BENCHMARKS), help=text)
    text = f"{PAPER_EXCHANGES} exchanges and {PAPER_REPETITIONS} repetitions, as in the paper"
    parser.add_argument("--paper", action="store_true", help=text)
    programs.add_launches(parser, LAUNCHES)
    text = "store the number and the rate in this database (default: in none)"
    parser.add_argument("--db", metavar="FILE", type=output_file, help=text)


def run(library: MpiLibrary, args: argparse.Namespace) -> Found:
    at = measuring.parse_layout(args.layout or "2x4", args.system)
    if not at.regular or at.nodes < 2:
        raise CollforgeError(f"layout {at.name}: give two nodes or more, of one size each")
    args.layout = at.name
    exchanges = PAPER_EXCHANGES if args.paper else EXCHANGES
    benchmarks = split_choices("benchmark", args.benchmark, BENCHMARKS)
    if args.db and PATTERN not in benchmarks:
        raise CollforgeError(f"--db stores the rate that the {PATTERN} has: measure that, too")
    repetitions = PAPER_REPETITIONS if args.paper else REPETITIONS
    site = measuring.site(args, library.name)
    if site.is_simulated:
        args.launches = repetitions = 1
    folder = new_folder(home() / "runs", "lanes")
    program, ks, sizes = folder / "lanes", virtual_lanes(at), units.parse_sizes(args.sizes)
    numbers = [at.node_sizes[0], exchanges, repetitions, *(_list(each) for each in (ks, sizes))]
    command = [str(program), "/dev/stdout", *map(str, numbers), *benchmarks]
    plan = [Launch(command, at.name, seconds=TIME_LIMIT)] * args.launches
    compiled = [compile_command(str(library.mpicc), program)]
    launches = []
    for outcome in run_launches(site, folder / "job", compiled, plan):
        launches.append(read(outcome.out) if outcome.code == 0 else [])
        if len(launches[-1]) != len(benchmarks) * len(ks) * len(sizes):
            raise failure(outcome, "a launch")
    words = f"mean of {args.launches} x {repetitions} repetitions of {exchanges} exchanges"
    title = f"{library.short_version}, {measuring.system_name(args)} {at.name}: {words}"
    shares_cores = args.system in measuring.LAYOUTS and at.size > len(os.sched_getaffinity(0))
    found = evaluate(title, launches, at, exchanges, shares_cores)
    if args.db:
        with Store(args.db) as store:
            place = Place.of(measuring.system_name(args), library, at)
            store.record_lanes(place, Lanes(found.physical, found.rate))
    return found


def compile_command(mpicc: str, out: Path) -> list[str]:
    """Compiles the program to this file."""
    flags = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror"]
    return [mpicc, *flags, "-o", str(out), str(SOURCE)]


def read(text: str) -> list[Series]:
    """What a launch wrote. Raises msgspec.MsgspecError, a ValueError, where a line is no series."""
    return msgspec.json.Decoder(Series).decode_lines(text)


def _list(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))


def virtual_lanes(at: Layout) -> list[int]:
    """How many ranks of a node are tried: each number up to 8, then powers of two, and all."""
    most = at.node_sizes[0]
    powers = [2**n for n in range(4, most.bit_length())]
    return sorted({*range(1, min(most, 8) + 1), *(n for n in powers if n <= most), most})


def evaluate(
    title: str,
    launches: Sequence[Sequence[Series]],
    at: Layout,
    exchanges: int,
    shares_cores: bool = False,
) -> Found:
    """``exchanges``: of the lane pattern in one repetition; ``shares_cores``: more ranks than cores."""
    series = [tuple(each) for each in zip(*launches)]
    rows = [point(each, at.node_sizes[0]) for each in series]
    largest = [row for row in rows if row.bytes == max(one.bytes for one in rows)]
    most = max(row.lanes for row in largest)
    models = [(lanes, tied) for lanes in range(1, most + 1) for tied in (False, True)]
    physical, tied = min(models, key=lambda model: misfit(largest, *model))

    def moved(row: Point) -> float:
        """Bytes that leave a node."""
        if row.benchmark == PATTERN:
            return float(row.bytes * exchanges)
        return row.lanes * row.bytes * (at.nodes - 1) / at.nodes

    kind = PATTERN if any(row.benchmark == PATTERN for row in rows) else ALLTOALL
    speeds = {row.lanes: moved(row) / row.mean for row in largest if row.benchmark == kind}
    fastest = max(speeds.values())
    rate = fastest / physical
    if shares_cores:
        # What the links take, if they are what limits, does not depend on the cores.
        rows = [
            replace(row, doubt="ranks share cores, which decide more than the links")
            if row.mean > STARVED * moved(row) / (rate * min(row.lanes, physical))
            or row.mean < SHORTEST * (exchanges if row.benchmark == PATTERN else 1)
            else row
            for row in rows
        ]
    intervals = [mean_interval([one for each in same for one in each.seconds]) for same in series]
    found = dict(zip(rows, intervals))
    times = fastest / speeds[1]
    return Found(title, rows, found, physical, tied, physical == most, rate, times)


def relative(row: Point, rows: Sequence[Point]) -> float:
    (one,) = [r for r in rows if (r.benchmark, r.bytes, r.lanes) == (row.benchmark, row.bytes, 1)]
    return one.mean / row.mean if row.benchmark == PATTERN else row.mean / one.mean


def expected(row: Point, physical: int, tied: bool) -> float:
    """What `relative` gives with so many physical lanes, where nothing else limits.

    If the ranks share all lanes, that is k/k' of the paper. If each is tied to one, the fullest lane decides.
    """
    fullest = math.ceil(row.lanes / physical) if tied else max(1.0, row.lanes / physical)
    return row.lanes / fullest if row.benchmark == PATTERN else fullest


def misfit(rows: Sequence[Point], physical: int, tied: bool) -> float:
    """How far the measurements are from what so many lanes would give: squared logarithms."""
    return sum(math.log(relative(row, rows) / expected(row, physical, tied)) ** 2 for row in rows)


def point(launches: Sequence[Series], per_node: int) -> Point:
    """The same series of all launches."""
    one = launches[0]
    means = tuple(statistics.fmean(series.seconds) for series in launches)
    return Point(one.benchmark, one.bytes, one.lanes, one.lanes == per_node, means)
