"""`collforge tune`: the main job."""

from __future__ import annotations

import argparse
import math
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from collforge import units
from collforge.case import Case
from collforge.db import Store
from collforge.errors import CollforgeError
from collforge.generator.manifest import Manifest
from collforge.home import home
from collforge.layout import from_name
from collforge.mpi_library import MpiLibrary
from collforge.place import Place
from collforge.toolchain import build
from collforge.tuner.cli import queue_options
from collforge.tuner.cli.command import Subparsers, add_command
from collforge.tuner.cli.progress import make_display
from collforge.tuner.cli.winner_table import print_winners
from collforge.tuner.decide import bandwidth, plan, profile
from collforge.tuner.decide.decisions import Standing
from collforge.tuner.decide.extrapolation import FARTHEST
from collforge.tuner.decide.next_layouts import growing_layouts, next_layouts
from collforge.tuner.decide.plan import Goal
from collforge.tuner.decide.profile import Profile
from collforge.tuner.run import measuring
from collforge.tuner.run.budget import Allowance, Budget
from collforge.tuner.run.jobs import JobError
from collforge.tuner.run.options import (
    add_database,
    add_mpi,
    find_libraries,
    input_file,
    moment,
    positive,
)
from collforge.tuner.run.tune import Session, Spent, tune
from collforge.tuner.site import expected_times

LEAST_SHARE = 60.0
"""Seconds of each tuning, if the budget has as many."""
EXAMPLE = """\
collforge tune --system emulated --mpi openmpi,mpich --layout 4x2 --budget 16m
  collforge tune --system local --mpi openmpi --collective bcast --sizes 1KiB..64KiB
  collforge tune --system emulated --mpi openmpi --layout 2x2,4x2,8x2
  collforge tune --system emulated --mpi openmpi --profile calls.csv
  collforge tune --system emulated --mpi openmpi --cover 4x2
  collforge tune --config site.py --system cluster --mpi openmpi --cover 512x64 --nodes 8
  collforge tune --config site.py --system cluster --mpi openmpi --layout 8x16 --time-limit 30m --node-hours 20

It can be interrupted at any time: the next call continues from the database."""


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers, "tune", "find the fastest correct variants and store them", EXAMPLE, run
    )
    measuring.add_system(parser, "nodes x ranks per node; several, with commas, are tuned in turn")
    add_mpi(parser)
    measuring.add_problems(parser)
    add_database(parser)
    parser.add_argument(
        "--profile",
        metavar="FILE",
        nargs="+",
        type=input_file,
        help="tune what applications call (COLLFORGE_PROFILE), instead of --layout, --collective and --sizes",
    )
    parser.add_argument(
        "--since",
        metavar="DATE",
        type=moment,
        help="measure again what is decided: for these problems, launches before this date count no more",
    )
    parser.add_argument(
        "--cover",
        metavar="NODESxRANKS",
        help="tune the layouts up to this one from which the map of all others learns most for their nodes",
    )
    parser.add_argument(
        "--nodes",
        type=positive,
        metavar="N",
        help="with --cover: measure on at most so many nodes, and extrapolate from there",
    )
    parser.add_argument(
        "--most-layouts", type=int, default=4, help="with --cover (default: %(default)s)"
    )
    parser.add_argument(
        "--least-part",
        type=float,
        default=0.01,
        help="with --profile: leave out what takes less of the time in collectives (default: %(default)s)",
    )
    parser.add_argument(
        "--budget",
        help="time for measuring, without compiling, e.g. 90s, 10m "
        f"(default: {measuring.PROBLEM_SECONDS:.0f}s for each collective and size with each MPI library)",
    )
    measuring.add_precision(parser)
    queue_options.add_options(parser)
    parser.add_argument("--seed", type=int, default=7, help="of inputs and proposals (default: 7)")


def run(args: argparse.Namespace) -> int:
    """Runs the tunings one after the other. One whose jobs fail does not end the others; returns 1 then."""
    budget = units.parse_duration(args.budget) if args.budget else None
    allowed = queue_options.allowance(args)
    used = Budget(allowed)
    found = find_libraries(args.mpi)
    layouts = asked_layouts(args)
    check(args, found, layouts)
    called = profile.read(args.profile) if args.profile else None
    sessions = [one for library in found for one in open_sessions(args, library, called)]
    if not sessions:  # --cover: what was measured is near enough
        return 0
    queue_options.require_a_job(sessions, allowed)
    if args.dry_run:
        queue_options.print_planned(sessions, allowed)
        return 0
    # The budget does not include compiling.
    deadline = None if budget is None else time.monotonic() + budget
    done: list[tuple[Session, Standing]] = []
    failed = []
    for number, session in enumerate(sessions):
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        left = math.inf if left is None and allowed.is_bounded else left
        share = share_of(sessions[number:], left)
        session.budget.allowance = queue_options.part_of_first(sessions[number:], used)
        title = f"{session.place.mpi} {session.place.layout} ({number + 1} of {len(sessions)})"
        try:
            with make_display(title) as display:
                done.append((session, tune(session, share, display.show)))
        except JobError as error:
            if len(sessions) == 1:
                raise
            failed.append(f"{session.place.mpi} {session.place.layout}: {error}")
        except KeyboardInterrupt:
            again = shlex.join(["collforge", *args.words])
            print(f"\nwhat was measured is in {args.db}; to go on: {again}", file=sys.stderr)
            raise
        used.spend(session.budget.jobs, session.budget.node_seconds)
    print_result(args, done)
    if allowed != Allowance():
        print(f"used {used}")
    print("".join(f"failed: {words}\n" for words in failed), end="")
    return int(bool(failed))


