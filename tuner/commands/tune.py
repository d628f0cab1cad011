"""`collforge tune`: the main job."""

from __future__ import annotations

import argparse
import sys
import time

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from collforge.db import Store
from collforge.generator import manifest
from collforge.runtime import build
from collforge.runtime.home import home
from collforge.runtime.libraries import MpiLibrary
from collforge.tuner import plan, request, tables
from collforge.tuner.commands import target
from collforge.tuner.commands.parsing import (
    Subparsers,
    add_command,
    add_database,
    add_mpi,
    find_libraries,
)
from collforge.tuner.run import Site
from collforge.tuner.tune import Progress as State
from collforge.tuner.tune import Session, tune

EXAMPLE = """\
collforge tune --system emulated --mpi openmpi,mpich --layout 4x2 --budget 16m
  collforge tune --system local --mpi openmpi --collective bcast --sizes 1KiB..64KiB

Interrupt it at any moment: the next call goes on from the database."""


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers, "tune", "find the fastest correct variants and store them", EXAMPLE, run
    )
    target.add_system(parser)
    add_mpi(parser)
    target.add_problems(parser)
    add_database(parser)
    parser.add_argument(
        "--budget",
        help=f"e.g. 90s, 10m (default: {request.PROBLEM_SECONDS:.0f}s for each collective and size "
        "with each MPI library)",
    )
    parser.add_argument("--margin", type=float, default=0.03, help="least gain (default: 0.03)")
    parser.add_argument(
        "--launches", type=int, default=3, help="least launches of a decision (default: 3)"
    )
    parser.add_argument("--seed", type=int, default=7, help="of inputs and proposals (default: 7)")


def run(args: argparse.Namespace) -> int:
    """Shares a budget evenly between the MPI libraries, and what one leaves over among the rest."""
    budget = request.parse_duration(args.budget) if args.budget else None
    found = find_libraries(args.mpi)
    sites = [target.site(args, library.name) for library in found]
    sessions = [open_session(args, *both) for both in zip(found, sites)]
    # The budget is for measuring: a first run must not spend it on the compiler.
    deadline = None if budget is None else time.monotonic() + budget
    for number, (library, session) in enumerate(zip(found, sessions)):
        if deadline is None:
            share = request.PROBLEM_SECONDS * len(plan.problems(session.manifest, session.goal))
        else:
            share = max(0.0, deadline - time.monotonic()) / (len(found) - number)
        with Display(f"{library.name} ({number + 1} of {len(found)})") as display:
            tune(session, share, display.show)
    layout = session.goal.layout.name
    with Store(args.db) as store:
        winners = store.winners(system=session.place.system, layout=layout)
    tables.print_winners(winners, session.manifest.unsized)
    return 0


def open_session(args: argparse.Namespace, library: MpiLibrary, site: Site) -> Session:
    """Builds what is needed for one MPI library, and says where its numbers will go."""
    build.build(library)
    made = manifest.load(home() / "generated" / "manifest.json")
    goal = target.goal(
        args,
        made,
        min_launches=args.launches,
        max_launches=2 * args.launches,
        margin=args.margin,
        seed=args.seed,
    )
    place = request.place(target.system_name(args), library, goal.layout)
    return Session(made, goal, site, place, args.db, home() / "runs")


class Display:
    """The progress bar: problems settled, wins so far, what is being measured, time left."""

    def __init__(self, label: str) -> None:
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
