"""Plans the next measurements. Pure functions from the database's measurements to case strings.

A *problem* is one collective at one size on one layout. It is settled when its decision has enough launches.
Until then each launch measures native, the variants still in the race, and new parameter points from a search
strategy. All state is in the database, so a tuner that was killed can continue.

Sizes are refined from coarse to fine: first the smallest and the largest size of every collective, then the
one half way between, and so on. Each new size starts from the results at neighbouring sizes. So a run that
ends early leaves complete decisions at a few sizes, which also serve sizes nearby.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from collforge.case import Case
from collforge.cases import timing_case
from collforge.decision import MARGIN
from collforge.generator.manifest import Manifest, VariantEntry
from collforge.layout import Layout, from_name
from collforge.tuner.decide import search
from collforge.tuner.decide.evidence import History, Launch
from collforge.tuner.decide.search import LEAST_GAIN, Known
from collforge.tuner.decide.select import FINALISTS, Decision, Rule, decide, finalists
from collforge.variant import Point, Variant

# New points are proposed in the first launches of a problem, this many; later launches compare known points.
SEARCHES = 2
# In spare time, a settled problem is searched further until it has had this many launches.
SPARE_LAUNCHES = 8
# How many of the fastest variants are measured again while a problem has few launches.
EARLY_RACE = 6
# Bytes of a double, the type with which problems are measured.
WORD = 8


@dataclass(frozen=True)
class Goal:
    """What is to be tuned, and the required confidence of decisions."""

    layout: Layout
    collectives: tuple[str, ...]
    sizes: tuple[int, ...]
    per: str = "block"
    """The meaning of sizes: bytes of a "block", or the least bytes that the busiest "node" must move."""
    min_launches: int = 3
    """The launches that a claim needs (select.py); a problem needs one more."""
    max_launches: int = 16
    margin: float = MARGIN
    seed: int = 7
    lanes: int = 0
    """Physical lanes of a node (`collforge probe lanes`); 0: not known. Searches try this many first."""
    only: frozenset[tuple[str, int]] = frozenset()
    """The collectives with the sizes that are wanted; empty: each collective at each size."""

    def is_late(self, launches: int) -> bool:
        """Whether a problem with this number of launches has had those of a usual decision."""
        return launches > self.min_launches


@dataclass(frozen=True)
class Task:
    """The cases of one problem for one launch; the first is native.

    ``seconds``: the estimated time of one call of each case.
    """

    problem: Case
    cases: tuple[Case, ...]
    seconds: float


@dataclass(frozen=True, order=True)
class Turn:
    """The order in which problems are measured: smaller turns first."""

    stage: int
    """Coarse sizes before fine ones, then sizes between those of the goal (`HALFWAY`), then problems still
    undecided (`LATE`), then settled problems that may gain by a longer search (`SPARE`)."""
    launches: int
    stake: float
    """Minus the expected cost of not measuring it, as the logarithm of a ratio of times."""


HALFWAY, LATE, SPARE = 100, 101, 102


def problems(manifest: Manifest, goal: Goal) -> list[Case]:
    """Every problem of a goal. Small sizes come first: they are cheap and predict the time of large ones."""
    each = (
        problem_at(manifest, goal, collective, size)
        for size in goal.sizes
        for collective in goal.collectives
        if not goal.only or (collective, size) in goal.only
    )
    return list({problem.problem: problem for problem in each}.values())


def problem_at(manifest: Manifest, goal: Goal, collective: str, size: int) -> Case:
    """The problem of a collective at a size of the goal. Bytes per node are converted to doubles per block."""
    nbytes = size
    if goal.per == "node":
        entry = manifest.collective(collective)
        at = goal.layout
        moved = at.sharing * entry.least_bytes(at.nodes, max(at.node_sizes), size)
        nbytes = max(1, round(size / moved * size / WORD)) * WORD if moved else size
    return timing_case(manifest, collective, goal.layout, nbytes)


@dataclass(frozen=True)
class Contest:
    """A problem, and the decision so far."""

    problem: Case
    launches: Sequence[Launch]
    racing: Sequence[Variant]
    decision: Decision
    wanted: Sequence[Wanted] = ()
    spare: bool = False
    """Whether the problem is settled, so that another launch only tries new points."""

    @property
    def stake(self) -> float:
        """The expected cost of keeping the decision as it is."""
        return self.decision.regret


@dataclass(frozen=True)
class Wanted:
    """A variant of which ``count`` new parameter points are wanted; ``points``: all its points, by name."""

    entry: VariantEntry
    points: Mapping[str, Point]
    count: int


def new_points(space: int, first: bool) -> int:
    """How many new points of a variant a launch tries, from the number of its points.

    The first launch tries more points, from which the search's model learns.
    """
    return min(12, max(6, space // 12)) if first else min(8, max(4, space // 12))


@dataclass(frozen=True)
class Examination:
    """The data by which contests are judged."""

    manifest: Manifest
    goal: Goal
    history: History
    rule: Rule
    failed: Collection[Variant] = ()
    """Variants that gave a wrong result or did not finish; they are excluded."""
    verified: Collection[Variant] | None = None
    """The variants that may win; None: all that were measured."""
    nominated: Mapping[str, Collection[Variant]] = field(default_factory=dict)
    """Problem -> winners of the neighbouring sizes."""

    def contest(self, problem: Case) -> Contest:
        """The current state of a problem's contest."""
        entries = applicable(self.manifest, self.goal, problem)
        current = {entry.fingerprint for entry in entries}
        launches = launches_of(current, self.history.get(problem.problem, ()))
        tried = {v for launch in launches for v in launch}
        eligible = {
            v
            for v in tried
            if v.fingerprint in current
            and v not in self.failed
            and (self.verified is None or v in self.verified)
        }
        nominated = [
            v
            for v in self.nominated.get(problem.problem, ())
            if v.fingerprint in current and v not in self.failed
        ]
        collective = problem.collective
        entry = self.manifest.collective(collective)
        rule = replace(self.rule, native_serves=not entry.hybrid)
        decision = decide(collective, launches, eligible, rule, nominated)
        most = EARLY_RACE if len(launches) <= SEARCHES else FINALISTS
        first = finalists(launches, Variant(collective), eligible, rule, most)
        racing = list(dict.fromkeys([*first, *nominated]))
        sure = decision.settled and not self.is_unsure(decision)
        searching = len(launches) < (SPARE_LAUNCHES if sure else SEARCHES)
        wanted = self._wanted(entries, problem, tried) if searching else []
        return Contest(problem, launches, racing, decision, wanted)

    def is_unsure(self, decision: Decision) -> bool:
        """Whether another variant is expected to save more than the margin."""
        return decision.regret > math.log1p(self.goal.margin)

    def _wanted(
        self, entries: Iterable[VariantEntry], problem: Case, tried: Collection[Variant]
    ) -> list[Wanted]:
        wanted = []
        for entry in entries:
            space = points(self.manifest, entry, problem)
            seen = sum(v.fingerprint == entry.fingerprint for v in tried)
            if seen < len(space):
                wanted.append(Wanted(entry, space, new_points(len(space), first=not seen)))
        return wanted

    def is_open(self, contest: Contest) -> bool:
        """Whether the contest needs another launch and may have one."""
        if not contest.racing and not contest.wanted:
            return False
        launches = len(contest.launches)
        few = launches < self.goal.min_launches
        decision = contest.decision
        unsure = few or not decision.settled or self.is_unsure(decision)
        return launches < self.goal.max_launches and unsure


