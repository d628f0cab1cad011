"""`collforge publish`: the winners alone, for jobs; measurements stay at home."""

from __future__ import annotations

import argparse
import sys

from collforge.home import home
from collforge.toolchain import build
from collforge.tuner.cli.command import Subparsers, add_command, add_published_system
from collforge.tuner.run.options import add_database, add_mpi, output_file
from collforge.tuner.site import install_tree, publishing

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
    add_published_system(parser)
    add_mpi(parser)
    add_database(parser)


def run(args: argparse.Namespace) -> int:
    install_tree.check_outside(args.output)
    found = publishing.read_sections(args.db, args.system, args.mpi or "")
    digest = publishing.publish(found, args.output)
    print(f"written: {args.output}, {args.output.stat().st_size} bytes")
    for section in found:
        place = section.place
        print(f"  {place.system}, {place.mpi} ({place.mpi_version}): {publishing.count(section)}")
    made = build.read_manifest() if build.generated_folder(home()).exists() else None
    problem = next(publishing.stale(found, made), "") if made else ""
    if problem:
        print(
            f"collforge publish: warning: a library built now ignores this file, because its {problem} "
            "was measured with other generated code; tune anew",
            file=sys.stderr,
        )
    if caution := publishing.caution(found):
        print(f"collforge publish: {caution}", file=sys.stderr)
    print(f"{digest}  {args.output}")
    return 0
