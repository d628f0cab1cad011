"""`collforge bench --vci`: message rates of threads, by communicators and interfaces."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.table import Table

from collforge.home import home
from collforge.mpi_library import MpiLibrary
from collforge.reframe_checks import message_rate
from collforge.reframe_checks.message_rate import Setting
from collforge.toolchain import vcis
from collforge.tuner import plots, request, tables, vci
from collforge.tuner.plots import Line
from collforge.tuner.vci import Rate


def show(library: MpiLibrary, args: argparse.Namespace) -> int:
    """Prints, and with --plot draws, the message rates on this machine."""
    pairs = max(2, len(os.sched_getaffinity(0)))
    most = vcis.most_vcis(library)
    launches = args.launches or vci.LAUNCHES
    program = vci.compile_probe(library, request.new_folder(home() / "runs", "vci"))
    settings = message_rate.settings(pairs, most)
    rates = vci.measure(library, program, settings, message_rate.SIZES, launches)
    if args.plot:
        draw(rates, Path(args.plot))
    if args.json:
        tables.write_json([asdict(rate) for rate in rates])
        return 0
    words = f"{library.short_version}, {pairs} pairs: 1000 messages a second, median of {launches} launches"
    table = Table(title=f"{words} (least .. most)")
    table.add_column("call")
    table.add_column("who")
    for nbytes in message_rate.SIZES:
        table.add_column(request.format_size(nbytes), justify="right")
    for setting in settings:
        cells = [format_rate(rate) for rate in rates if rate.setting == setting]
        table.add_row(setting.call, label(setting), *cells)
    tables.show(table)
    interfaces = f"it starts with up to {most}" if most > 1 else "it has one interface"
    times = vci.gain(rates, 8)
    print(
        f"8 bytes, a communicator for each thread: {times:.2f} of the rate over one interface; {interfaces}"
    )
    return 0


def label(setting: Setting) -> str:
    """``par_comm, 4 VCIs``."""
    if not setting.vcis:
        return setting.mode
    return f"{setting.mode}, {setting.vcis} VCI{'s' if setting.vcis > 1 else ''}"


def format_rate(rate: Rate) -> str:
    low, median, high = (f"{value / 1e3:.3g}" for value in (rate.low, rate.rate, rate.high))
    return f"{median} ({low} .. {high})"


def draw(rates: Sequence[Rate], path: Path) -> None:
    """A panel for each call: messages a second against bytes, a line for each way."""
    panels: dict[str, list[Line]] = {}
    for setting in dict.fromkeys(rate.setting for rate in rates):
        points = [(rate.bytes, rate.rate) for rate in rates if rate.setting == setting]
        panels.setdefault(setting.call, []).append(Line(label(setting), "o-", points))
    plots.draw(panels, path, scale=1.0, unit="messages/s")
