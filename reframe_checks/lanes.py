"""How many lanes a node has: the program that measures (runtime/bench/programs/lanes.c), and its lines.

Träff and Hunold (2020), section II.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from collforge.toolchain.build import RUNTIME

SOURCE = RUNTIME / "bench" / "programs" / "lanes.c"
PATTERN, ALLTOALL = BENCHMARKS = ("pattern", "alltoall")
"""The lane pattern benchmark and the multi-collective benchmark."""


class Series(msgspec.Struct, frozen=True):
    """What a launch measured of one size with so many ranks of each node at work."""

    benchmark: str
    bytes: int
    """pattern: what a node sends and receives in one exchange; alltoall: what each working rank sends."""
    lanes: int
    """The first so many ranks of each node communicate: virtual lanes."""
    seconds: tuple[float, ...]
    """Of each repetition, on the slowest rank; pattern: of all exchanges of the repetition together."""


def compile_command(mpicc: str, out: Path) -> list[str]:
    """Compiles the program to this file."""
    flags = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror"]
    return [mpicc, *flags, "-o", str(out), str(SOURCE)]


def read(text: str) -> list[Series]:
    """What a launch wrote. Raises msgspec.MsgspecError, a ValueError, where a line is no series."""
    return msgspec.json.Decoder(Series).decode_lines(text)


def expected(ks: Sequence[int], sizes: Sequence[int], benchmarks: Sequence[str]) -> int:
    """The number of series that a complete launch writes."""
    return len(benchmarks) * len(ks) * len(sizes)
