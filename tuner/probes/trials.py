"""Which winners the guard leaves to native, as programs of a few calls tell it (COLLFORGE_LEARN)."""

from __future__ import annotations

import argparse
import shutil
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from collforge.case import Case
from collforge.db import Store
from collforge.home import home, new_folder
from collforge.mpi_library import MpiLibrary
from collforge.place import Place
from collforge.tuner.probes import programs
from collforge.tuner.run import learnt, measuring

WORD = 8
CALLS = 20
"""Of a problem: more than a trial takes."""


def left_native(
    library: MpiLibrary, args: argparse.Namespace, problems: Sequence[Case], jobs: int
) -> Mapping[str, float]:
    """Problem -> the share of its trials that left it to native, of ``jobs`` trials in as many launches.

    The winners are those of the database ``args.db`` for the layout ``args.layout``. A problem without a trial
    is not among them.
    """
    at = measuring.parse_layout(args.layout, args.system)
    place = Place.of(measuring.system_name(args), library, at)
    cluster = measuring.cluster(args) if args.system == "emulated" else None
    prepared = replace(programs.prepare(library, []), cluster=cluster, system=place.system)
    together: dict[int, list[str]] = {}
    for one in problems:
        together.setdefault(max(1, one.bytes // WORD), []).append(one.collective)
    dropped: dict[tuple[str, int], list[bool]] = {}
    for count, names in [each for each in together.items() for _ in range(jobs)]:
        database = Path(shutil.copy(args.db, new_folder(home() / "runs", "trial")))
        started = replace(prepared, database=database)
        started.launch(
            at, started.overhead, "learning", 1, count, 0, CALLS, 2, f",{','.join(names)},"
        )
        for collective, kept in verdicts(database).items():
            dropped.setdefault((collective, count), []).append(not kept)
    return {
        one.problem: statistics.fmean(dropped[key])
        for one in problems
        if (key := (one.collective, max(1, one.bytes // WORD))) in dropped
    }


def verdicts(database: Path) -> Mapping[str, bool]:
    """Collective -> whether its winner was kept, by the job that learnt beside a database."""
    with Store(database) as store:
        places = store.places()
    jobs = [learnt.parse(found.data, "", places) for found in learnt.read(database.parent)]
    return {one.variant.collective: one.kept for job in jobs for one in job.verdicts}
