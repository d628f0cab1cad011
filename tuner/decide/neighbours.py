"""Neighbouring sizes: the variants that they nominate for each other, and the sizes to measure between.

A variant that wins at two sizes may be slower than native between them, where native changes its algorithm or
protocol. If two neighbouring sizes have different winners, it is not known where one should replace the other.
Therefore, if both sizes are decided, their winners and native are measured half way between, and the decision
there is stored like any other. If the winner half way differs much in speed from the one at a neighbouring
size, the size between these two (the quarter) is measured, too. Pure functions, as in plan.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from collforge.case import Case
from collforge.cases import timing_case
from collforge.generator.manifest import Manifest
from collforge.tuner.decide import plan
from collforge.tuner.decide.evidence import estimate
from collforge.tuner.decide.plan import HALFWAY, LATE, Examination, Goal, Task, Turn
from collforge.tuner.decide.select import Decision
from collforge.variant import Variant

# Nothing is measured between two of the goal's sizes whose ratio is at most NEAR, nor between one of them and a
# half-way size if their ratio is at most NEAR_HALF.
NEAR, NEAR_HALF = 2, 1.3
# A half-way size this close to a power of two, in octaves, is moved to it.
NEAR_POWER = 0.25
# A quarter is measured only if, at one of the two sizes around it, the other's winner is slower by this.
APART = math.log(1.1)
# The assumed cost of a wrong choice half way, before it is measured, if the two sizes have one winner or two
# (logarithm of a ratio of times).
STAKE_OF_ONE, STAKE_OF_TWO = 0.02, 0.1

Decisions = Mapping[str, Decision]
"""Problem -> decision."""


def nominations(
    manifest: Manifest, goal: Goal, found: Iterable[Case], decisions: Decisions
) -> dict[str, list[Variant]]:
    """For each problem the winners, other than native, of the nearest decided sizes on both sides."""
    nominated: dict[str, list[Variant]] = {}
    groups: dict[str, dict[str, Case]] = {}
    for one in [
        *found,
        *(middle for *_, middle in [*halfway(manifest, goal), *quarters(manifest, goal)]),
    ]:
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
    """Triples of problems (lower, upper, half way) for neighbouring sizes of a collective."""
    asked = sorted(plan.problems(manifest, goal), key=lambda one: (one.collective, one.bytes))
    for lower, upper in zip(asked, asked[1:]):
        if lower.collective == upper.collective and upper.bytes > NEAR * lower.bytes:
            middle = half(manifest, goal, lower, upper)
            if plan.applicable(manifest, goal, middle):
                yield lower, upper, middle


def quarters(manifest: Manifest, goal: Goal) -> Iterator[tuple[Case, Case, Case]]:
    """The same triples for each half-way size and the sizes next to it."""
    for lower, upper, middle in halfway(manifest, goal):
        for low, high in ((lower, middle), (middle, upper)):
            if high.bytes > NEAR_HALF * low.bytes:
                yield low, high, half(manifest, goal, low, high)


def half(manifest: Manifest, goal: Goal, lower: Case, upper: Case) -> Case:
    """The problem half way between two sizes on the logarithmic scale, in whole doubles if it holds one.

    A power of two nearby is preferred, because MPI libraries change protocols and algorithms there.
    """
    nbytes = math.sqrt(lower.bytes * upper.bytes)
    power = 2.0 ** round(math.log2(nbytes))
    if lower.bytes < power < upper.bytes and abs(math.log2(nbytes / power)) < NEAR_POWER:
        nbytes = power
    whole = round(nbytes / plan.WORD) * plan.WORD if nbytes >= plan.WORD else round(nbytes)
    return timing_case(manifest, lower.collective, goal.layout, whole)


def problems(seen: Examination, decisions: Decisions) -> list[tuple[Case, float]]:
    """The problems between two sizes that need a decision, with the stake of each (see `stake`).

    A half-way problem needs one if a variant won at one of the two sizes. A size that is still undecided
    after its usual launches counts as won by native; otherwise nothing next to it would be measured. A
    quarter needs one if the two winners differ in speed by more than APART.
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
    """How much slower one size's winner is at the other size, as a logarithm of times; 0 if not measured."""
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
    """The expected cost of a wrong choice, as a logarithm of times.

    If native is one of the two winners, it is half of the other winner's speed-up.
    """
    if any(one.is_native for one in variants):
        return math.log(max(ratios)) / 2
    return STAKE_OF_ONE if variants[0] == variants[1] else STAKE_OF_TWO


def tasks(seen: Examination, decisions: Decisions) -> Iterator[tuple[Turn, Task]]:
    """The tasks for the next launch between the goal's sizes, each with its turn."""
    for problem, at_stake in problems(seen, decisions):
        contest = seen.contest(problem)
        if not contest.racing or not seen.is_open(contest):
            continue
        launches = len(seen.history.get(problem.problem, ()))
        stage = LATE if seen.goal.is_late(launches) else HALFWAY
        cases = (problem, *(problem.by(variant.name) for variant in contest.racing))
        seconds = plan.estimate(seen.manifest, seen.goal, problem, seen.history) * len(cases)
        expected = contest.stake if launches else at_stake
        yield Turn(stage, launches, -expected), Task(problem, cases, seconds)
