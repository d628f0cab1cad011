"""The message-rate probe of threads and processes: how it is built, launched and read.

After papers/virtual-communication-interfaces, section 5: does a communicator or window for each thread let
threads communicate side by side, and does it take several interfaces (VCIs) of the MPI library for that?
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from collforge.toolchain import vcis
from collforge.toolchain.build import OPENMP_FLAGS, RUNTIME

SOURCE = RUNTIME / "bench" / "programs" / "message_rate.c"
MODES = ("everywhere", "ser_comm", "par_comm")
"""A process for each pair; threads on one communicator or window; threads on one each."""
CALLS = ("isend", "put")
SIZES = (8, 64, 512, 4096, 32768)
SECONDS = 0.3
"""About so long each size is measured."""


@dataclass(frozen=True)
class Setting:
    """What one launch of the probe measures. ``vcis`` is 0 where it is left to the library."""

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
        """The environment of its ranks."""
        threads = {"OMP_NUM_THREADS": str(self.threads)}
        return {**threads, vcis.VARIABLE: str(self.vcis)} if self.vcis else threads

    def arguments(self, sizes: Sequence[int] = SIZES, seconds: float = SECONDS) -> list[str]:
        """The words behind the program's name."""
        return [self.mode, self.call, str(self.pairs), str(seconds), *map(str, sizes)]


def settings(pairs: int, most_vcis: int) -> list[Setting]:
    """All that is compared: with threads, each number of interfaces up to one more than there are threads.

    Interface 0 is that of MPI_COMM_WORLD and what follows from it.
    """
    numbers = [n for n in (1, 2, 4, 8, 16, 32, 64) if n <= min(most_vcis, 2 * pairs)]
    found = []
    for call in CALLS:
        found.append(Setting("everywhere", call, pairs))
        for mode in MODES[1:]:
            found += [Setting(mode, call, pairs, n if most_vcis > 1 else 0) for n in numbers]
    return found


def compile_command(mpicc: str, out: Path) -> list[str]:
    """Compiles the probe to this file."""
    return [mpicc, *OPENMP_FLAGS, "-o", str(out), str(SOURCE)]


def read(text: str) -> dict[int, float]:
    """Messages a second by bytes, from what a launch printed. Raises ValueError where that is none."""
    return {int(one["bytes"]): float(one["rate"]) for one in json.loads(text[text.index("[") :])}
