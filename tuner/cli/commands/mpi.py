"""`collforge mpi`: the MPI libraries of a machine or site, and their names."""

from __future__ import annotations

import argparse
from pathlib import Path

from collforge import site_file
from collforge.errors import CollforgeError
from collforge.home import full_path
from collforge.toolchain import libraries, mpi_search
from collforge.tuner.cli import tables
from collforge.tuner.cli.command import Subparsers, add_command
from collforge.tuner.run.options import add_json

EXAMPLE = """\
collforge mpi find
  collforge mpi add mpich5 /opt/mpich/5.0
  collforge mpi list

Names are stored in the site's file (`collforge site`), which all commands, cron jobs and ReFrame read."""


def add_parser(subparsers: Subparsers) -> None:
    group = add_command(
        subparsers, "mpi", "find and name the MPI libraries of this machine", EXAMPLE
    )
    kinds = group.add_subparsers(metavar="ACTION", required=True)
    find = add_command(
        kinds,
        "find",
        "look for libraries in PATH, usual prefixes, Python's prefix and modules",
        "collforge mpi find --add",
        run_find,
    )
    find.add_argument(
        "folders", metavar="FOLDER", nargs="*", type=Path, help="look for prefixes below it, too"
    )
    find.add_argument("--add", action="store_true", help="name all that work")
    add_json(find)
    listed = add_command(
        kinds, "list", "the libraries that have a name", "collforge mpi list", run_list
    )
    add_json(listed)
    add = add_command(
        kinds, "add", "name a library", "collforge mpi add mpich5 /opt/mpich/5.0", run_add
    )
    add.add_argument("name", metavar="NAME", help="for --mpi NAME")
    add.add_argument("prefix", metavar="PREFIX", help="that has bin/mpicc and bin/mpirun")


def run_find(args: argparse.Namespace) -> int:
    new = False
    found = mpi_search.search(args.folders)
    for one in found:
        by = f", module {one.module}" if one.module else ""
        where = f"{one.prefix}{by}"
        if one.library is None:
            print(f"does not work: {where}: {one.fault}")
            continue
        if args.add and not one.is_named:
            site_file.change(site_file.MPI, one.library.name, str(one.prefix))
        mark = "" if one.is_named else "added: " if args.add else "new: "
        print(f"{mark}{one.library.name}: {one.library.short_version}, {where}")
        new |= mark == "new: "
    if new:
        print("name them by `collforge mpi find --add`, or one by `collforge mpi add NAME PREFIX`")
    tables.write_document(args, found)
    return 0


def run_list(args: argparse.Namespace) -> int:
    stored = site_file.prefixes()
    rows: list[object] = []
    for name in libraries.known_names():
        prefix = libraries.prefixes().get(name)
        by = "Debian's"
        if prefix:
            by = f"{prefix}, by {'the site file' if stored.get(name) == prefix else 'the environment'}"
        try:
            found = libraries.find(name)
        except libraries.MissingLibrary as error:
            print(f"{name}: missing ({error})")
            continue
        print(f"{name}: {found.short_version}, {by}")
        rows.append(found)
    tables.write_document(args, rows)
    return 0


def run_add(args: argparse.Namespace) -> int:
    if not site_file.NAME.fullmatch(args.name):
        raise CollforgeError(f"{args.name}: a name has small letters, digits and _, as mpich5")
    prefix = full_path(args.prefix)
    for path in mpi_search.fill_in_prefix(prefix):
        print(f"{path}: the prefix is filled in, which the wheel leaves to its installer")
    library = libraries.at(args.name, prefix)
    site_file.change(site_file.MPI, args.name, str(prefix))
    print(f"{args.name}: {library.short_version}; stored in {site_file.path()}")
    return 0
