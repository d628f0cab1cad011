"""`collforge compare`: two databases, days or MPI libraries, call by call."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from itertools import groupby

from collforge import units
from collforge.case import parse
from collforge.tuner.cli import tables
from collforge.tuner.cli.command import Subparsers, add_command
from collforge.tuner.run.options import add_database, add_json
from collforge.tuner.site import comparison
from collforge.tuner.site.comparison import Compared

EXAMPLE = """\
collforge compare last-month.db build/collforge.db
  collforge compare 2026-10-01..2026-10-31 2026-11-26
  collforge compare openmpi mpich

A call is compared where both sides measured it on the same system and layout. B is faster or slower if the 95 %
interval of the ratio, over launches, leaves out 1; same if it is within 0.9 to 1.1; else this cannot tell."""


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers, "compare", "compare two databases, days or MPI libraries", EXAMPLE, run
    )
    for name in ("A", "B"):
        parser.add_argument(
            name.lower(),
            metavar=name,
            help="a database, or of --db: a day, days (FROM..TO) or an MPI library",
        )
    add_database(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    sides = [comparison.side(text, args.db) for text in (args.a, args.b)]
    rows = comparison.compare(*sides)
    show(rows, args.a, args.b)
    tables.write_document(args, [{**vars(one), "verdict": one.verdict} for one in rows])
    return 0


def show(rows: Sequence[Compared], first: str, second: str) -> None:
    print(f"A: {first}, B: {second}")
    for (system, mpi, layout), group in groupby(
        rows, lambda one: (one.system, one.mpi, parse(one.problem).layout)
    ):
        title = ", ".join(filter(None, (system, mpi, layout)))
        table = tables.narrow(title)
        for name in ("collective", "bytes", "", "A", "B", "A / B", "95 %", "B is"):
            left = name in ("collective", "", "B is")
            table.add_column(name, justify="left" if left else "right", no_wrap=True)
        for one in group:
            known = "" if math.isnan(one.low) else f"{one.low:.3g}-{one.high:.3g}"
            table.add_row(
                parse(one.problem).collective,
                units.format_size(one.bytes),
                one.what,
                units.format_seconds(one.first),
                units.format_seconds(one.second),
                f"{one.ratio:.2f}",
                known,
                one.verdict,
            )
        tables.show(table)
    counts = {word: sum(one.verdict == word for one in rows) for word in ("faster", "slower")}
    print(
        f"of {len(rows)} calls B is faster in {counts['faster']}, slower in {counts['slower']}; by chance, "
        "one in twenty of equal ones would seem so"
    )
