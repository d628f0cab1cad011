"""`collforge db learn`: takes in what production jobs learnt."""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

from collforge.db import Store
from collforge.tuner.cli import tables
from collforge.tuner.cli.command import Subparsers, add_command
from collforge.tuner.decide import learning
from collforge.tuner.run import learnt
from collforge.tuner.run.options import add_database, add_json
from collforge.units import format_size

EXAMPLE = f"""\
collforge db learn /apps/collforge/learnt

A file there is a job with COLLFORGE_LEARN: how variants of the map did beside native in its trials. Each is
taken in once. What {learning.JOBS} jobs of {learning.VOICES} users confirm is served without a trial, what
{learning.VOICES} users refute is native there. Root and the owner of the database are believed alone."""

NEW, KNOWN, DAMAGED = KINDS = ("files taken in", "known before", "of no job that is known here")


def add_parser(kinds: Subparsers) -> None:
    parser = add_command(kinds, "learn", "take in what production jobs learnt", EXAMPLE, run)
    parser.add_argument(
        "folders", metavar="DIR", nargs="+", type=Path, help="the value of COLLFORGE_LEARN"
    )
    add_database(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    counts: Counter[str] = Counter()
    with Store(args.db, create=False) as store:
        before = stand(store)
    with Store(args.db) as store, store.transaction():
        for folder in args.folders:
            owners: Counter[str] = Counter()
            for found in learnt.read(folder):
                owner = learnt.owner_of(found, store.path)
                owners[owner] += 1
                allowed = not owner or owners[owner] <= learnt.MOST_FILES
                counts[take(store, found, owner) if allowed else DAMAGED] += 1
        learning.renew_all(store)
        after = stand(store)
        drops = [one for place in store.job_places() for one in learning.dropped(store, place)]
    print(", ".join(f"{counts[name]} {name}" for name in KINDS))
    for key in sorted(after.keys() | before.keys()):
        if before.get(key) != after.get(key):
            print(f"{key}: {after.get(key, 'jobs do not agree any more')}")
    for one in drops:
        print(f"regression? {one}")
    tables.write_document(args, list(after.items()), files=dict(counts), dropped=drops)
    return 0


def take(store: Store, found: learnt.Found, owner: str) -> str:
    """Stores the job of a file; returns one of KINDS."""
    try:
        _, new = learnt.take(store, found.data, owner)
    except learnt.NotLearnt:
        return DAMAGED
    return NEW if new else KNOWN


def stand(store: Store) -> dict[str, str]:
    """What is learnt, in words: about what -> what."""
    return {
        f"{one.variant.collective} of {format_size(one.bytes)} on {one.layout} of {place.system}, {place.mpi}, "
        f"{one.variant.name}": learning.told(one)
        for place in store.job_places()
        for one in store.learnt(place)
    }
