"""`collforge env`: the environment that preloads the tuned collectives into an unmodified application."""

from __future__ import annotations

import argparse
import shlex

from collforge import home
from collforge.toolchain import build, libraries
from collforge.tuner.cli.command import Subparsers, add_command
from collforge.tuner.run.options import add_database, add_mpi
from collforge.tuner.site.preloading import preload_settings

OTHERS = (
    r""""$(printf %s "${LD_PRELOAD:-}" | tr ': ' '\n\n' |"""
    r''' sed -n '/libcollforge\.so$/d; s/^./:&/p' | tr -d '\n')"'''
)
"""Shell code: keeps existing preloads, after the runtime, except a runtime for another MPI library."""


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "env",
        "print the export lines for an application that the runtime is preloaded to",
        "collforge env --mpi openmpi --system emulated > tuned.sh",
        run,
    )
    add_mpi(parser, required=True, simulated=False)
    parser.add_argument(
        "--system",
        metavar="SYS",
        help="system whose winners apply (default: found by host name)",
    )
    add_database(parser)


def run(args: argparse.Namespace) -> int:
    library = libraries.find(args.mpi)
    path = build.built_paths(library.name, home.home()).library_path
    for name, value in preload_settings(library, path, args.db, args.system).items():
        print(f"export {name}={shlex.quote(value)}")
    print(f"export LD_PRELOAD={shlex.quote(str(path))}{OTHERS}")
    return 0
