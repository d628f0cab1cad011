"""`collforge cluster`: commands on emulated multi-lane clusters, with and without Slurm."""

from __future__ import annotations

import argparse
import os

from collforge.reframe_checks.systems import emulated, slurm
from collforge.toolchain import libraries
from collforge.tuner.cli.command import Subparsers, add_command
from collforge.tuner.run.options import add_mpi, add_rails

EXAMPLE = """\
collforge cluster run --layout 4x2 --rails 2 --mpi openmpi -- ./my_program

On a busy machine Open MPI 4 may say `plm:rsh: Warning: setpgid ... failed in parent ... Permission denied`.
It is harmless: the process that starts a node had set its group itself before mpirun could."""
SLURM_EXAMPLE = """\
collforge cluster up --slurm --nodes 4 --ranks-per-node 2
  collforge cluster exec -- sinfo
  collforge cluster exec -- srun --mpi=pmix --nodes 2 --ntasks 4 ./my_program
  collforge cluster down"""


def add_parser(subparsers: Subparsers) -> None:
    group = add_command(
        subparsers,
        "cluster",
        "emulate a multi-lane cluster on this machine",
        f"{EXAMPLE}\n  {SLURM_EXAMPLE}",
    )
    actions = group.add_subparsers(metavar="ACTION", required=True)
    _add_run(actions)
    _add_up(actions)
    text = "run a command on the first node of the cluster that is up"
    parser = add_command(actions, "exec", text, SLURM_EXAMPLE, run_exec)
    parser.add_argument("argv", metavar="CMD", nargs="+", help="the command, after --")
    add_command(actions, "down", "remove the cluster that is up", SLURM_EXAMPLE, run_down)


def _add_run(actions: Subparsers) -> None:
    parser = add_command(
        actions, "run", "run an MPI program on a cluster that exists as long as it", EXAMPLE, run
    )
    parser.add_argument(
        "--layout",
        default=emulated.ClusterSpec.layout,
        help="NODESxRANKS, or SIZE+SIZE+... for nodes of unequal size, or cyclic:NODESxRANKS "
        "(default: %(default)s)",
    )
    add_rails(parser)
    add_mpi(parser, required=True, simulated=False)
    parser.add_argument(
        "--timeout", type=float, metavar="SECONDS", help="stop the program then, exit code 124"
    )
    parser.add_argument(
        "argv", metavar="CMD", nargs="+", help="the program and its arguments, after --"
    )


def _add_up(actions: Subparsers) -> None:
    text = "start a cluster with a queue, until `cluster down`"
    parser = add_command(actions, "up", text, SLURM_EXAMPLE, run_up)
    parser.add_argument("--slurm", action="store_true", required=True, help="the queue is Slurm's")
    parser.add_argument(
        "--nodes", type=int, metavar="N", default=4, help="of the cluster (default: %(default)s)"
    )
    parser.add_argument(
        "--ranks-per-node",
        type=int,
        metavar="N",
        default=2,
        help="cores of a node, for Slurm (default: %(default)s)",
    )
    add_rails(parser)


def run(args: argparse.Namespace) -> int:
    spec = _spec(args, args.layout)
    return emulated.run(spec, libraries.find(args.mpi), args.argv, timeout=args.timeout)


def run_up(args: argparse.Namespace) -> int:
    slurm.up(_spec(args, f"{args.nodes}x{args.ranks_per_node}"))
    print(f"a Slurm cluster of {args.nodes} nodes is up: collforge cluster exec -- sinfo")
    return 0


def run_exec(args: argparse.Namespace) -> int:
    words, environment = slurm.enter(args.argv)
    os.execvpe(words[0], words, environment)


def run_down(_: argparse.Namespace) -> int:
    print("the Slurm cluster is gone" if slurm.down() else "no Slurm cluster is up")
    return 0


def _spec(args: argparse.Namespace, layout: str) -> emulated.ClusterSpec:
    return emulated.ClusterSpec(layout, args.rails, args.rate, args.rail_model)
