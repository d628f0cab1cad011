"""All decisions from the measurements of a place (database key), and the rows that are stored for them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from collforge.case import Case
from collforge.db import Choice, Store, Undecided
from collforge.decision import DECIDED, FALLBACK, NEIGHBOUR, TIE
from collforge.generator.manifest import Manifest
from collforge.place import Place
from collforge.tuner.decide import neighbours, plan
from collforge.tuner.decide.evidence import (
    Estimate,
    History,
    Launch,
    by_problem,
    estimate,
    measured_problems,
    pooled,
)
from collforge.tuner.decide.plan import Background, Examination, Goal
from collforge.tuner.decide.select import Decision, Rule
from collforge.variant import Variant


@dataclass(frozen=True)
class Standing:
    """The decisions for a place (database key)."""

    seen: Examination
    """Includes the launches of each problem, without failed variants: a wrong result is often a fast one."""
    decisions: Mapping[str, Decision]
    """Problem -> decision."""
    background: Background = field(default_factory=Background)

    def measured(self) -> list[str]:
        """The goal's collectives that were measured at this place (database key)."""
        found = {one.collective for one in measured_problems(self.seen.history)}
        return [name for name in self.seen.goal.collectives if name in found]

    def stored(self, collective: str) -> tuple[list[Choice], list[Undecided]]:
        """The winners of a collective, and its sizes without one."""
        return stored(self.seen, self.decisions, collective)

    def asked(self) -> list[Case]:
        """The problems of the goal, and those between its sizes that need a decision."""
        seen = self.seen
        own = [one for one in plan.problems(seen.manifest, seen.goal) if self.can_be_tuned(one)]
        return [*own, *(one for one, _ in neighbours.problems(seen, self.decisions))]

    def can_be_tuned(self, problem: Case) -> bool:
        return bool(plan.applicable(self.seen.manifest, self.seen.goal, problem))

    def is_settled(self, problem: Case) -> bool:
        decision = self.decisions.get(problem.problem)
        return decision is not None and decision.settled

    def is_exhausted(self, problem: Case) -> bool:
        """Whether a problem is undecided and gets no more launches: it had the most, or no variant works."""
        launches = len(self.seen.history.get(problem.problem, ()))
        if self.is_settled(problem) or launches == 0:
            return False
        contest = self.seen.contest(problem)
        tried_out = not contest.racing and not contest.wanted
        return tried_out or launches >= self.seen.goal.max_launches


def read_standing(
    store: Store, made: Manifest, goal: Goal, place: Place, anew: bool = False
) -> Standing:
    """Decides every measured problem of the goal's collectives at a place (database key).

    ``anew``: problems that are to be measured again (`begin_epoch`) are undecided before they were.
    """
    own = read_own(store, made, goal, place, anew)
    others = [p for p in store.places() if p.library == place.library and p != place]
    layouts = by_problem(one for other in others for one in store.measurements(other))
    before = version_before(store, place)
    earlier = by_problem(store.measurements(before)) if before else {}
    failed = own.seen.failed
    return replace(own, background=Background(without(layouts, failed), without(earlier, failed)))


def version_before(store: Store, place: Place) -> Place | None:
    """The same system and layout with that other version of the MPI library which ran there last."""
    others = (one for one in store.runs() if one.place != place)
    same = [one for one in others if replace(one.place, mpi_version=place.mpi_version) == place]
    return max(same, key=lambda run: run.started).place if same else None


def read_own(
    store: Store, made: Manifest, goal: Goal, place: Place, anew: bool = False
) -> Standing:
    """The same, without the background: decisions do not depend on it."""
    verified = store.verified(place.mpi, place.mpi_version)
    failed = frozenset(one.variant for one in store.failures(place.mpi, place.mpi_version))
    history = without(by_problem(store.measurements(place, anew=anew)), failed)
    seen, decisions = judge(made, goal, history, failed, verified)
    return Standing(seen, decisions)


