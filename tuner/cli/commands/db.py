"""`collforge db`: databases checked, explained, joined and made smaller; and what jobs had of them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from collforge.db import NoDatabase, Store, StoredRun, merging
from collforge.db.inspection import Inspection
from collforge.db.merging import Conflict, Merged
from collforge.db.pruning import Old, Pruned
from collforge.errors import CollforgeError
from collforge.place import Place
from collforge.toolchain import build
from collforge.tuner.cli import learn_table, tables, usage_table
from collforge.tuner.cli.command import Subparsers, add_command
from collforge.tuner.decide import learning
from collforge.tuner.run import measuring
from collforge.tuner.run.options import (
    STANDARD_OUTPUT,
    add_database,
    add_json,
    day,
    input_file,
    json_file,
    output_file,
)
from collforge.tuner.site import rebuild, samples
from collforge.tuner.site.rebuild import Rules

CHECK = "collforge db check --db cluster.db"
MERGE = """\
collforge db merge one.db two.db --output both.db
  collforge db merge one.db two.db --output both.db --rename two.db:cluster=cluster2

No file is changed. Systems stay apart; of a system that several files have, the launches are joined, each once,
and its winners are decided again from all of them."""

LOG = """\
collforge db log
  collforge db log --since 2026-11-01 --last 100

Launches are in the order in which they were stored. Below each stand the winners that changed after it and
before the next. A variant that fails is out on all layouts and systems of its MPI library."""

SAMPLES = """\
collforge db export-samples samples.csv --system cluster --collective bcast
  collforge db export-samples - --osu

A row of the CSV is a sample: the seconds of one call, from the first rank's start to the last rank's end."""

PRUNE = """\
collforge db prune --fingerprints --libraries --dry-run
  collforge db prune --libraries v4.1.4 v5.0.7
  collforge db prune --older-than 2026-01-31

