"""`collforge agent`: measures what the service's queue asks for."""

from __future__ import annotations

import argparse
import platform
from pathlib import Path

from collforge.errors import CollforgeError
from collforge.service.agent import Agent
from collforge.service.client import Client, read_token
from collforge.service.commands import pull, push
from collforge.service.queue import LONGEST, SHORTEST, Library, Request
from collforge.tuner.cli.command import Subparsers, add_command
from collforge.tuner.run import measuring
from collforge.tuner.run.options import add_database, add_mpi, find_libraries, output_file
from collforge.units import parse_duration

EXAMPLE = """\
collforge agent --once --server https://tuning.example --token-file FILE --system cluster --config site.py
  collforge agent --once ... --output /apps/collforge/winners.txt
  collforge agent --once ... --budget 30m -- --collective bcast,allreduce --sizes 1KiB..1MiB

For cron, a systemd timer or CI: takes one entry of the queue that fits this system, tunes it, pushes what was
measured, and pulls the winners. What stands behind -- is for entries that ask for a whole layout."""


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers, "agent", "measure what the queue of a service asks for", EXAMPLE, run
    )
    push.add_server(parser)
    parser.add_argument("--once", action="store_true", help="one entry only (default: all)")
    measuring.add_system(parser, "to begin with, where nothing is known")
    add_mpi(parser)
    add_database(parser)
    parser.add_argument(
        "--name", default=platform.node(), help="of the agent (default: %(default)s)"
    )
    parser.add_argument(
        "--budget", default="30m", help="of `tune` for an entry (default: %(default)s)"
    )
    parser.add_argument(
        "--nodes", type=int, default=2**31 - 1, metavar="N", help="that it may use (default: any)"
    )
    parser.add_argument(
        "--output", metavar="FILE", type=output_file, help="pull the system's winners to this file"
    )
    parser.add_argument("more", metavar="OPTION", nargs="*", help="of `tune`, behind --")


def run(args: argparse.Namespace) -> int:
    client = Client(args.server, read_token(args.token_file))
    agent = Agent(client, request_of(args), options_of(args), args.more)
    system = agent.request.system
    failed = 0
    while True:
        task = agent.lease()
        if task is None:
            print("nothing to measure")
            break
        code = agent.tune(task)
        push.send(client, args.db, system, optional=True)
        agent.finish(task, code == 0, "" if code == 0 else f"tune ended with {code}")
        failed += code != 0
        if args.once:
            break
    if args.output:
        agent.await_decisions()
        pull.fetch(client, system, args.output)
    return int(failed > 0)


def request_of(args: argparse.Namespace) -> Request:
    seconds = round(min(LONGEST, max(SHORTEST, 2 * parse_duration(args.budget))))
    layout = measuring.parse_layout(args.layout, args.system)
    found = tuple(Library(one.name, one.first_line) for one in find_libraries(args.mpi))
    if not found:
        raise CollforgeError("no MPI library was found: run `collforge doctor`")
    return Request(args.name, measuring.system_name(args), found, layout.name, args.nodes, seconds)


def options_of(args: argparse.Namespace) -> list[str]:
    """What `tune` is told beside the entry."""
    words = ["--system", args.system, "--db", str(args.db), "--budget", args.budget]
    if args.config:
        words += ["--config", str(Path(args.config).resolve())]
    if args.system == "emulated":
        words += ["--rails", str(args.rails), "--rate", args.rate, "--rail-model", args.rail_model]
    return words
