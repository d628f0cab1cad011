"""`collforge site`: what a site sets once for all commands."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from collforge import site_file
from collforge.errors import CollforgeError
from collforge.home import full_path, home
from collforge.layout import from_name
from collforge.tuner.cli import tables
from collforge.tuner.cli.command import Subparsers, add_command
from collforge.tuner.run.options import add_json, add_mpi, find_libraries, output_file
from collforge.tuner.site import detection

EXAMPLE = """\
collforge site detect ~/cluster.py
  collforge site set system emulated
  collforge site show"""


def add_parser(subparsers: Subparsers) -> None:
    group = add_command(
        subparsers, "site", "the default system, and ReFrame's configuration", EXAMPLE
    )
    kinds = group.add_subparsers(metavar="ACTION", required=True)
    show = add_command(kinds, "show", "what is set, and where", "collforge site show", run_show)
    add_json(show)
    change = add_command(
        kinds,
        "set",
        "set the default of --system, --config or --layout in all commands",
        "collforge site set system cluster",
        run_set,
    )
    change.add_argument("key", choices=site_file.KEYS[site_file.SITE])
    change.add_argument("value", metavar="VALUE", help="'' removes it")
    detect = add_command(
        kinds,
        "detect",
        "write ReFrame's configuration from Slurm, the module system and the named MPI libraries, "
        "and make it the default",
        "collforge site detect ~/cluster.py --system cluster --partition compute",
        run_detect,
    )
    detect.add_argument("file", metavar="FILE", type=output_file, help="the configuration")
    detect.add_argument(
        "--system", metavar="NAME", default="cluster", help="its name (default: %(default)s)"
    )
    detect.add_argument("--partition", metavar="NAME", help="of Slurm (default: Slurm's default)")
    add_mpi(detect)


def run_show(args: argparse.Namespace) -> int:
    show()
    keys = {key: site_file.value(key) for key in site_file.KEYS[site_file.SITE]}
    tables.write_document(args, [keys], file=site_file.path(), mpi=site_file.prefixes())
    return 0


def show() -> None:
    file = site_file.path()
    print(f"file: {file}{'' if file.exists() else ' (there is none yet)'}")
    for key in site_file.KEYS[site_file.SITE]:
        print(f"{key}: {site_file.value(key) or 'not set'}")
    for name, prefix in sorted(site_file.prefixes().items()):
        print(f"MPI library {name}: {prefix}")


def run_set(args: argparse.Namespace) -> int:
    text = args.value
    if args.key == "layout" and text:
        from_name(text)
    if args.key == "config" and text:
        text = str(full_path(text))
        if not Path(text).is_file():
            raise CollforgeError(f"there is no file {text}")
    site_file.change(site_file.SITE, args.key, text)
    show()
    if not site_file.value("system"):
        print("layout and config are those of a system: `collforge site set system NAME`")
    return 0


def run_detect(args: argparse.Namespace) -> int:
    if not re.fullmatch(r"[\w.-]+", args.system, re.ASCII):
        raise CollforgeError(f"--system {args.system}: letters, digits, '.', '_' and '-'")
    if args.file.exists():
        raise CollforgeError(f"{args.file} exists: name a new file, or remove it first")
    queue = detection.find_queue(args.partition)
    libraries = find_libraries(args.mpi)
    text = detection.configuration(args.system, libraries, queue, home() / "reframe")
    args.file.write_text(text, encoding="utf-8")
    for key, value in (
        ("system", args.system),
        ("config", str(args.file)),
        ("layout", queue.layout),
    ):
        site_file.change(site_file.SITE, key, value)
    names = ", ".join(one.name for one in libraries)
    print(f"{args.file}: Slurm's partition {queue.name}; {names}. Look it through, then:")
    print(f"collforge tune --mpi {libraries[0].name} --dry-run")
    return 0
