"""`collforge report`: the winners, the measurements behind them, and a plot."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from datetime import date

from collforge import units
from collforge.db import Store
from collforge.errors import CollforgeError, unknown
from collforge.generator.manifest import Manifest
from collforge.layout import from_name
from collforge.mpi_library import short_version
from collforge.place import Place
from collforge.toolchain import build
from collforge.tuner.cli import report_plot, tables
from collforge.tuner.cli.command import Subparsers, add_command
from collforge.tuner.decide import bandwidth, profile
from collforge.tuner.decide.decisions import Standing, read_standing
from collforge.tuner.decide.evidence import measured_problems
from collforge.tuner.decide.plan import Goal
from collforge.tuner.run import measuring
from collforge.tuner.run.options import (
    add_database,
    add_json,
    day,
    input_file,
    page_file,
    plot_file,
)
from collforge.tuner.site import side_by_side, spread

EXAMPLE = """\
collforge report
  collforge report --collective bcast --plot bcast.png
  collforge report --since 2026-01-31
  collforge report --libraries
  collforge report --html report.html --profile calls.csv

--since tells how times spread over launches, days and nodes; --libraries compares the MPI libraries that were
measured on the same system and layout."""


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers, "report", "show the winners and the evidence for them", EXAMPLE, run
    )
    add_database(parser)
    add_json(parser)
    parser.add_argument("--system", help="one system only")
    parser.add_argument("--mpi", help="one MPI library only")
    parser.add_argument("--collective", help="one collective only")
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument(
        "--since",
        metavar="DATE",
        type=day,
        help="percentiles and spread of the launches from this date on",
    )
    kinds.add_argument(
        "--libraries", action="store_true", help="the MPI libraries of the database side by side"
    )
    kinds.add_argument(
        "--html",
        metavar="FILE",
        type=page_file,
        help="write a page with charts, which needs no network (collforge[report])",
    )
    parser.add_argument(
        "--profile",
        metavar="FILE",
        nargs="+",
        type=input_file,
        help="with --html: what applications call (COLLFORGE_PROFILE), and what winners save",
    )
    kinds.add_argument(
        "--plot",
        metavar="FILE",
        type=plot_file,
        help="draw the links' bandwidth against bytes, native and chosen (.png, .svg, .pdf)",
    )


def run(args: argparse.Namespace) -> int:
    check_page(args)
    made = build.read_manifest()
    collectives = measuring.parse_collectives(args.collective or "all,nonblocking", made)
    with Store(args.db, create=False) as store:
        everywhere = store.places()
        for what in ("system", "mpi"):
            known = {getattr(place, what) for place in everywhere}
            if known and getattr(args, what) not in (None, *known):
                raise unknown("MPI library" if what == "mpi" else what, getattr(args, what), known)
        places = [
            place
            for place in everywhere
            if args.mpi in (None, place.mpi) and args.system in (None, place.system)
        ]
        if args.html:
            write_page(args, store, made, places)
            return 0
        if args.since:
            tables.write_document(args, show_spread(store, places, args.since, collectives))
            return 0
        if args.libraries:
            tables.write_document(args, show_libraries(store, places, collectives))
            return 0
        rows: list[dict[str, object]] = []
        for place in places:
            goal = Goal(from_name(place.layout), collectives, ())
            print(f"{place.system}, {short_version(place.mpi_version)}, {place.layout}:")
            standing = read_standing(store, made, goal, place)
            explain(standing)
            rows += facts(standing, place)
            explain_stale(made, store, place, collectives)
        panels = bandwidth.read_series(store, made, places, collectives)
    if args.plot and not panels:
        raise CollforgeError(
            "nothing was measured that moves data between nodes, whose bandwidth this plot shows: "
            "`collforge bench --plot` draws times"
        )
    if args.plot:
        report_plot.draw(panels, args.plot)
        print(f"plot: {args.plot}")
    tables.write_document(args, rows)
    return 0


def check_page(args: argparse.Namespace) -> None:
    """Raises CollforgeError for options that do not go with --html, or only with it."""
    if args.profile and not args.html:
        raise CollforgeError("--profile needs --html; without it: `collforge profile gain`")
    for name in ("collective", "json"):
        if args.html and getattr(args, name):
            raise CollforgeError(f"--html shows all collectives in one file: leave out --{name}")


def write_page(
    args: argparse.Namespace, store: Store, made: Manifest, places: Sequence[Place]
) -> None:
    """Writes --html."""
    from collforge.tuner.page import facts, render  # the packages for charts are an extra

    systems = sorted({place.system for place in places})
    called = profile.read(args.profile) if args.profile else None
    text = render.page(
        facts.read(store, made, places, called),
        f"Collforge: {', '.join(systems) or args.db.name}",
    )
    args.html.write_text(text, encoding="utf-8")
    print(f"page: {args.html} ({len(text) / 1e6:.1f} MB)")


def show_spread(
    store: Store, places: Sequence[Place], since: date, collectives: Sequence[str]
) -> list[dict[str, object]]:
    """Prints the spreads, and returns them."""
    runs = spread.launches(store, since.isoformat())
    shown: list[dict[str, object]] = []
    for place in places:
        rows = [
            one for one in spread.read(store, place, runs) if one.variant.collective in collectives
        ]
        if rows:
            version = short_version(place.mpi_version)
            title = f"{place.system}, {version}, {place.layout}: launches since {since}"
            tables.show(spread.table(title, rows))
            shown += [{"place": place, **vars(one)} for one in rows]
    if not shown:
        print(f"nothing was measured since {since}")
    return shown


def show_libraries(
    store: Store, places: Sequence[Place], collectives: Sequence[str]
) -> list[dict[str, object]]:
    """Prints the libraries' times, and returns them."""
    rows = side_by_side.read(store, places, collectives)
    if not rows:
        raise CollforgeError(
            "no two MPI libraries were measured on the same system, layout and size"
        )
    tables.show(side_by_side.table(rows))
    return [
        {"system": system, "problem": problem, "bytes": size, "libraries": row, "fastest": best}
        for (system, _, size, problem), row in sorted(rows.items())
        for best in [side_by_side.fastest(row)]
    ]


