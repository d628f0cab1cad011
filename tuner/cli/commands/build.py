"""`collforge build`: the runtime and the timing driver."""

from __future__ import annotations

import argparse

from collforge import home
from collforge.toolchain.build import build
from collforge.tuner.cli.command import Subparsers, add_command
from collforge.tuner.run.options import add_mpi, find_libraries


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "build",
        "build the runtime and the timing driver for an MPI library",
        "collforge build --mpi openmpi,mpich",
        run,
    )
    add_mpi(parser)


def run(args: argparse.Namespace) -> int:
    for library in find_libraries(args.mpi):
        built = build(library, home.home())
        print(f"{library.name} ({library.short_version})")
        print(f"  {built.library_path}")
        print(f"  {built.driver_path}")
    return 0
