"""Overlap of nonblocking collectives: the program (papers/programs/overlap.c), its lines and ratios.

Denis, Jaeger, Jeannot and Reynier (2022), sections 3 to 5; their equations are numbered here as there.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Union

import msgspec

from collforge.papers import PROGRAMS
from collforge.reframe_checks.mpirun import PRELOAD
from collforge.toolchain.build import RUNTIME

SHARED = ("overlap_compute", "overlap_search")
SOURCES = {
    "overlap": ("overlap", "overlap_windows", "overlap_place", "overlap_collectives", *SHARED),
    "overlap_alone": ("overlap_alone", *SHARED),
}
"""Program -> its files in papers/programs."""

COLLECTIVES = ("bcast", "reduce", "allgather", "alltoall", "allreduce")
"""MPI_Ibcast and so on."""

Seconds = tuple[float, ...]
"""Of each repetition."""

OVERLAP = "overlap"
NO_PROGRESSION = "no progression"
SLOWDOWN = "computation slowdown"
CONTENTION = "contention without overlap"
PARTIAL = "partial overlap"
IMPRECISE = "imprecise"
DIAGNOSES = {
    OVERLAP: "the communication runs beside the computation",
    NO_PROGRESSION: "the communication runs in MPI_Wait, after the computation",
    SLOWDOWN: "the communication runs beside the computation, but slows it down",
    CONTENTION: "the computation is slower, and still the communication runs after it",
    PARTIAL: "a part of the communication runs beside the computation",
    IMPRECISE: "the times alone and together contradict each other: the machine was not idle",
}
"""Diagnosis -> what happens. Section 3.3 has all but the last two."""

GOOD = 0.2
"""An overhead within this distance of 0 is called overlap, and so little hidden communication none."""
SLOW = 1.1
"""A computation is slower from this ratio on: the sizes are known to 10 %."""


PAIR_SECONDS, LEAST_ROUNDS, TRIES = 1.0, 3, 5
"""Of overlap_search.h: a pair is measured for about so long, so often at least; tries of a size."""
ALONE_WORDS = 3
"""Of a launch's command: the program without MPI, which starts the one behind it."""
SIZES_TRIED = 3
"""In a search, about, as each begins with what the one before has found."""


class Line(msgspec.Struct, frozen=True, tag_field="kind"):
    """A line of the program's output."""


class Place(Line, frozen=True, tag="place"):
    """Where the threads of a launch are (papers/programs/overlap_place.h)."""

    spare: int
    """Cores of a rank beyond those that compute, on the fullest machine; -1: fewer cores than threads."""
    started: int
    """Threads that MPI_Init has started."""
    apart: bool
    """They are bound to cores on which nothing computes."""


class Impact(Line, frozen=True, tag="impact"):
    """One computation in a program without MPI and in one with it: each rank's median."""

    without: Seconds
    with_: Seconds = msgspec.field(name="with")


class Pair(Line, frozen=True, tag="pair"):
    """What a launch measured of a collective with one time of communication and one of computation."""

    collective: str
    comm_target: float
    """Seconds, and those of the search at its end."""
    comp_target: float
    bytes: int
    """The largest buffer of a rank."""
    comm_found: float
    comp_found: float
    converged: bool
    """Both searches came within 10 % of their targets."""
    comm_ref: Seconds
    """The call and MPI_Wait without computation: max(end) - min(start) over the ranks."""
    comp_ref: Seconds
    """The computation without communication, on the slowest rank and thread."""
    call: Seconds
    """`call` and `wait` are of the rank with the longest call + wait."""
    comp: Seconds
    """On the slowest rank and thread."""
    wait: Seconds
    total: Seconds
    """The call, computation and MPI_Wait: max(end) - min(start) over the ranks."""


@dataclass(frozen=True)
class Times:
    """Medians of one launch, in seconds."""

    comm_ref: float
    comp_ref: float
    call: float
    comp: float
    wait: float
    total: float


def compile_commands(mpicc: str, folder: Path) -> list[list[str]]:
    """Compile both programs into this folder, by one compiler with the same flags.

    No symbol of MPI is used in overlap_alone, so that --as-needed keeps the library out of it.
    """
    flags = ["-std=c11", "-D_GNU_SOURCE", "-O3", "-fopenmp", "-Wall", "-Wextra"]
    flags += [f"-I{RUNTIME / 'src'}", f"-I{RUNTIME / 'bench'}", "-Wl,--as-needed"]
    commands = []
    for program, names in SOURCES.items():
        sources = [PROGRAMS / f"{name}.c" for name in names]
        if program == "overlap":
            sources += [RUNTIME / "bench" / "clock.c", RUNTIME / "bench" / "report.c"]
        commands.append([mpicc, *flags, "-o", str(folder / program), *map(str, sources), "-lm"])
    return commands


