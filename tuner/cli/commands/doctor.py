"""`collforge doctor`: what was found, what is missing, and the commands that install it."""

from __future__ import annotations

import argparse

from collforge.tuner.cli.command import Subparsers, add_command
from collforge.tuner.run.options import add_database, add_json


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "doctor",
        "show what was found on this machine, and for what is missing the command that installs it",
        "collforge doctor",
        run,
    )
    add_database(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from rich.table import Table

    from collforge.tuner.cli import tables
    from collforge.tuner.cli.doctor import examine

    findings = list(examine(args.db))
    table = Table()
    for name in ("", "looked for", "found", "to mend it"):
        table.add_column(name, overflow="fold")
    for finding in findings:
        mark = "missing" if finding.failed else "optional" if finding.fix else "ok"
        table.add_row(mark, finding.subject, finding.found, finding.fix)
    tables.show(table)
    tables.write_document(args, findings)
    return int(any(finding.failed for finding in findings))
