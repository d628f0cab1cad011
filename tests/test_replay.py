"""The search, replayed on exhaustive measurements of three collectives (tests/exhaustive.py).

A measurement is one point in one launch. A point is as fast as the geometric mean of its launches, which is
what the tuner ranks points by; a search ends with the point that leads its race, or with native. (Whether
that one wins is another question, which select.py answers with an interval: three launches of calls of half
a millisecond seldom tell, and then native stays.)
"""

from __future__ import annotations

import math
import random
import statistics
from dataclasses import dataclass, replace

import pytest
from exhaustive import Exhaustive, read

from collforge.db import Variant
from collforge.generator import case
from collforge.tuner import plan
from collforge.tuner.predict import predict
from collforge.tuner.select import Launch

SEEDS = range(20)
SHARE = 0.2
"""Of the exhaustive measurements, at most so many."""
LOSS = 0.03
"""Time of the search's end over that of the best point, less 1: the geometric mean over problems and seeds."""

LOSS_OF_FEW = 0.04
"""The same of a fifth of the seeds."""

PREDICTION_LOSS = 0.2
"""The same of what is predicted for a size from the other sizes."""


@pytest.fixture(scope="module", params=["openmpi", "mpich"])
def exhaustive(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Exhaustive:
    return read(request.param, tmp_path_factory.mktemp("replay"))


@dataclass(frozen=True)
class Outcome:
    """Of one search: the parts of the measurements and of the points that it took, and log(time of its end /
    best time) of each problem."""

    share: float
    points: float
    loss: dict[str, float]

    @property
    def mean_loss(self) -> float:
        return statistics.fmean(self.loss.values())


def seconds(data: Exhaustive, problem: str, variant: Variant) -> float:
    return statistics.geometric_mean(launch[variant][0] for launch in data.launches[problem])


def outcome(data: Exhaustive, history: dict[str, list[Launch]]) -> Outcome:
    """What a search ended with, and what it took."""
    loss, measured, tried = {}, 0, 0
    for problem, launches in data.launches.items():
        native = Variant(problem.split("@")[0])
        points = {v for launch in history[problem] for v in launch} - {native}
        (leader, *_) = [*plan.race(data.goal, points, [history[problem]]), None]
        end = leader.variant if leader and leader.ratio > 1 else native
        best = min(seconds(data, problem, variant) for variant in launches[0])
        loss[problem] = math.log(seconds(data, problem, end) / best)
        measured += sum(map(len, history[problem]))
        tried += len(points)
    every = [launch for launches in data.launches.values() for launch in launches]
    total = sum(map(len, every))
    return Outcome(measured / total, len(data.launches[problem]) * tried / total, loss)


def search(data: Exhaustive, seed: int) -> tuple[Outcome, dict[str, int]]:
    """The tuner's search, launch by launch; and how many points it tried of each problem."""
    goal = replace(data.goal, seed=seed)
    order = random.Random(seed).sample(range(3), 3)
    history: dict[str, list[Launch]] = {problem: [] for problem in data.launches}
    while True:
        unsettled = plan.unsettled_contests(data.made, goal, history)
        tasks = list(plan.next_tasks(data.made, goal, unsettled, history))
        if not tasks:
            break
        for task in tasks:
            problem = task.problem.problem
            names = {one.variant for one in task.cases}
            recorded = data.launches[problem][order[len(history[problem]) % 3]]
            launch = {v: samples for v, samples in recorded.items() if v.name in names}
            assert len(launch) == len(names), "every proposal is a point that was measured"
            history[problem].append(launch)
    tried = {p: len({v for one in found for v in one}) - 1 for p, found in history.items()}
    return outcome(data, history), tried


def at_random(data: Exhaustive, seed: int, tried: dict[str, int]) -> Outcome:
    """As many points of each problem, drawn at random, in all launches."""
    draw = random.Random(seed)
    history: dict[str, list[Launch]] = {}
    for problem, launches in data.launches.items():
        native = Variant(problem.split("@")[0])
        points = sorted(v for v in launches[0] if not v.is_native)
        chosen = {native, *draw.sample(points, tried[problem])}
        history[problem] = [{v: launch[v] for v in chosen} for launch in launches]
    return outcome(data, history)


@pytest.mark.slow
def test_the_search_ends_near_the_best_with_few_measurements(exhaustive: Exhaustive) -> None:
    check(exhaustive, SEEDS, LOSS)


def test_the_search_ends_near_the_best_with_four_seeds(exhaustive: Exhaustive) -> None:
    check(exhaustive, SEEDS[:4], LOSS_OF_FEW)


def check(exhaustive: Exhaustive, seeds: range, most: float) -> None:
    losses, blind = [], []
    for seed in seeds:
        found, tried = search(exhaustive, seed)
        losses.append(found.mean_loss)
        blind.append(at_random(exhaustive, seed, tried).mean_loss)
        worst = max(found.loss, key=found.loss.__getitem__)
        print(
            f"seed {seed}: {found.share:.3f} of the measurements ({found.points:.3f} of the points), "
            f"{math.exp(losses[-1]):.4f} of the best time, {math.exp(found.loss[worst]):.3f} at worst "
            f"({worst}); at random {math.exp(blind[-1]):.4f}"
        )
        assert found.share <= SHARE
    print(f"{len(seeds)} seeds: {math.exp(statistics.fmean(losses)):.4f} of the best time")
    assert statistics.fmean(losses) <= math.log(1 + most)
    assert statistics.fmean(losses) < statistics.fmean(blind)


def test_a_size_that_was_not_measured_gets_a_good_choice(exhaustive: Exhaustive) -> None:
    """Each problem, predicted from the other sizes of its collective: near the best, and far from native."""
    loss, behind = [], []
    for problem in plan.problems(exhaustive.made, exhaustive.goal):
        key, native = problem.problem, Variant(problem.collective)
        others = {other: found for other, found in exhaustive.launches.items() if other != key}
        found = predict(exhaustive.made, exhaustive.goal, problem, others)
        times = {v.name: seconds(exhaustive, key, v) for v in exhaustive.launches[key][0]}
        loss.append(math.log(times[found.variant] / min(times.values())))
        behind.append(math.log(times[native.name] / min(times.values())))
        print(
            f"{key}: {math.exp(loss[-1]):.3f} of the best time, native {math.exp(behind[-1]):.3f}"
        )
    print(
        f"{math.exp(statistics.fmean(loss)):.4f}, native {math.exp(statistics.fmean(behind)):.4f}"
    )
    assert statistics.fmean(loss) <= math.log(1 + PREDICTION_LOSS)
    assert statistics.fmean(loss) < statistics.fmean(behind) / 3


def test_the_data_are_exhaustive(exhaustive: Exhaustive) -> None:
    problems = plan.problems(exhaustive.made, exhaustive.goal)
    assert len(problems) == 18
    for problem in problems:
        for launch in exhaustive.launches[problem.problem]:
            names = {variant.name for variant in launch}
            assert names == {case.NATIVE, *exhaustive.points(problem)}
            assert all(samples[0] > 0 for samples in launch.values())
