"""`collforge why`: what serves a call on a layout, measured or not, and its evidence."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass

from collforge import units
from collforge.db import EXTRAPOLATED, Choice, Learnt, Store, Winner
from collforge.generator.manifest import CollectiveEntry, Manifest
from collforge.layout import Layout
from collforge.place import Place
from collforge.toolchain import build
from collforge.tuner.cli import model_terms, tables
from collforge.tuner.cli.command import Subparsers, add_command
from collforge.tuner.decide import extrapolation, learning
from collforge.tuner.decide.layout_map import Sources, read_sources
from collforge.tuner.decide.winner_lookup import (
    name_of,
    read_winners,
    rows_of,
    serving_winner,
)
from collforge.tuner.run import measuring
from collforge.tuner.run.options import add_database, add_json, add_mpi, find_libraries

EXAMPLE = """\
collforge why --layout 3x2 allreduce 96KiB
  collforge why --layout 37x48 --system mycluster --config site.py --mpi openmpi bcast 1MiB"""


def add_parser(subparsers: Subparsers) -> None:
    summary = (
        "what serves a call, on layouts that were measured and on others, and on which evidence"
    )
    parser = add_command(subparsers, "why", summary, EXAMPLE, run)
    measuring.add_system(parser)
    add_mpi(parser)
    add_database(parser)
    add_json(parser)
    parser.add_argument("collective", metavar="COLLECTIVE")
    parser.add_argument("size", metavar="SIZE", help="bytes of a block, e.g. 96KiB")


def run(args: argparse.Namespace) -> int:
    made = build.read_manifest()
    layout = measuring.parse_layout(args.layout, args.system, divided=True)
    collective = made.collective(args.collective).name
    size = units.parse_size(args.size)
    rows = []
    with Store(args.db, create=False) as store:
        for library in find_libraries(args.mpi):
            place = Place.of(measuring.system_name(args), library, layout)
            found = read_winners(store, made, place, layout)
            winners = rows_of(made, found, collective, size)
            print(
                f"{place.mpi}: {collective} of {units.format_size(size)} on {layout.name} of {place.system}:"
            )
            told = explain(made, layout, winners, collective, size, store.learnt(place))
            if told.serves and told.serves.choice.evidence == EXTRAPOLATED:
                sources = read_sources(store, made, place)
                told.lines[2:2] = model_lines(sources, layout, told.serves, size)
            print("\n".join(f"  {line}" for line in told.lines))
            rows.append(
                {"place": place, "serves": told.serves and told.serves.choice, "lines": told.lines}
            )
    tables.write_document(args, rows, collective=collective, bytes=size)
    return 0


@dataclass
class Explained:
    """What serves a call, and the lines that say why."""

    lines: list[str]
    serves: Winner | None = None


def explain(
    made: Manifest,
    layout: Layout,
    winners: Sequence[Winner],
    collective: str,
    size: int,
    learnt: Sequence[Learnt] = (),
) -> Explained:
    """``winners``: those that decide (`rows_of`); ``learnt``: of their system and MPI library."""
    if not winners:
        return Explained(
            ["native: on this system, neither this layout nor one near it was measured"]
        )
    stored = winners[0].place.layout
    lines = [f"winners of {stored}"]
    if stored.startswith("~"):
        how = winners[0].choice.evidence
        lines = [
            f"not measured; point {stored[1:]} of the map is the nearest, {how} on {winners[0].decided}"
        ]
    choices = {one.choice.bytes: one.choice for one in winners}
    found = serving_winner(made, winners, collective, size)
    served = found.choice if found else None
    lines.append(
        f"serves: {_told(served)}" if served else "serves: native, as no row reaches this size"
    )
    is_point = stored.startswith("~")
    said = learning.learnt_of(learnt, layout, served.variant, size) if served and is_point else None
    if said:
        lines.append(f"{learning.told(said)}: {'no trial' if said.confirmed else 'native'}")
    if served and not served.variant.is_native and (said is None or said.confirmed):
        lines += _conditions(made, layout, served, collective, size, is_point and said is None)
    for title, sizes in (
        ("smaller", [n for n in choices if n < size and choices[n] is not served][-1:]),
        ("larger", [n for n in sorted(choices) if n > size and choices[n] is not served][:1]),
    ):
        lines += [f"{title}: {_told(choices[n])}" for n in sizes]
    if name_of(winners[0]) != collective:
        lines.append(
            f"no winners of {collective} near this size: those of {name_of(winners[0])} serve it"
        )
    return Explained(lines, found)


def model_lines(sources: Sources, layout: Layout, winner: Winner, size: int) -> list[str]:
    """The times by which a winner is extrapolated (tuner/decide/extrapolation.py), on this layout."""
    variant = winner.choice.variant
    entry = sources.made.collective(variant.collective)
    model = extrapolation.fit(sources, [variant.collective])
    shape = (layout.nodes, round(layout.size / layout.nodes))
    place = (shape, math.log2(entry.total_bytes(layout.size, size)))
    terms = "" if variant.is_native else model_terms.told(model, variant, place)
    native = model_terms.told_native(model, variant.collective, place)
    return [
        *([f"model: {terms}; it follows from {winner.decided}"] if terms else []),
        *([f"native: {native}"] if native else []),
    ]


def _told(choice: Choice) -> str:
    at = f"stored at {units.format_size(choice.bytes)}"
    if choice.variant.is_native:
        return f"native, {at} ({choice.evidence})"
    low = f", at least {choice.low:.2f}" if choice.low > 0 else ""
    return f"{choice.variant.name}, {at}: {choice.ratio:.2f} times as fast as native{low} ({choice.evidence})"


def _conditions(
    made: Manifest, layout: Layout, choice: Choice, collective: str, size: int, is_point: bool
) -> list[str]:
    """What else must hold for the variant to run."""
    lines = []
    variant = choice.variant
    form = made.collective(collective)
    entries = {v.fingerprint: v for v in made.variants_of(variant.collective)}
    if variant.fingerprint not in entries:
        return ["but this variant has changed since: native until it is tuned anew"]
    if variant.fingerprint not in {v.fingerprint for v in made.variants_of(collective)}:
        return ["but this variant cannot serve nonblocking calls: native"]
    if form.blocking:
        lines.append("with COLLFORGE_NONBLOCKING=1, else native")
    if not entries[variant.fingerprint].applies(made.facts(variant.collective, layout, size)):
        lines.append("but it does not apply to this call: native")
    if is_point or (choice.evidence == EXTRAPOLATED and form.has_op):
        lines.append(_trial(form, choice.evidence))
    lines.append("if its temporaries fit COLLFORGE_MEMORY")
    return lines


def _trial(entry: CollectiveEntry, evidence: str) -> str:
    """What a choice of the map has to pass before it serves calls."""
    if entry.has_op and evidence == EXTRAPOLATED:
        return "but what is extrapolated is tried first: native, unless COLLFORGE_GUARD=reductions"
    if entry.has_op:
        return "not tried against native first, unless COLLFORGE_GUARD=reductions"
    return "tried against native on a communicator that has called for some time (COLLFORGE_GUARD)"
