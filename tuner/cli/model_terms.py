"""The model of extrapolated winners in words."""

from __future__ import annotations

import math

from collforge.tuner.decide.extrapolation import At, Model, expected, native_growth
from collforge.tuner.decide.layout_map import kind
from collforge.units import format_seconds
from collforge.variant import Variant

WORDS = {
    "calls": ("calls", ""),
    "lane_rounds": ("rounds", " between nodes"),
    "lane_messages": ("messages", " of a rank"),
    "lane_bytes": ("", " between nodes"),
    "node_out": ("", " out of a node"),
    "node_rounds": ("rounds", " on the node"),
    "node_bytes": ("", " on the node"),
    "shared_rounds": ("rounds", " in shared memory"),
    "shared_bytes": ("", " in shared memory"),
    "copied": ("", " copied"),
    "combined": ("", " combined"),
}
LEAST_PART = 0.01
"""Of the time: a term that takes less is not told."""


def told(model: Model, variant: Variant, place: At) -> str:
    """The terms of a variant's time: ``6 rounds x 23 us between nodes + 4.1 MB / 1.2 GB/s copied``."""
    total = model.seconds(variant, *place)
    counts = model.counts(variant, [place])
    terms = []
    for name, each in zip(WORDS, model.constants.get(variant.collective, ()) if counts else ()):
        (number,) = getattr(counts, name)
        what, where = WORDS[name]
        if number * each < LEAST_PART * total or not number * each:
            continue
        if name == "calls":
            terms.append(format_seconds(each))
        elif what:
            terms.append(f"{number:.3g} {what} x {format_seconds(each)}{where}")
        else:
            terms.append(f"{number * 1e-6:.3g} MB / {1e-9 / each:.3g} GB/s{where}")
    return f"{' + '.join(terms)} = {format_seconds(total)}" if terms else ""


def told_native(model: Model, collective: str, place: At) -> str:
    """Native's time at a place, as expected, and how far the laws of growth differ."""
    sites = [one for one in model.sources.sites[collective] if kind(one.shape) == kind(place[0])]
    laws = native_growth(sites, place[1], place[0])
    mean, spread = expected(laws)
    by = f", by a factor of {math.exp(spread):.2g} more or less"
    return f"{format_seconds(math.exp(mean))}{by}" if laws else ""
