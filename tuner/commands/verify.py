"""`collforge verify`: checks every variant's results on this machine, with pretended placements of ranks."""

from __future__ import annotations

import argparse
import itertools
import sys
from collections import Counter
from collections.abc import Sequence

from rich.progress import Progress

from collforge import layout, records
from collforge.case import Case, parse
from collforge.errors import CollforgeError, unknown
from collforge.generator.manifest import Manifest, VariantEntry
from collforge.home import home
from collforge.reframe_checks.cases import TIERS, verification_cases
from collforge.toolchain import build
from collforge.tuner import ingest, request
from collforge.tuner.parsing import Subparsers, add_command, add_mpi, find_libraries
from collforge.tuner.run import Job, Site, run_job

# One node: for variants of a single node. 3 and 5 nodes: lane algorithms that pair nodes have nodes left over,
# after one and two steps. Nodes of equal and unequal size, and ranks that are not consecutive. Threads: for
# variants that use them.
LAYOUTS = {
    "small": ("1x3", "3x1", "3x2", "3+1", "3x1x2"),
    "full": ("1x3", "5x1", "3x2", "1+3+1+1+1", "cyclic:2x3", "3x1x2", "cyclic:2x2x2"),
    "paranoid": (
        "1x2",
        "1x5",
        "2x2",
        "2x3",
        "5x1",
        "5x2",
        "3+1",
        "1+2+2",
        "1+3+1+1+1",
        "cyclic:2x3",
        "map:0.1.1.0.1",
        "1x2x2",
        "3x1x2",
        "1+2x2",
        "cyclic:2x2x2",
    ),
}
# Cases per launch: so many that the cost of launching is small.
CASES_PER_JOB = 20000

EXAMPLE = """\
collforge verify --tier full
  collforge verify --mpi mpich --family full_lane --collective alltoall --tier paranoid"""


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(subparsers, "verify", "check the results of every variant", EXAMPLE, run)
    add_mpi(parser)
    parser.add_argument("--family", help="one family only")
    parser.add_argument("--collective", help="with commas, or regular or irregular (default: all)")
    parser.add_argument(
        "--tier", choices=TIERS, default="small", help="number of cases (default %(default)s)"
    )
    parser.add_argument("--layout", help="placements with commas (default: those of the tier)")
    parser.add_argument(
        "--seed", type=int, default=7, help="seed of the inputs (default %(default)s)"
    )


def run(args: argparse.Namespace) -> int:
    found = find_libraries(args.mpi)
    for library in found:
        build.build(library)
    made = build.read_manifest()
    variants = select(made, args.family, args.collective)
    names = args.layout.split(",") if args.layout else LAYOUTS[args.tier]
    print(f"seed {args.seed}")
    failures: list[str] = []
    with Progress() as progress:
        for mpi in (library.name for library in found):
            for name in names:
                at = layout.from_name(name)
                cases = [
                    parse(text)
                    for variant in variants
                    if variant.uses_threads or at.threads == 1
                    for text in verification_cases(made, variant, at, args.tier)
                ]
                if not cases:
                    progress.console.print(f"{mpi} {at.name}: nothing applies")
                    continue
                task = progress.add_task(f"{mpi} {at.name}", total=len(cases))
                outcome: Counter[str] = Counter()
                for begin in range(0, len(cases), CASES_PER_JOB):
                    part = cases[begin : begin + CASES_PER_JOB]
                    counts, wrong = verify(mpi, at.name, part, args.seed)
                    outcome.update(counts)
                    failures += wrong
                    progress.update(task, completed=begin + len(part))
                progress.console.print(f"{mpi} {at.name}: {len(cases)} cases, {describe(outcome)}")
    for failure in failures:
        print(f"FAILED {failure}", file=sys.stderr)
    print(f"{len(failures)} failed")
    return 1 if failures else 0


def describe(outcome: Counter[str]) -> str:
    """``12 verified, 0 failed, 3 do not apply``: the first two always, other counts only if not zero."""
    kinds = ("verified", "failed", *sorted(set(outcome) - {"verified", "failed"}))
    return ", ".join(
        f"{outcome[kind]} {kind}" for kind in kinds if outcome[kind] or kind in kinds[:2]
    )


def select(made: Manifest, family: str | None, collective: str | None) -> list[VariantEntry]:
    """The requested variants. Raises CollforgeError for an unknown name or if there is none."""
    collectives = request.parse_collectives(collective or "all", made)
    families = [entry.name for entry in made.families]
    if family and family not in families:
        raise unknown("family", family, families)
    chosen = [
        v for v in made.variants if v.collective in collectives and family in (None, v.family)
    ]
    if not chosen:
        raise CollforgeError(f"family {family} serves none of {', '.join(collectives)}")
    return chosen


def verify(mpi: str, at: str, cases: Sequence[Case], seed: int) -> tuple[dict[str, int], list[str]]:
    """Runs a job that only verifies. Returns the number of cases by outcome, and the failures as text."""
    folder = request.new_folder(home() / "runs", "verify")
    job = Job(cases, at, 0, 0.0, seed, time_limit=1800.0, verify_only=True)
    site = Site("local", mpi)
    report = ingest.read_report(run_job(site, job, folder), request.place_of(site, at))
    # ReFrame moves files to the output directory if the test passed, else they stay in the stage directory.
    paths = (path for at in ("output", "stage") for path in folder.glob(f"{at}/**/{records.FILE}"))
    results = [one for path in itertools.islice(paths, 1) for one in records.read(path).results]
    applicable = [one for one in results if one.applicable]
    wrong = [one for one in applicable if not one.verified]
    failures = [f"{mpi} {one.case}: {one.detail}" for one in wrong]
    if report.troubles and not failures:
        failures = [f"{mpi} {trouble}" for trouble in report.troubles]
        if len(results) < len(cases):
            failures.append(f"{mpi} {cases[len(results)]}: the job ended in this case")
    counts = {
        "verified": len(applicable) - len(wrong),
        "failed": len(wrong),
        "do not apply": len(results) - len(applicable),
        "were not run": len(cases) - len(results),
    }
    return counts, failures
