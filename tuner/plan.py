"""Plans what is measured next. Pure functions: the database's measurements in, case strings out.

A *problem* is one collective at one size on one layout. It is settled when a decision rests on enough
launches; until then each launch measures native, the variants still in the race, and new parameter points
that a strategy proposes. Where a choice cannot follow the size, the problems of all sizes are one *contest*:
they measure the same variants, which stay in the race by what they are worth over all sizes. Nothing is
remembered between launches but what the database holds, so that a tuner that was killed goes on where it
stopped.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from collforge.db import Variant
from collforge.generator import case
from collforge.generator.case import Case, Point
from collforge.generator.layout import Layout, from_name
from collforge.generator.manifest import Manifest, VariantEntry
from collforge.reframe_checks.cases import timing_case
from collforge.tuner import strategies
from collforge.tuner.select import (
    Comparison,
    Launch,
    advantages,
    compare,
    compare_together,
    standard_error,
)

# A variant this much slower than the best one (or native), beyond doubt, leaves the race after a launch.
LAG = 0.07
# Of the parameter points that are best for other collectives, so many are tried beside what the model proposes.
KIN_POINTS = 2
MOST_IN_RACE = 4
# Of calls that take less than this (seconds) more in proportion: their launches tell less, and cost less.
SHORT_CALL = 1e-3
# Which sizes of a collective are measured first: every fourth, then those half way between, then the rest.
WAVES = (0, 2, 1, 2)
# Bytes of the double that problems are measured with.
WORD = 8
# A search ends when the next point is expected to gain less than this part of the margin.
LEAST_GAIN = 0.1


@dataclass(frozen=True)
class Goal:
    """What is to be tuned, and how sure the decisions have to be."""

    layout: Layout
    collectives: tuple[str, ...]
    sizes: tuple[int, ...]
    per: str = "block"
    """What the sizes are of: a call's "block", or what the links of the busiest "node" move at least."""
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


History = Mapping[str, Sequence[Launch]]
"""The launches of each problem so far (select.by_problem)."""


def problems(manifest: Manifest, goal: Goal) -> list[Case]:
    """Every problem of a goal, small sizes first: they are cheap and tell what the large ones take."""
    each = (
        problem_at(manifest, goal, collective, size)
        for size in goal.sizes
        for collective in goal.collectives
    )
    return list({problem.problem: problem for problem in each}.values())


def problem_at(manifest: Manifest, goal: Goal, collective: str, size: int) -> Case:
    """The problem of a collective at one of a goal's sizes; bytes per node become whole doubles per block."""
    nbytes = size
    if goal.per == "node":
        entry = manifest.collective(collective)
        moved = entry.least_bytes(goal.layout.nodes, max(goal.layout.node_sizes), size)
        nbytes = max(1, round(size / moved * size / WORD)) * WORD if moved else size
    return timing_case(manifest, collective, goal.layout, nbytes)


def measured_problems(history: Iterable[str], collective: str = "") -> Iterator[Case]:
    """The problems (of a collective) with measurements, whether this goal or an earlier one asked for them."""
    for problem in history:
        read = case.parse(problem.replace("@", f":{case.NATIVE}@", 1))
        if collective in ("", read.collective):
            yield read


def contests(manifest: Manifest, found: Iterable[Case]) -> list[list[Case]]:
    """The problems by the choice that serves them: those of an unsized collective have one together."""
    groups: dict[str, list[Case]] = {}
    for problem in found:
        together = problem.collective in manifest.unsized
        key = problem.collective if together else problem.problem
        groups.setdefault(key, []).append(problem)
    return list(groups.values())


def next_tasks(
    manifest: Manifest,
    goal: Goal,
    unsettled: Sequence[Contest],
    history: History,
    failed: Collection[Variant] = (),
    elsewhere: History = MappingProxyType({}),
) -> Iterator[Task]:
    """What the next launch should measure of the problems of unsettled contests, the least measured first.

    Those that were never measured come in waves, so that most searches begin with what the sizes around
    theirs have taught. Each is planned when it is asked for: a search takes time, and only a job's tasks
    are needed.
    ``failed``: variants that gave a wrong result or did not finish; they are out. ``elsewhere``: what
    other layouts have measured, for where a search begins.
    """
    out = {(variant.collective, variant.name) for variant in failed}
    names: dict[str, list[str]] = {}
    turn = None
    for wave, problem, contest in in_turn(manifest, goal, unsettled):
        if wave is not None and turn not in (None, wave):
            continue
        first = contest.problems[0].problem
        if first not in names:
            names[first] = next_variants(goal, contest, {**elsewhere, **history})
        variants = [v for v in names[first] if (problem.collective, v) not in out]
        if variants:
            turn = turn if wave is None else wave
            cases = (problem, *(problem.by(variant) for variant in variants))
            seconds = estimate(manifest, goal, problem, history) * len(cases)
            yield Task(problem, cases, seconds)


