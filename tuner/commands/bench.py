"""`collforge bench`: native, every variant and the tuned choice, side by side in one run."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from rich.markup import escape
from rich.table import Table

from collforge import case
from collforge.case import Case
from collforge.decision import MARGIN
from collforge.errors import CollforgeError, unknown
from collforge.generator.manifest import VariantEntry
from collforge.home import home
from collforge.layout import from_name
from collforge.mpi_library import MpiLibrary
from collforge.place import Place
from collforge.toolchain import build, libraries
from collforge.tuner import benchmark, instructions, plan, request, tables
from collforge.tuner.benchmark import Known, Row, make_row, stages, usual_variants
from collforge.tuner.commands import startup, target, vci
from collforge.tuner.commands.parsing import Subparsers, add_command, add_database, add_mpi
from collforge.tuner.plots import Line, draw
from collforge.tuner.run import Job
from collforge.variant import NATIVE, split_name

EXAMPLE = """\
collforge bench --system emulated --mpi openmpi --layout 4x2 --sizes 1MiB
  collforge bench --system emulated --mpi mpich bcast@4x2,bytes=65536 allreduce:hierarchical@4x2,bytes=65536
  collforge bench --startup --mpi openmpi

A CASE is a case string, with or without a variant; without CASEs, all collectives at the --sizes."""

LAUNCHES = 3
SAMPLES = 10


def add_parser(subparsers: Subparsers) -> None:
    summary = "time native, each variant and the tuned choice, interleaved in one process"
    parser = add_command(subparsers, "bench", summary, EXAMPLE, run)
    target.add_system(parser)
    add_mpi(parser, required=True)
    target.add_problems(parser)
    add_database(parser)
    parser.add_argument(
        "--launches",
        type=int,
        help="launches (default: 3, with --vci 5, with --startup, --overhead, --small 10)",
    )
    parser.add_argument(
        "--samples", type=int, help="rounds in each (default: 10; 200 with --overhead, --small)"
    )
    parser.add_argument(
        "--in-a-row",
        type=int,
        metavar="N",
        default=1,
        help="time N calls in a row, as OSU's and Intel's benchmarks do, where every rank waits for all "
        "in each (allreduce, alltoall, ...); default: single calls, but for very short ones",
    )
    parser.add_argument(
        "--over-drop-in",
        action="store_true",
        help="compare hybrid collectives with the drop-in ones by the winners of --db instead of native ones",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--tuned-only", action="store_true", help="native and the tuned choice only")
    which.add_argument(
        "--neighbours",
        action="store_true",
        help="native, the tuned choice, and what is stored at the sizes beside each: whether a size that was "
        "not tuned is served well",
    )
    which.add_argument(
        "--steps",
        action="store_true",
        help="the paper's plain full-lane composition, and how much faster each step beyond it is",
    )
    which.add_argument(
        "--each",
        action="store_true",
        help="a row for each variant, not for the best of each family",
    )
    parser.add_argument(
        "--plot", metavar="FILE", help="draw time against bytes, with the limit (.png, .svg, .pdf)"
    )
    parser.add_argument("--seed", type=int, default=7, help="of inputs (default: 7)")
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument(
        "--instructions",
        action="store_true",
        help="count what a call costs when native is its winner, with callgrind, instead",
    )
    instead.add_argument(
        "--startup",
        nargs="?",
        const="local",
        choices=("local", "emulated"),
        help="time what MPI_Init and each communicator cost once, on ranks of this machine or of an "
        "emulated cluster, instead (default: local)",
    )
    instead.add_argument(
        "--overhead",
        action="store_true",
        help="time a program for which native won everywhere, with and without the preload, instead",
    )
    instead.add_argument(
        "--small",
        action="store_true",
        help="time calls of 8 bytes among ranks that share memory, preloaded and native, instead",
    )
    instead.add_argument(
        "--vci",
        action="store_true",
        help="message rates of threads, by communicators and interfaces (VCIs), on this machine, instead",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("cases", nargs="*", metavar="CASE", help="case strings")


def run(args: argparse.Namespace) -> int:
    library = libraries.find(args.mpi)
    if args.instructions:
        return count_instructions(library)
    if args.startup:
        return startup.show_start(library, args)
    if args.overhead:
        return startup.show_overhead(library, args)
    if args.small:
        return startup.show_small(library, args)
    if args.vci:
        return vci.show(library, args)
    site = target.site(args, library.name)
    build.build(library)
    made = build.read_manifest()
    goal = target.goal(args, made)
    place = Place.of(target.system_name(args), library, goal.layout)
    known = benchmark.read_known(made, goal, args.db, place)
    cases = wanted_cases(args, known)
    job = Job(
        cases,
        goal.layout.name,
        args.samples or SAMPLES,
        3600.0,
        args.seed,
        time_limit=3600.0,
        costs=True,
        in_a_row=args.in_a_row,
        drop_in_by=args.db if args.over_drop_in else None,
    )
    standard = "drop-in" if args.over_drop_in else NATIVE
    measured = benchmark.measure(site, job, args.launches or LAUNCHES, home() / "runs")
    rate = target.link_rate(args)
    problems = {one.problem: one.by(NATIVE) for one in cases}.values()
    rows = [make_row(known, problem, measured, rate) for problem in problems]
    if args.plot:
        plot(rows, place.mpi, standard, Path(args.plot))
    print_found(args, known, list(zip(problems, rows)), standard)
    return 0


def print_found(
    args: argparse.Namespace, known: Known, found: Sequence[tuple[Case, Row]], standard: str
) -> None:
    """In the form that the options ask for."""
    rows = [row for _, row in found]
    where = f"{args.mpi}, {known.goal.layout.name}"
    if args.json:
        derived = ("of_limit", "native_of_limit", "cpu_ratio", "over_neighbour")
        tables.write_json(
            [{**asdict(row), **{name: getattr(row, name) for name in derived}} for row in rows]
        )
    elif args.steps:
        print_steps(known, found, args.mpi)
    elif args.neighbours:
        print_neighbours(rows, where)
    elif args.each:
        print_each(rows, where, standard)
    else:
        print_rows(rows, where, standard)


def count_instructions(library: MpiLibrary) -> int:
    """Prints the cost of each wrapper; 1 when one is over the budget."""
    built = build.build(library)
    made = build.read_manifest()
    folder = request.new_folder(home() / "runs", "instructions")
    costs = instructions.count(library, built, made, home() / "generated", folder)
    table = Table(title=f"{library.name}: instructions over PMPI where native is the winner")
    for name in ("function", "per call", "calls outside the runtime"):
        table.add_column(name)
    for one in costs:
        table.add_row(one.function, f"{one.instructions:.0f}", " ".join(one.foreign) or "none")
    tables.show(table)
    return int(any(one.instructions > instructions.BUDGET or one.foreign for one in costs))


def wanted_cases(args: argparse.Namespace, known: Known) -> list[Case]:
    """Of every problem asked for: native, and the variants named or, if none is, the usual ones."""
    asked = [case.parse(text) for text in args.cases]
    groups: dict[str, dict[str, Case]] = {}
    for one in asked or plan.problems(known.made, known.goal):
        group = groups.setdefault(one.problem, {NATIVE: one.by(NATIVE)})
        if one.variant == NATIVE:
            names = default_variants(args, known, one)
        else:
            facts = from_name(one.layout).facts()
            names = [entry_of(known, one).completed(one.variant, facts)]
        group.update((name, one.by(name)) for name in names)
    found = [one for group in groups.values() for one in group.values()]
    if args.over_drop_in and not all(known.made.collective(one.collective).hybrid for one in found):
        raise CollforgeError("--over-drop-in is for hybrid collectives, e.g. --collective hybrid")
    return found


def entry_of(known: Known, asked: Case) -> VariantEntry:
    """Raises CollforgeError where the collective has no such variant."""
    family, _ = split_name(asked.variant)
    entries = {entry.family: entry for entry in known.made.variants_of(asked.collective)}
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


def print_rows(rows: Sequence[Row], where: str, standard: str) -> None:
    families = sorted({name for row in rows for name in row.families})
    table = Table(
        title=f"{where}: time of {standard}, ratios to it (above 1: faster); "
        f"CPU: processor time over {standard}'s (above 1: burns more)"
    )
    table.add_column("collective")
    table.add_column("bytes", justify="right")
    table.add_column(f"{standard} ms", justify="right")
    for name in families:
        table.add_column(name, justify="right")
    table.add_column("tuned choice", overflow="fold")
    last = ("tuned", "95 % interval", "limit ms", f"{standard} of limit", "tuned of limit")
    for name in (*last, "CPU", "temporaries"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(
            row.collective,
            request.format_size(row.bytes),
            f"{row.native * 1e3:.3g}",
            *(f"{row.families[name]:.2f}" if name in row.families else "" for name in families),
            escape(row.tuned),
            f"{row.ratio:.2f}",
            f"{row.ratio_low:.2f} .. {row.ratio_high:.2f}",
            "" if row.limit is None else f"{row.limit * 1e3:.3g}",
            shown(row.native_of_limit),
            shown(row.of_limit),
            shown(row.cpu_ratio),
            "" if row.tuned_memory is None else request.format_about(row.tuned_memory),
        )
    tables.show(table)
    slowest = min(rows, key=lambda row: row.ratio)
    typical = statistics.geometric_mean(row.ratio for row in rows)
    print(
        f"tuned over {standard}: {typical:.2f} on average, "
        f"{slowest.ratio:.2f} at least ({slowest.problem}); {rows[0].launches} launches"
    )


def print_neighbours(rows: Sequence[Row], where: str) -> None:
    """The tuned choice against native and against the better one of what is stored beside its size."""
    table = Table(
        title=f"{where}: sizes between those that were tuned (above 1: the tuned choice is faster)"
    )
    names = ("collective", "bytes", "native ms", "tuned choice", "over native", "95 % interval")
    for name in (*names, "over the better neighbour"):
        left = name in ("collective", "tuned choice")
        table.add_column(name, justify="left" if left else "right", overflow="fold")
    for row in rows:
        table.add_row(
            row.collective,
            request.format_about(row.bytes),
            f"{row.native * 1e3:.3g}",
            escape(row.tuned),
            f"{row.ratio:.2f}",
            f"{row.ratio_low:.2f} .. {row.ratio_high:.2f}",
            shown(row.over_neighbour),
        )
    tables.show(table)
    behind = [row for row in rows if row.ratio < 1 - MARGIN]
    lagging = [row for row in rows if (row.over_neighbour or 1.0) < 0.9]
    print(
        f"{len(rows)} problems: {len(behind)} below {1 - MARGIN:.2f} of native, "
        f"{len(lagging)} below 0.9 of the better neighbour; least {min(row.ratio for row in rows):.2f} and "
        f"{min(row.over_neighbour or 1.0 for row in rows):.2f}"
    )


def print_each(rows: Iterable[Row], where: str, standard: str) -> None:
    """Every variant of every problem, native or what stands for it first."""
    table = Table(title=f"{where}: median times, ratios to {standard}'s (above 1: faster)")
    names = (
        "collective",
        "bytes",
        "variant",
        "ms",
        "ratio",
        "95 % interval",
        "limit ms",
        "of limit",
    )
    for name in names:
        table.add_column(name, justify="left" if name in ("collective", "variant") else "right")
    for row in rows:
        for name, ratio in {standard: 1.0, **row.variants}.items():
            low, high = row.intervals.get(name, (1.0, 1.0))
            seconds = row.native / ratio
            table.add_row(
                row.collective,
                request.format_size(row.bytes),
                escape(name),
                f"{seconds * 1e3:.3g}",
                f"{ratio:.2f}",
                f"{low:.2f} .. {high:.2f}",
                "" if row.limit is None else f"{row.limit * 1e3:.3g}",
                shown(row.limit and row.limit / seconds),
            )
        table.add_section()
    tables.show(table)


def shown(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}"


def print_steps(known: Known, rows: Iterable[tuple[Case, Row]], mpi: str) -> None:
    """How much faster than the paper's composition each step is; of one that was not measured, nothing."""
    table = Table(title=f"{mpi}: times faster than the plain full-lane composition")
    names = ("collective", "bytes", "plain ms", "lane algorithm", "node phases", "tuned")
    for name in names:
        table.add_column(name, justify="left" if name == "collective" else "right")
    for problem, row in rows:
        of = stages(known, problem)
        plain = row.variants.get(of.get("plain", ""))
        if plain is None:
            continue
        gains = (row.variants.get(of[name], 1.0) / plain for name in names[3:])
        table.add_row(
            row.collective,
            request.format_size(row.bytes),
            f"{row.native / plain * 1e3:.3g}",
            *map(shown, gains),
        )
    tables.show(table)


def plot(rows: Sequence[Row], mpi: str, standard: str, path: Path) -> None:
    """A panel for each collective: native or its stand-in, each family's best, the tuned choice, the limit."""
    panels: dict[str, list[Line]] = {}
    for collective in dict.fromkeys(row.collective for row in rows):
        mine = [row for row in rows if row.collective == collective]
        families = sorted({name for row in mine for name in row.families})
        panels[f"{collective}, {mpi}"] = [
            Line(standard, "o-", [(row.bytes, row.native) for row in mine]),
            *(
                Line(
                    name,
                    ".:",
                    [(r.bytes, r.native / r.families[name]) for r in mine if name in r.families],
                )
                for name in families
            ),
            Line("tuned", "s--", [(row.bytes, row.native / row.ratio) for row in mine]),
            Line("limit", "-", [(row.bytes, row.limit) for row in mine if row.limit]),
        ]
    draw(panels, path)
