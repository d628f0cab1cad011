"""Whether nonblocking collectives overlap with computation, and why not.

Denis, Jaeger, Jeannot and Reynier, 2022, sections 3 to 5; the ratios are in papers/programs/overlap.py.
"""

from __future__ import annotations

import argparse
import os
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from rich.table import Table

from collforge import papers, units
from collforge.errors import CollforgeError
from collforge.home import home, new_folder
from collforge.layout import Layout
from collforge.mpi_library import MpiLibrary
from collforge.papers.programs import overlap
from collforge.papers.programs.overlap import COLLECTIVES, DIAGNOSES, Impact, Line, Pair, Times
from collforge.tuner.probes import Result, programs
from collforge.tuner.run import measuring
from collforge.tuner.run.jobs import Check, run_check
from collforge.tuner.run.options import split, split_choices
from collforge.tuner.run.pictures import MapPicture

CHECK = Check("Overlap", papers.CHECKS / "overlap.py")

SUMMARY = "whether nonblocking collectives overlap with computation"
TIMES = "2,8,32"
LAUNCHES, REPETITIONS = 3, 10
BASIC, THREAD = "basic", "thread"
NEAR = 4.0
"""The diagnosis of a collective counts points whose two times differ by no more than this factor."""


@dataclass(frozen=True)
class Point:
    """A collective with one time of communication and one of computation: medians over launches."""

    collective: str
    comm_target: float
    """Seconds."""
    comp_target: float
    bytes: int
    """The largest buffer of a rank."""
    order: int
    """Of the matrices."""
    converged: bool
    """All searches came within 10 % of their targets."""
    times: Times
    """Seconds."""
    overhead: float
    """(1) of the paper; `least` and `most` are over launches."""
    least: float
    most: float
    slowdown: float
    """(3): of the computation."""
    communication: float
    """(4): time in MPI calls."""
    impact: float
    """(2): the computation in a running MPI program over that before MPI_Init, the same in all points."""
    osu: float
    """Per cent of overlap, by OSU's formula and by Intel's."""
    imb: float
    diagnosis: str
    """That of the most launches."""
    samples: tuple[dict[str, tuple[float, ...]], ...]
    """By launch: seconds of each repetition, by the names of Times."""

    @property
    def near(self) -> bool:
        """Whether the times that were measured are near enough to each other to mean much."""
        low, high = sorted((self.times.comm_ref, self.times.comp_ref))
        return high <= NEAR * low


@dataclass(frozen=True)
class Found(Result):
    rows: Sequence[Point]
    impact: float
    """(2): the computation in a running MPI program over that before MPI_Init; median over launches."""
    crowded: bool = False
    """More threads compute than this machine, where all ranks are, has cores."""

    def table(self) -> Table:
        table = Table(title=self.title)
        for name in ("collective", "bytes", "comm. ms", "comp. ms", "overhead", "least .. most"):
            table.add_column(name, justify="left" if name == "collective" else "right")
        for name in ("comp. ratio", "comm. ratio", "OSU %", "IMB %"):
            table.add_column(name, justify="right")
        table.add_column("diagnosis")
        for row in self.rows:
            table.add_row(
                f"I{row.collective}",
                units.format_about(row.bytes),
                f"{row.times.comm_ref * 1e3:.3g}",
                f"{row.times.comp_ref * 1e3:.3g}",
                f"{row.overhead:.2f}",
                f"{row.least:.2f} .. {row.most:.2f}",
                f"{row.slowdown:.2f}",
                f"{row.communication:.2f}",
                f"{row.osu:.0f}",
                f"{row.imb:.0f}",
                row.diagnosis if row.converged else f"{row.diagnosis} (size not found)",
            )
        return table

    def picture(self) -> MapPicture:
        """A heat map of the overhead for each collective, by the targets of communication and computation."""
        panels: dict[str, list[tuple[float, float, float]]] = {}
        for row in self.rows:
            cell = (row.comm_target * 1e3, row.comp_target * 1e3, row.overhead)
            panels.setdefault(f"I{row.collective}", []).append(cell)
        axes = ("communication (ms)", "computation (ms)")
        return MapPicture(panels, *axes, "overhead: 0 overlap, 1 none", self.title)

    def remark(self) -> str:
        names = dict.fromkeys(row.collective for row in self.rows)
        lines = [diagnosis([r for r in self.rows if r.collective == name]) for name in names]
        lines.append(f"computation in a running MPI program: {self.impact:.2f} of the time before")
        missed = sum(not row.converged for row in self.rows)
        if missed:
            lines.append(
                f"{missed} of {len(self.rows)} points: no size takes the wanted time within 10 %; "
                "the table has the times that were measured"
            )
        if self.crowded:
            lines.append("more threads compute than there are cores: these times mean little")
        return "\n".join(lines)


