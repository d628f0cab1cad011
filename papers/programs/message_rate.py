"""The settings of the message-rate probe, and the programs' arguments and output.

After Zambre et al. (2020), section 5: can threads communicate in parallel if each has its own communicator or
MPI window, and does the MPI library need several interfaces (VCIs) for that?
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from collforge.toolchain import vcis

EVERYWHERE, SER_COMM, PAR_COMM, STREAMS = "everywhere", "ser_comm", "par_comm", "streams"
MODES = (EVERYWHERE, SER_COMM, PAR_COMM, STREAMS)
"""One process per pair; threads sharing a communicator or MPI window; threads with one each; threads with
one each over a stream of MPICH, in the place of an endpoint."""
CALLS = ("isend", "put", "put_free", "polled")
"""``put_free``: the target's threads compute, then free their windows. ``polled``: threads that only send to
one that only receives (dedicated.c)."""
MODES_OF = {
    "isend": MODES,
    "put": MODES[:3],
    "put_free": MODES[:3],
    "polled": (PAR_COMM, STREAMS),
}
"""Of each call. MPICH 5.0.2 waits for ever in one-sided calls over streams between nodes."""
STREAMS_VARIABLE = "MPIR_CVAR_CH4_RESERVE_VCIS"
"""How many streams a process may have."""
MOST_PAIRS, MOST_BYTES = 63, 1 << 20
"""Of the programs."""
SIZES = (8, 64, 512, 4096, 32768)
SECONDS = 0.3
"""Approximate seconds of measuring per size."""


@dataclass(frozen=True)
class Setting:
    """The settings of a launch."""

    mode: str
    call: str
    pairs: int
    """Of threads or processes; polled: the threads of a process that send."""
    vcis: int = 0
    """The interfaces of a process, where there is a choice; else 0."""
    computes: int = 0
    """The milliseconds that a target's thread computes before it frees its window (put_free)."""

    @property
    def program(self) -> str:
        return "dedicated" if self.call == "polled" else "message_rate"

    @property
    def threads(self) -> int:
        """Of a process."""
        return 1 if self.mode == EVERYWHERE else self.pairs + (self.call == "polled")

    @property
    def layout(self) -> str:
        return f"2x{self.pairs}" if self.mode == EVERYWHERE else f"2x1x{self.threads}"

    @property
    def interfaces(self) -> str:
        """In words."""
        if self.vcis < 2:
            return "one VCI" if self.vcis else ""
        return "a VCI each" if self.vcis >= self.pairs else f"{self.vcis} VCIs"

    @property
    def sharing(self) -> int:
        """How many threads share an interface."""
        return -(-self.pairs // self.vcis) if self.vcis else 1

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables of the ranks."""
        streams = self.threads if self.mode == STREAMS else 0
        return thread_variables(self.threads, self.vcis, streams)

    def arguments(self, sizes: Sequence[int] = SIZES, seconds: float = SECONDS) -> list[str]:
        """The arguments of the program."""
        numbers = [self.pairs, seconds, self.computes, *sizes]
        return [self.mode, self.call, *map(str, numbers)]


def thread_variables(threads: int, number: int = 0, streams: int = 0) -> dict[str, str]:
    """The environment of ranks with these threads, interfaces and streams.

    Threads that wait must not keep others from the cores.
    """
    found = {"OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "passive"}
    found.update({vcis.VARIABLE: str(number)} if number else {})
    found.update({STREAMS_VARIABLE: str(streams)} if streams else {})
    return found


def settings(
    pairs: int,
    most_vcis: int,
    calls: Sequence[str] = CALLS[:2],
    sharing: Sequence[int] = (),
    computes: Sequence[int] = (0,),
) -> list[Setting]:
    """All settings that are compared.

    ``sharing``: how many threads share an interface; by default one, and all. Windows duplicate their
    communicators, and each duplicate takes the next interface, so as many interfaces again are needed for each
    window to have its own.
    """
    wanted = [share for share in sharing or (1, 0) if share <= pairs]
    numbers = [2 * pairs if share == 1 else pairs // share if share else 1 for share in wanted]
    numbers = [n for n in dict.fromkeys(numbers) if n <= most_vcis]
    found = []
    for call in calls:
        for mode in MODES_OF[call]:
            choices = numbers if mode in (SER_COMM, PAR_COMM) else [0]
            for number in choices:
                for each in computes if call == "put_free" else (0,):
                    found.append(Setting(mode, call, pairs, number, each))
    return found


def read(text: str) -> Mapping[int, float]:
    """The output of a launch: bytes -> messages per second. Raises ValueError if it is invalid."""
    return {int(one["bytes"]): float(one["rate"]) for one in json.loads(text[text.index("[") :])}
