"""Message rates of threads and processes, with shared or separate communicators and interfaces (VCIs).

Zambre et al. (2020), section 5: over sizes (Figs. 11 and 14), pairs (Figs. 10, 12, 13 and 19), the time that a
target computes (Fig. 16), or the threads that share an interface (Fig. 17).
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.markup import escape
from rich.table import Table

from collforge import units
from collforge.errors import CollforgeError
from collforge.mpi_library import MpiLibrary
from collforge.papers.probes.rounds import MISSING, Rounds, source
from collforge.papers.programs import message_rate
from collforge.papers.programs.message_rate import Setting
from collforge.toolchain import vcis
from collforge.tuner.probes import Result, programs
from collforge.tuner.run import measuring
from collforge.tuner.run.launches import Launch, Outcome
from collforge.tuner.run.options import split, split_choices
from collforge.tuner.run.pictures import Line, LinePicture

SUMMARY = "message rates of threads, by communicators and interfaces (VCIs) of the MPI library"
LAUNCHES = 5
ALL = "all"


@dataclass(frozen=True)
class Rate:
    """Messages per second of all pairs together."""

    setting: Setting
    bytes: int
    interfaces: str
    """Of the setting, in words: a name that is the same for all numbers of pairs."""
    sharing: int
    """How many threads share an interface."""
    rates: tuple[float, ...]
    """One a launch; MISSING where it failed."""
    doubt: str
    """Why they certify nothing, or ''."""


@dataclass(frozen=True)
class Rates(Result):
    rows: Sequence[Rate]

    def table(self) -> Table:
        sizes = list(dict.fromkeys(rate.bytes for rate in self.rows))
        table = Table(title=self.title)
        for name in ("call", "who"):
            table.add_column(name)
        for nbytes in sizes:
            table.add_column(units.format_size(nbytes), justify="right")
        table.add_column("doubt")
        for setting in dict.fromkeys(rate.setting for rate in self.rows):
            rates = [rate for rate in self.rows if rate.setting == setting]
            cells = [format_rates(rate.rates) for rate in rates]
            table.add_row(setting.call, label(setting), *cells, escape(rates[0].doubt))
        return table

    def picture(self) -> LinePicture:
        """A panel for each MPI call: messages per second against bytes or, with one size, against pairs."""
        sizes = {rate.bytes for rate in self.rows}
        several = len({rate.setting.pairs for rate in self.rows}) > 1
        over_pairs = several and len(sizes) == 1
        panels: dict[str, dict[str, list[tuple[float, float]]]] = {}
        for rate in self.rows:
            named = label(rate.setting, pairs=several and not over_pairs)
            found = [one for one in rate.rates if one > 0]
            if found:
                at = rate.setting.pairs if over_pairs else rate.bytes
                lines = panels.setdefault(rate.setting.call, {})
                lines.setdefault(named, []).append((at, statistics.median(found)))
        drawn = {
            call: [Line(name, "o-", points) for name, points in lines.items()]
            for call, lines in panels.items()
        }
        across = "pairs" if over_pairs else "bytes"
        return LinePicture(drawn, across, "messages/s", scale=1.0, title=self.title)


def label(setting: Setting, pairs: bool = True) -> str:
    """``par_comm, 2 pairs, a VCI each``."""
    number = f"{setting.pairs} pair{'s' if setting.pairs > 1 else ''}" if pairs else ""
    computes = f"computes {setting.computes} ms" if setting.computes else ""
    return ", ".join(filter(None, [setting.mode, number, setting.interfaces, computes]))


def format_rates(rates: Sequence[float]) -> str:
    """In thousands: ``1.2 (0.9 .. 1.3)``."""
    found = [one / 1e3 for one in rates if one > 0]
    if not found:
        return "-"
    return f"{statistics.median(found):.3g} ({min(found):.3g} .. {max(found):.3g})"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    programs.add_launches(parser, LAUNCHES)
    measuring.add_system(parser, "two nodes, and ranks per node for as many pairs")
    parser.set_defaults(fallback_system="local")
    text = f"of threads or processes; {ALL}: 1, 2, 4, ... up to those of the layout (default: the latter)"
    parser.add_argument("--pairs", metavar="N[,N...]", help=text)
    text = f"of {', '.join(message_rate.CALLS)} (docs/papers.md; default: %(default)s)"
    calls = ",".join(message_rate.CALLS[:2])
    parser.add_argument("--calls", default=calls, metavar="CALL[,CALL...]", help=text)
    sizes = ",".join(map(str, message_rate.SIZES))
    parser.add_argument("--sizes", default=sizes, help="of messages (default: %(default)s)")
    text = "put_free: how long the threads of a target compute (default: %(default)s)"
    parser.add_argument("--computes", default="0", metavar="MS[,MS...]", help=text)
    text = "how many threads share an interface (default: one has its own, and all share one)"
    parser.add_argument("--sharing", metavar="N[,N...]", help=text)


def parse_numbers(option: str, text: str, most: int, least: int = 1) -> list[int]:
    """Numbers such as ``1,2,4``, ascending. Raises CollforgeError."""
    words = split(text)
    numbers = sorted({int(word) for word in words if word.isdecimal()})
    if not numbers or len(numbers) < len(words) or not least <= numbers[0] <= numbers[-1] <= most:
        raise CollforgeError(f"--{option} {text}: give numbers from {least} to {most}, e.g. 1,2,4")
    return numbers


def parse_pairs(args: argparse.Namespace, calls: Sequence[str]) -> list[int]:
    """The numbers of pairs. Raises CollforgeError, also for a layout of one node."""
    at = measuring.parse_layout(args.layout, args.system)
    most = max(1, min(at.node_sizes) - ("polled" in calls))  # besides the thread that receives
    if at.nodes < 2:
        raise CollforgeError(f"--layout {at.name}: messages need two nodes, e.g. 2x{most}")
    if args.pairs is None:
        return [min(most, message_rate.MOST_PAIRS)]
    if args.pairs == ALL:
        largest = min(most, message_rate.MOST_PAIRS)
        return [*(n for n in (1, 2, 4, 8, 16, 32) if n < largest), largest]
    return parse_numbers("pairs", args.pairs, message_rate.MOST_PAIRS)


def run(library: MpiLibrary, args: argparse.Namespace) -> Rates:
    calls = split_choices("call", args.calls, message_rate.CALLS)
    pairs = parse_pairs(args, calls)
    sizes = units.parse_sizes(args.sizes)
    if sizes[-1] > message_rate.MOST_BYTES:
        raise CollforgeError(f"--sizes {args.sizes}: at most {message_rate.MOST_BYTES} bytes")
    sharing = (
        parse_numbers("sharing", args.sharing, message_rate.MOST_PAIRS) if args.sharing else ()
    )
    computes = parse_numbers("computes", args.computes, 10000, 0)
    most = vcis.most_vcis(library)
    settings = [
        one
        for number in pairs
        for one in message_rate.settings(number, most, calls, sharing, computes)
    ]
    names = sorted({setting.program for setting in settings})
    rounds = Rounds.of(library, args, "message-rate", [source(name) for name in names])
    rates = measure(rounds, settings, sizes, args.launches)
    words = f"1000 messages a second, median of {args.launches} launches (least .. most)"
    return Rates(f"{library.short_version}, {args.system}: {words}", rates)


def measure(
    rounds: Rounds, settings: Sequence[Setting], sizes: Sequence[int], launches: int
) -> list[Rate]:
    """The rates of all settings and sizes."""
    planned = [
        Launch(
            [rounds.program(setting.program), *setting.arguments(sizes)],
            setting.layout,
            setting.variables,
            seconds=30 + len(sizes) * (message_rate.SECONDS * 3 + setting.computes / 1e3),
        )
        for setting in settings
    ]
    found = []
    for setting, outcomes in zip(settings, rounds.run(planned, launches)):
        read = [rates_of(one) for one in outcomes]
        doubt = rounds.doubt(setting.layout, outcomes)
        for nbytes in sizes:
            rates = tuple(one.get(nbytes, MISSING) for one in read)
            stuck = doubt or ("a rate of 0" if 0 in rates else "")
            found.append(Rate(setting, nbytes, setting.interfaces, setting.sharing, rates, stuck))
    return found


def rates_of(outcome: Outcome) -> Mapping[int, float]:
    """Bytes -> messages per second; empty if the launch failed."""
    return message_rate.read(outcome.out) if outcome.code == 0 else {}
