"""What the first calls of a program gain on a layout that was not measured, once jobs have learnt there.

Three jobs learn (COLLFORGE_LEARN) from trials at once, and a copy of the database takes in what they found.
After their trials these jobs time what the guard left against PMPI_ calls, in turn. Then programs of a few
calls of each collective run in turn: native; with what the map expects, without the guard; with the guard,
which waits; and with the guard, after the database has learnt. The first calls make the connections.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.table import Table

from collforge import units
from collforge.db import Store
from collforge.errors import CollforgeError
from collforge.layout import Layout
from collforge.mpi_library import MpiLibrary
from collforge.place import Place
from collforge.toolchain import build
from collforge.tuner.decide import learning
from collforge.tuner.decide.evidence import Interval
from collforge.tuner.probes import Result, programs
from collforge.tuner.probes.programs import TRIED, WORD, Programs
from collforge.tuner.probes.ratios import Ratio, ratio
from collforge.tuner.run import learnt, measuring
from collforge.tuner.run.options import add_database
from collforge.tuner.run.pictures import DotPicture, Dots

SUMMARY = "time the first calls of programs where jobs have learnt what the map expected"
KINDS = {"expected": "map, no guard", "tried": "map and guard", "tuned": "after learning"}
HEADINGS = [*KINDS.values(), "guard, after trials"]
AFTER = 2
"""Rounds of a job that learns, after its trials."""


@dataclass(frozen=True)
class Row:
    """One collective: times of native / times with the preload, of each kind."""

    collective: str
    expected: Ratio
    tried: Ratio
    learnt: Ratio
    guarded: Ratio
    """In the jobs that learn, after their trials."""

    @property
    def speeds(self) -> list[Interval]:
        """Times as fast as native, in the order of HEADINGS."""
        return [one.speed for one in (self.expected, self.tried, self.learnt, self.guarded)]


@dataclass(frozen=True)
class Found(Result):
    rows: Sequence[Row]
    said: Sequence[str]
    """What was learnt."""

    def table(self) -> Table:
        table = Table(title=self.title)
        table.add_column("times as fast as native")
        for heading in HEADINGS:
            table.add_column(heading, justify="right")
        for row in self.rows:
            table.add_row(row.collective, *(f"{speed.median:.2f}" for speed in row.speeds))
        table.add_row("geometric mean", *(f"{value:.2f}" for value in self._means()))
        return table

    def _means(self) -> list[float]:
        columns = zip(*(row.speeds for row in self.rows))
        return [statistics.geometric_mean(one.median for one in column) for column in columns]

    def remark(self) -> str:
        expected, _, after, _ = self._means()
        return f"after learning: {after / expected:.3f} of the map's speed; learnt: {'; '.join(self.said)}"

    def picture(self) -> DotPicture:
        dots = [
            Dots(heading, {row.collective: row.speeds[column] for row in self.rows})
            for column, heading in enumerate(HEADINGS)
        ]
        return DotPicture({"times as fast as native": dots}, self.title, mark=1.0)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    measuring.add_system(parser)
    parser.set_defaults(layout="3x2")
    add_database(parser)
    programs.add_launches(parser, 6)
    parser.add_argument("--calls", type=int, default=5, help="default: %(default)s")
    parser.add_argument(
        "--size", default="64KiB", help="bytes of a block or vector (default: %(default)s)"
    )


def run(library: MpiLibrary, args: argparse.Namespace) -> Found:
    at = measuring.parse_layout(args.layout, args.system)
    (nbytes,) = units.parse_sizes(args.size)
    started = programs.prepare(library, [])
    place = Place.of(measuring.system_name(args), library, at)
    with Store(args.db, create=False) as store:
        if place in store.places() or not store.map(place):
            raise CollforgeError(
                f"{at.name} was measured, or nothing near it: name another --layout"
            )
    database = Path(shutil.copy(args.db, started.database.with_name("learnt.db")))
    cluster = programs.cluster_of(args)
    before = replace(started, database=args.db, cluster=cluster, system=place.system)
    after = replace(before, database=database)
    numbers = nbytes // WORD, 0
    guarded: dict[str, list[list[tuple[float, float]]]] = {}
    for _ in range(learning.JOBS):
        times = after.launch(at, after.overhead, "learning", 1, nbytes // WORD, AFTER, TRIED)
        for name, direct in times["direct"].items():
            guarded.setdefault(name, []).append(list(zip(direct, times["wrapped"][name])))
        said = take_in(database, place)
    calls: dict[str, dict[str, list[list[tuple[float, float]]]]] = {kind: {} for kind in KINDS}
    for number in range(args.launches):
        kinds = ["native", *KINDS]
        order = kinds[number % 4 :] + kinds[: number % 4]
        found = {
            kind: _early(after if kind == "tuned" else before, kind, at, numbers, args.calls)
            for kind in order
        }
        for kind in KINDS:
            for name, seconds in found[kind].items():
                calls[kind].setdefault(name, []).append([(found["native"][name], seconds)])
    made = build.read_manifest()
    rows = [
        Row(
            one.name,
            *(ratio(one.name, each[one.name]) for each in (*calls.values(), guarded)),
        )
        for one in made.collectives
        if one.sized == "block" and not one.hybrid
    ]
    title = (
        f"{library.short_version}, {at.name}: the first {args.calls} calls of {units.format_size(nbytes)}, "
        f"{args.launches} launches"
    )
    return Found(title, rows, said)


def _early(
    where: Programs, kind: str, at: Layout, numbers: Sequence[int], calls: int
) -> Mapping[str, float]:
    """Collective -> the seconds of its first calls."""
    found = where.launch(at, where.overhead, kind, 1, *numbers, calls)["early"]
    return {name: seconds for name, (seconds,) in found.items()}


def take_in(database: Path, place: Place) -> list[str]:
    """What the jobs beside the database learnt, after it has taken in their files."""
    with Store(database) as store:
        for found in learnt.read(database.parent):
            learnt.take(store, found.data, "")
        learning.renew_all(store)
        rows = store.learnt(place)
    confirmed = sum(one.confirmed for one in rows)
    return [f"{confirmed} confirmed", f"{len(rows) - confirmed} refuted"]
