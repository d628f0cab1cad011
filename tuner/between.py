"""Sizes beside each other: who speaks for a problem from there, and the problems between.

A choice that wins at two sizes may lose between them, where native changes its algorithm or its protocol, and
between two different choices either may be the wrong one. So where both sides are decided, their winners are
measured against native half way between, and the decision there is stored like any other. Where the winner
half way and one beside it are far apart in speed, the nearer one serves badly somewhere between the two: there
the quarter is measured, too. Pure functions, as in plan.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from collforge.case import Case
from collforge.generator.manifest import Manifest
from collforge.reframe_checks.cases import timing_case
from collforge.tuner import plan
from collforge.tuner.evidence import estimate
from collforge.tuner.plan import HALFWAY, LATE, Examination, Goal, Task, Turn
from collforge.tuner.select import Decision
from collforge.variant import Variant

# Sizes no further apart than this have nothing between them that is worth a measurement; with a half way, this.
NEAR, NEAR_HALF = 2, 1.3
# Octaves.
NEAR_POWER = 0.25
# Between half way and a size of the goal only if one's winner is slower than the other's by this, at either.
APART = math.log(1.1)
# What a wrong choice half way is taken to cost before it is measured (a logarithm of times).
STAKE_OF_ONE, STAKE_OF_TWO = 0.02, 0.1

Decisions = Mapping[str, Decision]
"""By problem."""


def nominations(
    manifest: Manifest, goal: Goal, found: Iterable[Case], decisions: Decisions
) -> dict[str, list[Variant]]:
    """The winners of the nearest decided sizes on both sides of each problem, but native."""
    nominated: dict[str, list[Variant]] = {}
    groups: dict[str, dict[str, Case]] = {}
    for one in [
        *found,
        *(middle for *_, middle in [*halfway(manifest, goal), *quarters(manifest, goal)]),
    ]:
        if one.collective not in manifest.unsized:
            groups.setdefault(one.collective, {})[one.problem] = one
    for of_one in groups.values():
        row = sorted(of_one.values(), key=lambda one: one.bytes)
        for side in (row, row[::-1]):
            last: Variant | None = None
            for one in side:
                if last and not last.is_native:
                    nominated.setdefault(one.problem, []).append(last)
                decision = decisions.get(one.problem)
                last = decision.winner.variant if decision and decision.settled else last
    return {problem: list(dict.fromkeys(each)) for problem, each in nominated.items()}


def halfway(manifest: Manifest, goal: Goal) -> Iterator[tuple[Case, Case, Case]]:
    """The problems of each collective that has choices by size, in pairs next to each other, and the middle."""
    asked = sorted(plan.problems(manifest, goal), key=lambda one: (one.collective, one.bytes))
    for lower, upper in zip(asked, asked[1:]):
        sized = lower.collective == upper.collective and lower.collective not in manifest.unsized
        if sized and upper.bytes > NEAR * lower.bytes:
            middle = half(manifest, goal, lower, upper)
            if plan.applicable(manifest, goal, middle):
                yield lower, upper, middle


def quarters(manifest: Manifest, goal: Goal) -> Iterator[tuple[Case, Case, Case]]:
    """The same of each half way and the sizes beside it."""
    for lower, upper, middle in halfway(manifest, goal):
        for low, high in ((lower, middle), (middle, upper)):
            if high.bytes > NEAR_HALF * low.bytes:
                yield low, high, half(manifest, goal, low, high)


def half(manifest: Manifest, goal: Goal, lower: Case, upper: Case) -> Case:
    """On the logarithmic scale, in whole doubles where there is room for one; a power of two if that is near.

    At powers of two MPI libraries change their protocols and algorithms.
    """
    nbytes = math.sqrt(lower.bytes * upper.bytes)
    power = 2.0 ** round(math.log2(nbytes))
    if lower.bytes < power < upper.bytes and abs(math.log2(nbytes / power)) < NEAR_POWER:
        nbytes = power
    whole = round(nbytes / plan.WORD) * plan.WORD if nbytes >= plan.WORD else round(nbytes)
    return timing_case(manifest, lower.collective, goal.layout, whole)


def problems(seen: Examination, decisions: Decisions) -> list[tuple[Case, float]]:
    """Those between two sizes that need a decision, and what is at stake there.

    Half way it is needed where a variant won one of the two. A size that its launches leave undecided
    counts as native's: else nothing would be known next to it. At a quarter it is where the winners are far
    apart.
    """
    found = []
    for lower, upper, middle in halfway(seen.manifest, seen.goal):
        won = [
            decisions[one.problem].winner
            for one in (lower, upper)
            if one.problem in decisions
            and (
                decisions[one.problem].settled
                or seen.goal.is_late(len(seen.history.get(one.problem, ())))
            )
        ]
        if len(won) == 2 and not all(one.variant.is_native for one in won):
            found.append((middle, stake([one.variant for one in won], [one.ratio for one in won])))
    for lower, upper, middle in quarters(seen.manifest, seen.goal):
        lost = distance(seen, decisions, lower, upper)
        if lost > APART:
            found.append((middle, lost / 2))
    return found


def distance(seen: Examination, decisions: Decisions, lower: Case, upper: Case) -> float:
    """By how much one's winner is slower at the other's size, as far as measured: a logarithm of times."""
    both = [decisions.get(one.problem) for one in (lower, upper)]
    if not all(one and one.settled for one in both):
        return 0.0
    winners = [one.winner.variant for one in both if one]
    known = [
        estimate(own, other, seen.history.get(one.problem, ()), seen.rule.noise)
        for one, own, other in zip((lower, upper), winners, winners[::-1])
        if own != other
    ]
    return max((one.mean for one in known if one), default=0.0)


def stake(variants: Sequence[Variant], ratios: Sequence[float]) -> float:
    """A logarithm of times: half of what native loses where it is one of the two winners."""
    if any(one.is_native for one in variants):
        return math.log(max(ratios)) / 2
    return STAKE_OF_ONE if variants[0] == variants[1] else STAKE_OF_TWO


def tasks(seen: Examination, decisions: Decisions) -> Iterator[tuple[Turn, Task]]:
    """What the next launch should measure between the goal's sizes, and when it is its turn."""
    for problem, at_stake in problems(seen, decisions):
        contest = seen.contest([problem])
        if not contest.racing or not seen.is_open(contest, seen.goal.max_launches):
            continue
        launches = len(seen.history.get(problem.problem, ()))
        stage = LATE if seen.goal.is_late(launches) else HALFWAY
        cases = (problem, *(problem.by(variant.name) for variant in contest.racing))
        seconds = plan.estimate(seen.manifest, seen.goal, problem, seen.history) * len(cases)
        expected = contest.stake if launches else at_stake
        yield Turn(stage, launches, -expected), Task(problem, cases, seconds)
