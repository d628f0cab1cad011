"""`collforge db`: databases checked."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from collforge.db import Store
from collforge.db.inspection import Inspection
from collforge.toolchain import build
from collforge.tuner import rebuild, target
from collforge.tuner.parsing import Subparsers, add_command, add_database
from collforge.tuner.rebuild import Rules

CHECK = "collforge db check --db cluster.db"


def add_parser(subparsers: Subparsers) -> None:
    group = add_command(subparsers, "db", "check databases", CHECK)
    kinds = group.add_subparsers(metavar="ACTION", required=True)
    check = add_command(
        kinds,
        "check",
        "look for damage, and for winners that do not follow from the measurements (exit code 1)",
        CHECK,
        run_check,
    )
    target.add_precision(check)
    add_database(check)


def read_rules(args: argparse.Namespace) -> Rules:
    return Rules(build.read_manifest(), **target.precision(args))


def wrong_winners(store: Store, rules: Rules) -> Iterator[str]:
    yield from rebuild.differences(store, rules)
    yield from rebuild.map_differences(store, rules)


def run_check(args: argparse.Namespace) -> int:
    with Inspection(args.db) as store:
        found = store.damage() or [*store.faults(), *wrong_winners(store, read_rules(args))]
        numbers = f"{len(store.runs())} runs, {len(store.winners())} winners" if not found else ""
    for line in found:
        print(line)
    print(f"{args.db}: {numbers}: sound" if not found else f"{args.db}: {len(found)} faults")
    return int(bool(found))
