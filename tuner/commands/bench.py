"""`collforge bench`: native, every variant and the tuned choice, side by side in one run."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.markup import escape
from rich.table import Table

from collforge.db import Place, Store, Variant, Winner
from collforge.generator import case, manifest
from collforge.generator.case import Case
from collforge.generator.manifest import Manifest
from collforge.runtime import build, libraries
from collforge.runtime.home import home
from collforge.runtime.libraries import MpiLibrary
from collforge.tuner import ingest, instructions, plan, request, tables
from collforge.tuner.commands import startup, target
from collforge.tuner.commands.parsing import Subparsers, add_command, add_database, add_mpi
from collforge.tuner.plan import Goal
from collforge.tuner.run import Job, Site, run_job
from collforge.tuner.select import Comparison, Launch, compare, median_interval

EXAMPLE = """\
collforge bench --system emulated --mpi openmpi --layout 4x2 --sizes 1MiB
  collforge bench --system emulated --mpi mpich bcast@4x2,bytes=65536 allreduce:hierarchical@4x2,bytes=65536
  collforge bench --startup --mpi openmpi

A CASE is a case string, with or without a variant; without CASEs, all collectives at the --sizes."""

LAUNCHES = 3
SAMPLES = 10


@dataclass(frozen=True)
class Row:
    """One problem: medians in seconds, ratios to native (above 1: faster)."""

    problem: str
    collective: str
    bytes: int
    native: float
    native_low: float
    native_high: float
    families: dict[str, float]
    """The best ratio of each family's variants."""
    tuned: str
    ratio: float
    ratio_low: float
    ratio_high: float
    launches: int
    limit: float | None
    """Least possible seconds, where the links' rate is known."""

    @property
    def of_limit(self) -> float | None:
        return None if self.limit is None else self.limit * self.ratio / self.native


