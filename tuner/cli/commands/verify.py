"""`collforge verify`: checks the results of every variant, or of the MPI library's own collectives."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace

from rich.progress import Progress

from collforge import layout
from collforge.case import Case, parse
from collforge.cases import TIERS, native_cases, verification_cases
from collforge.errors import CollforgeError, unknown
from collforge.generator.manifest import Manifest, VariantEntry
from collforge.layout import Layout, from_name
from collforge.mpi_library import MpiLibrary
from collforge.toolchain import build
from collforge.tuner.cli.command import Subparsers, add_command
from collforge.tuner.run import measuring
from collforge.tuner.run.jobs import Site
from collforge.tuner.run.options import add_mpi, find_libraries
from collforge.tuner.run.verification import Verdict, verify_native, verify_variants
from collforge.variant import NATIVE, split_name

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
# For native, the nodes of pretended layouts make no difference, only the number of ranks does. Open MPI 4.1
# chooses some of its algorithms of bcast on 16 ranks only.
NATIVE_LAYOUTS = {
    "small": ("1x3", "1x4"),
    "full": ("1x2", "1x3", "1x4", "1x5", "1x16"),
    "paranoid": ("1x1", "1x2", "1x3", "1x4", "1x5", "1x6", "1x7", "1x8", "1x16"),
}

MOST_AGAIN = 3  # commands printed after failures

EXAMPLE = """\
collforge verify --tier full
  collforge verify --mpi mpich --family full_lane --collective alltoall --tier paranoid
  collforge verify --native --mpi openmpi --tier full
  collforge verify --mpi openmpi 'bcast:full_lane@3x2,bytes=4096,type=int,root=1'"""


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "verify",
        "check the results of every variant, or of the MPI library itself",
        EXAMPLE,
        run,
    )
    parser.add_argument(
        "cases",
        nargs="*",
        metavar="CASE",
        help="case strings, as failures print them (default: a tier)",
    )
    add_mpi(parser)
    parser.add_argument(
        "--native",
        action="store_true",
        help="check the MPI library's own collectives instead, as an acceptance test of the library",
    )
    parser.add_argument("--family", help="one family only")
    parser.add_argument("--collective", help="with commas, or regular or irregular (default: all)")
    parser.add_argument("--tier", choices=TIERS, help="number of cases (default small)")
    parser.add_argument("--layout", help="placements with commas (default: those of the tier)")
    measuring.add_place(parser, fallback="local")
    parser.add_argument(
        "--seed", type=int, default=7, help="seed of the inputs (default %(default)s)"
    )


def run(args: argparse.Namespace) -> int:
    """Returns 1 if a case failed, or if one that was named does not apply."""
    if args.cases:
        check_alone(args)
    if args.native and args.family:
        raise CollforgeError("--native verifies no family: leave out --family")
    named = [replace(one, layout=from_name(one.layout).name) for one in map(parse, args.cases)]
    found = find_libraries(args.mpi)
    sites = [measuring.site_of(args.system, args.config, library) for library in found]
    check(
        build.current_manifest(), args, named
    )  # a wrong command line ends before anything is compiled
    for library in found:
        build.build(library)
    made = measuring.manifest(args)
    planned = by_layout(named) if named else of_tier(made, args)
    print(f"seed {args.seed}")
    verdict, summary = Verdict(), []
    with Progress() as progress:
        for library, site in zip(found, sites):
            one = verify_all(progress, library, site, planned, args.seed)
            verdict.add(one)
            wrong = ", ".join(one.wrong) or "none"
            summary.append(f"{library.name} ({library.short_version}): {one}; wrong: {wrong}")
    for failure in verdict.failures:
        print(f"FAILED {failure}", file=sys.stderr)
    where = f" --system {args.system}" * bool(measuring.simulated(args.system, args.config))
    for again in verdict.again[:MOST_AGAIN]:
        print(f"again: {again}{where} --seed {args.seed}", file=sys.stderr)
    if args.native:
        print("\n".join(summary))
    idle = verdict.outcome["do not apply"] if named else 0
    print(f"{len(verdict.failures)} failed" + (f", {idle} do not apply" if idle else ""))
    return 1 if verdict.failures or idle else 0


def verify_all(
    progress: Progress,
    library: MpiLibrary,
    site: Site,
    planned: Mapping[str, Sequence[Case]],
    seed: int,
) -> Verdict:
    """Verifies the cases of each layout with an MPI library."""
    verdict = Verdict()
    for at, cases in planned.items():
        if not cases:
            progress.console.print(f"{library.name} {at}: nothing applies")
            continue
        task = progress.add_task(f"{library.name} {at}", total=len(cases))
        verify = verify_native if cases[0].variant == NATIVE else verify_variants
        here = verify(site, at, cases, seed)
        progress.update(task, completed=len(cases))
        progress.console.print(f"{library.name} {at}: {len(cases)} cases, {here}")
        verdict.add(here)
    return verdict


def check_alone(args: argparse.Namespace) -> None:
    """Raises CollforgeError for an option that selects what the cases select."""
    for name in ("native", "family", "collective", "layout", "tier"):
        if getattr(args, name):
            raise CollforgeError(f"a case says what to verify: leave out --{name}")


def check(made: Manifest, args: argparse.Namespace, named: Sequence[Case]) -> None:
    """Raises CollforgeError, which names the fix, for what cannot be verified."""
    for case in named:
        check_case(made, case)
    if named:
        return
    select(made, args.family, args.collective)
    few = argparse.Namespace(**{**vars(args), "tier": "small"})
    selected = args.layout or args.family or args.collective
    if selected and not any((planned := of_tier(made, few)).values()):
        raise CollforgeError(f"nothing to verify: no such variant applies on {', '.join(planned)}")


def check_case(made: Manifest, case: Case) -> None:
    """Raises CollforgeError, which names the fix, for a case that no driver can have."""
    entry = made.collective(case.collective)
    root, size = case.options.get("root") or "0", layout.from_name(case.layout).size
    if entry.rooted and not (root.isdecimal() and int(root) < size):
        raise CollforgeError(f"{case}: root {root} is none of {size} ranks")
    if case.variant == NATIVE:
        return
    family, parameters = split_name(case.variant)
    served = {one.family: one for one in made.variants_of(case.collective)}
    if family not in served:
        raise unknown(f"family for {case.collective}", family, served)
    known = [one.name for one in served[family].parameters]
    for word in filter(None, parameters.split(",")):
        if word.partition("=")[0] not in known:
            raise unknown(f"parameter of {family}", word.partition("=")[0], known)


def by_layout(named: Sequence[Case]) -> dict[str, list[Case]]:
    """Layout -> its cases, those of native apart, because they are verified in another way."""
    found: dict[str, list[Case]] = {}
    if len({case.variant == NATIVE for case in named}) > 1:
        raise CollforgeError("verify native cases and those of variants in two commands")
    for case in named:
        found.setdefault(layout.from_name(case.layout).name, []).append(case)
    return found


def of_tier(made: Manifest, args: argparse.Namespace) -> dict[str, list[Case]]:
    """Layout -> the cases of the tier, for what the options select."""
    cases = native if args.native else of_variants
    return {at.name: cases(made, args, at) for at in layouts_of(args)}


def layouts_of(args: argparse.Namespace) -> list[Layout]:
    layouts = NATIVE_LAYOUTS if args.native else LAYOUTS
    names = args.layout.split(",") if args.layout else layouts[args.tier or "small"]
    return [layout.from_name(name) for name in names]


def of_variants(made: Manifest, args: argparse.Namespace, at: Layout) -> list[Case]:
    """The cases of the requested variants on a layout."""
    return [
        parse(text)
        for variant in select(made, args.family, args.collective)
        if variant.uses_threads or at.threads == 1
        for text in verification_cases(made, variant, at, args.tier or "small")
    ]


def native(made: Manifest, args: argparse.Namespace, at: Layout) -> list[Case]:
    """The native cases of the requested collectives on a layout."""
    names = measuring.parse_collectives(args.collective, made)
    return [
        parse(text) for name in names for text in native_cases(made, name, at, args.tier or "small")
    ]


def select(made: Manifest, family: str | None, collective: str | None) -> list[VariantEntry]:
    """The requested variants. Raises CollforgeError for an unknown name or if there is none."""
    collectives = measuring.parse_collectives(collective or "all", made)
    families = [entry.name for entry in made.families]
    if family and family not in families:
        raise unknown("family", family, families)
    chosen = [
        v for name in collectives for v in made.variants_of(name) if family in (None, v.family)
    ]
    if not chosen:
        raise CollforgeError(f"family {family} serves none of {', '.join(collectives)}")
    return chosen
