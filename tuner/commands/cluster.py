"""`collforge cluster run`: a command on the emulated multi-lane cluster."""

from __future__ import annotations

import argparse

from collforge.reframe_checks.systems import emulated
from collforge.toolchain import libraries
from collforge.tuner.parsing import Subparsers, add_command, add_mpi

EXAMPLE = """\
collforge cluster run --layout 4x2 --rails 2 --mpi openmpi -- ./my_program

On a busy machine Open MPI 4 may say `plm:rsh: Warning: setpgid ... failed in parent ... Permission denied`.
It is harmless: the process that starts a node had set its group itself before mpirun could."""


def add_parser(subparsers: Subparsers) -> None:
    group = add_command(
        subparsers, "cluster", "emulate a multi-lane cluster on this machine", EXAMPLE
    )
    parser = add_command(
        group.add_subparsers(metavar="ACTION", required=True),
        "run",
        "run an MPI program on a cluster that exists as long as it",
        EXAMPLE,
        run,
    )
    shape = emulated.ClusterSpec()
    parser.add_argument(
        "--layout",
        default=shape.layout,
        help="NODESxRANKS, or SIZE+SIZE+... for nodes of unequal size, or cyclic:NODESxRANKS "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--rails",
        type=int,
        metavar="K",
        default=shape.rails,
        help="links of each node (default: %(default)s)",
    )
    parser.add_argument(
        "--rate",
        default=shape.rate,
        help="of each link, each way, as for tc(8) (default: %(default)s)",
    )
    parser.add_argument(
        "--rail-model",
        metavar="MODEL",
        default=shape.rail_model,
        help=f"which rail carries what: {' or '.join(emulated.RAIL_MODELS)} (default: %(default)s)",
    )
    add_mpi(parser, required=True)
    parser.add_argument(
        "--timeout", type=float, metavar="SECONDS", help="stop the program then, exit code 124"
    )
    parser.add_argument(
        "argv", metavar="CMD", nargs="+", help="the program and its arguments, after --"
    )


def run(args: argparse.Namespace) -> int:
    spec = emulated.ClusterSpec(
        layout=args.layout,
        rails=args.rails,
        rate=args.rate,
        rail_model=args.rail_model,
    )
    return emulated.run(spec, libraries.find(args.mpi), args.argv, timeout=args.timeout)
