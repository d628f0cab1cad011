"""`collforge bench --startup`, `--overhead` and `--small`: what the preload costs, and small calls."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from rich.table import Table

from collforge import layout
from collforge.db import Store
from collforge.home import home
from collforge.layout import Layout
from collforge.mpi_library import MpiLibrary
from collforge.toolchain import build
from collforge.tuner import request, startup, tables
from collforge.tuner.commands import target
from collforge.tuner.evidence import Interval


def show_start(library: MpiLibrary, args: argparse.Namespace) -> int:
    """Prints the one-off costs, after the hybrid paper's Table 2."""
    names = [args.layout] if args.layout else startup.LAYOUTS
    layouts = [layout.from_name(name) for name in names]
    programs = prepare(library, layouts)
    if args.startup == "emulated":
        programs = replace(programs, cluster=target.cluster(args))
    launches = args.launches or startup.LAUNCHES
    rows = startup.measure_start(programs, layouts, launches)
    if args.json:
        tables.write_json([asdict(row) for row in rows])
        return 0
    stored = count_winners(programs.database)
    title = f"{library.short_version}: one-off costs, median of {launches} launches (95 % interval)"
    table = Table(title=f"{title}; {args.startup}, database of {stored} winners")
    table.add_column("primitive")
    table.add_column("unit")
    for at in layouts:
        table.add_column(f"{at.name}: {at.size} ranks", justify="right")
    for row in rows:
        table.add_row(row.primitive, row.unit, *(format_cell(cell) for cell in row.cells.values()))
    tables.show(table)
    return 0


def show_overhead(library: MpiLibrary, args: argparse.Namespace) -> int:
    """Prints the cost of calls, and of the whole program, where native won."""
    at = layout.from_name(args.layout or startup.OVERHEAD_LAYOUT)
    columns = ("what", "ms without", "ms with")
    words = "only calls for which native won"
    return show_ratios(library, args, at, startup.measure_overhead, words, columns, 1e3)


def show_small(library: MpiLibrary, args: argparse.Namespace) -> int:
    """Prints what calls of 8 bytes cost among ranks that share memory."""
    at = layout.from_name(args.layout or startup.SMALL_LAYOUT)
    columns = ("collective", "us native", "us preloaded")
    words = f"8 bytes, preloaded with {startup.SMALL_FAMILY} over native"
    return show_ratios(library, args, at, startup.measure_small, words, columns, 1e6)


def show_ratios(
    library: MpiLibrary,
    args: argparse.Namespace,
    at: Layout,
    measure: Callable[[startup.Programs, Layout, int, int], Sequence[startup.Overhead]],
    words: str,
    columns: Sequence[str],
    scale: float,
) -> int:
    """Measures and prints; ``columns``: what is compared, without and with, in seconds times ``scale``."""
    launches = args.launches or startup.LAUNCHES
    rows = measure(prepare(library, [at]), at, launches, args.samples or startup.ROUNDS)
    if args.json:
        tables.write_json([asdict(row) for row in rows])
        return 0
    table = Table(title=f"{library.short_version}, {at.name}: {words}, {launches} launches")
    table.add_column(columns[0])
    for heading in (*columns[1:], "ratio", "95 % interval"):
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(
            row.what,
            f"{row.without * scale:.4g}",
            f"{row.having * scale:.4g}",
            f"{row.ratio.ratio:.4f}",
            f"{row.ratio.low:.4f} .. {row.ratio.high:.4f}",
        )
    tables.show(table)
    return 0


def prepare(library: MpiLibrary, layouts: Sequence[Layout]) -> startup.Programs:
    built = build.build(library)
    made = build.read_manifest()
    folder = request.new_folder(home() / "runs", "startup")
    return startup.prepare(library, built, made, layouts, folder)


def count_winners(database: Path) -> int:
    with Store(database, create=False) as store:
        return len(store.winners())


def format_cell(cell: Interval) -> str:
    """``1.23 (1.20 .. 1.31)``; whole numbers alone where they never differ."""
    shown = [
        f"{value:.0f}" if value >= 1000 else f"{value:.3g}"
        for value in (cell.median, cell.low, cell.high)
    ]
    if shown[1] == shown[2]:
        return shown[0]
    return f"{shown[0]} ({shown[1]} .. {shown[2]})"
