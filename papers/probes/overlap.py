"""Whether nonblocking collectives overlap with computation, and why not.

Denis, Jaeger, Jeannot and Reynier, 2022, sections 3 to 5; the ratios are in papers/programs/overlap.py.
"""

from __future__ import annotations

import argparse
import os
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from collforge import units
from collforge.errors import CollforgeError
from collforge.home import home, new_folder
from collforge.layout import Layout
from collforge.mpi_library import MpiLibrary
from collforge.papers.programs import overlap
from collforge.papers.programs.overlap import COLLECTIVES, DIAGNOSES, RATIOS, Impact, Pair
from collforge.toolchain import build
from collforge.tuner.probes import Result, programs
from collforge.tuner.run import measuring
from collforge.tuner.run.launches import Launch, Outcome, failure, run_launches
from collforge.tuner.run.options import split, split_choices
from collforge.tuner.run.pictures import MapPicture

SUMMARY = "whether nonblocking collectives overlap with computation"
TIMES = "0.5,2,8,32,128"
LAUNCHES, REPETITIONS = 3, 10
MEMORY = "256MiB"

BASIC, THREAD, FREE, DEDICATED = "basic", "thread", "free", "dedicated"
DEPLOYMENTS = {
    BASIC: "all cores compute, and the library is as it is",
    THREAD: "all cores compute, beside a thread that makes communication progress",
    FREE: "that thread, and a core of each rank does not compute",
    DEDICATED: "the same, and the thread is bound to that core",
}
"""Section 7; `free` is what the paper has of MPICH, whose thread it could not bind (section 7.3.1)."""

VARIANTS = ", variants"
"""Behind a deployment with the variants of --force and the thread of COLLFORGE_PROGRESS."""

PROGRESS_THREAD = {
    "MPICH": {"MPICH_ASYNC_PROGRESS": "1"},
    "Intel(R) MPI": {"I_MPI_ASYNC_PROGRESS": "1"},
}
"""First words of a library's version -> the variables that start a progress thread in each process."""

NEAR = 4.0
"""The diagnosis of a collective counts points whose two times differ by no more than this factor."""
FAR = 32.0
"""From this factor on, the noise of the longer time is the shorter one (section 5.2)."""
DRIFT = 2.0
"""The times alone may be so many times those for which sizes were found: the machine was another one then."""
FEW = 3
LEAST_OVERHEAD, LEAST_COMPUTATION, MOST_COMMUNICATION = -0.05, 0.95, 30.0
"""Ratios beyond these are no measurements: the times alone were not those of the same machine."""


@dataclass(frozen=True)
class Row:
    """One ratio or time of a point."""

    progress: str
    """One of DEPLOYMENTS; behind it VARIANTS, or nothing: native."""
    collective: str
    """'': none."""
    communication_ms: float
    """The times that were wanted; 0 if a size was given."""
    computation_ms: float
    bytes: int
    """The size that was given; 0: it was searched."""
    ratio: str
    """One of RATIOS, ``bytes`` or ``impact``."""
    values: tuple[float, ...]
    """One of each launch."""
    doubt: str
    """Why they certify nothing; '' if they may."""


@dataclass(frozen=True)
class Point:
    """A collective with one time of communication and one of computation, in all launches."""

    progress: str
    given: bool
    """The size was given, and the times are those that were found."""
    pairs: Sequence[Pair]
    doubt: str

    def values(self, ratio: str) -> tuple[float, ...]:
        return tuple(RATIOS[ratio](overlap.medians(pair)) for pair in self.pairs)

    def middle(self, ratio: str) -> float:
        return statistics.median(self.values(ratio))

    @property
    def name(self) -> str:
        return self.pairs[0].collective

    @property
    def diagnosis(self) -> str:
        """That of the most launches."""
        return statistics.mode(overlap.diagnose(overlap.medians(pair)) for pair in self.pairs)

    @property
    def bytes(self) -> tuple[int, ...]:
        return tuple(pair.bytes for pair in self.pairs)

    @property
    def near(self) -> bool:
        """Whether the times that were measured are near enough to each other to mean much."""
        alone = [self.middle(f"{name} alone, ms") for name in ("communication", "computation")]
        return max(alone) <= NEAR * min(alone)

    def rows(self) -> list[Row]:
        first = self.pairs[0]
        targets = (first.comm_target, first.comp_target)
        times = (0.0, 0.0) if self.given else tuple(round(1e3 * one, 6) for one in targets)
        values: dict[str, tuple[float, ...]] = {name: self.values(name) for name in RATIOS}
        values["bytes"] = tuple(map(float, self.bytes))
        size = self.bytes[0] if self.given else 0
        return [
            Row(self.progress, self.name, times[0], times[1], size, name, each, self.doubt)
            for name, each in values.items()
        ]