def in_turn(
    manifest: Manifest, goal: Goal, unsettled: Sequence[Contest]
) -> list[tuple[int | None, Case, Contest]]:
    """The open problems, the least measured first, with their contests; and their waves where they are new."""
    contest_of = {problem.problem: contest for contest in unsettled for problem in contest.open}
    waves: dict[str, Iterator[int]] = {}
    found: list[tuple[int, int | None, Case, Contest]] = []
    for one in problems(manifest, goal):
        wave = next(waves.setdefault(one.collective, itertools.cycle(WAVES)))
        if one.problem in contest_of:
            contest = contest_of[one.problem]
            launches = len(contest.series[contest.problems.index(one)])
            together = len(contest.problems) > 1
            turn = None if launches else 0 if together else wave
            found.append((launches, turn, one, contest))
    return [row[1:] for row in sorted(found, key=lambda row: (row[0], row[1] or 0))]


@dataclass(frozen=True)
class Contest:
    """Problems with one decision, and what their launches say so far."""

    problems: Sequence[Case]
    series: Sequence[Sequence[Launch]]
    """The launches of each problem; then those of problems of earlier goals that share the decision."""
    racing: Sequence[Comparison]
    wanted: Sequence[Wanted]
    open: Sequence[Case]
    """The problems that need another launch."""


