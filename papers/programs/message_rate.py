"""The message-rate probe of threads and processes: how it is built, launched and read.

After Zambre et al. (2020), section 5: can threads communicate in parallel if each has its own communicator or
MPI window, and does the MPI library need several interfaces (VCIs) for that?
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from collforge.papers import PROGRAMS
from collforge.toolchain import vcis
from collforge.toolchain.build import OPENMP_FLAGS

SOURCE = PROGRAMS / "message_rate.c"
MODES = ("everywhere", "ser_comm", "par_comm")
"""One process per pair; threads sharing a communicator or MPI window; threads with one each."""
CALLS = ("isend", "put")
"""``put@MS`` is a further one: the target's threads compute MS milliseconds, then free their windows."""
MOST_PAIRS, MOST_BYTES = 64, 1 << 20
"""Of the program (papers/programs/message_rate.c)."""
SIZES = (8, 64, 512, 4096, 32768)
SECONDS = 0.3
"""Approximate seconds of measuring per size."""


@dataclass(frozen=True)
class Setting:
    """The settings of one launch of the probe. ``vcis`` is 0 for the library's default."""

    mode: str
    call: str
    pairs: int
    vcis: int = 0

    @property
    def ranks(self) -> int:
        return 2 * self.pairs if self.mode == "everywhere" else 2

    @property
    def threads(self) -> int:
        return 1 if self.mode == "everywhere" else self.pairs

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables of the ranks."""
        threads = {"OMP_NUM_THREADS": str(self.threads)}
        return {**threads, vcis.VARIABLE: str(self.vcis)} if self.vcis else threads

    def arguments(self, sizes: Sequence[int] = SIZES, seconds: float = SECONDS) -> list[str]:
        """The arguments of the program."""
        return [self.mode, self.call, str(self.pairs), str(seconds), *map(str, sizes)]


def settings(pairs: int, most_vcis: int, calls: Sequence[str] = CALLS) -> list[Setting]:
    """All settings that are compared. Thread modes have up to one interface more than there are threads.

    The extra one is interface 0, which MPI_COMM_WORLD uses.
    """
    numbers = [n for n in (1, 2, 4, 8, 16, 32, 64) if n <= min(most_vcis, 2 * pairs)]
    found = []
    for call in calls:
        found.append(Setting("everywhere", call, pairs))
        for mode in MODES[1:]:
            found += [Setting(mode, call, pairs, n if most_vcis > 1 else 0) for n in numbers]
    return found


def compile_command(mpicc: str, out: Path) -> list[str]:
    """The command that compiles the probe to this file."""
    return [mpicc, *OPENMP_FLAGS, "-o", str(out), str(SOURCE)]


def read(text: str) -> dict[int, float]:
    """The output of a launch: bytes -> messages per second. Raises ValueError if it is invalid."""
    return {int(one["bytes"]): float(one["rate"]) for one in json.loads(text[text.index("[") :])}