@dataclass(frozen=True)
class Found(Result):
    rows: Sequence[Row]
    points: Sequence[Point]

    def table(self) -> Table:
        table = Table(title=self.title)
        several = len({point.progress for point in self.points}) > 1
        for name in (*(["progress"] if several else []), "collective"):
            table.add_column(name)
        for name in ("bytes", "comm. ms", "comp. ms", "overhead", "least .. most"):
            table.add_column(name, justify="right")
        for name in ("comp. ratio", "comm. ratio", "OSU %", "IMB %"):
            table.add_column(name, justify="right")
        table.add_column("diagnosis")
        for point in self.points:
            overheads = point.values("overhead")
            table.add_row(
                *([point.progress] if several else []),
                f"I{point.name}",
                units.format_about(round(statistics.median(point.bytes))),
                f"{point.middle('communication alone, ms'):.3g}",
                f"{point.middle('computation alone, ms'):.3g}",
                f"{point.middle('overhead'):.2f}",
                f"{min(overheads):.2f} .. {max(overheads):.2f}",
                f"{point.middle('computation'):.2f}",
                f"{point.middle('communication'):.2f}",
                f"{point.middle('OSU %'):.0f}",
                f"{point.middle('IMB %'):.0f}",
                point.diagnosis if not point.doubt else f"{point.diagnosis} (doubtful)",
            )
        return table

    def picture(self) -> MapPicture:
        """A heat map of the overhead for each collective, by the targets of communication and computation."""
        panels: dict[str, list[tuple[float, float, float, bool]]] = {}
        for point in self.points:
            first = point.pairs[0]
            place = (first.comm_target * 1e3, first.comp_target * 1e3)
            cell = (*place, point.middle("overhead"), bool(point.doubt))
            panels.setdefault(f"I{point.name}, {point.progress}", []).append(cell)
        axes = ("communication (ms)", "computation (ms)")
        return MapPicture(panels, *axes, "overhead: 0 overlap, 1 none", self.title)

    def remark(self) -> str:
        groups = dict.fromkeys((point.progress, point.name) for point in self.points)
        lines = [diagnosis([p for p in self.points if (p.progress, p.name) == g]) for g in groups]
        for row in self.rows:
            if row.ratio == "impact":
                lines.append(
                    f"{row.progress}: the computation takes {statistics.median(row.values):.2f} "
                    "of the time in a program without MPI"
                )
        doubts = [point.doubt for point in self.points if point.doubt]
        lines += [
            f"{doubts.count(doubt)} of {len(self.points)} points are doubtful: {doubt}"
            for doubt in dict.fromkeys(doubts)
        ]
        return "\n".join(lines)


