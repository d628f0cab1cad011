"""`collforge report`: what was chosen and why, and a plot of it."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from collforge.db import Store, Winner
from collforge.generator.manifest import UNSIZED_BYTES, Manifest
from collforge.layout import from_name
from collforge.place import Place
from collforge.toolchain import build
from collforge.tuner import plan, request
from collforge.tuner.commands.parsing import Subparsers, add_command, add_database
from collforge.tuner.evidence import History, measured_problems
from collforge.tuner.plan import Goal
from collforge.tuner.plots import Line, draw
from collforge.tuner.standing import Standing, read_standing
from collforge.variant import Variant

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
        help="draw time against bytes, native and chosen (.png, .svg, .pdf)",
    )


def run(args: argparse.Namespace) -> int:
    made = build.read_manifest()
    collectives = [args.collective] if args.collective else [one.name for one in made.collectives]
    series: dict[Place, History] = {}
    with Store(args.db, create=False) as store:
        for place in store.places():
            if args.mpi in (None, place.mpi):
                goal = Goal(from_name(place.layout), tuple(collectives), ())
                standing = read_standing(store, made, goal, place)
                print(f"{place.system}, {place.mpi_version}, {place.layout}:")
                explain(made, standing)
                explain_stale(made, store, place)
                series[place] = standing.seen.history
        winners = store.winners()
    if args.plot:
        plot(made, series, winners, Path(args.plot))
        print(f"plot: {args.plot}")
    return 0


def explain(made: Manifest, standing: Standing) -> None:
    """Prints each decision, what it rests on, and what came next."""
    decided = measured_problems(p for p in standing.seen.history if p in standing.decisions)
    for contest in plan.contests(made, decided):
        collective = contest[0].collective
        decision = standing.decisions[contest[0].problem]
        sizes = ", ".join(map(request.format_size, sorted(one.bytes for one in contest)))
        together = f"{collective}@{contest[0].layout}, every size ({sizes} measured)"
        print(f"  {together if len(contest) > 1 else contest[0].problem}: {decision.reason}")
        for other in decision.others[:2]:
            print(f"      next: {other}")


def explain_stale(made: Manifest, store: Store, place: Place) -> None:
    """Prints which winners no longer serve, and what has changed in them since they were verified."""
    current = {entry.fingerprint: entry for entry in made.variants}
    for winner in store.winners(place.system, place.mpi, place.layout):
        variant = winner.choice.variant
        if winner.place != place or variant.is_native or variant.fingerprint in current:
            continue
        was = store.sources(variant.fingerprint)
        now = [e.parts for e in made.variants_of(variant.collective) if e.family == variant.family]
        size = request.format_size(winner.choice.bytes)
        print(f"  {variant.collective} of {size}: {variant.name} is stale: {_changed(was, now)}")


def _changed(was: Mapping[str, str], now: Sequence[Mapping[str, str]]) -> str:
    if not now:
        return "the family no longer serves the collective"
    if not was:
        return "it was tuned by a version that did not store what variants are made of"
    (parts,) = now
    files = sorted(f for f in {*was, *parts} if was.get(f) != parts.get(f))
    shown = ["its composition or template" if file == "variant" else file for file in files]
    return f"since it was verified {', '.join(shown)} changed"


def plot(
    made: Manifest,
    series: Mapping[Place, History],
    winners: Sequence[Winner],
    path: Path,
) -> None:
    """A panel per MPI library and collective: native, and what was chosen."""
    panels: dict[str, list[Line]] = {}
    found = sorted(
        {(p, one.collective) for p, known in series.items() for one in measured_problems(known)}
    )
    for place, collective in found:
        native = Variant(collective)
        picked = chosen(winners, place, collective)
        rest = picked.get(UNSIZED_BYTES, native) if collective in made.unsized else native
        panels[f"{collective}, {place.mpi} {place.layout}"] = [
            Line("native", "o-", medians(series[place], collective, {}, native)),
            Line("chosen", "s--", medians(series[place], collective, picked, rest)),
        ]
    draw(panels, path)


def chosen(winners: Sequence[Winner], place: Place, collective: str) -> dict[int, Variant]:
    return {
        one.choice.bytes: one.choice.variant
        for one in winners
        if one.place == place and one.choice.variant.collective == collective
    }


def medians(
    problems: History, collective: str, pick: dict[int, Variant], otherwise: Variant
) -> list[tuple[int, float]]:
    """(bytes, median seconds) of the picked variant at each size, or of another where none is picked."""
    points = []
    for problem in measured_problems(problems, collective):
        variant = pick.get(problem.bytes, otherwise)
        launches = problems[problem.problem]
        samples = [sample for launch in launches for sample in launch.get(variant, ())]
        if samples:
            points.append((problem.bytes, statistics.median(samples)))
    return sorted(points)
