"""Overlap of nonblocking collectives: the program (papers/programs/overlap.c), its lines and ratios.

Denis, Jaeger, Jeannot and Reynier (2022), sections 3 to 5; their equations are numbered here as there.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Union

import msgspec

from collforge.papers import PROGRAMS
from collforge.toolchain.build import RUNTIME

SOURCES = [
    *(PROGRAMS / f"{name}.c" for name in ("overlap", "overlap_search", "overlap_compute")),
    *(RUNTIME / "bench" / f"{name}.c" for name in ("clock", "report")),
]
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


class Line(msgspec.Struct, frozen=True, tag_field="kind"):
    """A line of the program's output."""


class Impact(Line, frozen=True, tag="impact"):
    """One computation before and after MPI_Init, on the slowest rank."""

    target: float
    """Seconds."""
    before: Seconds
    after: Seconds


class Pair(Line, frozen=True, tag="pair"):
    """What a launch measured of a collective with one time of communication and one of computation."""

    collective: str
    comm_target: float
    """Seconds, and those of the search at its end."""
    comp_target: float
    bytes: int
    """The largest buffer of a rank."""
    order: int
    """Of the matrices of each thread."""
    comm_found: float
    comp_found: float
    comm_converged: bool
    """The search came within 10 % of the target."""
    comp_converged: bool
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


def compile_command(mpicc: str, out: Path) -> list[str]:
    """Compiles the program to this file."""
    flags = ["-std=c11", "-D_GNU_SOURCE", "-O3", "-fopenmp", "-Wall", "-Wextra", "-Werror"]
    sources = map(str, SOURCES)
    return [
        mpicc,
        *flags,
        f"-I{RUNTIME / 'src'}",
        f"-I{RUNTIME / 'bench'}",
        "-o",
        str(out),
        *sources,
        "-lm",
    ]


def read(text: str) -> list[Line]:
    """What a launch wrote. Raises msgspec.MsgspecError, a ValueError, where a line is none of these."""
    lines: list[Line] = msgspec.json.Decoder(Union[Impact, Pair]).decode_lines(text)
    return lines


def expected(collectives: Sequence[str], times: Sequence[int]) -> int:
    """The number of lines that a complete launch writes."""
    return 1 + len(collectives) * len(times) ** 2


def medians(pair: Pair) -> Times:
    return Times(*(statistics.median(getattr(pair, field.name)) for field in fields(Times)))


def overhead(times: Times) -> float:
    """(1): 0 for perfect overlap, 1 for one after the other, above for slower than that."""
    ideal = max(times.comm_ref, times.comp_ref)
    return (times.total - ideal) / min(times.comm_ref, times.comp_ref)


def mpi_impact(impact: Impact) -> float:
    """(2): the computation in a running MPI program over the same one without MPI.

    Here `without` is the same process before MPI_Init, so that cores and memory are the same.
    """
    return statistics.median(impact.after) / statistics.median(impact.before)


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


def diagnose(times: Times) -> str:
    """One of DIAGNOSES, by section 3.3; the thresholds are GOOD and SLOW."""
    if overhead(times) <= GOOD:
        # Where they contradict each other, the times alone were not repeated.
        return OVERLAP if overhead(times) >= -GOOD and hidden(times) > GOOD else IMPRECISE
    if slowdown(times) > SLOW:
        return SLOWDOWN if hidden(times) > GOOD else CONTENTION
    return PARTIAL if hidden(times) > GOOD else NO_PROGRESSION
