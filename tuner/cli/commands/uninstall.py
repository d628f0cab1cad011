"""`collforge uninstall`: removes a tree that `collforge install` made."""

from __future__ import annotations

import argparse

from collforge.home import full_path
from collforge.tuner.cli.command import Subparsers, add_command
from collforge.tuner.site import installed

EXAMPLE = """\
collforge uninstall --prefix /apps/collforge/1

Only files that install wrote are removed. A tree that a link beside it (`current`) points to stays. Look first
whether jobs use the tree."""


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(subparsers, "uninstall", "remove an installed tree", EXAMPLE, run)
    parser.add_argument(
        "--prefix", metavar="FOLDER", required=True, type=full_path, help="the tree's folder"
    )


def run(args: argparse.Namespace) -> int:
    print(installed.remove(args.prefix))
    return 0
