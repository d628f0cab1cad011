"""The one-off costs of the preload: at program start and for each communicator.

They correspond to Table 2 of Zhou et al. (2020): MPI_Init, the first call on a communicator (layout
and rules, local), and the first call that runs a variant (node and lane communicators, collective).
The launch is the unit of statistics (evidence.py): a number is the median of a launch, on the slowest or
largest rank.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rich.table import Table

from collforge import layout
from collforge.home import home, new_folder
from collforge.layout import Layout
from collforge.mpi_library import MpiLibrary
from collforge.tuner.decide import evidence
from collforge.tuner.probes import Result, programs
from collforge.tuner.probes.programs import Programs
from collforge.tuner.run import measuring
from collforge.tuner.run.jobs import Site
from collforge.tuner.run.launches import Launch, Outcome, failure, run_launches
from collforge.tuner.run.pictures import DotPicture, Dots

SUMMARY = "time the one-off costs of MPI_Init and each communicator, with and without the preload"
TIME_LIMIT = 120.0  # seconds of a launch
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
    "create": "collforge_hybrid_create, communicators",
    "tables": "collforge_hybrid_create, rank tables",
    "alloc": "collforge_hybrid_alloc of 1 MiB",
    "init": "collforge_hybrid_allgather_init",
    "hybrid": "collforge_hybrid_free",
}
MEMORY = ("dup", "stage_one", "stage_two")


@dataclass(frozen=True)
class Row:
    """The cost of one operation on a layout."""

    primitive: str
    unit: str
    """ms, us or bytes, per call or communicator."""
    layout: str
    cores: int
    costs: tuple[float, ...]
    """One a launch."""
    doubt: str = ""
    """measuring.crowded"""


@dataclass(frozen=True)
class Startup(Result):
    rows: Sequence[Row]

    def table(self) -> Table:
        names = list(dict.fromkeys(row.layout for row in self.rows))
        table = Table(title=self.title)
        table.add_column("primitive")
        table.add_column("unit")
        for name in names:
            table.add_column(f"{name}: {layout.from_name(name).size} ranks", justify="right")
        cells = {(row.primitive, row.layout): format_cell(row.costs) for row in self.rows}
        for primitive, unit in dict.fromkeys((row.primitive, row.unit) for row in self.rows):
            table.add_row(primitive, unit, *(cells[primitive, name] for name in names))
        return table

    def picture(self) -> DotPicture:
        panels: dict[str, list[Dots]] = {}
        for unit, name in dict.fromkeys((row.unit, row.layout) for row in self.rows):
            rows = [row for row in self.rows if (row.unit, row.layout) == (unit, name)]
            cells = {row.primitive: evidence.median_interval(row.costs) for row in rows}
            panels.setdefault(unit, []).append(Dots(name, cells))
        return DotPicture(panels, self.title)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    measuring.add_system(parser, "each nodes x ranks per node, separated by commas")
    programs.add_launches(parser)


def run(library: MpiLibrary, args: argparse.Namespace) -> Startup:
    names = (args.layout or "").split(",")
    layouts = [measuring.parse_layout(name, args.system) for name in names]
    args.layout = layouts[0].name
    site = measuring.site(args, library.name)
    started = programs.prepare(library, layouts)
    doubts = {at.name: measuring.crowded(args, at) for at in layouts}
    rows = [
        replace(row, doubt=doubts[row.layout])
        for row in measure(started, site, layouts, args.launches)
    ]
    words = f"one-off costs, median of {args.launches} launches (95 % interval)"
    return Startup(f"{library.short_version}: {words}; {measuring.system_name(args)}", rows)


def measure(started: Programs, site: Site, layouts: Sequence[Layout], launches: int) -> list[Row]:
    """The rows of the table. Launches of all kinds and layouts are interleaved."""
    kinds = [(kind, False) for kind in STARTS] + [(kind, True) for kind in ADDED]
    settings = [(at, *kind) for at in layouts for kind in kinds]
    plan = [launch(started, *setting) for setting in settings]
    outcomes = run_launches(site, new_folder(home() / "runs", "startup"), [], plan * launches)
    rows = []
    for number, (at, kind, added) in enumerate(settings):
        records = [record(one, kind) for one in outcomes[number :: len(settings)]]
        for primitive, unit, costs in (_added if added else _starts)(kind, records):
            rows.append(Row(primitive, unit, at.name, at.size, tuple(costs)))
    order = list(dict.fromkeys(row.primitive for row in rows))
    return sorted(rows, key=lambda row: order.index(row.primitive))


def launch(started: Programs, at: Layout, kind: str, added: bool) -> Launch:
    program = started.communicators if added else started.overhead
    count = COMMUNICATORS if added and kind == "tuned" else 0
    words = started.words(program, kind, count)
    return Launch(words, at.name, started.variables(kind), TIME_LIMIT)


def record(outcome: Outcome, kind: str) -> dict[str, Any]:
    if outcome.code != 0:
        raise failure(outcome, f"a launch ({kind})")
    return programs.output(outcome.out)


Costs = Iterator[tuple[str, str, Sequence[float]]]
"""Primitive, unit, costs."""


def _starts(kind: str, records: Sequence[dict[str, Any]]) -> Costs:
    yield STARTS[kind], "ms", [1e3 * one["init"] for one in records]


def _added(kind: str, records: Sequence[dict[str, Any]]) -> Costs:
    yield ADDED[kind], "us", [1e6 * one["start"] for one in records]
    if kind != "tuned":
        return
    for stage, words in STAGES.items():
        yield words, "us", [1e6 * statistics.median(one[stage]["seconds"]) for one in records]
    for stage in MEMORY:
        yield f"memory: {STAGES[stage]}", "bytes", [one[stage]["bytes"] for one in records]


def format_cell(costs: Sequence[float]) -> str:
    """``1.23 (1.20 .. 1.31)``; no interval for whole numbers that never differ."""
    cell = evidence.median_interval(costs)
    shown = [
        f"{value:.0f}" if value >= 1000 else f"{value:.3g}"
        for value in (cell.median, cell.low, cell.high)
    ]
    if shown[1] == shown[2]:
        return shown[0]
    return f"{shown[0]} ({shown[1]} .. {shown[2]})"
