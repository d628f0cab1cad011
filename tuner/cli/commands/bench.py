"""`collforge bench`: native, variants and the tuned choice, compared in one run."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import asdict

from collforge import case
from collforge.case import Case
from collforge.db import Store
from collforge.errors import CollforgeError, unknown
from collforge.generator.manifest import Manifest, VariantEntry
from collforge.home import home
from collforge.layout import from_name
from collforge.mpi_library import MpiLibrary
from collforge.place import Place
from collforge.toolchain import build, libraries
from collforge.tuner.cli import bench_tables, tables
from collforge.tuner.cli.command import Subparsers, add_command
from collforge.tuner.decide import plan
from collforge.tuner.decide.evidence import Launch
from collforge.tuner.native import algorithms
from collforge.tuner.run import benchmark, measuring
from collforge.tuner.run.benchmark import (
    Environment,
    Known,
    Measured,
    Row,
    make_row,
    stages,
    usual_variants,
)
from collforge.tuner.run.jobs import Job
from collforge.tuner.run.options import add_database, add_mpi, add_output, input_file
from collforge.variant import NATIVE, split_name

EXAMPLE = """\
collforge bench --system emulated --mpi openmpi --layout 4x2 --sizes 1MiB
  collforge bench --system emulated --mpi mpich bcast@4x2,bytes=65536 allreduce:hierarchical@4x2,bytes=65536