def new_points(space: int, first: bool) -> int:
    """How many points a launch adds, of a variant that has so many: most of them once a model knows some."""
    return min(10, max(5, space // 20)) if first else max(2, space // 10)


@dataclass(frozen=True)
class Wanted:
    """A variant of which so many new parameter points are wanted; ``points``: all there are, by name."""

    entry: VariantEntry
    points: Mapping[str, Point]
    count: int


def unsettled_contests(manifest: Manifest, goal: Goal, history: History) -> list[Contest]:
    """Those that need another launch and have not had their most."""
    each = contests(manifest, problems(manifest, goal))
    found = (examine(manifest, goal, one, history) for one in each)
    return [contest for contest in found if contest is not None and contest.open]


def examine(
    manifest: Manifest, goal: Goal, asked: Sequence[Case], history: History
) -> Contest | None:
    """The contest as it stands; None: it is settled."""
    native = Variant(asked[0].collective)
    entries = applicable(manifest, goal, asked[0])
    current = {entry.fingerprint for entry in entries}
    series = [launches_of(current, history.get(problem.problem, ())) for problem in asked]
    everything = [*series, *earlier(manifest, asked, history)]
    tried = {v for one in everything for launch in one for v in launch if v.fingerprint in current}
    racing = race(goal, tried, everything)
    most = most_launches(goal, racing)
    short = [p for p, launches in zip(asked, series) if len(launches) < most]
    wanted = []
    early = min(map(len, series)) < goal.min_launches
    for entry in entries:
        running = any(c.variant.fingerprint == entry.fingerprint for c in racing)
        seen = sum(v.fingerprint == entry.fingerprint for v in tried)
        if early and (running or not seen):
            space = points(manifest, entry, asked)
            if seen < len(space):
                wanted.append(Wanted(entry, space, new_points(len(space), first=not seen)))
    unsure = any(
        is_unsure(goal, [compare(c.variant, native, one) for one in series]) for c in racing
    )
    return Contest(asked, everything, racing, wanted, short) if unsure or wanted else None


def most_launches(goal: Goal, racing: Sequence[Comparison]) -> int:
    """How many launches a problem may have: more where what seems best would lose for having been in too few.

    One bad launch puts a variant out of the race for a while, and so does the luck of others.
    """
    few = (
        bool(racing)
        and racing[0].launches < goal.min_launches
        and racing[0].ratio > 1 + goal.margin
    )
    return 2 * goal.max_launches if few else goal.max_launches


def launches_of(fingerprints: Collection[str], launches: Iterable[Launch]) -> list[Launch]:
    """Those with a variant that exists: what older ones have measured settles nothing."""
    return [one for one in launches if any(v.fingerprint in fingerprints for v in one)]


def next_variants(goal: Goal, contest: Contest, history: History) -> list[str]:
    """The variants to measure beside native in the contest's next launches."""
    near = neighbours(contest.problems, history) if contest.wanted else []
    here = coordinates(contest.problems[0])
    kin = relatives(contest.problems[0], history) if contest.wanted else []
    fresh: list[str] = []
    for one in contest.wanted:
        search = Search(one.entry, one.points, goal, here, contest.series, near)
        fresh += [*best_of_kin(search, kin), *propose(search, one.count)]
    return list(dict.fromkeys([c.variant.name for c in contest.racing] + fresh))


def race(
    goal: Goal, tried: Iterable[Variant], series: Sequence[Sequence[Launch]]
) -> list[Comparison]:
    """The best of the variants tried, over all problems, and those that lag little behind, or may not.

    The best one may be slower than native in some problem and so be no choice: the best of those that are
    not stays in the race beside it.
    """
    tried = list(tried)
    if not tried:
        return []
    found: dict[Comparison, float] = {}
    native = Variant(tried[0].collective)
    faster = advantages(series, native)
    everything = [launch for launches in series for launch in launches]

    def in_race(ranking: Sequence[Comparison]) -> Iterator[Comparison]:
        """The first, and those that lag little behind it and native, by two standard errors at best."""
        best = max([0.0, *(faster[c.variant] for c in ranking[:1])]) + math.log(1 - LAG)
        for c in ranking:
            doubt = 2 * standard_error(c.variant, everything)
            if c is ranking[0] or faster[c.variant] + doubt >= best:
                yield c

    for variant in tried:
        together = compare_together(variant, native, series)
        if not math.isnan(together.ratio):
            each = (compare(variant, native, launches).ratio for launches in series)
            found[together] = min(ratio for ratio in each if not math.isnan(ratio))
    ranking = sorted(found, key=lambda c: -faster[c.variant])
    nowhere_slower = [c for c in ranking if found[c] >= 1 / (1 + goal.margin)]
    most = most_in_race(everything)
    races = (itertools.islice(in_race(one), most) for one in (ranking, nowhere_slower))
    return list(dict.fromkeys(itertools.chain.from_iterable(races)))


def most_in_race(launches: Sequence[Launch]) -> int:
    """How many, by the time of native's calls."""
    native = [s for launch in launches for v in launch if v.is_native for s in launch[v]]
    calls = SHORT_CALL / statistics.median(native) if native else 1.0
    return round(MOST_IN_RACE * min(max(1.0, calls), 4.0))


def earlier(
    manifest: Manifest, contest: Sequence[Case], history: History
) -> list[Sequence[Launch]]:
    """The launches of problems that share the contest's decision, but are of earlier goals."""
    collective = contest[0].collective
    if collective not in manifest.unsized:
        return []
    others = measured_problems(history, collective)
    return [history[other.problem] for other in others if other not in contest]


def is_unsure(goal: Goal, each: Sequence[Comparison]) -> bool:
    """Whether another launch of each problem could still turn the decision on a variant."""
    win = 1 + goal.margin
    if any(c.launches < goal.min_launches for c in each):
        return True
    if any(c.high < 1 / win for c in each):
        return False
    if any(c.low > win for c in each):
        return any(c.low <= 1 / win < c.high for c in each)
    return any(c.low <= win < c.high for c in each)


def points(manifest: Manifest, entry: VariantEntry, asked: Sequence[Case]) -> dict[str, Point]:
    """The points of a variant that differ in at least one of the problems, by name."""
    largest = max(asked, key=lambda problem: problem.bytes)
    layout = from_name(largest.layout)
    total = manifest.collective(entry.collective).total_bytes(layout.size, largest.bytes)
    facts = {**layout.facts(), "bytes": largest.bytes, "total_bytes": total}
    return {
        case.variant_text(entry.family, entry.parameters, point): point
        for point in case.points(entry, facts)
    }


def applicable(manifest: Manifest, goal: Goal, problem: Case) -> list[VariantEntry]:
    """The variants that the problem's facts admit; the rest would run native."""
    facts = manifest.facts(problem.collective, goal.layout, problem.bytes)
    if facts["total_bytes"] > 2**31 - 1:
        return []
    return [v for v in manifest.variants_of(problem.collective) if v.applies(facts)]


Coordinates = tuple[float, float, float, float]
"""Where a problem lies among its neighbours: log2 of bytes, nodes, ranks on a node, threads."""


def coordinates(problem: Case) -> Coordinates:
    at = from_name(problem.layout)
    numbers = (problem.bytes, at.nodes, at.size / at.nodes, at.threads)
    nbytes, nodes, ranks, threads = map(math.log2, numbers)
    return nbytes, nodes, ranks, threads


def neighbours(
    contest: Sequence[Case], history: History
) -> list[tuple[Coordinates, Sequence[Launch]]]:
    """The launches of the collective's problems outside the contest, with where these lie."""
    others = measured_problems(history, contest[0].collective)
    inside = {problem.problem for problem in contest}
    return [(coordinates(o), history[o.problem]) for o in others if o.problem not in inside]


def relatives(problem: Case, history: History) -> list[Sequence[Launch]]:
    """The launches of other collectives on the same layout, those of the nearest size first."""
    others = [
        (abs(math.log2(other.bytes / problem.bytes)), history[other.problem])
        for other in measured_problems(history)
        if other.collective != problem.collective and other.layout == problem.layout
    ]
    return [launches for _, launches in sorted(others, key=lambda pair: pair[0])]


@dataclass(frozen=True)
class Search:
    """A search among the points of one variant's parameters, and what is known for it."""

    entry: VariantEntry
    points: Mapping[str, Point]
    goal: Goal
    here: Coordinates
    series: Sequence[Sequence[Launch]]
    """The launches of each problem of the contest."""
    near: Sequence[tuple[Coordinates, Sequence[Launch]]]


def best_of_kin(search: Search, kin: Iterable[Sequence[Launch]]) -> list[str]:
    """New points of a variant that are its family's best for other collectives: lane algorithms are shared."""
    entry = search.entry
    names = search.points.keys() - {variant.name for variant in measured(entry, search.series)}
    found: dict[str, None] = {}
    for launches in kin:
        times = {
            variant.name: statistics.median(samples)
            for launch in launches
            for variant, samples in launch.items()
            if variant.family == entry.family and samples
        }
        best = min(times, key=times.__getitem__, default="")
        if best in names:
            found[best] = None
    return list(found)[:KIN_POINTS]


def propose(search: Search, count: int) -> list[str]:
    """New parameter points of a variant, by name, learnt from what the launches say about the old ones."""
    entry, native = search.entry, Variant(search.entry.collective)
    if not entry.parameters:
        return [] if measured(entry, search.series) else [entry.family]
    names = search.points
    strategy = strategies.make(
        list(names.values()), search.goal.seed, search.here, LEAST_GAIN * search.goal.margin
    )

    def values(series: Sequence[Sequence[Launch]]) -> Iterator[tuple[Point, float]]:
        for variant, faster in advantages(series, native).items():
            if variant.fingerprint == entry.fingerprint and variant.name in names:
                yield names[variant.name], -faster

    for point, value in values(search.series):
        strategy.observe(point, value)
    for where, launches in search.near:
        for point, value in values([launches]):
            strategy.recall(point, value, where)
    points = strategy.propose(count)
    return [case.variant_text(entry.family, entry.parameters, point) for point in points]


def measured(entry: VariantEntry, series: Iterable[Sequence[Launch]]) -> list[Variant]:
    """The points of a variant that the launches have."""
    found = {v for one in series for launch in one for v in launch}
    return sorted(v for v in found if v.fingerprint == entry.fingerprint)


def estimate(manifest: Manifest, goal: Goal, problem: Case, history: History) -> float:
    """About how many seconds one call of native takes here: measured, or scaled from another size."""
    best: tuple[float, float] = (math.inf, 1e-3 + problem.bytes * goal.layout.size / 20e6)
    for size in goal.sizes:
        other = problem_at(manifest, goal, problem.collective, size)
        samples = [
            sample
            for launch in history.get(other.problem, ())
            for sample in launch.get(Variant(problem.collective), ())
        ]
        distance = abs(math.log(other.bytes / problem.bytes))
        if samples and distance < best[0]:
            best = (distance, statistics.median(samples) * max(1.0, problem.bytes / other.bytes))
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
