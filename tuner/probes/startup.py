"""The one-off costs of the preload: at program start and for each communicator.

They correspond to Table 2 of Zhou et al. (2020): MPI_Init, the first call on a communicator (layout
and rules, local), and the first call that runs a variant (node and lane communicators, collective).
The launch is the unit of statistics (evidence.py): a cell is the median over launches of the
medians in each.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rich.table import Table

from collforge import layout
from collforge.layout import Layout
from collforge.mpi_library import MpiLibrary
from collforge.tuner.decide import evidence
from collforge.tuner.decide.evidence import Interval
from collforge.tuner.probes import Result, programs
from collforge.tuner.probes.programs import Programs
from collforge.tuner.run import measuring
from collforge.tuner.run.pictures import DotPicture, Dots

SUMMARY = "time the one-off costs of MPI_Init and each communicator, with and without the preload"
LAYOUTS = "2x1,2x2,4x2"
COMMUNICATORS = 160  # the most that runtime/bench/programs/communicators.c allows

# The kind of a launch -> the table's words for its MPI_Init.
STARTS = {
    "native": "MPI_Init, native",
    "inactive": "MPI_Init, preloaded, no database",
    "tuned": "MPI_Init, preloaded, database",
}
ADDED = {"inactive": "added, no database", "tuned": "added, database"}
# The output of the program `communicators`, in the order of the table.
STAGES = {
    "dup": "MPI_Comm_dup, native",
    "stage_one": "stage one: layout and rules",
    "stage_two": "stage two: communicators of nodes and lanes",
    "free": "MPI_Comm_free, native",
    "free_one": "MPI_Comm_free after stage one",
    "free_two": "MPI_Comm_free after stage two",
    "create": "collforge_hybrid_create",
    "alloc": "collforge_hybrid_alloc of 1 MiB",
    "init": "collforge_hybrid_allgather_init",
    "hybrid": "collforge_hybrid_free",
}
MEMORY = ("dup", "stage_one", "stage_two")


@dataclass(frozen=True)
class Row:
    """The cost of one operation on each layout."""

    primitive: str
    unit: str
    """ms, us or bytes, per call or communicator, on the slowest or largest rank."""
    cells: dict[str, Interval]
    """Layout -> cost."""


@dataclass(frozen=True)
class Startup(Result):
    rows: Sequence[Row]

    def table(self) -> Table:
        table = Table(title=self.title)
        table.add_column("primitive")
        table.add_column("unit")
        for name in self.rows[0].cells:
            ranks = layout.from_name(name).size
            table.add_column(f"{name}: {ranks} ranks", justify="right")
        for row in self.rows:
            table.add_row(row.primitive, row.unit, *map(format_cell, row.cells.values()))
        return table

    def picture(self) -> DotPicture:
        panels = {
            unit: [
                Dots(
                    name, {row.primitive: row.cells[name] for row in self.rows if row.unit == unit}
                )
                for name in self.rows[0].cells
            ]
            for unit in dict.fromkeys(row.unit for row in self.rows)
        }
        return DotPicture(panels, self.title)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    text = "on ranks of this machine or of an emulated cluster (default: %(default)s)"
    parser.add_argument("--system", choices=("local", "emulated"), default="local", help=text)
    measuring.add_rails(parser)
    text = "each nodes x ranks per node (default: %(default)s)"
    parser.add_argument("--layout", default=LAYOUTS, metavar="LAYOUT[,LAYOUT...]", help=text)
    programs.add_launches(parser)


def run(library: MpiLibrary, args: argparse.Namespace) -> Startup:
    layouts = [measuring.parse_layout(name, args.system) for name in args.layout.split(",")]
    started = programs.prepare(library, layouts)
    if args.system == "emulated":
        started = replace(started, cluster=measuring.rails(args, layouts[0]))
    rows = measure(started, layouts, args.launches)
    words = f"one-off costs, median of {args.launches} launches (95 % interval)"
    return Startup(f"{library.short_version}: {words}; {args.system}", rows)


def measure(started: Programs, layouts: Sequence[Layout], launches: int) -> list[Row]:
    """The rows of the table. Launches of all kinds and layouts are interleaved."""
    starts: dict[tuple[str, str], list[float]] = {}
    added: dict[tuple[str, str], list[float]] = {}
    stages: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for _ in range(launches):
        for at in layouts:
            for kind in STARTS:
                found = started.launch(at, started.overhead, kind, 0)
                starts.setdefault((kind, at.name), []).append(found["init"])
            for kind, count in (("inactive", 0), ("tuned", COMMUNICATORS)):
                found = started.launch(at, started.communicators, kind, count)
                added.setdefault((kind, at.name), []).append(found["start"])
            for stage in STAGES:
                stages.setdefault((stage, at.name), []).append(found[stage])

    def row(primitive: str, unit: str, values: Mapping[str, Sequence[float]]) -> Row:
        cells = {name: evidence.median_interval(cell) for name, cell in values.items()}
        return Row(primitive, unit, cells)

    names = [at.name for at in layouts]
    rows = [
        row(words, "ms", {name: [1e3 * s for s in starts[kind, name]] for name in names})
        for kind, words in STARTS.items()
    ]
    rows += [
        row(words, "us", {name: [1e6 * s for s in added[kind, name]] for name in names})
        for kind, words in ADDED.items()
    ]
    for stage, words in STAGES.items():
        medians = {
            name: [1e6 * statistics.median(one["seconds"]) for one in stages[stage, name]]
            for name in names
        }
        rows.append(row(words, "us", medians))
    for stage in MEMORY:
        sizes = {name: [one["bytes"] for one in stages[stage, name]] for name in names}
        rows.append(row(f"memory: {STAGES[stage]}", "bytes", sizes))
    return rows


def format_cell(cell: Interval) -> str:
    """``1.23 (1.20 .. 1.31)``; no interval for whole numbers that never differ."""
    shown = [
        f"{value:.0f}" if value >= 1000 else f"{value:.3g}"
        for value in (cell.median, cell.low, cell.high)
    ]
    if shown[1] == shown[2]:
        return shown[0]
    return f"{shown[0]} ({shown[1]} .. {shown[2]})"
