"""`collforge tune`: the main job."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn


from collforge.db import Store
from collforge.generator import manifest
from collforge.runtime import build, libraries
from collforge.runtime.home import home
from collforge.tuner import request, tables
from collforge.tuner.commands import options
from collforge.tuner.plan import Goal
from collforge.tuner.run import Site
from collforge.tuner.tune import Progress as State
from collforge.tuner.tune import Session, tune

EXAMPLE = """\
example:
  collforge tune --system emulated --mpi openmpi,mpich --layout 4x2 --budget 16m
  collforge tune --system local --mpi openmpi --collective bcast,allreduce --sizes 1KiB..64KiB

Interrupt it at any moment: the next call goes on from the database."""


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "tune",
        help="measure, choose and store the fastest correct variants",
        description="Finds the fastest correct variant of each collective and size, and stores it.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    options.add_system(parser)
    options.add_mpi(parser, many=True)
    options.add_problem(parser)
    options.add_database(parser)
    parser.add_argument("--budget", default="16m", help="time to spend, e.g. 90s, 10m (default %(default)s)")
    parser.add_argument("--margin", type=float, default=0.03, help="least gain of a winner (default %(default)s)")
    parser.add_argument("--launches", type=int, default=3, help="launches that a decision rests on, at least")
    parser.add_argument("--seed", type=int, default=7, help="of inputs and proposals (default %(default)s)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    budget = request.parse_duration(args.budget)
    names = request.parse_names(args.mpi)
    site_variables = options.system_variables(args)
    place = None
    for number, name in enumerate(names):
        share = budget / len(names)
        session = open_session(args, name, site_variables)
        place = session.place
        label = f"{name} ({number + 1} of {len(names)})" if len(names) > 1 else name
        with Display(label, share) as display:
            tune(session, share, display.show)
    assert place is not None
    with Store(request.database(args.db)) as store:
        tables.print_winners(store.winners(system=place.system, layout=place.layout))
    return 0


def open_session(args: argparse.Namespace, mpi: str, variables: dict[str, str]) -> Session:
    """Builds what is needed for one MPI library, and says where its numbers will go."""
    library = libraries.find(mpi)
    built = build.build(library)
    del built  # ReFrame's checks find it where build() puts it
    made = manifest.load(home() / "generated" / "manifest.json")
    goal = Goal(
        layout=request.parse_layout(args.layout, args.system),
        collectives=request.parse_collectives(args.collective, made),
        sizes=request.parse_sizes(args.sizes),
        min_launches=args.launches,
        max_launches=2 * args.launches,
        margin=args.margin,
        seed=args.seed,
    )
    return Session(
        manifest=made,
        goal=goal,
        site=Site(args.system, mpi, config=options.reframe_config(args), variables=variables),
        place=request.place(options.system_name(args), library, goal.layout),
        database=request.database(args.db),
        folder=home() / "runs",
    )


class Display:
    """The progress bar: problems settled, wins so far, what is being measured, time left."""

    def __init__(self, label: str, budget: float) -> None:
        self.budget = budget
        console = Console(file=sys.stderr)
        self.progress = Progress(
            TextColumn(label),
            BarColumn(bar_width=20),
            TextColumn("{task.completed:.0f}/{task.total:.0f} settled, {task.fields[wins]} wins"),
            TextColumn("{task.fields[left]} left"),
            TextColumn("{task.description}", markup=False),
            console=console,
        )
        self.task = self.progress.add_task("", total=1, wins=0, left="")

    def __enter__(self) -> Display:
        self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.stop()

    def show(self, state: State) -> None:
        self.progress.update(
            self.task,
            completed=state.settled,
            total=state.problems,
            wins=state.wins,
            left=request.format_duration(state.seconds_left),
            description=state.doing,
        )
