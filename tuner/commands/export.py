"""`collforge export`: times the library's own algorithms, writes its tuning file and reads that back."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from collforge.home import home
from collforge.toolchain import build, libraries
from collforge.tuner import export, plan, read_back, request, target
from collforge.tuner.export import Choices
from collforge.tuner.parsing import Subparsers, add_command
from collforge.tuner.read_back import Asked, Row
from collforge.tuner.run import Site

EXAMPLE = """\
collforge export --to openmpi --system emulated --output rules.conf
  mpirun --mca coll_tuned_use_dynamic_rules 1 --mca coll_tuned_dynamic_rules_filename rules.conf ./app

For those who cannot preload: it names the best of the library's own algorithms, no variant of ours. The
header of the file has all the settings it needs. When the file is written, every rule is tried in a launch
under these settings: rules that the library does not follow are removed, and the exit status is then 1."""
FILE_SETTING = "coll_tuned_dynamic_rules_filename"


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


def say(text: str) -> None:
    """Prints a line of progress and flushes it, so that a log file shows it at once."""
    print(text, file=sys.stderr, flush=True)


def run(args: argparse.Namespace) -> int:
    library = libraries.find(args.to)
    algorithms = export.openmpi_algorithms(library)
    settings = export.openmpi_settings(library)
    args.mpi = library.name
    site = target.site(args, library.name)
    say(f"building for {library.name}, if out of date")
    build.build(library)
    made = build.read_manifest()
    asked = target.goal(args, made)
    names = tuple(name for name in asked.collectives if name in algorithms)
    reasons = {
        name: export.NOT_EXPORTED.get(name, "it is no collective of the MPI library")
        for name in asked.collectives
        if name not in names
    }
    problems = plan.problems(made, replace(asked, collectives=names))
    wanted = {name: algorithms[name] for name in names}
    runs = home() / "runs"
    times = export.measure(site, problems, wanted, settings, args.launches, runs, say)
    choices: dict[str, dict[int, int]] = {}
    for problem in problems:
        of_problem = times.get(problem.problem, {})
        number = export.choose(of_problem)
        choices.setdefault(problem.collective, {})[problem.bytes] = number
        title = algorithms[problem.collective].get(number, "the library's own choice")
        slower = export.lost(of_problem) if number == export.OWN_CHOICE else 1.0
        less = f"; takes {slower:.2f} times as long under the file's settings" * (slower > 1)
        print(f"{problem.collective} {request.format_size(problem.bytes)}: {title}{less}")
    reasons.update(export.not_expressible(choices))
    for name, reason in reasons.items():
        choices.pop(name, None)
        print(f"{name} is not exported: {reason}")
    file = RulesFile(Path(args.output).absolute(), asked.layout.size, settings, algorithms, reasons)
    return prove(site, asked.layout.name, file, choices, runs)


@dataclass(frozen=True)
class RulesFile:
    """The rules file, and the contents that all its versions share."""

    path: Path
    ranks: int
    settings: Mapping[str, str]
    algorithms: Mapping[str, Mapping[int, str]]
    reasons: Mapping[str, str]

    def write(self, choices: Choices, rows: Sequence[Row] = ()) -> None:
        remarks = [f"{name} has no rules: {reason}" for name, reason in self.reasons.items()]
        for name in export.UNSIZED:
            sizes = sorted(choices.get(name, {}))
            if any(choices.get(name, {}).values()):
                first, last = map(request.format_size, (sizes[0], sizes[-1]))
                remarks.append(f"{name}: one rule for all sizes, timed from {first} to {last}")
        remarks += [f"read back: {row}" for row in rows]
        text = export.openmpi_rules(self.ranks, choices, self.settings, remarks)
        self.path.write_text(text, encoding="utf-8")

    def number(self, row: Row) -> int:
        """The number in the corrected rule: the algorithm that the requested one calls, or OWN_CHOICE."""
        titles = self.algorithms[row.asked.collective] if row.handed_over else {}
        return next((n for n, title in titles.items() if title == row.ran), export.OWN_CHOICE)

    def asked(self, choices: Choices) -> list[Asked]:
        """The rules that name an algorithm."""
        return [
            Asked(name, nbytes, self.algorithms[name][number])
            for name, rules in choices.items()
            for nbytes, number in rules.items()
            if number != export.OWN_CHOICE
        ]


def prove(
    site: Site, layout: str, file: RulesFile, choices: dict[str, dict[int, int]], runs: Path
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
        say(f"reading back: one launch of {len(asked)} calls, a few seconds")
        settings = {**file.settings, FILE_SETTING: str(file.path)}
        rows = read_back.launch(site, layout, settings, asked, runs)
        again = [row for row in rows if row.why_not and row.why_not != read_back.ENDED]
        # Nothing is known yet about the calls after the one that ended the launch.
        again += [row for row in rows if row.why_not == read_back.ENDED][:1]
        if not again:
            break
        for row in again:
            number = file.number(row) if row not in handed else export.OWN_CHOICE
            (handed if number != export.OWN_CHOICE else refused).append(row)
            rules = choices[row.asked.collective]
            unsized = row.asked.collective in export.UNSIZED
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
