"""`collforge env`: the environment that preloads the tuned collectives into an unmodified application."""

from __future__ import annotations

import argparse
import shlex

from collforge import home
from collforge.db import Store
from collforge.errors import CollforgeError, unknown
from collforge.toolchain import build, libraries
from collforge.tuner.cli.command import Subparsers, add_command
from collforge.tuner.run.options import add_database, add_mpi
from collforge.tuner.site.publishing import fits_preload, thread_settings

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
    add_mpi(parser, required=True)
    parser.add_argument(
        "--system",
        metavar="SYS",
        help="system whose winners apply (default: found by host name)",
    )
    add_database(parser)


def run(args: argparse.Namespace) -> int:
    library = libraries.find(args.mpi)
    path = build.built_paths(library.name, home.home()).library_path
    if not path.is_file():
        raise CollforgeError(f"there is no {path}: run `collforge build --mpi {library.name}`")
    if not fits_preload(path):
        raise CollforgeError(
            f"LD_PRELOAD cannot carry the blanks or colons of {path}: "
            "set COLLFORGE_HOME to a folder without them and build again"
        )
    with Store(args.db, create=False) as store:
        places = store.places()
    systems = {place.system for place in places}
    if args.system is not None and args.system not in systems:
        raise unknown("system", args.system, systems)
    print(f"export COLLFORGE_DB={shlex.quote(str(args.db))}")
    if args.system is not None:
        print(f"export COLLFORGE_SYSTEM={shlex.quote(args.system)}")
    of_library = (one for one in places if one.mpi == library.name)
    layouts = [one.layout for one in of_library if args.system in (None, one.system)]
    for name, value in thread_settings(library, layouts).items():
        print(f"export {name}={value}")
    print(f"export LD_PRELOAD={shlex.quote(str(path))}{OTHERS}")
    return 0
