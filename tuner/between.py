"""Half way between two sizes that were searched: which of the choices on both sides holds there, if any.

A choice that wins at two sizes may lose between them, where native changes its algorithm or its protocol. So
once the searches have ended, the winners of neighbouring sizes are measured against native half way between
them, and the decision there is stored like any other. Pure functions, as in plan.py.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from collforge.db import Variant
from collforge.generator.case import Case
from collforge.generator.manifest import Manifest
from collforge.reframe_checks.cases import timing_case
from collforge.tuner import plan
from collforge.tuner.plan import Goal, History, Task
from collforge.tuner.select import Decision, Launch, compare

# Sizes no further apart than this have nothing between them that is worth a measurement.
NEAR = 2


@dataclass(frozen=True)
class Halfway:
    """A problem half way between two of a goal, and the winners of these."""

    problem: Case
    candidates: tuple[Variant, ...]
    open: tuple[Variant, ...]
    """Those that need another launch."""


def halfway(
    manifest: Manifest,
    goal: Goal,
    decisions: Mapping[str, Decision],
    history: History,
    failed: Collection[Variant] = (),
) -> list[Halfway]:
    """Every such problem for which there is a candidate. ``failed``: variants that gave a wrong result."""
    found = []
    for lower, upper in neighbouring(manifest, goal):
        both = (
            decisions[one.problem].winner.variant
            for one in (lower, upper)
            if one.problem in decisions
        )
        candidates = tuple(dict.fromkeys(v for v in both if not v.is_native and v not in failed))
        problem = middle(manifest, goal, lower, upper)
        if candidates and plan.applicable(manifest, goal, problem):
            launches = history.get(problem.problem, ())
            found.append(Halfway(problem, candidates, unsure(goal, candidates, launches)))
    return found


def neighbouring(manifest: Manifest, goal: Goal) -> Iterator[tuple[Case, Case]]:
    """The problems of each collective that has choices by size, in pairs of sizes next to each other."""
    asked = sorted(plan.problems(manifest, goal), key=lambda one: (one.collective, one.bytes))
    for lower, upper in zip(asked, asked[1:]):
        sized = lower.collective == upper.collective and lower.collective not in manifest.unsized
        if sized and upper.bytes > NEAR * lower.bytes:
            yield lower, upper


def middle(manifest: Manifest, goal: Goal, lower: Case, upper: Case) -> Case:
    """On the logarithmic scale, in whole doubles where there is room for one."""
    nbytes = math.sqrt(lower.bytes * upper.bytes)
    whole = round(nbytes / plan.WORD) * plan.WORD if nbytes >= plan.WORD else round(nbytes)
    return timing_case(manifest, lower.collective, goal.layout, whole)


def unsure(
    goal: Goal, candidates: Sequence[Variant], launches: Sequence[Launch]
) -> tuple[Variant, ...]:
    if len(launches) >= goal.max_launches:
        return ()
    native = Variant(candidates[0].collective)
    each = {variant: compare(variant, native, launches) for variant in candidates}
    return tuple(variant for variant, one in each.items() if plan.is_unsure(goal, [one]))


def tasks(
    manifest: Manifest, goal: Goal, found: Sequence[Halfway], history: History
) -> Iterator[Task]:
    """What the next launch should measure, the least measured first."""
    for one in sorted(found, key=lambda one: len(history.get(one.problem.problem, ()))):
        if one.open:
            cases = (one.problem, *(one.problem.by(variant.name) for variant in one.open))
            seconds = plan.estimate(manifest, goal, one.problem, history) * len(cases)
            yield Task(one.problem, cases, seconds)