def add_parser(subparsers: Subparsers) -> None:
    summary = "time native, each variant and the tuned choice, interleaved in one process"
    parser = add_command(subparsers, "bench", summary, EXAMPLE, run)
    target.add_system(parser)
    add_mpi(parser, required=True)
    target.add_problems(parser)
    add_database(parser)
    parser.add_argument(
        "--launches", type=int, help="launches (default: 3; 10 with --startup and --overhead)"
    )
    parser.add_argument(
        "--samples", type=int, help="rounds in each (default: 10; 200 with --overhead)"
    )
    parser.add_argument(
        "--tuned-only", action="store_true", help="native and the tuned choice only"
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
        action="store_true",
        help="time what MPI_Init and each communicator cost once, on ranks of this machine, instead",
    )
    instead.add_argument(
        "--overhead",
        action="store_true",
        help="time a program for which native won everywhere, with and without the preload, instead",
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
    site = target.site(args, library.name)
    build.build(library)
    made = manifest.load(home() / "generated" / "manifest.json")
    goal = target.goal(args, made)
    place = request.place(target.system_name(args), library, goal.layout)
    tuned = read_winners(args.db, place)
    cases = wanted_cases(args, made, goal, tuned)
    job = Job(
        cases, goal.layout.name, args.samples or SAMPLES, 3600.0, args.seed, time_limit=3600.0
    )
    launches = run_launches(site, job, args.launches or LAUNCHES)
    rate = target.link_rate(args)
    rows = [
        make_row(made, goal, problem, launches[problem.problem], tuned, rate)
        for problem in {one.problem: one.by(case.NATIVE) for one in cases}.values()
    ]
    if args.json:
        tables.write_json([{**asdict(row), "of_limit": row.of_limit} for row in rows])
    else:
        print_rows(rows, place.mpi, place.layout)
    return 0


def count_instructions(library: MpiLibrary) -> int:
    """Prints the cost of each wrapper; 1 when one is over the budget."""
    built = build.build(library)
    made = manifest.load(home() / "generated" / "manifest.json")
    folder = request.new_folder(home() / "runs", "instructions")
    costs = instructions.count(library, built, made, home() / "generated", folder)
    table = Table(title=f"{library.name}: instructions over PMPI where native is the winner")
    for name in ("function", "per call", "calls outside the runtime"):
        table.add_column(name)
    for one in costs:
        table.add_row(one.function, f"{one.instructions:.0f}", " ".join(one.foreign) or "none")
    tables.show(table)
    return int(any(one.instructions > instructions.BUDGET or one.foreign for one in costs))


Tuned = dict[tuple[str, int], Winner]
"""The stored winners by collective and size."""


def read_winners(database: Path, place: Place) -> Tuned:
    """The winners of a place; none without a database."""
    if not database.exists():
        return {}
    with Store(database, create=False) as store:
        found = store.winners(system=place.system, mpi=place.mpi, layout=place.layout)
    return {(one.choice.variant.collective, one.choice.bytes): one for one in found}


def wanted_cases(args: argparse.Namespace, made: Manifest, goal: Goal, tuned: Tuned) -> list[Case]:
    """Of every problem asked for: native, and the variants named or, if none is, the usual ones."""
    asked = [case.parse(with_variant(text)) for text in args.cases] or plan.problems(made, goal)
    groups: dict[str, dict[str, Case]] = {}
    for one in asked:
        group = groups.setdefault(one.problem, {case.NATIVE: one.by(case.NATIVE)})
        names = [one.variant]
        if one.variant == case.NATIVE:
            names = usual_variants(args, made, goal, tuned, one)
        group.update((name, one.by(name)) for name in names)
    return [one for group in groups.values() for one in group.values()]


def usual_variants(
    args: argparse.Namespace, made: Manifest, goal: Goal, tuned: Tuned, problem: Case
) -> list[str]:
    """The tuned choice, and a point of each family unless it is asked for alone."""
    chosen = stored(made, tuned, problem)
    names = [chosen.choice.variant.name] if chosen else []
    if not args.tuned_only:
        names += [
            case.variant_text(entry.family, entry.parameters, point)
            for entry in plan.applicable(made, goal, problem)
            for point in list(case.points(entry))[:1]
        ]
    return names


def stored(made: Manifest, tuned: Tuned, problem: Case) -> Winner | None:
    """The winner that serves a problem, where one is stored for its size."""
    nbytes = made.collective(problem.collective).choice_bytes(problem.bytes)
    return tuned.get((problem.collective, nbytes))


def with_variant(text: str) -> str:
    """A case string, with native for its variant where it names none."""
    head, _, tail = text.partition("@")
    return text if ":" in head else f"{head}:{case.NATIVE}@{tail}"


def run_launches(site: Site, job: Job, count: int) -> dict[str, list[Launch]]:
    """The same job several times, because medians may differ between launches."""
    launches: dict[str, list[Launch]] = {}
    for number in range(count):
        folder = request.new_folder(home() / "runs", f"bench{number}")
        report = ingest.read_report(run_job(site, job, folder), site.system)
        ingest.require_complete(report)
        for record in report.runs:
            samples: dict[str, dict[Variant, Sequence[float]]] = {}
            for result in record.results:
                if result.samples:
                    samples.setdefault(result.problem, {})[result.variant] = result.samples
            for problem, launch in samples.items():
                launches.setdefault(problem, []).append(launch)
    return launches


def make_row(
    made: Manifest,
    goal: Goal,
    problem: Case,
    launches: Sequence[Launch],
    tuned: Tuned,
    rate: float | None,
) -> Row:
    native = Variant(problem.collective)
    times = median_interval([s for launch in launches for s in launch.get(native, ())])
    compared = {
        variant: compare(variant, native, launches)
        for variant in {v for launch in launches for v in launch} - {native}
    }
    families: dict[str, float] = {}
    for variant, one in compared.items():
        families[variant.family] = max(one.ratio, families.get(variant.family, 0.0))
    winner = stored(made, tuned, problem)
    chosen = winner.choice.variant if winner else native
    same = compared.get(chosen, Comparison(native, 1.0, 1.0, 1.0, len(launches)))
    return Row(
        problem=problem.problem,
        collective=problem.collective,
        bytes=problem.bytes,
        native=times.median,
        native_low=times.low,
        native_high=times.high,
        families=families,
        tuned=chosen.name if winner else "-",
        ratio=same.ratio,
        ratio_low=same.low,
        ratio_high=same.high,
        launches=len(launches),
        limit=(
            rate and request.lower_bound(made, problem.collective, goal.layout, problem.bytes, rate)
        )
        or None,
    )


def print_rows(rows: Sequence[Row], mpi: str, layout: str) -> None:
    families = sorted({name for row in rows for name in row.families})
    table = Table(title=f"{mpi}, {layout}: time of native, ratios to it (above 1: faster)")
    table.add_column("collective")
    table.add_column("bytes", justify="right")
    table.add_column("native ms", justify="right")
    for name in families:
        table.add_column(name, justify="right")
    table.add_column("tuned choice", overflow="fold")
    for name in ("tuned", "95 % interval", "limit ms", "tuned of limit"):
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
            "" if row.of_limit is None else f"{row.of_limit:.2f}",
        )
    tables.show(table)
    slowest = min(rows, key=lambda row: row.ratio)
    typical = statistics.geometric_mean(row.ratio for row in rows)
    print(
        f"tuned over native: {typical:.2f} on average, "
        f"{slowest.ratio:.2f} at least ({slowest.problem}); {rows[0].launches} launches"
    )
