"""`collforge install`: one relocatable tree for the users of a site."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import collforge
from collforge.db import Store, StoreError, Tree
from collforge.db.published import Section
from collforge.errors import CollforgeError, unknown
from collforge.home import database_path, full_path, home
from collforge.mpi_library import MpiLibrary
from collforge.toolchain import build
from collforge.tuner.cli import tables
from collforge.tuner.cli.command import Subparsers, add_command, add_published_system
from collforge.tuner.run.options import add_database, add_json, add_mpi, find_libraries, split
from collforge.tuner.site import install_tree, installed, man_pages, modulefiles, publishing

EXAMPLE = """\
collforge install --prefix /apps/collforge/1 --mpi openmpi,mpich --system cluster --current
  collforge install --list /apps/collforge

It writes libraries, headers, the Fortran module's source, pkg-config files, manual pages, modulefiles for Lmod
and Environment Modules, and the published winners. The tree can be moved. Without a database it has no winners.
Install each version beside the last one, since jobs may use that. Back to a tree that is there:
`collforge install --prefix /apps/collforge/1 --current`, without any other option (it installs nothing)."""


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers, "install", "install libraries, modulefiles and winners for users", EXAMPLE, run
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--prefix", metavar="FOLDER", type=full_path, help="the folder of the tree, new or empty"
    )
    what.add_argument(
        "--list", metavar="FOLDER", type=full_path, help="only print the trees in a folder"
    )
    parser.add_argument(
        "--current",
        action="store_true",
        help="let the link `current` beside the tree point to it",
    )
    parser.add_argument(
        "--module-version",
        metavar="NAME",
        default=collforge.__version__,
        type=_file_name,
        help="the last part of collforge/MPI/NAME, the module (default: %(default)s)",
    )
    parser.add_argument(
        "--mpi-module",
        metavar="NAME=MODULE",
        default="",
        help="your module of an MPI library, which ours depends on: openmpi=openmpi/4.1.4,mpich=mpich/4.0",
    )
    parser.add_argument(
        "--usage",
        metavar="DIR",
        type=_folder,
        help="let the modules set COLLFORGE_USAGE: each job leaves a line in this folder",
    )
    parser.add_argument(
        "--learn",
        metavar="DIR",
        type=_folder,
        help="let the modules set COLLFORGE_LEARN: jobs leave here what their trials found",
    )
    add_published_system(parser)
    add_mpi(parser, simulated=False)
    add_database(parser)
    add_json(parser)


def _is_name(text: str, others: str) -> bool:
    return text.isascii() and all(c.isalnum() or c in others for c in text) and text[:1].isalnum()


def _file_name(text: str) -> str:
    if not _is_name(text.lstrip("_"), "._-"):
        raise argparse.ArgumentTypeError("letters, digits, '.', '_' and '-'")
    if text.endswith(".lua"):
        raise argparse.ArgumentTypeError("Lmod would take the modulefile for Lua: leave out .lua")
    return text


def _folder(text: str) -> Path:
    path = full_path(text)
    if not _is_name(str(path).lstrip("/"), "/._-+"):
        raise argparse.ArgumentTypeError(f"{path}: modulefiles bear letters, digits and /._-+ only")
    if not path.is_dir():
        raise argparse.ArgumentTypeError(
            f"there is no folder {path}: make it, and let all users write to it"
        )
    return path


def _mpi_modules(text: str, names: list[str]) -> dict[str, str]:
    """MPI library -> the site's module. Raises CollforgeError for other names than these."""
    found = {}
    for pair in split(text):
        name, _, module = pair.partition("=")
        if not _is_name(module, "._-+/"):
            raise CollforgeError(f"--mpi-module {pair}: give NAME=MODULE, as openmpi=openmpi/4.1.4")
        if name not in names:
            raise unknown("MPI library", name, names)
        found[name] = module
    return found


def run(args: argparse.Namespace) -> int:
    if args.list:
        trees = installed.find(args.list)
        for tree in trees:
            print("\n".join(installed.told(tree)))
        tables.write_document(args, [installed.facts(tree) for tree in trees])
        return 0
    if args.current:
        installed.check_current(args.prefix)
    if args.current and _is_bare(args):
        installed.read(args.prefix)  # a typing error must not install and serve another tree
    else:
        _install(args)
    if args.current:
        link = installed.make_current(args.prefix)
        print(f"{link} points to {args.prefix}")
    tables.write_document(args, [installed.facts(args.prefix)] if args.json else [])
    return 0


def _is_bare(args: argparse.Namespace) -> bool:
    """Whether no option says what to install."""
    given = args.mpi or args.system or args.mpi_module or args.usage or args.learn
    usual = (args.module_version, args.db) == (collforge.__version__, database_path())
    return usual and not given


def _install(args: argparse.Namespace) -> None:
    given_folders = {"COLLFORGE_USAGE": args.usage, "COLLFORGE_LEARN": args.learn}
    folders = {variable: folder for variable, folder in given_folders.items() if folder}
    planned = install_tree.Tree(args.prefix, args.module_version, folders)
    planned.check()
    libraries = find_libraries(args.mpi)
    modules = _mpi_modules(args.mpi_module, [library.name for library in libraries])
    built = {library.name: build.build(library, home()) for library in libraries}
    found = _winners(args, libraries)
    parts = [_part(library, built[library.name], found, modules) for library in libraries]
    digest = planned.install(parts, found, man_pages.pages(args.whole_parser()[0]))
    if caution := publishing.caution(found):
        print(f"collforge install: {caution}", file=sys.stderr)
    print(f"installed: {args.prefix}")
    if digest:
        print(f"  sha256 of its winners: {digest}")
        _note(args.db, args.prefix)
    users = args.prefix.parent / installed.CURRENT if args.current else args.prefix
    for part in parts:
        print(
            f"  module use {users / modulefiles.FOLDER} && "
            f"module load {modulefiles.NAME}/{part.library.name}"
        )


def _note(database: Path, prefix: Path) -> None:
    """In the database, for its page, where it can be written to."""
    made = installed.read(prefix)
    of = made.version, made.module_version, ",".join(sorted(made.libraries))
    with suppress(StoreError), Store(database, create=False) as store:
        store.record_tree(Tree(str(prefix), *of, made.sha256, made.date))


def _part(
    library: MpiLibrary, built: build.Built, found: list[Section], modules: Mapping[str, str]
) -> install_tree.Part:
    """What the tree has for a library; prints its winners."""
    own = [one for one in found if one.place.mpi_version == library.first_line]
    counts = ", ".join(f"{one.place.system}: {publishing.count(one)}" for one in own)
    print(f"{library.name} ({library.short_version}): {counts or 'no winners'}")
    settings = publishing.thread_settings(library, (name for one in own for name in one.winners))
    module = modules.get(library.name, "")
    return install_tree.Part(library, built, bool(own), settings, module)


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
