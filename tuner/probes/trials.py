"""Which winners the guard leaves to native, as programs of a few calls tell it (COLLFORGE_LEARN)."""

from __future__ import annotations

import argparse
import shutil
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from collforge.case import Case
from collforge.db import Store, Verdict
from collforge.errors import CollforgeError
from collforge.home import home, new_folder
from collforge.serving import bucket
from collforge.tuner.probes import programs
from collforge.tuner.probes.programs import TRIED, WORD, Programs
from collforge.tuner.run import learnt, measuring
from collforge.variant import Variant

Winners = Sequence[tuple[Case, Variant]]


def check(args: argparse.Namespace, layouts: Iterable[str]) -> None:
    """Raises CollforgeError where no program can be started as a job would be, or none makes the calls."""
    if args.system not in ("local", "emulated"):
        raise CollforgeError("the guard can be tried on --system local or emulated only")
    if any(measuring.parse_layout(name, args.system).threads > 1 for name in layouts):
        raise CollforgeError("the guard can be tried on layouts of one thread a rank only")


def left_native(
    prepared: Programs, args: argparse.Namespace, winners: Winners
) -> Mapping[str, float]:
    """Problem -> the share of its ``args.trials`` trials, each in a launch of its own, that left it to native.

    ``winners``: of the database ``args.db``, for the layout ``args.layout``. A problem is left out if its calls
    are not tried (nonblocking forms, blocks of less than a word).
    """
    at = measuring.parse_layout(args.layout, args.system)
    system = measuring.system_name(args)
    prepared = replace(prepared, cluster=programs.cluster_of(args), system=system)
    together: dict[int, list[str]] = {}
    for one, _ in winners:
        together.setdefault(one.bytes // WORD, []).append(one.collective)
    found: list[Verdict] = []
    for count, names in together.items():
        for _ in range(args.trials if count else 0):
            database = Path(shutil.copy(args.db, new_folder(home() / "runs", "trial")))
            started = replace(prepared, database=database)
            numbers = (1, count, 0, TRIED, 2, f",{','.join(names)},")
            started.launch(at, started.overhead, "learning", *numbers)
            found += verdicts(database)
    return dropped(found, winners)


def dropped(found: Sequence[Verdict], winners: Winners) -> Mapping[str, float]:
    """Problem -> the share of the verdicts on its winner that are against it, if there are any."""
    against: dict[tuple[Variant, int], list[bool]] = {}
    for one in found:
        against.setdefault((one.variant, bucket(one.bytes)), []).append(not one.kept)
    return {
        problem.problem: statistics.fmean(against[key])
        for problem, variant in winners
        if (key := (variant, bucket(problem.bytes))) in against
    }


def verdicts(database: Path) -> list[Verdict]:
    """Of the job that learnt beside a database."""
    with Store(database) as store:
        places = store.places()
    jobs = (learnt.parse(one.data, "", places) for one in learnt.read(database.parent))
    return [verdict for job in jobs for verdict in job.verdicts]
