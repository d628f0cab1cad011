"""`collforge report`: what was chosen and why, and a plot of it."""

from __future__ import annotations

import argparse
from pathlib import Path

from collforge.db import Store
from collforge.errors import CollforgeError
from collforge.generator.manifest import Manifest
from collforge.layout import from_name
from collforge.toolchain import build
from collforge.tuner import bandwidth, plan, request
from collforge.tuner.commands.parsing import Subparsers, add_command, add_database
from collforge.tuner.plan import Goal
from collforge.tuner.standing import Standing, read_standing

EXAMPLE = """\
collforge report
  collforge report --collective bcast --plot bcast.png"""


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(subparsers, "report", "tell what was chosen, and why", EXAMPLE, run)
    add_database(parser)
    parser.add_argument("--mpi", help="one MPI library only")
    parser.add_argument("--collective", help="one collective only")
    parser.add_argument(
        "--plot",
        metavar="FILE",
        help="draw the links' bandwidth against bytes, native and chosen (.png, .svg, .pdf)",
    )


def run(args: argparse.Namespace) -> int:
    made = build.read_manifest()
    collectives = [args.collective] if args.collective else [one.name for one in made.collectives]
    with Store(args.db, create=False) as store:
        places = [place for place in store.places() if args.mpi in (None, place.mpi)]
        for place in places:
            goal = Goal(from_name(place.layout), tuple(collectives), ())
            print(f"{place.system}, {place.mpi_version}, {place.layout}:")
            explain(made, read_standing(store, made, goal, place))
        panels = bandwidth.read_series(store, made, places, collectives)
    if args.plot and not panels:
        raise CollforgeError("nothing was measured that moves data between nodes: no plot")
    if args.plot:
        bandwidth.draw(panels, Path(args.plot))
        print(f"plot: {args.plot}")
    return 0


def explain(made: Manifest, standing: Standing) -> None:
    """Prints each decision, what it rests on, and what came next."""
    decided = plan.measured_problems(p for p in standing.seen.history if p in standing.decisions)
    for contest in plan.contests(made, decided):
        collective = contest[0].collective
        decision = standing.decisions[contest[0].problem]
        sizes = ", ".join(map(request.format_size, sorted(one.bytes for one in contest)))
        together = f"{collective}@{contest[0].layout}, every size ({sizes} measured)"
        print(f"  {together if len(contest) > 1 else contest[0].problem}: {decision.reason}")
        for other in decision.others[:2]:
            print(f"      next: {other}")