A CASE is a case string, with or without a variant; without CASEs, all collectives at the --sizes."""


def add_parser(subparsers: Subparsers) -> None:
    summary = "time native, each variant and the tuned choice, interleaved in one process"
    parser = add_command(subparsers, "bench", summary, EXAMPLE, run)
    measuring.add_system(parser)
    add_mpi(parser, required=True)
    measuring.add_problems(parser)
    add_database(parser)
    parser.add_argument("--launches", type=int, default=3, help="default: %(default)s")
    parser.add_argument(
        "--samples", type=int, default=10, help="rounds in each (default: %(default)s)"
    )
    parser.add_argument(
        "--in-a-row",
        type=int,
        metavar="N",
        default=1,
        help="time N consecutive calls, as the OSU and Intel benchmarks do, for collectives in which every "
        "rank waits for all (allreduce, alltoall, ...); default: single calls, except very short ones",
    )
    parser.add_argument(
        "--over-drop-in",
        action="store_true",
        help="compare hybrid collectives with the tuned drop-in ones of --db instead of native",
    )
    add_other_natives(parser)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--tuned-only", action="store_true", help="native and the tuned choice only")
    which.add_argument(
        "--neighbours",
        action="store_true",
        help="for sizes that were not tuned: native, the tuned choice, and the winners of neighbouring sizes",
    )
    which.add_argument(
        "--steps",
        action="store_true",
        help="the plain full-lane composition of the multi-lane paper, and the speed-up of each step beyond it",
    )
    which.add_argument(
        "--each",
        action="store_true",
        help="a row for each variant instead of the best of each family",
    )
    which.add_argument(
        "--wide",
        action="store_true",
        help="also the best of each family, the bandwidth limit, processor time and temporaries",
    )
    parser.add_argument("--seed", type=int, default=7, help="seed of the inputs (default: 7)")
    add_output(parser)
    parser.add_argument("cases", nargs="*", metavar="CASE", help="case strings")


def add_other_natives(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--native-also",
        action="append",
        metavar="'NAME:VARIABLE=VALUE ...'",
        default=[],
        help="native once more, as native/NAME, in launches with these environment variables, e.g. "
        "MR:PSM2_MULTIRAIL=1; may be repeated",
    )
    parser.add_argument(
        "--native-algorithms",
        action="store_true",
        help="each algorithm of the MPI library that `export` can select, as native/algorithm, in launches of "
        "its own; the database keeps the fastest of each call for the page of `report`",
    )
    parser.add_argument(
        "--exported",
        type=input_file,
        metavar="FILE",
        help="native under a file that `export` wrote, as native/exported, in launches of its own",
    )


def run(args: argparse.Namespace) -> int:
    library = libraries.find(args.mpi)
    site = measuring.site(args, library.name)
    asked(args, library, build.current_manifest())  # a wrong command line ends before the build
    build.build(library)
    made = measuring.manifest(args)
    if site.is_simulated:
        args.cases = simulable(made, args.cases)
    known, cases = asked(args, library, made)
    if site.is_simulated:
        cases = fitting(known.made, cases)
    goal = known.goal
    job = Job(
        cases,
        goal.layout.name,
        args.samples,
        3600.0,
        args.seed,
        time_limit=3600.0,
        costs=not site.is_simulated,
        in_a_row=args.in_a_row,
        drop_in_by=args.db if args.over_drop_in else None,
    )
    standard = "drop-in" if args.over_drop_in else NATIVE
    # No variable of an MPI library means anything in a simulation.
    others = [] if site.is_simulated else other_natives(args, library, cases)
    measured = benchmark.measure(site, job, args.launches, home() / "runs", others)
    for name in algorithms.not_measured(others, cases, measured):
        print(f"{name} was not measured: it, or a call before it in its launches, failed")
    problems = {one.problem: one.by(NATIVE) for one in cases}.values()
    if args.native_algorithms and args.db.exists():
        with Store(args.db) as store:
            place = Place.of(measuring.system_name(args), library, goal.layout)
            store.record_native_best(algorithms.best(place, problems, measured))
    rows = [make_row(known, problem, measured) for problem in problems]
    show(args, known, list(zip(problems, rows)), standard)
    picture = bench_tables.picture(rows, library.name, standard, args.each)
    tables.save(args, library.short_version, plain_rows(args, known, measured, rows), picture)
    return 0


def asked(
    args: argparse.Namespace, library: MpiLibrary, made: Manifest
) -> tuple[Known, list[Case]]:
    """What the command line asks for. Raises CollforgeError, which names the fix, if that is nothing."""
    goal = measuring.goal(args, made)
    place = Place.of(measuring.system_name(args), library, goal.layout)
    known = benchmark.read_known(made, goal, args.db, place)
    cases = wanted_cases(args, known)
    if not cases:
        raise CollforgeError("nothing to time: --sizes and --collective leave no call")
    return known, cases


def other_natives(
    args: argparse.Namespace, library: MpiLibrary, cases: Sequence[Case]
) -> list[Environment]:
    """Raises CollforgeError for options with which the other natives would not be shown, or not be native."""
    found = [Environment.parse(text) for text in args.native_also]
    if not (found or args.exported or args.native_algorithms):
        return []
    if args.over_drop_in or args.steps or args.neighbours:
        raise CollforgeError(
            "--native-also, --exported and --native-algorithms do not go with --over-drop-in, "
            "--steps or --neighbours"
        )
    ranks = from_name(cases[0].layout).size
    if args.exported:
        found.append(algorithms.exported(library, args.exported, ranks))
    if args.native_algorithms:
        each = algorithms.each(library, ranks, {one.collective for one in cases})
        if not each:
            raise CollforgeError("no algorithm of these collectives can be selected by `export`")
        found += each
    return found


BUFFERS = 5
"""Copies of a rank's data at a time, about: its buffers, those of a variant, what the driver expects."""

LINK_BOUND = 1e-3
"""Seconds that the links take at least, from which they count on the emulated cluster, and not shared cores."""


def plain_rows(
    args: argparse.Namespace, known: Known, measured: Measured, rows: Sequence[Row]
) -> list[dict[str, object]]:
    """The rows for --json, with ``size``, that of --sizes (maybe per node), every sample, and doubts."""
    doubt = measuring.crowded(args, known.goal.layout)
    sizes = {
        plan.problem_at(known.made, known.goal, collective, size).problem: size
        for size in known.goal.sizes
        for collective in known.goal.collectives
    }
    derived = ("of_limit", "native_of_limit", "cpu_ratio", "over_neighbour")
    return [
        {
            **asdict(row),
            **{name: getattr(row, name) for name in derived},
            "size": sizes.get(row.problem, row.bytes),
            "doubt": "" if args.system == "emulated" and (row.limit or 0) > LINK_BOUND else doubt,
            "samples": samples(measured.launches[row.problem]),
        }
        for row in rows
    ]


