"""Nonblocking collectives, started and waited for at once: by winners and native, beside the blocking calls."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rich.table import Table

from collforge import units
from collforge.db import Store
from collforge.errors import CollforgeError
from collforge.mpi_library import MpiLibrary
from collforge.place import Place
from collforge.toolchain import build
from collforge.tuner.probes import Result, programs
from collforge.tuner.probes.programs import WORD
from collforge.tuner.probes.ratios import Ratio, ratio
from collforge.tuner.run import measuring
from collforge.tuner.run.options import add_database
from collforge.tuner.run.pictures import DotPicture, Dots

SUMMARY = "time nonblocking collectives, started and waited for at once, by winners and native"
WAYS = {"direct": "native", "started_direct": "native, nonblocking", "wrapped": "winner"}
"""What winners in nonblocking calls are compared with."""


@dataclass(frozen=True)
class Row:
    """One call: the time of a winner's nonblocking call over that of each of WAYS."""

    collective: str
    bytes: int
    native: Ratio
    native_started: Ratio
    winner: Ratio


@dataclass(frozen=True)
class Found(Result):
    rows: Sequence[Row]

    def table(self) -> Table:
        table = Table(title=self.title)
        for name in ("collective", "bytes"):
            table.add_column(name)
        columns = [*(f"{way}, ms" for way in WAYS.values()), "winner, nonblocking, ms"]
        for name in (*columns, "speed of the winner", "times native, nonblocking"):
            table.add_column(name, justify="right")
        for row in self.rows:
            each = (row.native, row.native_started, row.winner)
            times = [*(one.without for one in each), row.winner.preloaded]
            speeds = [row.winner.speed, row.native_started.speed]
            table.add_row(
                row.collective,
                units.format_size(row.bytes),
                *(f"{1e3 * time:.3g}" for time in times),
                *(f"{one.median:.2f} ({one.low:.2f} to {one.high:.2f})" for one in speeds),
            )
        return table

    def remark(self) -> str:
        winner = statistics.geometric_mean(row.winner.speed.median for row in self.rows)
        native = statistics.geometric_mean(row.native_started.speed.median for row in self.rows)
        return f"geometric means: {winner:.2f} of the winners' speed, {native:.2f} times native, nonblocking"

    def picture(self) -> DotPicture:
        dots = [
            Dots(
                f"over {WAYS[way]}",
                {
                    f"{row.collective} {units.format_size(row.bytes)}": one.speed
                    for row, one in found
                },
            )
            for way, found in (
                ("wrapped", [(row, row.winner) for row in self.rows]),
                ("started_direct", [(row, row.native_started) for row in self.rows]),
            )
        ]
        return DotPicture({"times as fast": dots}, self.title, mark=1.0)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    measuring.add_system(parser)
    add_database(parser)
    programs.add_launches(parser, 4)
    parser.add_argument(
        "--rounds", type=int, default=6, help="in each launch (default: %(default)s)"
    )
    parser.add_argument(
        "--sizes",
        default="64KiB,256KiB,1MiB",
        help="of a vector, or of all blocks of a rank (default: %(default)s)",
    )


def run(library: MpiLibrary, args: argparse.Namespace) -> Found:
    at = measuring.parse_layout(args.layout, args.system)
    place = Place.of(measuring.system_name(args), library, at)
    prepared = programs.prepare(library, [])
    made = build.read_manifest()
    current = {entry.fingerprint for entry in made.variants}
    with Store(args.db, create=False) as store:
        won = [one.choice.variant for one in store.winners_at(place)]
    if not any(one.fingerprint in current for one in won):
        raise CollforgeError(f"{args.db} has no winners of this build for {at.name}: tune there")
    started = replace(
        prepared,
        database=args.db,
        cluster=programs.cluster_of(args),
        system=place.system,
    )
    served = [one for one in made.collectives if not one.hybrid and one.sized in ("block", "mean")]
    rows: list[Row] = []
    for nbytes in units.parse_sizes(args.sizes):
        for blocks in (False, True):
            wanted = [one for one in served if one.has_blocks == blocks]
            count = max(1, nbytes // WORD // (at.size if blocks else 1))
            names = f",{','.join(one.name for one in wanted)},"
            numbers = (3, count, args.rounds, 1, len(WAYS) + 1, names)
            launches = [
                started.launch(at, started.overhead, "started", *numbers)
                for _ in range(args.launches)
            ]
            for one in wanted:
                found = (
                    ratio(
                        one.name,
                        [
                            list(zip(each[way][one.name], each["started"][one.name]))
                            for each in launches
                        ],
                    )
                    for way in WAYS
                )
                rows.append(Row(one.name, count * WORD, *found))
    title = f"{library.short_version}, {at.name}: start and wait, {args.launches} launches"
    return Found(title, rows)
