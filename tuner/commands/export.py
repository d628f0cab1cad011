"""`collforge export`: the library's own algorithms, measured and written as its own tuning file."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from collforge.generator import manifest
from collforge.runtime import build, libraries
from collforge.runtime.home import home
from collforge.tuner import export, plan, request
from collforge.tuner.commands import target
from collforge.tuner.commands.parsing import Subparsers, add_command

EXAMPLE = """\
collforge export --to openmpi --system emulated --output rules.conf
  mpirun --mca coll_tuned_use_dynamic_rules 1 --mca coll_tuned_dynamic_rules_filename rules.conf ./app

For those who cannot preload: it names the best of the library's own algorithms, no variant of ours."""


def add_parser(subparsers: Subparsers) -> None:
    summary = "time the MPI library's own algorithms and write its tuning file"
    parser = add_command(subparsers, "export", summary, EXAMPLE, run)
    parser.add_argument("--to", required=True, metavar="NAME", help="the MPI library: openmpi")
    target.add_system(parser)
    target.add_problems(parser)
    parser.add_argument("--launches", type=int, default=3, help="of each algorithm (default: 3)")
    parser.add_argument(
        "--output", default="rules.conf", help="file to write (default: %(default)s)"
    )


def run(args: argparse.Namespace) -> int:
    library = libraries.find(args.to)
    algorithms = export.openmpi_algorithms(library)
    args.mpi = library.name
    site = target.site(args, library.name)
    build.build(library)
    made = manifest.load(home() / "generated" / "manifest.json")
    asked = target.goal(args, made)
    names = tuple(name for name in asked.collectives if name in algorithms)
    problems = plan.problems(made, replace(asked, collectives=names))
    wanted = {name: algorithms[name] for name in names}
    times = export.measure(site, problems, wanted, args.launches, home() / "runs")
    choices: dict[str, dict[int, int]] = {}
    for problem in problems:
        number = export.choose(times.get(problem.problem, {}))
        choices.setdefault(problem.collective, {})[problem.bytes] = number
        title = algorithms[problem.collective].get(number, "the library's own choice")
        print(f"{problem.collective} {request.format_size(problem.bytes)}: {title}")
    Path(args.output).write_text(export.openmpi_rules(asked.layout.size, choices), encoding="utf-8")
    print(f"written: {args.output}")
    return 0
