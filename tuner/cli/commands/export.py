"""`collforge export`: times the library's own algorithms, writes its tuning file and reads that back."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from collforge import units
from collforge.errors import CollforgeError
from collforge.home import home
from collforge.toolchain import build, libraries
from collforge.tuner.cli.command import Subparsers, add_command
from collforge.tuner.decide import plan
from collforge.tuner.native import export, read_back
from collforge.tuner.native.algorithms import tuning_file
from collforge.tuner.native.export import TuningFile
from collforge.tuner.native.read_back import Row
from collforge.tuner.run import measuring
from collforge.tuner.run.jobs import Site

EXAMPLE = """\
collforge export --to openmpi --system emulated --output rules.conf
  mpirun --mca coll_tuned_use_dynamic_rules 1 --mca coll_tuned_dynamic_rules_filename rules.conf ./app

  collforge export --to openmpi5 --system emulated --output rules.conf      (writes rules.han.conf, too)
  mpirun --mca coll_tuned_use_dynamic_rules 1 --mca coll_tuned_dynamic_rules_filename $PWD/rules.conf \\
         --mca coll_han_use_dynamic_file_rules 1 --mca coll_han_dynamic_rules_filename $PWD/rules.han.conf ./app

  collforge export --to mpich --system emulated --output rules.json
  mpiexec -genv MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE rules.json \\
          -genv MPIR_CVAR_CH4_COLL_SELECTION_TUNING_JSON_FILE rules.ch4.json ./app

For those who cannot preload: it names the best of the library's own algorithms, no variant of ours. The
header of the file has all the settings it needs. When the file is written, every rule is tried in a launch
under these settings: rules that the library does not follow are removed, and the exit status is then 1."""


def add_parser(subparsers: Subparsers) -> None:
    summary = "time the MPI library's own algorithms and write its tuning file"
    parser = add_command(subparsers, "export", summary, EXAMPLE, run)
    parser.add_argument(
        "--to",
        required=True,
        metavar="NAME",
        help="the MPI library: openmpi, mpich, or that of a prefix",
    )
    measuring.add_system(parser)
    measuring.add_problems(parser)
    parser.add_argument("--launches", type=int, default=3, help="of each algorithm (default: 3)")
    parser.add_argument(
        "--output", default="rules.conf", help="file to write (default: %(default)s)"
    )


def say(text: str) -> None:
    """Prints a line of progress and flushes it, so that a log file shows it at once."""
    print(text, file=sys.stderr, flush=True)


def run(args: argparse.Namespace) -> int:
    library = libraries.find(args.to)
    args.mpi = library.name
    site = measuring.site(args, library.name)
    measuring.goal(args, build.current_manifest())  # a wrong command line ends before the build
    build.build(library)
    made = build.read_manifest()
    asked = measuring.goal(args, made)
    if asked.layout.job:
        raise CollforgeError(
            f"{library.name} cannot know the parts of a job: export --layout {asked.layout.alone.name}"
        )
    file = tuning_file(library, Path(args.output).absolute(), asked.layout.size)
    names = tuple(name for name in asked.collectives if name in file.algorithms)
    file.reasons.update(
        (name, file.not_exported.get(name, "it is no collective of the MPI library"))
        for name in asked.collectives
        if name not in names
    )
    problems = plan.problems(made, replace(asked, collectives=names))
    if not problems:
        raise CollforgeError(
            "; ".join(f"{name} is not exported: {why}" for name, why in file.reasons.items())
        )
    runs = home() / "runs"
    times = export.measure(site, problems, file, args.launches, runs, say)
    choices: dict[str, dict[int, int]] = {}
    for problem in problems:
        of_problem = times.get(problem.problem, {})
        number = export.choose(of_problem)
        choices.setdefault(problem.collective, {})[problem.bytes] = number
        title = file.algorithms[problem.collective].get(number, "the library's own choice")
        slower = export.lost(of_problem) if number == export.OWN_CHOICE else 1.0
        less = f"; takes {slower:.2f} times as long under the file's settings" * (slower > 1)
        print(f"{problem.collective} {units.format_size(problem.bytes)}: {title}{less}")
    file.reasons.update(file.not_expressible(choices))
    for name, reason in file.reasons.items():
        choices.pop(name, None)
        print(f"{name} is not exported: {reason}")
    return prove(site, asked.layout.name, file, choices, runs)


def prove(
    site: Site, layout: str, file: TuningFile, choices: dict[str, dict[int, int]], runs: Path
) -> int:
    """Writes the file and reads it back until the library follows every rule in it.

    If an algorithm delegates calls of this size to another, the other's time was measured; the rule then
    names the other.
    """
    handed: list[Row] = []
    refused: list[Row] = []
    while True:
        file.write(choices)
        asked = file.asked(choices)
        if not asked:
            rows: list[Row] = []
            break
        say(f"reading back: {len(asked)} calls, a few seconds for each launch")
        rows = file.read_back(site, layout, choices, runs)
        again = [row for row in rows if row.why_not and row.why_not != read_back.ENDED]
        # Nothing is known yet about the calls after the one that ended the launch.
        again += [row for row in rows if row.why_not == read_back.ENDED][:1]
        if not again:
            break
        for row in again:
            number = file.number(row) if row not in handed else export.OWN_CHOICE
            (handed if number != export.OWN_CHOICE else refused).append(row)
            rules = choices[row.asked.collective]
            unsized = row.asked.collective in file.unsized
            for nbytes in list(rules) if unsized else [row.asked.bytes]:
                rules[nbytes] = number
    file.write(choices, [*rows, *handed, *refused])
    for row in [*rows, *handed, *refused]:
        print(row)
    print(
        f"written: {file.path}; rules confirmed: {len(rows)}, of them for what another algorithm "
        f"handed over to: {len(handed)}; not taken: {len(refused)}"
    )
    if refused:
        say("collforge export: rules that are not taken are not in the file; see `not taken` above")
    return 1 if refused else 0
