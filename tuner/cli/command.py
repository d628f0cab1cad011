"""Adds a command to the command line (collforge.tuner.cli.main)."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]
else:
    Subparsers = argparse._SubParsersAction  # generic in the type hints only

Run = Callable[[argparse.Namespace], int]


def add_command(
    subparsers: Subparsers, name: str, summary: str, example: str, run: Run | None = None
) -> argparse.ArgumentParser:
    """Adds a command whose --help ends with the example; `run` is None for a group of commands."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if run is not None:
        parser.set_defaults(run=run)
    return parser


def add_published_system(parser: argparse.ArgumentParser) -> None:
    """Adds --system SYS for what is published; args.system is '' for all."""
    parser.add_argument(
        "--system",
        metavar="SYS",
        default="",
        help="publish the winners of this system only (default: all)",
    )
