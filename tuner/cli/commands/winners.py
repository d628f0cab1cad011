"""`collforge winners`: lists the winners."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from collforge.db import Store, Winner
from collforge.errors import unknown
from collforge.home import home
from collforge.toolchain import build
from collforge.tuner.cli import tables
from collforge.tuner.cli.command import Subparsers, add_command
from collforge.tuner.cli.winner_table import print_winners
from collforge.tuner.run.options import add_database, add_json, add_mpi
from collforge.tuner.site import expected_times


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "winners",
        "show the stored winners, how much faster than native each is",
        "collforge winners --system emulated --mpi openmpi --format csv",
        run,
    )
    for name in ("system", "layout", "collective"):
        parser.add_argument(f"--{name}", metavar="NAME", default="", help="show only this one")
    add_mpi(parser)
    parser.add_argument("--format", choices=("table", "csv"), default="table")
    parser.add_argument(
        "--wide", action="store_true", help="all columns, and the variants' full names"
    )
    add_database(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    with Store(args.db, create=False) as store:
        _check_names(args, [*store.winners(), *store.undecided()])
        wanted = (args.system, args.mpi or "", args.layout, args.collective)
        found, undecided = store.winners(*wanted), store.undecided(*wanted)
        expected = expected_times.read(store, found)
    if args.format == "table":
        generated = build.generated_folder(home()).exists()
        made = build.read_manifest() if generated else None
        print_winners(found, undecided, made, expected, args.wide)
    else:
        tables.write_csv(tables.winner_rows(found, undecided))
    tables.write_document(args, tables.winner_rows(found, undecided, expected))
    return 0


def _check_names(args: argparse.Namespace, everything: Sequence[Winner | tables.Open]) -> None:
    """Raises CollforgeError for a name without measurements, instead of showing an empty table."""
    known: dict[str, set[str]] = {
        "system": set(),
        "mpi": set(),
        "layout": set(),
        "collective": set(),
    }
    for one in everything:
        if isinstance(one, Winner):
            place, collective = one.place, one.choice.variant.collective
        else:
            place, collective = one[0], one[1].collective
        each = (place.system, place.mpi, place.layout, collective)
        for names, name in zip(known.values(), each):
            names.add(name)
    for kind, names in known.items():
        given = getattr(args, kind)
        if given and given not in names:
            raise unknown(f"{kind} (of a stored winner)", given, names)