def check(
    args: argparse.Namespace, found: Sequence[MpiLibrary], layouts: Sequence[str | None]
) -> None:
    """Raises CollforgeError, which names the fix, for a wrong command line, before anything is built."""
    if args.nodes and not args.cover:
        raise CollforgeError("--nodes limits what --cover measures: add --cover, or leave it out")
    if args.cover:
        measuring.parse_layout(args.cover, args.system)
    for one in layouts:
        for library in found:
            measuring.site(on_layout(args, one), library.name)
        if not (args.profile or args.cover):
            measuring.goal(on_layout(args, one), build.current_manifest())


def share_of(sessions: Sequence[Session], left: float | None) -> float:
    """The seconds of the first of these tunings; left: of all of them, None without --budget.

    By the number of problems, but at least LEAST_SHARE, so that it can measure something.
    """
    counts = [len(plan.problems(one.manifest, one.goal)) for one in sessions]
    if left is None:
        return max(LEAST_SHARE, measuring.PROBLEM_SECONDS * counts[0])
    return min(left, max(LEAST_SHARE, left * counts[0] / max(1, sum(counts))))


def open_sessions(
    args: argparse.Namespace, library: MpiLibrary, called: Profile | None
) -> list[Session]:
    """Builds what is needed for one MPI library. A tuning for each layout of --layout, --profile or --cover."""
    begin = time.monotonic()
    build.build(library)
    made = measuring.manifest(args)
    precision = {
        **measuring.precision(args),
        "max_launches": max(Goal.max_launches, 2 * args.launches),
        "seed": args.seed,
    }
    if called:
        goals = measuring.profiled_goals(args, called, made, **precision)
    else:
        layouts = covering(args, library) if args.cover else asked_layouts(args)
        goals = [measuring.goal(on_layout(args, one), made, **precision) for one in layouts]
    spent = Spent(building=time.monotonic() - begin)
    sessions = []
    for goal in goals:
        there = on_layout(args, goal.layout.name)
        place = Place.of(measuring.system_name(there), library, goal.layout)
        site = measuring.site(there, library.name)
        known = replace(goal, lanes=known_lanes(args.db, place))
        if args.since and not args.dry_run:
            begin_epochs(args.db, place, made, goal, args.since)
        session = Session(made, known, site, place, args.db, home() / "runs", spent)
        sessions.append(replace(session, anew=bool(args.since)))
        spent = Spent()
    return sessions


def begin_epochs(database: Path, place: Place, made: Manifest, goal: Goal, since: str) -> None:
    """Of the goal's problems."""
    with Store(database) as store, store.transaction():
        for problem in plan.problems(made, goal):
            store.begin_epoch(place, problem.collective, problem.bytes, since)


def asked_layouts(args: argparse.Namespace) -> list[str | None]:
    """The names in --layout, or None for the system's default. Raises CollforgeError for one that is empty."""
    if args.cover or args.profile or args.layout is None:
        return [None]
    names = list(dict.fromkeys(map(str.strip, args.layout.split(","))))
    for name in names:
        from_name(name)  # an empty name would be the default
    return [*names]


def on_layout(args: argparse.Namespace, layout: str | None) -> argparse.Namespace:
    return argparse.Namespace(**{**vars(args), "layout": layout})


