"""`collforge db usage`: how many jobs and users the library served, and what it saved them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from rich.markup import escape
from rich.table import Table

from collforge.db import JobUse, Store
from collforge.tuner.cli import tables
from collforge.tuner.cli.command import Subparsers, add_command
from collforge.tuner.run.options import add_json
from collforge.tuner.site import usage

EXAMPLE = """\
collforge db usage /apps/collforge/usage
  collforge db usage /apps/collforge/usage --by user --json usage.json

A line of a file there is a job with COLLFORGE_USAGE; the file's owner is the user."""
NOTE = (
    "calls, served, saved: on rank 0 of each job; saved: estimated, from what the winners saved when "
    "they were measured (their 95 % intervals, added up); core hours: if all ranks saved as much"
)


def add_parser(kinds: Subparsers) -> None:
    parser = add_command(
        kinds, "usage", "count the jobs that the library served, and what it saved", EXAMPLE, run
    )
    parser.add_argument("folder", metavar="DIR", type=Path, help="the value of COLLFORGE_USAGE")
    parser.add_argument(
        "--by", choices=("month", "user"), default="month", help="default: %(default)s"
    )
    parser.add_argument(
        "--db", metavar="FILE", type=Path, help="keep the months in this database, for its page"
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    found = usage.read(args.folder)
    rows = usage.rows(found, args.by)
    table = Table(caption=NOTE)
    table.add_column(args.by)
    for name in ("jobs", "users", "calls", "served", "saved, hours", "core hours"):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(escape(row.name), *_cells(row))
    tables.show(table)
    if args.db:
        keep(args.db, usage.rows(found, "month"))
    unknown = rows[-1].jobs_of_unknown_saving
    if unknown:
        print(f"{unknown} of the jobs have served calls and no known saving: tune and publish anew")
    if found.damaged:
        print(f"{found.damaged} damaged lines or files were skipped")
    tables.write_document(args, rows, damaged=found.damaged)
    return 0


def keep(database: Path, months: Sequence[usage.Row]) -> None:
    """``months``: the last one is the sum."""
    with Store(database, create=False) as store, store.transaction():
        for one in months[:-1]:
            numbers = one.jobs, one.users, one.calls, one.served
            store.record_use(JobUse(one.name, *numbers, one.core_seconds_saved))


def _cells(row: usage.Row) -> list[str]:
    numbers = [str(value) for value in (row.jobs, row.users, row.calls, row.served)]
    if row.jobs_of_unknown_saving and not row.core_seconds_saved:
        return [*numbers, "unknown", "unknown"]
    low, saved, high, core = (
        f"{seconds / 3600:.1f}"
        for seconds in (row.saved_low, row.saved, row.saved_high, row.core_seconds_saved)
    )
    return [*numbers, f"{saved} ({low} to {high})", core]
