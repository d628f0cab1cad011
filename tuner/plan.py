"""Plans what is measured next. Pure functions: the database's measurements in, case strings out.

A *problem* is one collective at one size on one layout. It is settled when a decision rests on enough
launches; until then each launch measures native, the variants still in the race, and new parameter points
that a strategy proposes. Nothing is remembered between launches but what the database holds, so that a
tuner that was killed goes on where it stopped.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from collforge.db import Variant
from collforge.generator import case
from collforge.generator.case import Case
from collforge.generator.layout import Layout
from collforge.generator.manifest import Manifest, VariantEntry
from collforge.reframe_checks.cases import timing_case
from collforge.tuner import strategies
from collforge.tuner.select import Launch, compare

# A variant this much slower than the best one (or native) leaves the race after a launch.
LAG = 0.07
# New parameter points of a variant in its first launch, and in each later one while it is in the race.
FIRST_POINTS = 5
MORE_POINTS = 2
MOST_IN_RACE = 3


@dataclass(frozen=True)
class Goal:
    """What is to be tuned, and how sure the decisions have to be."""

    layout: Layout
    collectives: tuple[str, ...]
    sizes: tuple[int, ...]
    min_launches: int = 3
    max_launches: int = 6
    margin: float = 0.03
    seed: int = 7


@dataclass(frozen=True)
class Task:
    """The cases of one problem for one launch; the first is native. ``seconds`` is an estimate."""

    problem: Case
    cases: tuple[Case, ...]
    seconds: float


def problems(manifest: Manifest, goal: Goal) -> list[Case]:
    """Every problem of a goal, small sizes first: they are cheap and tell what the large ones take."""
    return [
        timing_case(manifest, collective, goal.layout, nbytes)
        for nbytes in goal.sizes
        for collective in goal.collectives
    ]


def next_tasks(
    manifest: Manifest,
    goal: Goal,
    history: Mapping[str, Sequence[Launch]],
    failed: Collection[Variant] = (),
) -> list[Task]:
    """What the next launch should measure, for every problem that is not settled.

    ``history``: the launches of each problem so far (select.by_problem). ``failed``: variants that gave a
    wrong result or did not finish; they are out.
    """
    out = {(variant.collective, variant.name) for variant in failed}
    tasks = []
    for problem in problems(manifest, goal):
        launches = history.get(problem.problem, ())
        names = next_variants(manifest, goal, problem, launches)
        variants = [name for name in names if (problem.collective, name) not in out]
        if variants:
            cases = (problem, *(problem.by(variant) for variant in variants))
            seconds = estimate(manifest, goal, problem, history) * len(cases)
            tasks.append(Task(problem, cases, seconds))
    return tasks


def next_variants(
    manifest: Manifest, goal: Goal, problem: Case, launches: Sequence[Launch]
) -> list[str]:
    """The variants to measure beside native in the problem's next launch; none: it is settled."""
    if len(launches) >= goal.max_launches:
        return []
    native = Variant(problem.collective)
    entries = applicable(manifest, goal, problem)
    current = {entry.fingerprint for entry in entries}
    tried = {v for launch in launches for v in launch if v.fingerprint in current}
    ranking = sorted((compare(v, native, launches) for v in tried), key=lambda c: -c.ratio)
    best = max([1.0, *(c.ratio for c in ranking)])
    racing = [c for c in ranking if c is ranking[0] or c.ratio >= best * (1 - LAG)][:MOST_IN_RACE]
    unsure = [
        c for c in racing if c.launches < goal.min_launches or _straddles(c.low, c.high, goal)
    ]
    fresh: list[str] = []
    for entry in entries:
        in_race = any(c.variant.fingerprint == entry.fingerprint for c in racing)
        seen = any(v.fingerprint == entry.fingerprint for v in tried)
        count = MORE_POINTS if seen and in_race else 0 if seen else FIRST_POINTS
        if count and len(launches) < goal.min_launches:
            fresh += propose(entry, problem, launches, count, goal.seed)
    if not unsure and not fresh:
        return []
    return list(dict.fromkeys([c.variant.name for c in racing] + fresh))


def _straddles(low: float, high: float, goal: Goal) -> bool:
    """Whether another launch could still turn the decision."""
    return low <= 1 + goal.margin < high


def applicable(manifest: Manifest, goal: Goal, problem: Case) -> list[VariantEntry]:
    """The variants that the problem's facts admit; the rest would run native."""
    facts = manifest.facts(problem.collective, goal.layout, problem.bytes)
    if facts["total_bytes"] > 2**31 - 1:
        return []
    return [v for v in manifest.variants_of(problem.collective) if v.applies(facts)]


def propose(
    entry: VariantEntry, problem: Case, launches: Sequence[Launch], count: int, seed: int
) -> list[str]:
    """New parameter points of a variant, by name, learnt from what the launches say about the old ones."""
    if not entry.parameters:
        untried = not any(v.fingerprint == entry.fingerprint for launch in launches for v in launch)
        return [entry.family] if untried else []
    native = Variant(problem.collective)
    names = {
        case.variant_text(entry.family, entry.parameters, point): point
        for point in case.points(entry)
    }
    strategy = strategies.make(list(names.values()), seed)
    measured = {v for launch in launches for v in launch if v.fingerprint == entry.fingerprint}
    for variant in sorted(measured):
        ratio = compare(variant, native, launches).ratio
        if variant.name in names and not math.isnan(ratio):
            strategy.observe(names[variant.name], -math.log(ratio))
    points = strategy.propose(count)
    return [case.variant_text(entry.family, entry.parameters, point) for point in points]


def estimate(
    manifest: Manifest, goal: Goal, problem: Case, history: Mapping[str, Sequence[Launch]]
) -> float:
    """About how many seconds one call of native takes here: measured, or scaled from another size."""
    best: tuple[float, float] = (math.inf, 1e-3 + problem.bytes * goal.layout.size / 20e6)
    for nbytes in goal.sizes:
        other = timing_case(manifest, problem.collective, goal.layout, nbytes)
        samples = [
            sample
            for launch in history.get(other.problem, ())
            for sample in launch.get(Variant(problem.collective), ())
        ]
        distance = abs(math.log(nbytes / problem.bytes))
        if samples and distance < best[0]:
            best = (distance, statistics.median(samples) * max(1.0, problem.bytes / nbytes))
    return best[1]


def chunk(tasks: Iterable[Task], seconds: float) -> list[Task]:
    """The first tasks that fill a job of about so many seconds; at least one."""
    job: list[Task] = []
    filled = 0.0
    for task in tasks:
        if job and filled + task.seconds > seconds:
            break
        job.append(task)
        filled += task.seconds
    return job