def covering(args: argparse.Namespace, library: MpiLibrary) -> list[str | None]:
    """The names of the layouts that --cover asks for, in the order to be measured."""
    most = measuring.parse_layout(args.cover, args.system)
    place = Place.of(measuring.system_name(args), library, most)
    measured = set()
    if args.db.exists():
        with Store(args.db, create=False) as store:
            same = [one for one in store.places() if one.library == place.library]
        known = [from_name(one.layout) for one in same]
        measured = {(at.nodes, at.size // at.nodes) for at in known if at.regular and not at.job}
    ranks = most.size // most.nodes
    shape = (min(most.nodes, args.nodes or most.nodes), ranks)
    choose = next_layouts if shape[0] == most.nodes else growing_layouts
    found = [f"{n}x{r}" for n, r in choose(measured, shape, args.most_layouts)]
    print(
        f"{library.name}: layouts to measure: {', '.join(found) or 'none, those measured are near enough'}"
    )
    if shape[0] < most.nodes:
        print(f"{library.name}: {unlearnt(shape[0], most.nodes)}")
    return [*found]


def unlearnt(nodes: int, most: int) -> str:
    """What measurements on so many nodes cannot tell of ``most`` nodes."""
    end = min(most, FARTHEST * nodes)
    if nodes == 1:
        return "measurements on one node tell nothing of several: these stay native, unless some are measured"
    return (
        f"beyond {nodes} nodes the map is extrapolated, up to {end}, by what rounds, messages and bytes took. "
        "What this cannot tell: algorithms that native takes on more nodes only; links that more nodes share; "
        "what grows and is none of these, such as connections. So a job tries what is extrapolated against "
        "native first, and reductions are native there (collforge why tells the terms)"
    )


def known_lanes(database: Path, place: Place) -> int:
    """The physical lanes of a node; 0 if not known."""
    if not database.exists():
        found = bandwidth.lanes(place)
    else:
        with Store(database, create=False) as store:
            found = bandwidth.lanes(place, store)
    return found.number if found else 0


def print_result(args: argparse.Namespace, tuned: Sequence[tuple[Session, Standing]]) -> None:
    """Prints the requested winners, the open problems with the command that continues, and the time spent."""
    with Store(args.db) as store:
        for session, standing in tuned:
            print_asked(store, session, standing)
    going_on = 0
    for session, standing in tuned:
        asked = standing.asked()
        left = [one for one in asked if not standing.is_settled(one)]
        done = [one for one in left if standing.is_exhausted(one)]
        rest = [one for one in left if one not in done]
        long = queue_options.too_long(session, standing)
        going_on += max(0, len(rest) - len(long))
        share = 1 - len(left) / len(asked) if asked else 1.0
        print(
            f"{name_of(session, tuned)}: {len(asked) - len(left)} of {len(asked)} problems decided "
            f"({share:.0%})"
            + (f"; open: {', '.join(names(rest))}" if rest else "")
            + (
                f"; too long for --time-limit: {', '.join(names([one for one, _ in long]))}, "
                f"--time-limit {max(limit for _, limit in long) / 60:.0f}m would do"
                if long
                else ""
            )
            + (f"; undecided after their most launches: {', '.join(names(done))}" if done else "")
        )
    for session, _ in tuned:
        for one in session.cuts.left_out():
            print(
                f"{name_of(session, tuned)}: left out, its jobs were ended ({session.cuts.last}): {one}"
            )
        if session.cuts.ended:
            cuts = f"{session.cuts.ended} ({session.cuts.last})"
            print(f"{name_of(session, tuned)}: jobs that were ended early: {cuts}")
        if session.cuts.trouble:
            print(f"{name_of(session, tuned)}: in the last job: {session.cuts.trouble[:400]}")
        of = session.spent
        print(
            f"{name_of(session, tuned)}: {of.measuring:.0f} s measuring, {of.launching:.0f} s launching, "
            f"{of.building:.0f} s building, {of.thinking:.0f} s thinking"
        )
    if going_on:
        words = shlex.join(["collforge", *args.words])
        print(f"to continue with the open problems, run again: {words}")


def name_of(session: Session, tuned: Sequence[tuple[Session, Standing]]) -> str:
    """The MPI library, with the layout if several were tuned."""
    several = len({one.place.layout for one, _ in tuned}) > 1
    return f"{session.place.mpi} {session.place.layout}" if several else session.place.mpi


def print_asked(store: Store, session: Session, standing: Standing) -> None:
    """Prints the stored winners of this run's problems only."""
    place, made = session.place, session.manifest
    asked = {
        (one.collective, made.collective(one.collective).choice_bytes(one.bytes))
        for one in standing.asked()
    }
    winners = [
        one
        for one in store.winners_at(place)
        if (one.choice.variant.collective, one.choice.bytes) in asked
    ]
    undecided = [
        (at, one)
        for at, one in store.undecided(place.system, place.mpi, place.layout)
        if at == place and (one.collective, one.bytes) in asked
    ]
    if winners or undecided:
        print_winners(winners, undecided, made, expected_times.read(store, winners))
    elif asked:
        enough = max(LEAST_SHARE, measuring.PROBLEM_SECONDS * len(asked))
        print(
            f"{place.mpi} {place.layout}: budget too small, none of {len(asked)} problems was measured: "
            f"try --budget {enough:.0f}s"
        )


def names(problems: Sequence[Case]) -> list[str]:
    """Each collective with its sizes: ``bcast 4 KiB 16 KiB``."""
    sizes: dict[str, list[str]] = {}
    for one in problems:
        sizes.setdefault(one.collective, []).append(units.format_about(one.bytes))
    return [f"{collective} {' '.join(each)}" for collective, each in sizes.items()]