def diagnosis(rows: Sequence[Point]) -> str:
    """One sentence on a collective, from its points whose times are near each other, or else from all."""
    used = [row for row in rows if row.near] or rows
    name = statistics.mode(row.diagnosis for row in used)
    same = [row for row in used if row.diagnosis == name]
    others = dict.fromkeys(row.diagnosis for row in used if row.diagnosis != name)
    also = f" (others: {', '.join(others)})" if others else ""

    def middle(value: Callable[[Point], float]) -> float:
        return statistics.median(value(row) for row in same)

    return (
        f"I{rows[0].collective}: {name} in {len(same)} of {len(used)} points{also}, "
        f"{DIAGNOSES[name]} "
        f"(overhead {middle(lambda row: row.overhead):.2f}, "
        f"computation {middle(lambda row: row.slowdown):.2f} and "
        f"communication {middle(lambda row: row.communication):.2f} of the time alone); overlap would be "
        f"{middle(lambda row: row.osu):.0f} % by OSU's formula, {middle(lambda row: row.imb):.0f} % by IMB's"
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    measuring.add_system(parser)
    text = f"of {','.join(COLLECTIVES)} (default: all)"
    parser.add_argument("--collective", default=",".join(COLLECTIVES), help=text)
    text = "milliseconds of communication and of computation (default: %(default)s)"
    parser.add_argument("--times", default=TIMES, help=text)
    text = "threads of a rank that compute (default: the layout's, else 1)"
    parser.add_argument("--threads", type=int, default=0, help=text)
    text = "cores of a rank (default: --threads); one more leaves a core to a progress thread"
    parser.add_argument("--cores", type=int, default=0, help=text)
    text = "repetitions in a launch (default: %(default)s)"
    parser.add_argument("--repetitions", type=int, default=REPETITIONS, help=text)
    programs.add_launches(parser, LAUNCHES)
    parser.add_argument(
        "--progress",
        choices=(BASIC, THREAD),
        default=BASIC,
        help="thread: with MPICH's progress thread, MPICH_ASYNC_PROGRESS=1 (default: %(default)s)",
    )


def run(library: MpiLibrary, args: argparse.Namespace) -> Found:
    at = measuring.parse_layout(args.layout or "2x1", args.system)
    if at.size < 2:
        raise CollforgeError(f"layout {at.name}: give two ranks or more")
    args.layout = at.name
    settings = checked_settings(library, args, at)
    site = measuring.site(args, library.name)
    folder = new_folder(home() / "runs", "overlap")
    limit = time_limit(args, parse_times(args.times))
    launches = []
    for number in range(args.launches):
        text = run_check(site, CHECK, settings, folder / str(number), limit)
        launches.append(overlap.read(text))
        if len(launches[-1]) != overlap.expected(*wanted(args)):
            raise CollforgeError(f"the launch failed; see {folder / str(number) / 'reframe.out'}")
    words = f"median of {args.launches} x {args.repetitions} repetitions"
    threads = f"{settings['threads']} thread{'s' if settings['threads'] != 1 else ''} a rank"
    how = f"{threads}, with a progress thread" if args.progress == THREAD else threads
    title = f"{library.short_version}, {measuring.system_name(args)} {at.name}, {how}: {words}"
    threads_in_all = at.size * (args.threads or at.threads)
    here = args.system in measuring.LAYOUTS
    crowded = here and threads_in_all > len(os.sched_getaffinity(0))
    return replace(evaluate(title, launches), crowded=crowded)


def checked_settings(
    library: MpiLibrary, args: argparse.Namespace, at: Layout
) -> dict[str, object]:
    """The variables of the check. Raises CollforgeError, which names the fix, for what cannot be measured."""
    collectives, times = wanted(args)
    if args.progress == THREAD and library.flavor == "openmpi":
        raise CollforgeError(
            "Open MPI 4 and 5 have no thread that makes collectives progress: use --progress basic"
        )
    if args.progress == THREAD and library.flavor != "mpich":
        raise CollforgeError(
            f"how {library.name} starts a progress thread is not known here: set its variable "
            "yourself, and use --progress basic"
        )
    if not 1 <= args.repetitions <= 1000 or min(args.launches, args.threads + 1) < 1:
        raise CollforgeError("give 1 to 1000 --repetitions, and --launches and --threads above 0")
    if args.cores and args.cores < (args.threads or at.threads):
        raise CollforgeError(f"--cores {args.cores} are fewer than the threads that compute")
    return {
        "layout": at.name,
        "collectives": ",".join(collectives),
        "times": ",".join(map(str, times)),
        "threads": args.threads or at.threads,
        "cores": args.cores or args.threads or at.threads,
        "progress_thread": args.progress == THREAD,
        "repetitions": args.repetitions,
    }


def wanted(args: argparse.Namespace) -> tuple[Sequence[str], Sequence[int]]:
    """The collectives, and the times in microseconds; each once."""
    return split_choices("collective", args.collective, COLLECTIVES), parse_times(args.times)


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


def time_limit(args: argparse.Namespace, times: Sequence[int]) -> float:
    """Seconds for a launch: five times the expected ones, for what turns out slower together."""
    collectives = len(set(split(args.collective)))
    repetitions: int = args.repetitions + 1
    pairs = 2 * repetitions * 2 * len(times) * sum(times)
    searches = 24 * 6 * 2 * sum(times)
    return 120 + 5e-6 * (collectives * (pairs + searches) + searches)


def evaluate(title: str, launches: Sequence[Sequence[Line]]) -> Found:
    """What launches with the same settings found."""
    impacts = [one for launch in launches for one in launch if isinstance(one, Impact)]
    pairs = [[one for one in launch if isinstance(one, Pair)] for launch in launches]
    impact = statistics.median(map(overlap.mpi_impact, impacts))
    return Found(title, [point(each, impact) for each in zip(*pairs)], impact)


def point(pairs: Sequence[Pair], impact: float) -> Point:
    """The same pair of times in all launches. Ratios are of one launch each, as sizes and times differ."""
    by_launch = [overlap.medians(pair) for pair in pairs]
    overheads = [overlap.overhead(times) for times in by_launch]

    def middle(value: Callable[[Times], float]) -> float:
        return statistics.median(map(value, by_launch))

    names = list(vars(by_launch[0]))
    return Point(
        collective=pairs[0].collective,
        comm_target=pairs[0].comm_target,
        comp_target=pairs[0].comp_target,
        bytes=round(statistics.median(pair.bytes for pair in pairs)),
        order=round(statistics.median(pair.order for pair in pairs)),
        converged=all(pair.comm_converged and pair.comp_converged for pair in pairs),
        times=Times(**{n: statistics.median(getattr(one, n) for one in by_launch) for n in names}),
        overhead=statistics.median(overheads),
        least=min(overheads),
        most=max(overheads),
        slowdown=middle(overlap.slowdown),
        communication=middle(overlap.communication),
        impact=impact,
        osu=middle(overlap.osu),
        imb=middle(overlap.imb),
        diagnosis=statistics.mode(map(overlap.diagnose, by_launch)),
        samples=tuple({name: getattr(pair, name) for name in names} for pair in pairs),
    )
