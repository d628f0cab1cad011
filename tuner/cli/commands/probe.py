"""`collforge probe NAME`: measures properties of the machine or costs of Collforge itself."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from collforge.errors import CollforgeError
from collforge.toolchain import libraries
from collforge.tuner import probes
from collforge.tuner.cli import registry, tables
from collforge.tuner.cli.command import Subparsers, add_command
from collforge.tuner.run.options import add_mpi, add_output

EXAMPLE = """\
collforge probe --list
  collforge probe small --mpi mpich --json small.json --plot small.svg"""


def add_parser(subparsers: Subparsers) -> None:
    summary = "measure the machine or Collforge itself, not a collective's implementations"
    parser = add_command(subparsers, "probe", summary, EXAMPLE, list_probes)
    parser.add_argument("--list", action="store_true", help="name the probes, a line for each")
    names = parser.add_subparsers(metavar="NAME", title="probes")
    for name, module in registry.find(probes, "run").items():
        example = f"collforge probe {name} --mpi openmpi"
        probe = add_command(names, name, module.SUMMARY, example, run)
        probe.set_defaults(module=module)
        add_mpi(probe, required=True)
        add_output(probe)
        module.add_arguments(probe)


def list_probes(args: argparse.Namespace) -> int:
    found = registry.find(probes, "run")
    if not args.list:
        raise CollforgeError(f"name a probe: {', '.join(found)}; `--list` says what each measures")
    width = max(map(len, found))
    for name, module in found.items():
        print(f"{name:{width}}  {module.SUMMARY}")
    return 0


def run(args: argparse.Namespace) -> int:
    """Returns 1 if the measurement violates a guarantee of Collforge, else 0."""
    library = libraries.find(args.mpi)
    result: probes.Result = args.module.run(library, args)
    tables.show(result.table())
    if result.remark():
        print(result.remark())
    rows = [asdict(row) for row in result.rows]
    tables.save(args, library.short_version, rows, result.picture())
    return int(result.failed())
