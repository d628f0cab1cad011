"""Predicts the fastest variants at sizes and layouts that were not measured.

Mahéo et al. (2014), section 4, leave open how many threads a collective should use for a given vector length
and topology. Here the search's model (strategies/surrogate.py) predicts it. It is trained on all problems of
the collective, described by bytes, nodes, ranks per node and threads.
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
    """The variant that is expected to be the fastest for a problem."""

    problem: Case
    variant: str
    ratio: float
    """The expected time of native / time of the variant."""
    known: int
    """The number of problems that the prediction is based on."""


def predict(manifest: Manifest, goal: Goal, problem: Case, history: History) -> Expected:
    """The best of all variants that apply; native if none is expected to win by the goal's margin.

    Measurements of the problem itself are not used.
    """
    native = Variant(problem.collective)
    near = search.neighbours(problem, history)
    best = Expected(problem, NATIVE, 1.0, len(near))
    for entry in plan.applicable(manifest, goal, problem):
        points = plan.points(manifest, entry, problem)
        model = Surrogate(list(points.values()), goal.seed, search.coordinates(problem))
        for where, launches in near:
            for variant in search.measured(entry, launches):
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
