"""`collforge report`: what was chosen and why, and a plot of it."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from pathlib import Path

from collforge.db import Place, Store, Variant, Winner
from collforge.generator import manifest
from collforge.generator.manifest import UNSIZED_BYTES, Manifest
from collforge.runtime.home import home
from collforge.tuner import plan, request
from collforge.tuner.commands.parsing import Subparsers, add_command, add_database
from collforge.tuner.select import Launch, by_problem, decide_together

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
    made = manifest.load(home() / "generated" / "manifest.json")
    with Store(args.db, create=False) as store:
        places = [place for place in store.places() if args.mpi in (None, place.mpi)]
        series: dict[Place, dict[str, list[Launch]]] = {}
        for place in places:
            verified = store.verified(place.mpi, place.mpi_version)
            series[place] = by_problem(store.measurements(place, args.collective))
            print(f"{place.system}, {place.mpi_version}, {place.layout}:")
            explain(made, series[place], verified)
        winners = store.winners()
    if args.plot:
        plot(made, series, winners, Path(args.plot))
        print(f"plot: {args.plot}")
    return 0


def explain(made: Manifest, history: plan.History, verified: frozenset[Variant]) -> None:
    """Prints each decision, what it rests on, and what came next."""
    for contest in plan.contests(made, plan.measured_problems(history)):
        launches = [history[problem.problem] for problem in contest]
        decision = decide_together(contest[0].collective, launches, verified)
        sizes = ", ".join(map(request.format_size, sorted(one.bytes for one in contest)))
        together = f"{contest[0].collective}@{contest[0].layout}, every size ({sizes} measured)"
        print(f"  {together if len(contest) > 1 else contest[0].problem}: {decision.reason}")
        for other in decision.others[:2]:
            print(f"      next: {other}")


def plot(
    made: Manifest,
    series: dict[Place, dict[str, list[Launch]]],
    winners: Sequence[Winner],
    path: Path,
) -> None:
    """Time against bytes on logarithmic axes, a panel per MPI library and collective."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    panels = sorted(
        {(p, problem.split("@")[0]) for p, problems in series.items() for problem in problems}
    )
    columns = min(5, max(1, len(panels)))
    rows = -(-len(panels) // columns)
    figure, grid = pyplot.subplots(
        rows, columns, figsize=(3.2 * columns, 2.8 * rows), squeeze=False, layout="constrained"
    )
    for axes in grid.flat[len(panels) :]:
        axes.remove()
    for (place, collective), axes in zip(panels, grid.flat):
        native = Variant(collective)
        picked = chosen(winners, place, collective)
        of_every_size = collective in made.unsized
        rest = picked.get(UNSIZED_BYTES, native) if of_every_size else native
        for label, style, pick, otherwise in (
            ("native", "o-", {}, native),
            ("chosen", "s--", picked, rest),
        ):
            points = medians(series[place], collective, pick, otherwise)
            axes.loglog([b for b, _ in points], [t * 1e3 for _, t in points], style, label=label)
        axes.set_title(f"{collective}, {place.mpi} {place.layout}", fontsize=9)
        axes.set_xlabel("bytes", fontsize=8)
        axes.set_ylabel("ms", fontsize=8)
        axes.tick_params(labelsize=7)
    if panels:
        grid.flat[0].legend(fontsize=8)
    figure.savefig(path, dpi=80)
    pyplot.close(figure)


def chosen(winners: Sequence[Winner], place: Place, collective: str) -> dict[int, Variant]:
    return {
        one.choice.bytes: one.choice.variant
        for one in winners
        if one.place == place and one.choice.variant.collective == collective
    }


def medians(
    problems: dict[str, list[Launch]], collective: str, pick: dict[int, Variant], otherwise: Variant
) -> list[tuple[int, float]]:
    """(bytes, median seconds) of the picked variant at each size, or of another where none is picked."""
    points = []
    for problem, launches in problems.items():
        if problem.split("@")[0] != collective:
            continue
        nbytes = int(problem.split(",bytes=", 1)[1].split(",")[0])
        variant = pick.get(nbytes, otherwise)
        samples = [sample for launch in launches for sample in launch.get(variant, ())]
        if samples:
            points.append((nbytes, statistics.median(samples)))
    return sorted(points)
