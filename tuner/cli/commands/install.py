"""`collforge install`: one relocatable tree for the users of a site."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import collforge
from collforge.db.published import Section
from collforge.errors import CollforgeError
from collforge.home import database_path, home
from collforge.mpi_library import MpiLibrary
from collforge.toolchain import build
from collforge.tuner.cli.command import Subparsers, add_command, add_published_system
from collforge.tuner.run.options import add_database, add_mpi, find_libraries
from collforge.tuner.site import install_tree, man_pages, modulefiles, publishing

EXAMPLE = """\
collforge install --prefix /apps/collforge/1 --mpi openmpi,mpich --system cluster

It writes libraries, headers, the Fortran module's source, pkg-config files, manual pages, modulefiles for Lmod
and Environment Modules, and the published winners. The tree can be moved. Without a database it has no winners.
Install each version beside the last one, since jobs may use that."""


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers, "install", "install libraries, modulefiles and winners for users", EXAMPLE, run
    )
    parser.add_argument(
        "--prefix",
        metavar="FOLDER",
        required=True,
        type=lambda text: Path(text).expanduser().absolute(),
        help="the folder of the tree, new or empty",
    )
    parser.add_argument(
        "--module-version",
        metavar="NAME",
        default=collforge.__version__,
        type=_file_name,
        help="the last part of collforge/MPI/NAME, the module (default: %(default)s)",
    )
    add_published_system(parser)
    add_mpi(parser)
    add_database(parser)


def _file_name(text: str) -> str:
    if not text or not all(one.isalnum() or one in "._-" for one in text) or text[0] in ".-":
        raise argparse.ArgumentTypeError("letters, digits, '.', '_' and '-'")
    return text


def run(args: argparse.Namespace) -> int:
    planned = install_tree.Tree(args.prefix, args.module_version)
    planned.check()
    libraries = find_libraries(args.mpi)
    built = {library.name: build.build(library, home()) for library in libraries}
    found = _winners(args, libraries)
    parts = []
    for library in libraries:
        own = [one for one in found if one.place.mpi_version == library.first_line]
        counts = ", ".join(f"{one.place.system}: {publishing.count(one)}" for one in own)
        print(f"{library.name} ({library.short_version}): {counts or 'no winners'}")
        names = (name for one in own for name in one.winners)
        settings = publishing.thread_settings(library, names)
        parts.append(install_tree.Part(library, built[library.name], bool(own), settings))
    digest = planned.install(parts, found, man_pages.pages(args.whole_parser()[0]))
    if caution := publishing.caution(found):
        print(f"collforge install: {caution}", file=sys.stderr)
    print(f"installed: {args.prefix}")
    if digest:
        print(f"  sha256 of its winners: {digest}")
    for part in parts:
        print(
            f"  module use {args.prefix / modulefiles.FOLDER} && "
            f"module load {modulefiles.NAME}/{part.library.name}"
        )
    return 0


def _winners(args: argparse.Namespace, libraries: list[MpiLibrary]) -> list[Section]:
    """The winners of these libraries; none if there is no database, unless --db names one.

    Raises CollforgeError for winners that the libraries just built would refuse.
    """
    if args.db == database_path() and not args.db.exists():
        return []
    versions = {library.first_line for library in libraries}
    stored = publishing.read_sections(args.db, args.system)
    found = [one for one in stored if one.place.mpi_version in versions]
    problem = next(publishing.stale(found, build.read_manifest()), "")
    if problem:
        raise CollforgeError(
            f"the winners in {args.db} do not fit this version of Collforge ({problem} was measured with "
            "other generated code): tune anew, or name another database with --db"
        )
    return found
