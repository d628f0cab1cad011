"""`collforge predict`: the variants expected to be fastest at sizes and layouts that were not measured."""

from __future__ import annotations

import argparse

from rich.markup import escape
from rich.table import Table

from collforge.db import Store
from collforge.errors import CollforgeError
from collforge.generator.manifest import Manifest
from collforge.place import Place
from collforge.toolchain import build
from collforge.tuner import plan, request, tables, target
from collforge.tuner.evidence import History, by_problem
from collforge.tuner.parsing import (
    Subparsers,
    add_command,
    add_database,
    add_mpi,
    find_libraries,
)
from collforge.tuner.plan import Goal
from collforge.tuner.predict import predict

EXAMPLE = "collforge predict --layout 8x1x4 --collective allreduce --sizes 96KiB"


def add_parser(subparsers: Subparsers) -> None:
    summary = "what is expected to be fastest at sizes and on layouts that were not measured"
    parser = add_command(subparsers, "predict", summary, EXAMPLE, run)
    target.add_system(parser)
    add_mpi(parser)
    target.add_problems(parser)
    add_database(parser)


def run(args: argparse.Namespace) -> int:
    made = build.read_manifest()
    goal = target.goal(args, made)
    asked = [
        Place.of(target.system_name(args), library, goal.layout)
        for library in find_libraries(args.mpi)
    ]
    with Store(args.db, create=False) as store:
        known = {here: measured(store, here) for here in asked}
    if not any(known.values()):
        names = ", ".join(here.mpi for here in asked)
        raise CollforgeError(
            f"nothing was measured on {asked[0].system} with {names}: run `collforge tune`"
        )
    for here, history in known.items():
        if history:
            show(made, goal, here, history)
    return 0


def measured(store: Store, here: Place) -> History:
    """The measurements of the same system and MPI library version, on all layouts."""
    places = (place for place in store.places() if place.library == here.library)
    return by_problem([one for place in places for one in store.measurements(place)])


def show(made: Manifest, goal: Goal, here: Place, history: History) -> None:
    table = Table(title=f"{here.system}, {here.mpi}, {here.layout}: expected")
    for name in ("collective", "bytes", "variant", "ratio", "from problems"):
        table.add_column(name, justify="left" if name in ("collective", "variant") else "right")
    for problem in plan.problems(made, goal):
        found = predict(made, goal, problem, history)
        table.add_row(
            problem.collective,
            request.format_size(problem.bytes),
            escape(found.variant),
            f"{found.ratio:.2f}",
            str(found.known),
        )
    tables.show(table)
