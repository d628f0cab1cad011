"""`collforge reframe-path`: the folder of the ReFrame checks, for a site's own ReFrame."""

from __future__ import annotations

import argparse

from collforge import reframe_checks
from collforge.tuner.cli.command import Subparsers, add_command


def add_parser(subparsers: Subparsers) -> None:
    add_command(
        subparsers,
        "reframe-path",
        "print the path of the ReFrame checks",
        "reframe -C its_site.py -c $(collforge reframe-path) -R -r",
        run,
    )


def run(_: argparse.Namespace) -> int:
    print(reframe_checks.CHECKS)
    return 0
