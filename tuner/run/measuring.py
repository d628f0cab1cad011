"""The options that say where and what to measure: the system, the emulated cluster and the problems."""

from __future__ import annotations

import argparse
import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from collforge import layout, reframe_checks, site_file, units
from collforge.db import Store
from collforge.decision import MARGIN
from collforge.errors import CollforgeError, unknown
from collforge.generator.manifest import Manifest
from collforge.layout import Layout
from collforge.mpi_library import MpiLibrary
from collforge.place import Place
from collforge.reframe_checks.systems import slurm
from collforge.reframe_checks.systems.emulated import ClusterSpec, check
from collforge.reframe_checks.systems.emulated.launch import uses_one_rail
from collforge.reframe_checks.systems.simulated import KIND, Machine
from collforge.toolchain import build, libraries, simgrid
from collforge.tuner.decide import profile
from collforge.tuner.decide.plan import Goal
from collforge.tuner.decide.profile import Profile
from collforge.tuner.run.jobs import Site
from collforge.tuner.run.options import add_rails, complete_by, input_file, positive

SIZES = "1KiB..1MiB"
PROBLEM_SECONDS = 8.0
"""The default budget of a problem, about the time of three launches on the emulated cluster."""
LAYOUTS = {"emulated": "4x2", "local": "2x2"}


def add_system(parser: argparse.ArgumentParser, layout: str = "nodes x ranks per node") -> None:
    """Adds --system and the options that describe it. ``layout``: what the help says of --layout."""
    add_place(parser)
    parser.add_argument("--layout", help=f"{layout} (default: the site's, 4x2 emulated, 2x2 local)")
    add_rails(parser)


def settle_system(args: argparse.Namespace) -> None:
    """Sets args.system where --system is left out; ``main`` calls it."""
    if args.system is not None:
        return
    stored = set[str]()
    path = getattr(args, "db", None)
    if path is not None and path.is_file():
        with suppress(CollforgeError), Store(path, create=False) as store:
            stored = {one.system for one in store.places() if one.mpi not in simgrid.RULES}
    only = stored.pop() if len(stored) == 1 else ""
    args.system = (
        site_file.value("system") or (only if only in LAYOUTS else "") or args.fallback_system
    )


def add_place(parser: argparse.ArgumentParser, fallback: str = "emulated") -> None:
    """Adds --system and --config; ``fallback``: the default system if neither site nor database have one."""
    parser.set_defaults(prepare=settle_system, fallback_system=fallback)
    parser.add_argument(
        "--system",
        help="emulated, local, a system of your --config, slurm or slurm-mpirun, on the Slurm cluster of "
        "`collforge cluster up`, or simulated, with --mpi smpi-openmpi, smpi-mpich, smpi-mvapich2 or smpi-impi "
        f"(default: the site's, the only one of --db, or {fallback})",
    )
    parser.add_argument(
        "--config", metavar="FILE", type=input_file, help="your site's ReFrame configuration"
    )


def add_problems(parser: argparse.ArgumentParser) -> None:
    """Adds --collective, --sizes and --per."""
    action = parser.add_argument(
        "--collective",
        default="regular",
        help="names separated by commas, e.g. bcast,allreduce, or groups: mpi, which is irregular (block sizes "
        "may differ) and regular (the others); hybrid: those of collforge_hybrid.h; all of these; nonblocking: "
        "iallreduce and others (default: %(default)s)",
    )
    complete_by(action, known_collectives)
    parser.add_argument(
        "--sizes",
        default=SIZES,
        help="e.g. 1KiB,64KiB or 1KiB..1MiB (default: %(default)s)",
    )
    parser.add_argument(
        "--per",
        choices=("block", "node"),
        default="block",
        help="meaning of --sizes: bytes of a block, or bytes that the links of the busiest node must move "
        "(default: %(default)s)",
    )


def known_collectives() -> list[str]:
    """Those of the manifest, if there is one."""
    with suppress(CollforgeError):
        return [entry.name for entry in build.read_manifest().tunable]
    return []


def manifest(args: argparse.Namespace) -> Manifest:
    """What is generated, as far as the system measures it.

    In a simulation, loads and stores take no time, messages between all pairs of ranks at once take hours to
    simulate, and SimGrid's derived datatypes are faulty: no steps that share memory, no chunks in flight, no
    zero_copy.
    """
    made = build.read_manifest()
    left_out = ("shared", "nonblocking", "exchange", "threads", "zero_copy")
    return made.without(*left_out) if simulated(args.system, args.config) else made