def judge(
    made: Manifest,
    goal: Goal,
    history: History,
    failed: Collection[Variant] = (),
    verified: Collection[Variant] | None = None,
) -> tuple[Examination, dict[str, Decision]]:
    """All decisions, in two passes: winners of the first pass are nominated for neighbouring sizes."""
    rule = Rule(goal.min_launches, goal.margin, pooled(history))
    seen = Examination(made, goal, history, rule, failed, verified)
    found = [one for one in measured_problems(history) if one.collective in goal.collectives]
    first = decide_each(seen, found)
    seen = replace(seen, nominated=neighbours.nominations(made, goal, found, first))
    return seen, decide_each(seen, found)


def decide_each(seen: Examination, found: Sequence[Case]) -> dict[str, Decision]:
    return {problem.problem: seen.contest(problem).decision for problem in found}


def without(history: History, failed: Collection[Variant]) -> dict[str, list[Launch]]:
    """The launches without the samples of these variants."""
    return {
        problem: [{v: s for v, s in launch.items() if v not in failed} for launch in launches]
        for problem, launches in history.items()
    }


def stored(
    seen: Examination, decisions: Mapping[str, Decision], collective: str
) -> tuple[list[Choice], list[Undecided]]:
    """The rows stored for a collective: its winners, and the sizes without one.

    The row of an undecided size is a neighbouring size's winner if that was not slower than native here
    (evidence `NEIGHBOUR`). If it may be slower by the margin, the row is native (`FALLBACK`), so that the
    neighbour's winner does not serve this size.
    """
    entry = seen.manifest.collective(collective)
    found = measured_problems(seen.history, collective)
    rows = [(problem, decisions[problem.problem]) for problem in found]
    rows.sort(key=lambda row: row[0].bytes)
    choices, undecided = [], []
    for at, (problem, decision) in enumerate(rows):
        nbytes, won = entry.choice_bytes(problem.bytes), decision.winner
        ends = (won.ratio, won.low, won.high, won.launches)
        own = Choice(nbytes, won.variant, *ends, DECIDED, _seconds(seen, problem, won.variant))
        if not decision.settled:
            undecided.append(Undecided(collective, nbytes, won.launches, decision.reason))
        elif decision.evidence == DECIDED:
            choices.append(own)
            continue
        below = _nearest(rows[:at][::-1])
        best = _best_of(seen, problem, [*below, *_nearest(rows[at + 1 :])])
        # A tie has enough launches. An undecided size has few, so the standard error is subtracted.
        doubt = 0.0 if best is None or decision.settled else best[1].error
        is_slower = best is not None and best[1].mean - doubt < -math.log1p(seen.goal.margin)
        if is_slower and not entry.hybrid:
            choices.append(replace(own, evidence=FALLBACK))
        elif decision.settled:
            choices.append(replace(own, evidence=TIE))
        elif best and (best[1].mean >= 0 or entry.hybrid):
            known = best[1].comparison(best[0])
            ends = (known.ratio, known.low, known.high, known.launches)
            seconds = _seconds(seen, problem, known.variant)
            choices.append(Choice(nbytes, known.variant, *ends, NEIGHBOUR, seconds))
        elif below and at + 1 == len(rows):
            # Without a row for the largest size, the winner below it would serve all larger sizes.
            choices.append(replace(own, evidence=FALLBACK))
    return choices, undecided


def _seconds(seen: Examination, problem: Case, variant: Variant) -> float | None:
    """Of a call by the variant: the median of the medians of its launches; None: there are none."""
    launches = seen.history.get(problem.problem, ())
    medians = [statistics.median(one[variant]) for one in launches if one.get(variant)]
    return statistics.median(medians) if medians else None


def _nearest(rows: Sequence[tuple[Case, Decision]]) -> list[Variant]:
    """The winner of the first decided row; empty if it is native."""
    for _, decision in rows:
        if decision.settled:
            return [] if decision.winner.variant.is_native else [decision.winner.variant]
    return []


def _best_of(
    seen: Examination, problem: Case, variants: Sequence[Variant]
) -> tuple[Variant, Estimate] | None:
    """The fastest of these variants in a problem; None if none of them was measured there."""
    native = Variant(problem.collective)
    launches = seen.history.get(problem.problem, ())
    known = ((one, estimate(one, native, launches, seen.rule.noise)) for one in variants)
    found = [(variant, one) for variant, one in known if one]
    return max(found, key=lambda pair: pair[1].mean, default=None)