def facts(standing: Standing, place: Place) -> list[dict[str, object]]:
    """A row for each decision, with the estimates of the winner and its runners-up."""
    return [
        {
            "place": place,
            "problem": problem,
            "settled": decision.settled,
            "reason": decision.reason,
            "winner": decision.winner,
            "others": decision.others,
        }
        for problem, decision in sorted(standing.decisions.items())
    ]


def explain(standing: Standing) -> None:
    """Prints each decision, its evidence, and the runners-up."""
    decided = measured_problems(p for p in standing.seen.history if p in standing.decisions)
    for problem in decided:
        decision = standing.decisions[problem.problem]
        print(f"  {problem.problem}: {decision.reason}")
        for other in decision.others[:2]:
            why = decision.obstacles.get(
                other.variant, "was never among the fastest before a launch"
            )
            faster = decision.settled and other.ratio > decision.winner.ratio
            print(f"      next: {other}" + (f"; it {why}" if faster else ""))


def explain_stale(made: Manifest, store: Store, place: Place, collectives: Sequence[str]) -> None:
    """Prints these collectives' winners that no longer apply, and the C files that changed since."""
    current = {entry.fingerprint: entry for entry in made.variants}
    for winner in store.winners(place.system, place.mpi, place.layout):
        variant = winner.choice.variant
        if winner.place != place or variant.collective not in collectives:
            continue
        if variant.is_native or variant.fingerprint in current:
            continue
        was = store.sources(variant.fingerprint)
        now = [e.parts for e in made.variants_of(variant.collective) if e.family == variant.family]
        size = units.format_size(winner.choice.bytes)
        print(f"  {variant.collective} of {size}: {variant.name} is stale: {_changed(was, now)}")


def _changed(was: Mapping[str, str], now: Sequence[Mapping[str, str]]) -> str:
    if not now:
        return "the family no longer serves the collective"
    if not was:
        return "it was tuned by a version that did not store the files of variants"
    (parts,) = now
    files = sorted(f for f in {*was, *parts} if was.get(f) != parts.get(f))
    shown = ["its composition or template" if file == "variant" else file for file in files]
    return f"since it was verified {', '.join(shown)} changed"