def add_precision(parser: argparse.ArgumentParser) -> None:
    """Adds --margin and --launches, the confidence that a decision needs."""
    parser.add_argument(
        "--margin",
        type=float,
        default=MARGIN,
        help="least gain of a decision (default: %(default)s)",
    )
    parser.add_argument(
        "--launches",
        type=positive,
        default=Goal.min_launches,
        help="least launches of a decision (default: %(default)s)",
    )


def precision(args: argparse.Namespace) -> dict[str, Any]:
    """The members of a Goal that --margin and --launches set."""
    return {"min_launches": args.launches, "margin": args.margin}


def goal(args: argparse.Namespace, made: Manifest, **precision: Any) -> Goal:
    """The goal that --layout, --collective, --sizes and --per describe."""
    collectives = parse_collectives(args.collective, made)
    forms = [name for name in collectives if made.collective(name).blocking]
    if forms and simulated(args.system, args.config):
        raise CollforgeError(f"{forms[0]} cannot be simulated, as all nonblocking collectives")
    return Goal(
        layout=parse_layout(args.layout, args.system, divided=True),
        collectives=collectives,
        sizes=units.parse_sizes(args.sizes),
        per=args.per,
        **precision,
    )


def profiled_goals(
    args: argparse.Namespace, found: Profile, made: Manifest, **precision: Any
) -> list[Goal]:
    """A goal for each layout that applications call on, the most expensive first. Prints what is left out.

    Layouts that the system cannot have are left out on the emulated one only: elsewhere the job fails.
    """
    wanted, left_out = profile.worth_tuning(found, made, args.least_part)
    goals = []
    for one in wanted:
        try:
            at = parse_layout(one.layout, args.system, divided=True)
            if args.system == "emulated":
                rails(args, at)
        except CollforgeError as error:
            reason = f"{one.layout}: {error}"
            left_out[reason] = left_out.get(reason, 0.0) + one.part
            continue
        names = sorted({name for name, _ in one.problems})
        sizes = sorted({size for _, size in one.problems})
        goals.append(Goal(at, tuple(names), tuple(sizes), only=one.problems, **precision))
    for reason, part in sorted(left_out.items(), key=lambda pair: -pair[1]):
        print(f"left out, {part:.1%} of the time in collectives: {reason}")
    if not goals:
        raise CollforgeError("the profiles have nothing that can be tuned (--least-part)")
    return goals


def cluster(args: argparse.Namespace) -> ClusterSpec:
    """The emulated cluster that the options describe."""
    return rails(args, parse_layout(args.layout, "emulated", divided=True))


def rails(args: argparse.Namespace, at: Layout) -> ClusterSpec:
    """The emulated cluster for a layout."""
    return ClusterSpec(at.launched.placement, args.rails, args.rate, args.rail_model)


def site(args: argparse.Namespace, mpi: str) -> Site:
    """Where jobs of an MPI library run.

    Raises CollforgeError, which names the fix, for an unknown system or if this machine cannot emulate one.
    """
    found = site_of(args.system, args.config, libraries.find(mpi))
    if args.system != "emulated":
        return found
    spec = cluster(args)
    variables = {
        "COLLFORGE_RAILS": str(spec.rails),
        "COLLFORGE_RATE": spec.rate,
        "COLLFORGE_RAIL_MODEL": spec.rail_model,
    }
    return replace(found, variables=variables)


def site_of(system: str, config: Path | None, library: MpiLibrary) -> Site:
    """Where jobs of an MPI library run, on an emulated cluster with its default links.

    Raises CollforgeError, which names the fix, for an unknown system or if this machine cannot emulate one.
    """
    machine = simulated(system, config)
    if config and system.split("-", maxsplit=1)[0] == KIND:
        raise CollforgeError(f"{config}: {system} is the name of a simulation: give it another one")
    if (machine is None) == (library.name in simgrid.RULES):
        names = ", ".join(simgrid.RULES)
        raise CollforgeError(
            f"{library.name} cannot run on system {system}: "
            + (f"give --mpi one of {names}" if machine else f"it is for --system {KIND}")
        )
    if machine:
        return Site(KIND, library.name, variables={"COLLFORGE_SIMULATED": machine.name})
    if not config and system not in LAYOUTS and system == site_file.value("system"):
        config = Path(site_file.value("config") or "").expanduser().absolute()
        if not config.is_file():
            raise CollforgeError(
                f"system {system} has no ReFrame configuration: name it once by "
                "`collforge site set config FILE`, or with --config"
            )
    if system in slurm.SYSTEMS and not config:
        slurm.check_entered()
        return Site(system, library.name, reframe_checks.SLURM_SETTINGS)
    if system not in LAYOUTS and not config:
        raise CollforgeError(
            f"system {system} is none of {', '.join(sorted([*LAYOUTS, KIND]))}: "
            "name the ReFrame configuration that has it with --config, or make one by "
            "`collforge site detect FILE`"
        )
    if system == "emulated":
        check(library.flavor)
    return Site(system, library.name, config or reframe_checks.SETTINGS)