def words(
    folder: Path,
    apart: bool,
    repetitions: int,
    most_bytes: int,
    collectives: Sequence[str],
    times: Sequence[int],
    sizes: Sequence[int] = (),
) -> list[str]:
    """The command of a launch. Times in microseconds; sizes in bytes, instead of times to be searched for."""
    alone = [str(folder / "overlap_alone"), str(repetitions), str(max(times))]
    settings = [str(int(apart)), str(repetitions), str(most_bytes), ",".join(collectives)]
    numbers = ["bytes", ",".join(map(str, sizes))] if sizes else [",".join(map(str, times))]
    return [*alone, str(folder / "overlap"), *settings, *numbers]


def preloaded(command: Sequence[str], library: Path) -> list[str]:
    """The same with this library in the program with MPI, but not in the one without."""
    return [*command[:ALONE_WORDS], "sh", "-c", PRELOAD, str(library), *command[ALONE_WORDS:]]


def read(text: str) -> list[Line]:
    """What a launch wrote; lines that are no JSON are not the program's.

    Raises msgspec.MsgspecError, a ValueError, where a line is none of these.
    """
    lines = "\n".join(line for line in text.splitlines() if line.startswith("{"))
    return [*msgspec.json.Decoder(Union[Place, Impact, Pair]).decode_lines(lines)]


def expected(collectives: Sequence[str], times: Sequence[int], sizes: Sequence[int] = ()) -> int:
    """The number of lines that a complete launch writes."""
    return 2 + len(collectives) * (len(sizes) or len(times) ** 2)


def expected_seconds(collectives: int, times: Sequence[int], repetitions: int) -> float:
    """About the seconds of a launch in which no size is given and nothing slows anything down."""

    def rounds(seconds: float, most: int) -> int:
        return int(min(max(PAIR_SECONDS / seconds, LEAST_ROUNDS), most)) + 1

    seconds = [1e-6 * time for time in times]
    search = sum(SIZES_TRIED * rounds(one, TRIES) * one for one in seconds)
    both = [2 * (comm + comp) for comm in seconds for comp in seconds]
    pairs = sum(rounds(one, repetitions) * one for one in both)
    alone = (SIZES_TRIED * TRIES + 2 * rounds(seconds[-1], repetitions)) * seconds[-1]
    return (1 + collectives) * search + collectives * pairs + alone


def medians(pair: Pair) -> Times:
    return Times(*(statistics.median(getattr(pair, field.name)) for field in fields(Times)))


def overhead(times: Times) -> float:
    """(1): 0 for perfect overlap, 1 for one after the other, above for slower than that."""
    ideal = max(times.comm_ref, times.comp_ref)
    return (times.total - ideal) / min(times.comm_ref, times.comp_ref)


def mpi_impact(impact: Impact) -> float:
    """(2): the computation in a running MPI program over the same one in a program without MPI.

    Of the rank in the middle: each measures for itself.
    """
    return statistics.median(b / a for a, b in zip(impact.without, impact.with_))


def slowdown(times: Times) -> float:
    """(3): the computation beside communication over the same one alone."""
    return times.comp / times.comp_ref


def communication(times: Times) -> float:
    """(4): the time in MPI calls beside computation over that of the communication alone."""
    return (times.call + times.wait) / times.comm_ref


def hidden(times: Times) -> float:
    """How much of the communication that fits beside the computation is not in MPI calls: 1 all, 0 none.

    With equal references that is 1 - communication(). With others (4) is above 0 even for perfect overlap.
    """
    return (times.comm_ref - times.call - times.wait) / min(times.comm_ref, times.comp_ref)


def osu(times: Times) -> float:
    """Overlap in per cent by the formula of the OSU micro-benchmarks."""
    return max(0.0, 100 - (times.total - times.comp) / times.comm_ref * 100)


def imb(times: Times) -> float:
    """Overlap in per cent by the formula of the Intel MPI Benchmarks, which gives the paper's Figure 13."""
    saved = times.comm_ref + times.comp_ref - times.total
    return 100 * max(0.0, min(1.0, saved / max(times.comm_ref, times.comp_ref)))


RATIOS: Mapping[str, Callable[[Times], float]] = {
    "both, ms": lambda times: 1e3 * times.total,
    "computation alone, ms": lambda times: 1e3 * times.comp_ref,
    "communication alone, ms": lambda times: 1e3 * times.comm_ref,
    "OSU %": osu,
    "IMB %": imb,
    "overhead": overhead,
    "communication": communication,
    "computation": slowdown,
}
"""What a point has, by name."""


def diagnose(times: Times) -> str:
    """One of DIAGNOSES, by section 3.3; the thresholds are GOOD and SLOW."""
    if overhead(times) <= GOOD:
        # Where they contradict each other, the times alone were not repeated.
        return OVERLAP if overhead(times) >= -GOOD and hidden(times) > GOOD else IMPRECISE
    if slowdown(times) > SLOW:
        return SLOWDOWN if hidden(times) > GOOD else CONTENTION
    return PARTIAL if hidden(times) > GOOD else NO_PROGRESSION