def samples(launches: Sequence[Launch]) -> dict[str, list[Sequence[float]]]:
    """Variant -> seconds of each launch."""
    names = {variant for launch in launches for variant in launch}
    return {one.name: [launch.get(one, ()) for launch in launches] for one in sorted(names)}


def show(
    args: argparse.Namespace, known: Known, found: Sequence[tuple[Case, Row]], standard: str
) -> None:
    """Prints the table that the options select."""
    rows = [row for _, row in found]
    where = f"{args.mpi}, {known.goal.layout.name}"
    if args.steps:
        bench_tables.print_steps([(stages(known, one), row) for one, row in found], args.mpi)
    elif args.neighbours:
        bench_tables.print_neighbours(rows, where)
    elif args.each:
        bench_tables.print_each(rows, where, standard)
    elif args.wide or args.native_also or args.exported or args.native_algorithms:
        bench_tables.print_wide(rows, where, standard)
    else:
        bench_tables.print_rows(rows, where, standard)


def wanted_cases(args: argparse.Namespace, known: Known) -> list[Case]:
    """The cases of every requested problem: native, and the named variants or, by default, the usual ones."""
    asked = [case.parse(text) for text in args.cases]
    groups: dict[str, dict[str, Case]] = {}
    for one in asked or plan.problems(known.made, known.goal):
        group = groups.setdefault(one.problem, {NATIVE: one.by(NATIVE)})
        if one.variant == NATIVE:
            names = default_variants(args, known, one)
        else:
            facts = from_name(one.layout).facts()
            names = [entry_of(known.made, one).completed(one.variant, facts)]
        group.update((name, one.by(name)) for name in names)
    found = [one for group in groups.values() for one in group.values()]
    if args.over_drop_in and not all(known.made.collective(one.collective).hybrid for one in found):
        raise CollforgeError("--over-drop-in is for hybrid collectives, e.g. --collective hybrid")
    return found


def simulable(made: Manifest, cases: Sequence[str]) -> list[str]:
    """Without those whose variants a simulation leaves out, which are printed."""
    kept, left_out = [], set[str]()
    for text in cases:
        one = case.parse(text)
        try:
            if one.variant != NATIVE:
                entry_of(made, one).completed(one.variant, from_name(one.layout).facts())
            kept.append(text)
        except CollforgeError:
            left_out.add(f"{one.collective}:{one.variant}")
    print("".join(f"left out: {name} cannot be simulated\n" for name in sorted(left_out)), end="")
    if cases and not kept:
        raise CollforgeError("nothing to time: no call can be simulated")
    return kept


def fitting(made: Manifest, cases: Sequence[Case]) -> list[Case]:
    """Those of which this machine has the memory of all ranks; what is left out is printed.

    Raises CollforgeError if that is all.
    """
    most = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    kept, left_out = [], set[str]()
    for one in cases:
        ranks = from_name(one.layout).size
        needed = BUFFERS * ranks * made.collective(one.collective).total_bytes(ranks, one.bytes)
        if needed <= most:
            kept.append(one)
        else:
            left_out.add(f"{one.problem}: its simulation needs {needed >> 30} GiB")
    print("".join(f"left out: {words}\n" for words in sorted(left_out)), end="")
    if not kept:
        raise CollforgeError("nothing to time: no call fits into this machine's memory")
    return kept


def entry_of(made: Manifest, asked: Case) -> VariantEntry:
    """The entry of a case's variant. Raises CollforgeError if the collective has no such variant."""
    family, _ = split_name(asked.variant)
    entries = {entry.family: entry for entry in made.variants_of(asked.collective)}
    if family not in entries:
        raise unknown("family", family, sorted(entries))
    return entries[family]


def default_variants(args: argparse.Namespace, known: Known, problem: Case) -> list[str]:
    if args.steps:
        return list(stages(known, problem).values())
    if args.tuned_only or args.neighbours:
        tuned = known.tuned(problem)
        beside = known.neighbours(problem) if args.neighbours else []
        found = [one for one in (tuned, *beside) if one and not one.is_native]
        return list(dict.fromkeys(one.name for one in found))
    return usual_variants(known, problem)
