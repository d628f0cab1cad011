"""`collforge predict`: what is expected to be fastest where nothing was measured."""

from __future__ import annotations

import argparse

from rich.markup import escape
from rich.table import Table

from collforge.db import Store
from collforge.errors import CollforgeError
from collforge.generator import manifest
from collforge.runtime import build, libraries
from collforge.runtime.home import home
from collforge.tuner import plan, request, tables, target
from collforge.tuner.commands.parsing import Subparsers, add_command, add_database, add_mpi
from collforge.tuner.evidence import by_problem
from collforge.tuner.predict import predict

EXAMPLE = "collforge predict --mpi openmpi --layout 8x1x4 --collective allreduce --sizes 96KiB"


def add_parser(subparsers: Subparsers) -> None:
    summary = "what is expected to be fastest at sizes and on layouts that were not measured"
    parser = add_command(subparsers, "predict", summary, EXAMPLE, run)
    target.add_system(parser)
    add_mpi(parser, required=True)
    target.add_problems(parser)
    add_database(parser)


def run(args: argparse.Namespace) -> int:
    library = libraries.find(args.mpi)
    path = build.generated_folder(home()) / "manifest.json"
    if not path.is_file():
        raise CollforgeError("nothing was generated yet: run `collforge generate`")
    made = manifest.load(path)
    goal = target.goal(args, made)
    here = request.place(target.system_name(args), library, goal.layout)
    with Store(args.db, create=False) as store:
        places = [
            place
            for place in store.places()
            if (place.system, place.mpi, place.mpi_version)
            == (here.system, here.mpi, here.mpi_version)
        ]
        history = by_problem([one for place in places for one in store.measurements(place)])
    if not history:
        raise CollforgeError(
            f"nothing was measured on {here.system} with {here.mpi}: run `collforge tune`"
        )
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
    return 0