What winners of a current library stand on is kept: all measurements of their collective on their layout."""


def add_parser(subparsers: Subparsers) -> None:
    group = add_command(
        subparsers,
        "db",
        "check, explain, join and prune databases; count jobs, and learn from them",
        CHECK,
    )
    kinds = group.add_subparsers(metavar="ACTION", required=True)
    check = add_command(
        kinds,
        "check",
        "look for damage, and for winners that do not follow from the measurements (exit code 1)",
        CHECK,
        run_check,
    )
    add_database(check)
    add_json(check)
    merge = add_command(kinds, "merge", "join databases in a new one", MERGE, run_merge)
    merge.add_argument("files", metavar="FILE", nargs="+", type=input_file)
    merge.add_argument(
        "--output", metavar="FILE", required=True, type=output_file, help="the new database"
    )
    merge.add_argument(
        "--rename",
        metavar="FILE:OLD=NEW",
        action="append",
        default=[],
        help="another name for a system of a file",
    )
    merge.add_argument(
        "--same",
        metavar="SYSTEM",
        action="append",
        default=[],
        help="a system of several files that is the same although they differ; the first file's facts hold",
    )
    _add_prune(kinds)
    _add_log(kinds)
    _add_export_samples(kinds)
    usage_table.add_parser(kinds)
    learn_table.add_parser(kinds)
    for each in (check, merge):
        measuring.add_precision(each)


def _add_prune(kinds: Subparsers) -> None:
    prune = add_command(kinds, "prune", "remove old measurements", PRUNE, run_prune)
    prune.add_argument(
        "--older-than",
        metavar="DATE",
        type=day,
        help="only what ran before this date, e.g. 2026-01-31",
    )
    prune.add_argument(
        "--fingerprints", action="store_true", help="variants of code that is no longer generated"
    )
    prune.add_argument(
        "--libraries",
        metavar="VERSION",
        nargs="*",
        help="MPI libraries that are not current: versions without one of these words, or by default all but "
        "the one that ran last of each name on each system",
    )
    prune.add_argument("--dry-run", action="store_true", help="only print what would be removed")
    add_database(prune)
    measuring.add_precision(prune)


def _add_export_samples(kinds: Subparsers) -> None:
    export = add_command(
        kinds, "export-samples", "write all samples as CSV", SAMPLES, run_export_samples
    )
    export.add_argument("file", metavar="FILE", type=json_file, help="-: standard output")
    export.add_argument(
        "--osu", action="store_true", help="in the shape of OSU's tables: size, microseconds"
    )
    for name in ("system", "mpi", "layout", "collective"):
        export.add_argument(f"--{name}", metavar="NAME", default="", help="only of this one")
    add_database(export)


def _add_log(kinds: Subparsers) -> None:
    log = add_command(
        kinds, "log", "what ran when, and which winners each launch changed", LOG, run_log
    )
    log.add_argument("--since", metavar="DATE", type=day, help="only what ran from this date on")
    log.add_argument(
        "--last", metavar="N", type=int, default=20, help="the last N launches (default: 20)"
    )
    add_database(log)
    add_json(log)


def read_rules(args: argparse.Namespace) -> Rules:
    return Rules(build.read_manifest(), **measuring.precision(args))


def wrong_winners(store: Store, rules: Rules) -> Iterator[str]:
    yield from rebuild.differences(store, rules)
    yield from rebuild.map_differences(store, rules)
    yield from learning.differences(store)


def run_check(args: argparse.Namespace) -> int:
    with Inspection(args.db) as store:
        found = store.damage() or [*store.faults(), *wrong_winners(store, read_rules(args))]
        numbers = f"{len(store.runs())} runs, {len(store.winners())} winners" if not found else ""
    for line in found:
        print(line)
    print(f"{args.db}: {numbers}: sound" if not found else f"{args.db}: {len(found)} faults")
    tables.write_document(args, found)
    return int(bool(found))


def run_log(args: argparse.Namespace) -> int:
    if args.last < 1:
        raise CollforgeError(f"--last {args.last}: give 1 launch or more")
    since = args.since.isoformat() if args.since else ""
    with Store(args.db, create=False) as store:
        runs = store.runs()
        shown = [one for one in runs if one.started >= since][-args.last :]
        left = len(runs) - len(shown)
        if left:
            print(f"{left} launches are not shown (--last, --since)")
        for line in told_runs(store, shown):
            print(line)
        tables.write_document(args, shown)
    return 0


def run_export_samples(args: argparse.Namespace) -> int:
    with ExitStack() as stack:
        store = stack.enter_context(Store(args.db, create=False))
        chosen = samples.choose(store, args.system, args.mpi, args.layout, args.collective)
        if not chosen:
            raise CollforgeError(f"{args.db} has no such samples (--system, --mpi, --layout, ...)")
        out = sys.stdout
        if args.file != STANDARD_OUTPUT:
            out = stack.enter_context(args.file.open("w", encoding="utf-8", newline=""))
        if args.osu:
            samples.write_osu(chosen, out)
        else:
            samples.write_rows(store, chosen, out)
    return 0


def told_runs(store: Store, shown: Sequence[StoredRun]) -> Iterator[str]:
    """A line for each of the runs to be shown, then one for each winner that changed after it."""
    decisions = store.decisions()
    begin = max((one.decided for one in decisions[""]), default="")
    if any(one.started < begin for one in shown):
        yield f"no history before {begin}"
    for one in shown:
        failed = f", {one.failures} failed" if one.failures else ""
        yield (
            f"{one.started} {rebuild.name(one.place)}: {one.measurements} measurements, "
            f"{one.verifications} verifications{failed}, on {', '.join(one.hosts)}{_started(one)} ({one.uuid})"
        )
        for each in decisions[one.uuid]:
            at = "" if each.place == one.place else f" ({rebuild.name(each.place)})"
            key = each.collective, each.bytes
            for line in rebuild.changes({key: each.old}, {key: each.new}):
                yield f"  winner of {line}{at}"


def _started(one: StoredRun) -> str:
    """By what, and behind which switches; '' if nothing is known."""
    start = one.start
    by = " and ".join(filter(None, (start.launcher, start.pmi)))
    switches = ", ".join(dict.fromkeys(filter(None, start.switches)))
    return (f", by {by}" if by else "") + (f", behind {switches}" if switches else "")


def run_merge(args: argparse.Namespace) -> int:
    if args.output.exists():
        raise CollforgeError(f"{args.output} exists: name a new file with --output")
    rules = read_rules(args)
    # Beside the output until it is whole, so that nobody reads a part.
    with TemporaryDirectory(dir=args.output.parent) as folder:
        whole = Path(folder) / args.output.name
        with Merged(whole) as store, store.transaction():
            try:
                joined = take(store, args)
            except Conflict as conflict:
                print(conflict)
                return 1
            for place in joined:
                (rebuild.renew if place.layout else rebuild.renew_map)(store, rules, place)
            learning.renew_all(store)
            numbers = f"{len(store.runs())} runs, {len(store.winners())} winners"
        whole.rename(args.output)
    for place in joined:
        if place.layout:
            print(f"joined, and decided again: {rebuild.name(place)}")
    print(f"{args.output}: {numbers}")
    return 0


def take(store: Merged, args: argparse.Namespace) -> list[Place]:
    """Copies what the files have; returns the places (database keys) of which several have something."""
    renames = read_renames(args)
    with ExitStack() as stack:
        sources = [
            stack.enter_context(merging.opened(path, renames.get(path, {}))) for path in args.files
        ]
        merging.compare_systems(sources, args.same)
        return store.take(sources)


def read_renames(args: argparse.Namespace) -> dict[Path, dict[str, str]]:
    """File -> the new names of its systems, from --rename."""
    found: dict[Path, dict[str, str]] = {}
    for text in args.rename:
        file, _, pair = text.rpartition(":")
        old, _, new = pair.partition("=")
        if Path(file) not in args.files or not old or not new:
            raise CollforgeError(
                f"--rename {text}: give FILE:OLD=NEW, with one of the files to be joined"
            )
        found.setdefault(Path(file), {})[old] = new
    return found


class Rehearsed(Exception):
    """Undoes the transaction of a dry run."""


def run_prune(args: argparse.Namespace) -> int:
    if not (args.older_than or args.fingerprints or args.libraries is not None):
        raise CollforgeError("say what is old: --older-than, --fingerprints or --libraries")
    if not args.db.exists():
        raise NoDatabase(args.db)
    rules, size = read_rules(args), args.db.stat().st_size
    old = Old(
        before=args.older_than.isoformat() if args.older_than else "",
        fingerprints=rules.fingerprints if args.fingerprints else None,
        libraries=args.libraries is not None,
        kept=tuple(args.libraries or ()),
    )
    with Pruned(args.db, create=not args.dry_run) as store:
        with suppress(Rehearsed), store.transaction():
            lines = prune(store, rules, old)
            if args.dry_run:
                raise Rehearsed
        print("\n".join(lines))
        if args.dry_run:
            print("nothing was removed (--dry-run)")
            return 0
        store.compact()
    print(f"{args.db}: {size} bytes before, {args.db.stat().st_size} bytes now")
    return 0


def prune(store: Pruned, rules: Rules, old: Old) -> list[str]:
    """Removes what is old and decides again where something was; returns what is to be told."""
    places = store.places()
    before = {place: rebuild.choices_at(store, place) for place in places}
    removed = store.remove(old)
    left = {place for place in removed.places if place in set(store.places())}
    for place in sorted(left):
        rebuild.renew(store, rules, place)
    for library in sorted({place.library for place in left}):
        rebuild.renew_map(store, rules, library)
    learning.renew_all(store)
    lines = []
    for place in places:
        gone, kept = removed.measurements[place], removed.kept[place]
        if gone or kept:
            stay = f"; {kept} old ones stay, because winners stand on them" if kept else ""
            lines.append(f"{rebuild.name(place)}: {gone} measurements{stay}")
            changed = rebuild.changes(before[place], rebuild.choices_at(store, place))
            lines += [f"  winner of {line}" for line in changed]
    total = sum(removed.measurements.values())
    return [
        *lines,
        f"removed: {total} measurements, {removed.verifications} verifications, {removed.runs} runs",
    ]
