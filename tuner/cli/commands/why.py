"""`collforge why`: what serves a call on a layout, measured or not, and its evidence."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence

from collforge import units
from collforge.db import EXTRAPOLATED, Choice, Learnt, Store, Winner
from collforge.generator.manifest import Manifest
from collforge.layout import Layout
from collforge.place import Place
from collforge.toolchain import build
from collforge.tuner.cli import model_terms, tables
from collforge.tuner.cli.command import Subparsers, add_command
from collforge.tuner.decide import extrapolation, learning
from collforge.tuner.decide.layout_map import Sources, read_sources
from collforge.tuner.decide.winner_lookup import read_winners, rows_of, serving_winner
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
    (collective,) = measuring.parse_collectives(args.collective, made)
    (size,) = units.parse_sizes(args.size)
    rows = []
    with Store(args.db, create=False) as store:
        for library in find_libraries(args.mpi):
            place = Place.of(measuring.system_name(args), library, layout)
            winners = rows_of(made, read_winners(store, made, place, layout), collective)
            print(
                f"{place.mpi}: {collective} of {units.format_size(size)} on {layout.name} of {place.system}:"
            )
            lines = explain(made, layout, winners, size, store.learnt(place))
            serving = winners[0].choice.variant.collective if winners else collective
            if serving != collective:
                lines.append(f"no winners of its own: those of {serving} serve it")
            found = serving_winner(made.collective(serving), winners, size)
            if found and found.choice.evidence == EXTRAPOLATED:
                lines[2:2] = model_lines(read_sources(store, made, place), layout, found, size)
            print("\n".join(f"  {line}" for line in lines))
            rows.append({"place": place, "serves": found and found.choice, "lines": lines})
    tables.write_document(args, rows, collective=collective, bytes=size)
    return 0


def explain(
    made: Manifest,
    layout: Layout,
    winners: Sequence[Winner],
    size: int,
    learnt: Sequence[Learnt] = (),
) -> list[str]:
    """``winners``: of one collective; ``learnt``: of their system and MPI library."""
    if not winners:
        return ["native: on this system, neither this layout nor one near it was measured"]
    stored = winners[0].place.layout
    collective = winners[0].choice.variant.collective
    lines = [f"winners of {stored}"]
    if stored.startswith("~"):
        how = winners[0].choice.evidence
        lines = [
            f"not measured; point {stored[1:]} of the map is the nearest, {how} on {winners[0].decided}"
        ]
    choices = {one.choice.bytes: one.choice for one in winners}
    found = serving_winner(made.collective(collective), winners, size)
    served = found.choice if found else None
    lines.append(
        f"serves: {_told(served)}" if served else "serves: native, as no row reaches this size"
    )
    is_point = stored.startswith("~")
    said = learning.learnt_of(learnt, layout, served.variant, size) if served and is_point else None
    if said:
        lines.append(f"{learning.told(said)}: {'no trial' if said.confirmed else 'native'}")
    if served and not served.variant.is_native and (said is None or said.confirmed):
        lines += _conditions(made, layout, served, size, is_point and said is None)
    for title, sizes in (
        ("smaller", [n for n in choices if n < size and choices[n] is not served][-1:]),
        ("larger", [n for n in sorted(choices) if n > size and choices[n] is not served][:1]),
    ):
        lines += [f"{title}: {_told(choices[n])}" for n in sizes]
    return lines


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
    made: Manifest, layout: Layout, choice: Choice, size: int, is_point: bool
) -> list[str]:
    """What else must hold for the variant to run."""
    lines = []
    variant = choice.variant
    entries = {v.fingerprint: v for v in made.variants_of(variant.collective)}
    if variant.fingerprint not in entries:
        return ["but this variant has changed since: native until it is tuned anew"]
    if not entries[variant.fingerprint].applies(made.facts(variant.collective, layout, size)):
        lines.append("but it does not apply to this call: native")
    if choice.evidence == EXTRAPOLATED and made.collective(variant.collective).has_op:
        lines.append(
            "but what is extrapolated is tried first: native, unless COLLFORGE_GUARD=reductions"
        )
    elif is_point and made.collective(variant.collective).has_op:
        lines.append("not tried against native first, unless COLLFORGE_GUARD=reductions")
    elif is_point:
        lines.append(
            "tried against native on a communicator that has called for some time (COLLFORGE_GUARD)"
        )
    lines.append("if its temporaries fit COLLFORGE_MEMORY")
    return lines