@dataclass(frozen=True)
class Background:
    """Launches from which a search starts, and which decide nothing."""

    layouts: History = field(default_factory=dict)
    """Of other layouts with the same MPI library."""
    earlier: History = field(default_factory=dict)
    """Of the same layout with another version of the library."""


def open_contests(seen: Examination) -> list[Contest]:
    """The goal's contests that need another launch and may have one, and those to search in spare time."""
    found = []
    for problem in problems(seen.manifest, seen.goal):
        contest = seen.contest(problem)
        if seen.is_open(contest):
            found.append(contest)
        elif contest.wanted:
            found.append(replace(contest, spare=True))
    return found


def next_tasks(
    seen: Examination, waiting: Sequence[Contest], background: Background | None = None
) -> Iterator[tuple[Turn, Task]]:
    """The tasks for the next launch from open contests, each with its turn.

    Of the sizes that were never measured only the coarsest are started, so that finer ones can start from
    their results. The generator plans each task when it is requested, because a search takes time and a job
    needs only some tasks.
    """
    out = {(variant.collective, variant.name) for variant in seen.failed}
    fresh = None
    for turn, contest in in_turn(seen, waiting):
        if turn.launches == 0 and fresh not in (None, turn.stage):
            continue
        problem = contest.problem
        names = next_variants(seen, contest, background or Background())
        variants = [v for v in names if (problem.collective, v) not in out]
        known = {v.name for v in contest.racing} if contest.spare else set()
        if not known.issuperset(variants):
            fresh = turn.stage if turn.launches == 0 else fresh
            cases = (problem, *(problem.by(variant) for variant in variants))
            seconds = estimate(seen.manifest, seen.goal, problem, seen.history) * len(cases)
            yield turn, Task(problem, cases, seconds)


