"""`collforge publish`: the winners alone, for jobs; measurements stay at home."""

from __future__ import annotations

import argparse
import sys

from collforge.db import Store, published
from collforge.db.published import Section
from collforge.errors import CollforgeError, unknown
from collforge.home import home
from collforge.toolchain import build
from collforge.tuner import deployment
from collforge.tuner.parsing import (
    Subparsers,
    add_command,
    add_database,
    add_mpi,
    output_file,
    split_choices,
)

EXAMPLE = """\
collforge publish --system cluster --output winners.txt

The file has what jobs read (COLLFORGE_DB=FILE), and nothing else: winners, map and host patterns. It is read
only, read without SQLite, and the same for the same winners. FILE.sha256 has its checksum: jobs with
COLLFORGE_DB_SHA256 take no other file."""


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers, "publish", "write the winners alone to a small file for jobs", EXAMPLE, run
    )
    parser.add_argument(
        "--output", metavar="FILE", required=True, type=output_file, help="the file to write"
    )
    add_system(parser)
    add_mpi(parser)
    add_database(parser)


def add_system(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--system",
        metavar="SYS",
        default="",
        help="publish the winners of this system only (default: all)",
    )


def run(args: argparse.Namespace) -> int:
    found = sections(args)
    digest = deployment.publish(found, args.output)
    print(f"written: {args.output}, {args.output.stat().st_size} bytes")
    for section in found:
        place = section.place
        print(f"  {place.system}, {place.mpi} ({place.mpi_version}): {deployment.count(section)}")
    made = build.read_manifest() if build.generated_folder(home()).exists() else None
    problem = next(deployment.stale(found, made), "") if made else ""
    if problem:
        print(
            f"collforge publish: warning: a library built now ignores this file, because its {problem} "
            "was measured with other generated code; tune anew",
            file=sys.stderr,
        )
    print(f"{digest}  {args.output}")
    return 0


def sections(args: argparse.Namespace) -> list[Section]:
    """What --db, --system and --mpi name. Raises CollforgeError for a name without winners."""
    with Store(args.db, create=False) as store:
        places = [one.place for one in store.winners()]
        if not places:
            raise CollforgeError(f"{args.db} has no winners yet: run `collforge tune`")
        if args.system and args.system not in {place.system for place in places}:
            raise unknown("system", args.system, {place.system for place in places})
        names = {place.mpi for place in places if args.system in ("", place.system)}
        what = "MPI library (of a stored winner)"
        return published.sections(store, args.system, split_choices(what, args.mpi or "", names))
