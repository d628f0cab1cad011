"""`collforge costs`: rounds and volume of each composition, and the k-lane model beside measurements."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence

from rich.table import Table

from collforge import units
from collforge.case import parse
from collforge.db import Store
from collforge.generator.cost import Cost, cost
from collforge.generator.expand import expand
from collforge.generator.load import load_specs
from collforge.generator.proof import applies
from collforge.layout import Layout
from collforge.place import Place
from collforge.toolchain import build, libraries
from collforge.tuner.cli import tables
from collforge.tuner.cli.command import Subparsers, add_command
from collforge.tuner.decide import bandwidth, plan
from collforge.tuner.decide.evidence import History, Launch, by_problem
from collforge.tuner.run import measuring
from collforge.tuner.run.options import add_database, add_mpi

SUMMARY = (
    "best-case rounds and volume of each composition, and the k-lane model beside measurements"
)
EXAMPLE = """\
collforge costs --layout 4x2 --collective bcast,allreduce
  collforge costs --layout 4x2 --collective bcast --mpi openmpi --system emulated --sizes 64KiB,1MiB

Rounds and volumes are those of Träff and Hunold (2020), section III: with the best component collectives.
Volumes are multiples of the size of the vector, or of a block. The k-lane model is the least time between
nodes: alpha is the latency of a round, beta the time of a size on one of k lanes. k is that of the system
(--mpi), else the ranks of a node."""


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(subparsers, "costs", SUMMARY, EXAMPLE, run)
    measuring.add_system(parser)
    add_mpi(parser)
    measuring.add_problems(parser)
    add_database(parser)


def run(args: argparse.Namespace) -> int:
    made = build.current_manifest()
    goal = measuring.goal(args, made)
    known: History = {}
    lanes = None
    if args.mpi:
        place = Place.of(measuring.system_name(args), libraries.find(args.mpi), goal.layout)
        lanes = bandwidth.lanes(place)
        if args.db.exists():
            with Store(args.db, create=False) as store:
                known = by_problem(store.measurements(place))
                lanes = bandwidth.lanes(place, store)
    best_cases = costs(goal.layout)
    latency = least_latency(known, best_cases)
    k = lanes.number if lanes else min(goal.layout.node_sizes)
    title = f"{goal.layout.name}: best case, volumes in sizes; k = {k}"
    if lanes:
        best_round = f"{units.format_seconds(latency)} (best round measured)"
        title += f", alpha = {best_round if latency else '0 (nothing measured)'}"
        title += f", beta = size / {lanes.rate * 8e-6:.4g} Mbit/s"
    table = Table(title=title)
    names = ("rounds", "on lanes", "rank, node", "rank, lane", "node, out", "k-lane model")
    for name in ("collective", "family"):
        table.add_column(name)
    sizes = goal.sizes if args.mpi else ()
    timed = [
        f"{units.format_size(size)}, {what} ms" for size in sizes for what in ("model", "measured")
    ]
    for name in (*names, *timed):
        table.add_column(name, justify="right")
    for collective, family, best in best_cases:
        if collective not in goal.collectives:
            continue
        cells = [f"{v:.3g}" for v in (best.node_volume, best.lane_volume, best.off_node)]
        cells.append(f"{best.lane_rounds} alpha + {best.beta(k):.3g} beta")
        for size in sizes:
            problem = plan.problem_at(made, goal, collective, size)
            model = best.seconds(problem.bytes, k, lanes.rate, latency) if lanes else None
            cells += [shown(model), shown(fastest(known.get(problem.problem, ()), family))]
        table.add_row(collective, family, str(best.rounds), str(best.lane_rounds), *cells)
    tables.show(table)
    return 0


def costs(layout: Layout) -> list[tuple[str, str, Cost]]:
    """The best-case cost of each composition that applies to a layout: (collective, family, cost)."""
    return [
        (v.collective.name, v.family.name, cost(v, layout))
        for v in expand(load_specs())
        if not v.collective.hybrid and applies(v.composition, layout)
    ]


def least_latency(known: History, best_cases: Sequence[tuple[str, str, Cost]]) -> float:
    """The seconds of a round in the fastest measured call; 0 if nothing was measured.

    An upper bound of the latency, because a measured round also moves data.
    """
    found = [
        seconds / best.lane_rounds
        for problem, launches in known.items()
        for collective, family, best in best_cases
        if best.lane_rounds and parse(problem).collective == collective
        if (seconds := fastest(launches, family)) is not None
    ]
    return min(found, default=0.0)


def fastest(launches: Sequence[Launch], family: str) -> float | None:
    """The least median time of a family's measured points; None if there is none."""
    samples: dict[str, list[float]] = {}
    for launch in launches:
        for variant, found in launch.items():
            if variant.family == family:
                samples.setdefault(variant.name, []).extend(found)
    return min((statistics.median(found) for found in samples.values() if found), default=None)


def shown(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1e3:.3g}"
