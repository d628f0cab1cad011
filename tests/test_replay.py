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
from collforge.tuner.select import Launch

SEEDS = range(20)
SHARE = 0.2
"""Of the exhaustive measurements, at most so many."""
LOSS = 0.03
"""Time of the search's end over that of the best point, less 1: the geometric mean over problems and seeds."""


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
    check(exhaustive, SEEDS)


def test_the_search_ends_near_the_best_with_two_seeds(exhaustive: Exhaustive) -> None:
    check(exhaustive, SEEDS[:2])


def check(exhaustive: Exhaustive, seeds: range) -> None:
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
    assert statistics.fmean(losses) <= math.log(1 + LOSS)
    assert statistics.fmean(losses) < statistics.fmean(blind)


def test_the_data_are_exhaustive(exhaustive: Exhaustive) -> None:
    problems = plan.problems(exhaustive.made, exhaustive.goal)
    assert len(problems) == 18
    for problem in problems:
        for launch in exhaustive.launches[problem.problem]:
            names = {variant.name for variant in launch}
            assert names == {case.NATIVE, *exhaustive.points(problem)}
            assert all(samples[0] > 0 for samples in launch.values())
