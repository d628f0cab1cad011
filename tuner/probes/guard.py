"""What a wrong map costs: every point has the slowest variant that was measured on this layout.

The time of the first 1000 calls of each collective on a communicator, over that in a launch without the
preload. If the calls take long enough (COLLFORGE_GUARD_AFTER), the guard tries the variant and drops it. The
first calls make the connections in both launches.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import collforge
from collforge import units
from collforge.db import PREDICTED, MapPoint, Result, RunRecord, Store
from collforge.errors import CollforgeError
from collforge.generator.manifest import Manifest
from collforge.layout import Layout
from collforge.mpi_library import MpiLibrary
from collforge.place import Place
from collforge.toolchain import build
from collforge.tuner.decide.evidence import by_problem, compare, measured_problems
from collforge.tuner.probes import programs, ratios
from collforge.tuner.probes.programs import NEVER, SYSTEM, WORD
from collforge.tuner.probes.ratios import Ratio, Ratios
from collforge.tuner.run import measuring
from collforge.tuner.run.options import add_database
from collforge.variant import Variant

SUMMARY = (
    "time 1000 calls with a map of the slowest variants, which the guard has to drop or not to try"
)
ROUNDS = 20  # of 50 calls: templates/overhead.c.j2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    measuring.add_system(parser)
    add_database(parser)
    programs.add_launches(parser, 6)
    parser.add_argument(
        "--size", default="8KiB", help="bytes of a block or vector (default: %(default)s)"
    )


def run(library: MpiLibrary, args: argparse.Namespace) -> Ratios:
    at = measuring.parse_layout(args.layout, args.system)
    (nbytes,) = units.parse_sizes(args.size)
    started = programs.prepare(library, [])
    made = build.read_manifest()
    slowest = find_slowest(
        args.db, made, Place.of(measuring.system_name(args), library, at), nbytes
    )
    if not slowest:
        raise CollforgeError(f"nothing was measured on {at.name}: run `collforge tune` there")
    database = started.database.with_name("wrong.db")
    write(database, Place.of(SYSTEM, library, at), at, slowest)
    cluster = programs.cluster_of(args)
    started = replace(started, database=database, cluster=cluster)
    calls: dict[str, list[list[tuple[float, float]]]] = {}
    for number in range(args.launches):
        kinds = ("native", "tried") if number % 2 == 0 else ("tried", "native")
        found = {
            kind: started.launch(at, started.overhead, kind, ROUNDS, nbytes // WORD, 0)["early"]
            for kind in kinds
        }
        for name in slowest:
            whole = sum(found["native"][name]), sum(found["tried"][name])
            calls.setdefault(name, []).append([whole])
    rows = [_row(name, one, slowest[name]) for name, one in calls.items()]
    words = f"1000 calls of {units.format_size(nbytes)} with the slowest variants over native"
    return Ratios(
        f"{library.short_version}, {at.name}: {words}, {args.launches} launches", rows, "ms"
    )


def _row(
    name: str, launches: list[list[tuple[float, float]]], slowest: tuple[Variant, float]
) -> Ratio:
    variant, ratio = slowest
    words = f"{variant.family}, {1 / ratio:.1f} times the time of native"
    return replace(ratios.ratio(name, launches), note=words)


def find_slowest(
    database: Path, made: Manifest, place: Place, nbytes: int
) -> dict[str, tuple[Variant, float]]:
    """Collective -> its slowest verified variant at the nearest measured size, and native's time / its time."""
    with Store(database, create=False) as store:
        history = by_problem(store.measurements(place))
        verified = store.verified(place.mpi, place.mpi_version)
    found = {}
    for entry in made.collectives:
        problems = sorted(
            measured_problems(history, entry.name),
            key=lambda one: max(one.bytes / nbytes, nbytes / one.bytes),
        )
        if entry.sized != "block" or entry.hybrid or not problems:
            continue
        launches = history[problems[0].problem]
        native = Variant(entry.name)
        each = {
            v: compare(v, native, launches).ratio
            for v in {v for launch in launches for v in launch if v in verified}
        }
        slowest = min(each, key=lambda v: each[v], default=native)
        if not slowest.is_native and each[slowest] < 1:
            found[entry.name] = (slowest, each[slowest])
    return found


def write(
    database: Path, place: Place, at: Layout, slowest: dict[str, tuple[Variant, float]]
) -> None:
    """A database whose map has these variants at the layout, for all sizes."""
    variants = [variant for variant, _ in slowest.values()]
    results = tuple(Result(v, f"{v.collective}@{at.name}", WORD, True) for v in variants)
    elsewhere = replace(place, layout="1x1")
    version = collforge.__version__
    with Store(database) as store:
        store.record_run(RunRecord("wrong", elsewhere, 1, 1, NEVER, version, "", (), 0, results))
        store.replace_map(
            place,
            [
                MapPoint(at.nodes, at.size // at.nodes, 1, v, 2.0, 1.5, PREDICTED, (at.name,))
                for v in variants
            ],
        )
