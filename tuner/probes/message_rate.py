"""Message rates of threads on this machine, with shared or separate communicators and interfaces (VCIs)."""

from __future__ import annotations

import argparse
import os
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from collforge.home import home
from collforge.mpi_library import MpiLibrary
from collforge.reframe_checks import message_rate
from collforge.reframe_checks.message_rate import Setting
from collforge.reframe_checks.mpirun import local_command
from collforge.toolchain import vcis
from collforge.tuner import plots, request
from collforge.tuner.plots import Line
from collforge.tuner.probes import Result, programs

SUMMARY = "message rates of threads, by communicators and interfaces (VCIs) of the MPI library"
LAUNCHES = 5
PAYS = 1.1
"""Several interfaces pay off if threads on separate communicators send this many times as fast as over one."""


@dataclass(frozen=True)
class Rate:
    """Messages per second of all pairs together: median, minimum and maximum over launches."""

    setting: Setting
    bytes: int
    rate: float
    low: float
    high: float


@dataclass(frozen=True)
class Rates(Result):
    rows: Sequence[Rate]
    most_vcis: int
    """The most interfaces that the library accepts."""

    def table(self) -> Table:
        table = Table(title=self.title)
        table.add_column("call")
        table.add_column("who")
        for nbytes in message_rate.SIZES:
            table.add_column(request.format_size(nbytes), justify="right")
        for setting in self.settings():
            cells = [format_rate(rate) for rate in self.rows if rate.setting == setting]
            table.add_row(setting.call, label(setting), *cells)
        return table

    def settings(self) -> list[Setting]:
        return list(dict.fromkeys(rate.setting for rate in self.rows))

    def plot(self, path: Path) -> None:
        """Draws a panel for each MPI call: messages per second against bytes, one line for each setting."""
        panels: dict[str, list[Line]] = {}
        for setting in self.settings():
            points = [(rate.bytes, rate.rate) for rate in self.rows if rate.setting == setting]
            panels.setdefault(setting.call, []).append(Line(label(setting), "o-", points))
        plots.draw(panels, path, scale=1.0, unit="messages/s")

    def remark(self) -> str:
        most = self.most_vcis
        interfaces = f"it starts with up to {most}" if most > 1 else "it has one interface"
        return (
            f"8 bytes, a communicator for each thread: {gain(self.rows, 8):.2f} of the rate over "
            f"one interface; {interfaces}"
        )


def label(setting: Setting) -> str:
    """``par_comm, 4 VCIs``."""
    if not setting.vcis:
        return setting.mode
    return f"{setting.mode}, {setting.vcis} VCI{'s' if setting.vcis > 1 else ''}"


def format_rate(rate: Rate) -> str:
    low, median, high = (f"{value / 1e3:.3g}" for value in (rate.low, rate.rate, rate.high))
    return f"{median} ({low} .. {high})"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    programs.add_launches(parser, LAUNCHES)


def run(library: MpiLibrary, args: argparse.Namespace) -> Rates:
    pairs = max(2, len(os.sched_getaffinity(0)))
    most = vcis.most_vcis(library)
    program = compile_probe(library, request.new_folder(home() / "runs", "message-rate"))
    settings = message_rate.settings(pairs, most)
    rates = measure(library, program, settings, message_rate.SIZES, args.launches)
    words = f"1000 messages a second, median of {args.launches} launches (least .. most)"
    return Rates(f"{library.short_version}, {pairs} pairs: {words}", rates, most)


def compile_probe(library: MpiLibrary, folder: Path) -> Path:
    """Compiles the probe in this folder and returns its path."""
    program = folder / "message_rate"
    command = message_rate.compile_command(str(library.mpicc), program)
    programs.run_program(command, {}, "message_rate cannot be compiled")
    return program


def measure(
    library: MpiLibrary,
    program: Path,
    settings: Sequence[Setting],
    sizes: Sequence[int],
    launches: int,
) -> list[Rate]:
    """The rates of all settings; in each of ``launches`` rounds all settings are measured in turn."""
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
    """One launch on this machine: bytes -> messages per second."""
    command = local_command(library.name, setting.ranks, setting.threads)
    command += [str(program), *setting.arguments(sizes)]
    text = programs.run_program(command, setting.variables, "message_rate failed")
    return message_rate.read(text)


def gain(rates: Iterable[Rate], nbytes: int) -> float:
    """The gain in message rate of several interfaces over one, for threads with separate communicators.

    It is for MPI_Isend of this size, with the best number of interfaces; 1 if the library has only one.
    """
    by_vcis: Mapping[int, float] = {
        rate.setting.vcis: rate.rate
        for rate in rates
        if (rate.setting.mode, rate.setting.call, rate.bytes) == ("par_comm", "isend", nbytes)
    }
    return max(by_vcis.values()) / by_vcis[1] if 1 in by_vcis else 1.0


def probe_gain(library: MpiLibrary, folder: Path, threads: int = 2, nbytes: int = 8) -> float:
    """A quick estimate of `gain`, from three launches with one interface and three with several."""
    numbers = [1, min(threads + 1, vcis.most_vcis(library))]
    settings = [Setting("par_comm", "isend", threads, number) for number in numbers]
    program = compile_probe(library, folder)
    return gain(measure(library, program, settings, [nbytes], 3), nbytes)