def in_turn(seen: Examination, waiting: Sequence[Contest]) -> list[tuple[Turn, Contest]]:
    """The open contests with their turns, in the order of measuring."""
    contest_of = {contest.problem.problem: contest for contest in waiting}
    found: list[tuple[Turn, Contest]] = []
    for collective in seen.goal.collectives:
        of_one = [one for one in problems(seen.manifest, seen.goal) if one.collective == collective]
        for level, one in zip(levels(len(of_one)), of_one):
            if one.problem not in contest_of:
                continue
            contest = contest_of[one.problem]
            launches = len(contest.launches)
            stage = LATE if seen.goal.is_late(launches) else level
            stage = SPARE if contest.spare else stage
            found.append((Turn(stage, launches, -contest.stake), contest))
    return sorted(found, key=lambda row: row[0])


def levels(count: int) -> list[int]:
    """The level of each of ``count`` sizes: 0 for the first and the last, 1 for the one half way, and so on."""
    found = [0] * count
    spans = [(0, count - 1, 1)]
    while spans:
        low, high, level = spans.pop()
        middle = (low + high) // 2
        if low < middle < high:
            found[middle] = level
            spans += [(low, middle, level + 1), (middle, high, level + 1)]
    return found


def launches_of(fingerprints: Collection[str], launches: Iterable[Launch]) -> list[Launch]:
    """The launches with a variant that still exists; launches of older variants settle nothing."""
    return [one for one in launches if any(v.fingerprint in fingerprints for v in one)]


def next_variants(seen: Examination, contest: Contest, background: Background) -> list[str]:
    """The variants to measure beside native in the contest's next launches."""
    goal, racing = seen.goal, [variant.name for variant in contest.racing]
    if not contest.wanted:
        return racing
    history = {**background.layouts, **seen.history}
    here = search.coordinates(contest.problem)
    near = search.neighbours(contest.problem, history)
    kin = search.relatives(contest.problem, history)
    if earlier := background.earlier.get(contest.problem.problem):
        near, kin = [*near, (here, earlier)], [earlier, *kin]
    least_gain = LEAST_GAIN * goal.margin
    fresh: list[str] = []
    for one in contest.wanted:
        known = Known(one.entry, one.points, here, contest.launches, near, goal.lanes)
        fresh += search.best_of_kin(known, kin)
        fresh += search.propose(known, one.count, goal.seed, least_gain)
    return list(dict.fromkeys(racing + fresh))


def points(manifest: Manifest, entry: VariantEntry, problem: Case) -> dict[str, Point]:
    """The points of a variant that differ in effect in a problem, by name."""
    layout = from_name(problem.layout)
    total = manifest.collective(entry.collective).total_bytes(layout.size, problem.bytes)
    facts = {**layout.facts(), "bytes": problem.bytes, "total_bytes": total}
    return {entry.name(point): point for point in entry.points(facts)}


def applicable(manifest: Manifest, goal: Goal, problem: Case) -> list[VariantEntry]:
    """The variants that apply to a problem; others would run native."""
    facts = manifest.facts(problem.collective, goal.layout, problem.bytes)
    return [v for v in manifest.variants_of(problem.collective) if v.applies(facts)]


def estimate(manifest: Manifest, goal: Goal, problem: Case, history: History) -> float:
    """The estimated seconds of one native call: measured, or scaled from another size."""
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


def chunk(turns: Iterable[tuple[Turn, Task]], least: float, most: float) -> list[Task]:
    """The tasks of a job of about ``most`` seconds; at least one task.

    Tasks of stages after the first task's are added only to fill ``least`` seconds: the first stage should be
    decided soon, but starting a job costs seconds, too.
    """
    job: list[Task] = []
    first: int | None = None
    filled = 0.0
    for turn, task in turns:
        first = turn.stage if first is None else first
        limit = most if turn.stage == first else least
        if job and filled + task.seconds > limit:
            break
        job.append(task)
        filled += task.seconds
    return job