def simulated(system: str, config: Path | None) -> Machine | None:
    """The machine that a system simulates; None for others, such as one of a site's configuration."""
    return None if config else Machine.of_system(system)


def system_name(args: argparse.Namespace) -> str:
    """The system's name in the database. Clusters with different links, emulated or simulated, differ in it."""
    if args.system == "emulated":
        return cluster(args).system
    machine = simulated(args.system, args.config)
    return machine.name if machine else str(args.system)


def parse_layout(text: str | None, system: str, divided: bool = False) -> Layout:
    """The requested layout, or the default layout of a system.

    ``divided``: parts of a job (4x2/4x1) are allowed.
    Raises CollforgeError if the layout does not fit the system.
    """
    at_site = site_file.value("layout") if system == site_file.value("system") else None
    asked = text or at_site or default_layout(system)
    if asked is None:
        raise CollforgeError(
            f"system {system} has no default layout: give one with --layout, e.g. 4x2"
        )
    read = layout.from_name(asked)
    if read.name.startswith("map#"):
        raise CollforgeError(
            f"layout {asked} cannot be tuned: its name is too long and was replaced by a hash"
        )
    if read.sockets and system == "emulated":
        raise CollforgeError(
            f"layout {asked}: the nodes of an emulated cluster share their sockets"
        )
    if (read.sockets or read.threads > 1) and simulated(system, None):
        raise CollforgeError(f"layout {asked}: simulated ranks have no sockets and no threads")
    if read.job and not divided:
        raise CollforgeError(f"layout {asked}: this command has no use for the parts of a job")
    return read


def default_layout(system: str) -> str | None:
    """Of a system that Collforge brings; None of another."""
    machine = Machine.of_system(system)
    return machine.layout if machine else LAYOUTS.get(system)


def parse_collectives(text: str | None, manifest: Manifest) -> tuple[str, ...]:
    """The collectives requested by name or group; the default is ``mpi``.

    Groups: ``mpi`` (those of the MPI standard), which is ``irregular`` (block sizes may differ) and ``regular``
    (the others); ``hybrid`` (those of collforge_hybrid.h); ``all`` of these; ``nonblocking`` (nonblocking forms
    that may have winners of their own). Raises CollforgeError for an unknown name.
    """
    known = manifest.collectives
    groups = {
        "all": [entry.name for entry in known],
        "mpi": [entry.name for entry in known if not entry.hybrid],
        "regular": [e.name for e in known if not e.hybrid and e.varies == "no"],
        "irregular": [e.name for e in known if not e.hybrid and e.varies != "no"],
        "hybrid": [entry.name for entry in known if entry.hybrid],
        "nonblocking": [entry.name for entry in manifest.forms],
    }
    names_of_all = [entry.name for entry in manifest.tunable]
    names: list[str] = []
    for name in map(str.strip, ("mpi" if text is None else text).split(",")):
        if name not in groups and name not in names_of_all:
            raise unknown("collective", name, [*names_of_all, *groups])
        names += groups.get(name, [name])
    return tuple(dict.fromkeys(names))


def is_this_machine(args: argparse.Namespace) -> bool:
    """Whether all nodes of the system are this machine: local, emulated, or those of its Slurm cluster."""
    return args.system in (*LAYOUTS, *slurm.SYSTEMS) and not args.config


def crowded(args: argparse.Namespace, at: Layout) -> str:
    """Why times say little of nodes with a core for each thread: this machine is all of them; '' if not."""
    wanted, cores = at.launched.size * at.threads, len(os.sched_getaffinity(0))
    is_crowded = is_this_machine(args) and wanted > cores
    return f"more threads than cores: {wanted} on {cores}" if is_crowded else ""


def lone_rail(args: argparse.Namespace, library: MpiLibrary) -> str:
    """Why nothing shows there what several rails bring; '' if nothing is known against it."""
    is_lone = args.system == "emulated" and not args.config and uses_one_rail(library)
    return f"{library.short_version} uses one rail of the emulated cluster" if is_lone else ""


def place_of(site: Site, at: str) -> Place:
    """The database key of measurements at a site on a layout of this name."""
    return Place.of(site.system, libraries.find(site.mpi), layout.from_name(at))
