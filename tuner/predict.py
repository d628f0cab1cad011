"""What the measurements of some sizes and layouts let expect for others.

papers/thread-split-rank-shift, section 4, leaves it open how many threads a collective should have for a
vector's length and a machine's topology. Here the search's own model answers (strategies/surrogate.py): it
has learnt from all problems of a collective, by their bytes, nodes, ranks on a node and threads.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from collforge.case import Case
from collforge.generator.manifest import Manifest
from collforge.tuner import plan, search
from collforge.tuner.evidence import History, compare
from collforge.tuner.plan import Goal
from collforge.tuner.strategies.surrogate import Surrogate
from collforge.variant import NATIVE, Variant


@dataclass(frozen=True)
class Expected:
    """The variant expected to be the fastest in a problem."""

    problem: Case
    variant: str
    ratio: float
    """Of native's time to its time."""
    known: int
    """The problems that the expectation rests on."""


def predict(manifest: Manifest, goal: Goal, problem: Case, history: History) -> Expected:
    """The best of all variants that apply; native where none is expected to win by the goal's margin.

    The problem's own measurements, where there are any, are not looked at.
    """
    native = Variant(problem.collective)
    near = search.neighbours([problem], history)
    best = Expected(problem, NATIVE, 1.0, len(near))
    for entry in plan.applicable(manifest, goal, problem):
        points = plan.points(manifest, entry, [problem])
        model = Surrogate(list(points.values()), goal.seed, search.coordinates(problem))
        for where, launches in near:
            for variant in search.measured(entry, [launches]):
                ratio = compare(variant, native, launches).ratio
                if variant.name in points and not math.isnan(ratio):
                    model.recall(points[variant.name], -math.log(ratio), where)
        if not model.knows_anything:
            continue
        point, value = model.expect()
        name = entry.name(point)
        if math.exp(-value) > max(best.ratio, 1 + goal.margin):
            best = Expected(problem, name, math.exp(-value), len(near))
    return best
