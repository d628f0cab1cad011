"""What threads of an MPI program gain by communicators and interfaces of their own, on this machine."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from collforge.mpi_library import MpiLibrary
from collforge.reframe_checks import message_rate
from collforge.reframe_checks.launchers import local_command
from collforge.reframe_checks.message_rate import Setting
from collforge.toolchain import vcis
from collforge.tuner import instructions

LAUNCHES = 5
PAYS = 1.1
"""Interfaces pay where threads on communicators of their own send this many times as fast as over one."""


@dataclass(frozen=True)
class Rate:
    """Messages a second of all pairs together: the median over launches, the least and the most."""

    setting: Setting
    bytes: int
    rate: float
    low: float
    high: float


def compile_probe(library: MpiLibrary, folder: Path) -> Path:
    """Compiles the probe in this folder."""
    program = folder / "message_rate"
    command = message_rate.compile_command(str(library.mpicc), program)
    instructions.run(command, {}, "message_rate cannot be compiled")
    return program


def measure(
    library: MpiLibrary,
    program: Path,
    settings: Sequence[Setting],
    sizes: Sequence[int],
    launches: int,
) -> list[Rate]:
    """All settings in turn, so many times over."""
    found: dict[tuple[Setting, int], list[float]] = {}
    for _ in range(launches):
        for setting in settings:
            for nbytes, rate in launch(library, program, setting, sizes).items():
                found.setdefault((setting, nbytes), []).append(rate)
    return [
        Rate(setting, nbytes, statistics.median(rates), min(rates), max(rates))
        for (setting, nbytes), rates in found.items()
    ]


def launch(
    library: MpiLibrary, program: Path, setting: Setting, sizes: Sequence[int]
) -> dict[int, float]:
    """One launch on this machine: messages a second by bytes."""
    command = local_command(library.name, setting.ranks, setting.threads)
    command += [str(program), *setting.arguments(sizes)]
    text = instructions.run(command, setting.variables, "message_rate failed")
    return message_rate.read(text)


def gain(rates: Iterable[Rate], nbytes: int) -> float:
    """How many times the message rate of threads with a communicator each is what one interface gives them.

    Of isends of this size, with the number of interfaces that is best; 1 where the library has one.
    """
    by_vcis: Mapping[int, float] = {
        rate.setting.vcis: rate.rate
        for rate in rates
        if (rate.setting.mode, rate.setting.call, rate.bytes) == ("par_comm", "isend", nbytes)
    }
    return max(by_vcis.values()) / by_vcis[1] if 1 in by_vcis else 1.0


def probe_gain(library: MpiLibrary, folder: Path, threads: int = 2, nbytes: int = 8) -> float:
    """A quick answer to the same question, from three launches each way."""
    numbers = [1, min(threads + 1, vcis.most_vcis(library))]
    settings = [Setting("par_comm", "isend", threads, number) for number in numbers]
    program = compile_probe(library, folder)
    return gain(measure(library, program, settings, [nbytes], 3), nbytes)
