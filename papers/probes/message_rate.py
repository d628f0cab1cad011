"""Message rates of threads and processes, with shared or separate communicators and interfaces (VCIs).

Zambre et al. (2020), section 5: over sizes (Figs. 11 and 14) or, with one size, over pairs (Figs. 10 and 13).
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.table import Table

from collforge import layout, units
from collforge.errors import CollforgeError
from collforge.home import home, new_folder
from collforge.mpi_library import MpiLibrary
from collforge.papers.programs import message_rate
from collforge.papers.programs.message_rate import Setting
from collforge.reframe_checks.systems.emulated import ClusterSpec
from collforge.toolchain import vcis
from collforge.tuner.decide.evidence import Interval
from collforge.tuner.probes import Result, programs
from collforge.tuner.run import measuring
from collforge.tuner.run.options import split
from collforge.tuner.run.pictures import Line, LinePicture

SUMMARY = "message rates of threads, by communicators and interfaces (VCIs) of the MPI library"
LAUNCHES = 5
TWO_NODES = layout.from_name("2x1")


@dataclass(frozen=True)
class Rate:
    """Messages per second of all pairs together: median, minimum and maximum over launches."""

    setting: Setting
    bytes: int
    rate: float
    low: float
    high: float
    relative: float = 1.0
    """To the rate of as many pairs of processes (everywhere)."""
    samples: tuple[float, ...] = ()
    """Of each launch."""
    over_waiting: float = 1.0
    """put@MS: to the rate of put with the same setting, whose targets wait in MPI_Barrier."""


@dataclass(frozen=True)
class Rates(Result):
    rows: Sequence[Rate]
    most_vcis: int
    """The most interfaces that the library accepts."""

    def table(self) -> Table:
        table = Table(title=self.title)
        table.add_column("call")
        table.add_column("who")
        for nbytes in dict.fromkeys(rate.bytes for rate in self.rows):
            table.add_column(units.format_size(nbytes), justify="right")
        for setting in self.settings():
            cells = [format_rate(rate) for rate in self.rows if rate.setting == setting]
            table.add_row(setting.call, label(setting), *cells)
        return table

    def settings(self) -> list[Setting]:
        return list(dict.fromkeys(rate.setting for rate in self.rows))

    def picture(self) -> LinePicture:
        """A panel for each MPI call: messages per second against bytes or, with one size, against pairs."""
        sizes = {rate.bytes for rate in self.rows}
        several = len({rate.setting.pairs for rate in self.rows}) > 1
        lines: dict[tuple[str, str], list[Rate]] = {}
        for rate in self.rows:
            named = rate.setting if several and len(sizes) > 1 else replace(rate.setting, pairs=0)
            lines.setdefault((rate.setting.call, label(named)), []).append(rate)
        over_pairs = several and len(sizes) == 1
        panels: dict[str, list[Line]] = {}
        for (call, name), rates in lines.items():
            at = [rate.setting.pairs if over_pairs else rate.bytes for rate in rates]
            points = [(number, rate.rate) for number, rate in zip(at, rates)]
            ends = [Interval(rate.rate, rate.low, rate.high) for rate in rates]
            panels.setdefault(call, []).append(Line(name, "o-", points, ends))
        across = "pairs" if over_pairs else "bytes"
        return LinePicture(panels, across, "messages/s", scale=1.0, title=self.title)

    def remark(self) -> str:
        if all(rate.setting.call != "isend" for rate in self.rows):
            return ""
        most = self.most_vcis
        interfaces = f"it starts with up to {most}" if most > 1 else "it has one interface"
        return (
            f"8 bytes, a communicator for each thread: {gain(self.rows, 8):.2f} of the rate over "
            f"one interface; {interfaces}"
        )


def label(setting: Setting) -> str:
    """``par_comm, 2 pairs, 4 VCIs``."""
    words = [setting.mode]
    for number, name in ((setting.pairs, "pair"), (setting.vcis, "VCI")):
        words += [f"{number} {name}{'s' if number > 1 else ''}"] if number else []
    return ", ".join(words)


def format_rate(rate: Rate) -> str:
    low, median, high = (f"{value / 1e3:.3g}" for value in (rate.low, rate.rate, rate.high))
    return f"{median} ({low} .. {high})"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    programs.add_launches(parser, LAUNCHES)
    text = "between processes of this machine, or two nodes of an emulated cluster (default: %(default)s)"
    parser.add_argument("--system", choices=("local", "emulated"), default="local", help=text)
    measuring.add_rails(parser)
    text = "of threads or processes, each 1 to 64 (default: the cores of this machine)"
    parser.add_argument("--pairs", default=str(cores()), metavar="N[,N...]", help=text)
    text = "isend, put or put@MS: targets compute for MS ms, then free their windows (default: %(default)s)"
    calls = ",".join(message_rate.CALLS)
    parser.add_argument("--calls", default=calls, metavar="CALL[,CALL...]", help=text)
    sizes = ",".join(map(str, message_rate.SIZES))
    parser.add_argument("--sizes", default=sizes, help="of messages (default: %(default)s)")


def cores() -> int:
    return max(2, len(os.sched_getaffinity(0)))


def parse_pairs(text: str) -> list[int]:
    """Numbers such as ``1,2,4``, ascending. Raises CollforgeError."""
    most = message_rate.MOST_PAIRS
    words = split(text)
    numbers = sorted({int(word) for word in words if word.isdecimal()})
    if not numbers or len(numbers) < len(words) or numbers[0] < 1 or numbers[-1] > most:
        raise CollforgeError(f"--pairs {text}: give numbers from 1 to {most}, e.g. 1,2,4")
    return numbers


def parse_calls(text: str) -> Sequence[str]:
    """Calls such as ``put,put@5``. Raises CollforgeError."""
    calls = split(text)
    for call in calls:
        if call not in message_rate.CALLS and not re.fullmatch(r"put@\d{1,5}", call):
            raise CollforgeError(f"--calls {text}: give isend, put or, with milliseconds, put@5")
    return calls


def run(library: MpiLibrary, args: argparse.Namespace) -> Rates:
    numbers = parse_pairs(args.pairs)
    calls = parse_calls(args.calls)
    sizes = units.parse_sizes(args.sizes)
    if sizes[-1] > message_rate.MOST_BYTES:
        raise CollforgeError(f"--sizes {args.sizes}: at most {message_rate.MOST_BYTES} bytes")
    most = vcis.most_vcis(library)
    program = compile_probe(library, new_folder(home() / "runs", "message-rate"))
    settings = [one for pairs in numbers for one in message_rate.settings(pairs, most, calls)]
    where = Where(
        library, program, None if args.system == "local" else measuring.rails(args, TWO_NODES)
    )
    rates = measure(where, settings, sizes, args.launches)
    words = f"1000 messages a second, median of {args.launches} launches (least .. most)"
    return Rates(f"{library.short_version}, {args.system}: {words}", rates, most)


def compile_probe(library: MpiLibrary, folder: Path) -> Path:
    """Compiles the probe in this folder and returns its path."""
    program = folder / "message_rate"
    command = message_rate.compile_command(str(library.mpicc), program)
    programs.run_program(command, {}, "message_rate cannot be compiled")
    return program


@dataclass(frozen=True)
class Where:
    """A compiled program, and where its ranks run."""

    library: MpiLibrary
    program: Path
    cluster: ClusterSpec | None = None
    """Its rails; None: this machine."""

    def start(self, setting: Setting) -> list[str]:
        """The command prefix that starts all ranks; each half of them is a node of the cluster."""
        at = layout.from_name(f"2x{setting.ranks // 2}")
        return programs.start_command(self.library, self.cluster, at, setting.threads)


def measure(
    where: Where, settings: Sequence[Setting], sizes: Sequence[int], launches: int
) -> list[Rate]:
    """The rates of all settings; in each of ``launches`` rounds all settings are measured in turn.

    Settings that the library refuses between nodes, such as windows with MPI_THREAD_MULTIPLE, are left out.
    """
    found: dict[tuple[Setting, int], list[float]] = {}
    refused: set[Setting] = set()
    for _ in range(launches):
        for setting in settings:
            if setting in refused:
                continue
            try:
                rates = launch(where, setting, sizes)
            except CollforgeError as error:
                if where.cluster is None or setting.call == "isend":
                    raise
                print(f"{setting.call}, {label(setting)}: {error}", file=sys.stderr)
                refused.add(setting)
                continue
            for nbytes, rate in rates.items():
                found.setdefault((setting, nbytes), []).append(rate)
    medians = {key: statistics.median(rates) for key, rates in found.items()}

    def over(setting: Setting, nbytes: int, base: Setting) -> float:
        own = medians[setting, nbytes]
        return own / medians.get((base, nbytes), own)

    def row(setting: Setting, nbytes: int) -> Rate:
        processes = Setting(message_rate.MODES[0], setting.call, setting.pairs)
        waiting = replace(setting, call=setting.call.partition("@")[0])
        samples = found[setting, nbytes]
        return Rate(
            setting,
            nbytes,
            medians[setting, nbytes],
            min(samples),
            max(samples),
            over(setting, nbytes, processes),
            tuple(samples),
            over(setting, nbytes, waiting),
        )

    return [row(*key) for key in found]


def launch(where: Where, setting: Setting, sizes: Sequence[int]) -> dict[int, float]:
    """One launch: bytes -> messages per second."""
    command = [*where.start(setting), str(where.program), *setting.arguments(sizes)]
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