def diagnosis(points: Sequence[Point]) -> str:
    """One sentence on a collective, from its points whose times are near each other, or else from all."""
    used = [point for point in points if point.near] or points
    name = statistics.mode(point.diagnosis for point in used)
    same = [point for point in used if point.diagnosis == name]
    others = dict.fromkeys(point.diagnosis for point in used if point.diagnosis != name)
    also = f" (others: {', '.join(others)})" if others else ""

    def middle(ratio: str) -> float:
        return statistics.median(point.middle(ratio) for point in same)

    return (
        f"I{points[0].name}, {points[0].progress}: {name} in {len(same)} of {len(used)} points{also}, "
        f"{DIAGNOSES[name]} (overhead {middle('overhead'):.2f}, "
        f"computation {middle('computation'):.2f} and "
        f"communication {middle('communication'):.2f} of the time alone); overlap would be "
        f"{middle('OSU %'):.0f} % by OSU's formula, {middle('IMB %'):.0f} % by IMB's"
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    measuring.add_system(parser, layout="nodes x ranks x cores of a rank, which compute")
    text = f"of {','.join(COLLECTIVES)} (default: all)"
    parser.add_argument("--collective", default=",".join(COLLECTIVES), help=text)
    text = "milliseconds of communication and of computation (default: %(default)s)"
    parser.add_argument("--times", default=TIMES, help=text)
    text = "bytes of a rank's largest buffer, each beside a computation that takes as long (default: --times)"
    parser.add_argument("--sizes", default="", help=text)
    text = "the most that each of a rank's two buffers may take (default: %(default)s)"
    parser.add_argument("--memory", default=MEMORY, help=text)
    text = "repetitions in a launch, fewer of what takes long (default: %(default)s)"
    parser.add_argument("--repetitions", type=int, default=REPETITIONS, help=text)
    programs.add_launches(parser, LAUNCHES)
    words = "; ".join(f"{name}: {meaning}" for name, meaning in DEPLOYMENTS.items())
    parser.add_argument("--progress", default=BASIC, help=f"{words} (default: %(default)s)")
    text = "also with these variants (as COLLFORGE_FORCE, e.g. '*=full_lane'), with any MPI library"
    parser.add_argument("--force", metavar="VARIANTS", help=text)


@dataclass(frozen=True)
class Settings:
    """What is measured in each launch."""

    collectives: Sequence[str]
    times: Sequence[int]
    """Microseconds."""
    sizes: Sequence[int]
    memory: int
    repetitions: int
    deployments: Sequence[str]
    at: Layout
    forced: Mapping[str, str]
    """The variables of launches with variants."""

    @property
    def seconds(self) -> float:
        """Of a launch, about."""
        return overlap.expected_seconds(len(self.collectives), self.times, self.repetitions)

    def launch(self, library: MpiLibrary, deployment: str, folder: Path) -> Launch:
        progress = deployment.removesuffix(VARIANTS)
        served = deployment != progress
        leaves = progress in (FREE, DEDICATED)
        variables = {} if progress == BASIC else progress_thread(library)
        if served:
            own = {BASIC: "", DEDICATED: "thread:-1"}.get(progress, "thread")
            variables = {**self.forced, "COLLFORGE_PROGRESS": own}
        # A thread stays where it is put by the launcher, or by the program.
        variables |= {"OMP_NUM_THREADS": str(self.at.threads - leaves), "OMP_PROC_BIND": "false"}
        words = overlap.words(
            folder,
            progress == DEDICATED,
            self.repetitions,
            self.memory,
            self.collectives,
            self.times,
            self.sizes,
        )
        if served:
            words = overlap.preloaded(words, build.built_paths(library.name, home()).library_path)
        # Five times what is expected, as together with others some things take longer.
        return Launch(words, self.at.name, variables, 120 + 5 * self.seconds)


def run(library: MpiLibrary, args: argparse.Namespace) -> Found:
    settings = checked(library, args)
    site = measuring.site(args, library.name)
    folder = new_folder(home() / "runs", "overlap")
    wanted = list(settings.deployments) * args.launches
    outcomes = run_launches(
        site,
        folder,
        overlap.compile_commands(str(library.mpicc), folder),
        [settings.launch(library, deployment, folder) for deployment in wanted],
    )
    count = overlap.expected(settings.collectives, settings.times, settings.sizes)
    launches: dict[str, list[Sequence[overlap.Line]]] = {}
    for deployment, outcome in zip(wanted, outcomes):
        launches.setdefault(deployment, []).append(lines_of(outcome, count, folder))
    words = f"median of {args.launches} x {settings.repetitions} repetitions"
    title = f"{library.short_version}, {measuring.system_name(args)} {settings.at.name}, "
    title += f"{', '.join(settings.deployments)}: {words}"
    return evaluate(title, launches, settings)


def lines_of(outcome: Outcome, count: int, folder: Path) -> Sequence[overlap.Line]:
    lines = overlap.read(outcome.out) if outcome.code == 0 else []
    if len(lines) != count:
        raise failure(outcome, f"a launch in {folder}")
    return lines


def checked(library: MpiLibrary, args: argparse.Namespace) -> Settings:
    """Raises CollforgeError, which names the fix, for what cannot be measured."""
    at = measuring.parse_layout(args.layout or "2x1", args.system)
    if at.size < 2:
        raise CollforgeError(f"layout {at.name}: give two ranks or more")
    args.layout = at.name
    deployments = split_choices("progress", args.progress, tuple(DEPLOYMENTS))
    native = [one for one in deployments if one == BASIC or library.flavor != "openmpi"]
    if len(native) < len(deployments) and args.force is None:
        raise CollforgeError(
            "Open MPI 4 and 5 have no thread that makes collectives progress: use --progress basic, "
            "or --force variants"
        )
    if at.threads < 2 and {FREE, DEDICATED} & set(deployments):
        raise CollforgeError(
            f"layout {at.name}: a core of each rank is to be free, so give it two or more, e.g. "
            f"{at.key}x2"
        )
    cores = len(os.sched_getaffinity(0))
    here = args.system in measuring.LAYOUTS
    if here and {FREE, DEDICATED} & set(deployments) and at.size * at.threads > cores:
        raise CollforgeError(
            f"layout {at.name} needs {at.size * at.threads} cores, one of each rank to be free: "
            f"this machine has {cores}"
        )
    if not 1 <= args.repetitions <= 1000 or args.launches < 1:
        raise CollforgeError("give 1 to 1000 --repetitions, and --launches above 0")
    return Settings(
        collectives=split_choices("collective", args.collective, COLLECTIVES),
        times=parse_times(args.times),
        sizes=units.parse_sizes(args.sizes) if args.sizes else (),
        memory=units.parse_sizes(args.memory)[0],
        repetitions=args.repetitions,
        deployments=native + [one + VARIANTS for one in deployments if args.force is not None],
        at=at,
        forced={} if args.force is None else forced(library, args, at),
    )


def forced(library: MpiLibrary, args: argparse.Namespace, at: Layout) -> dict[str, str]:
    """The variables of launches with variants, whose library is built."""
    build.build(library)
    found = {
        "COLLFORGE_FORCE": args.force,
        "COLLFORGE_NONBLOCKING": "1",
        "COLLFORGE_START_TIMEOUT": "60",
    }
    return found | ({"COLLFORGE_NODE_MAP": at.node_map} if args.system == "local" else {})


def progress_thread(library: MpiLibrary) -> dict[str, str]:
    """The variables that start it; of a library that is not known here, the user's own environment has them."""
    for words, variables in PROGRESS_THREAD.items():
        if library.version.startswith(words):
            return dict(variables)
    return {}


def parse_times(text: str) -> list[int]:
    """Milliseconds such as ``0.5,2,8`` in microseconds, ascending. Raises CollforgeError."""
    try:
        times = sorted({round(float(word) * 1e3) for word in split(text)})
    except (ValueError, OverflowError):
        times = []
    if not times or times[0] < 10 or times[-1] > 10_000_000 or len(times) > 32:
        raise CollforgeError(
            f"{text!r}: give up to 32 times in milliseconds, 0.01 to 10000, e.g. 2,8,32"
        )
    return times


def evaluate(
    title: str, launches: Mapping[str, Sequence[Sequence[overlap.Line]]], settings: Settings
) -> Found:
    """``launches``: of each deployment."""
    rows: list[Row] = []
    points: list[Point] = []
    for progress, each in launches.items():
        places = [one for lines in each for one in lines if isinstance(one, overlap.Place)]
        impacts = [one for lines in each for one in lines if isinstance(one, Impact)]
        pairs = [[one for one in lines if isinstance(one, Pair)] for lines in each]
        wrong = misplaced(progress, places)
        longest = 1e-3 * max(settings.times)
        ratios = tuple(map(overlap.mpi_impact, impacts))
        rows.append(Row(progress, "", 0.0, longest, 0, "impact", ratios, wrong))
        for same in zip(*pairs):
            doubt = wrong or imprecise(same, min(FEW, settings.repetitions))
            points.append(Point(progress, bool(settings.sizes), same, doubt))
            rows += points[-1].rows()
    return Found(title, rows, points)


def misplaced(progress: str, places: Sequence[overlap.Place]) -> str:
    """Why the cores are not those of the deployment; '' if they are."""
    progress = progress.removesuffix(VARIANTS)
    if min(place.spare for place in places) < 0:
        return "more threads compute than there are cores"
    if progress != BASIC and not all(place.started for place in places):
        return "MPI_Init started no thread: the library's variable for it is not set"
    if progress == FREE and not all(place.spare for place in places):
        return "no core is free"
    if progress == DEDICATED and not all(place.apart for place in places):
        return "the progress thread has no core of its own: ranks share cores, or have no more than compute"
    return ""


def imprecise(pairs: Sequence[Pair], least: int) -> str:
    """Why a point's ratios certify nothing; '' if they may. ``least``: rounds of a launch."""
    times = [overlap.medians(pair) for pair in pairs]

    def middle(ratio: Callable[[overlap.Times], float]) -> float:
        return statistics.median(map(ratio, times))

    drift = max(
        max(alone / target, target / alone)
        for pair, one in zip(pairs, times)
        for alone, target in ((one.comm_ref, pair.comm_target), (one.comp_ref, pair.comp_target))
    )
    low, high = sorted((pairs[0].comm_target, pairs[0].comp_target))
    doubts = {
        "no size takes the wanted time within 10 %": not all(pair.converged for pair in pairs),
        f"the times alone are not within {DRIFT:g} times the wanted ones": drift > DRIFT,
        "too few starts in time": min(len(pair.total) for pair in pairs) < least,
        f"the times differ by more than {FAR:g} times": high > 1.001 * FAR * low,
        "overhead below 0": middle(overlap.overhead) < LEAST_OVERHEAD,
        "the computation is faster beside communication": middle(overlap.slowdown)
        < LEAST_COMPUTATION,
        f"communication above {MOST_COMMUNICATION:g} times that alone": middle(
            overlap.communication
        )
        > MOST_COMMUNICATION,
    }
    return next((doubt for doubt, is_so in doubts.items() if is_so), "")
