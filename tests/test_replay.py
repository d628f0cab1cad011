"""The search, replayed on exhaustive measurements of three collectives (tests/exhaustive.py)."""

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
from collforge.tuner.select import Launch, decide

SEEDS = range(20)
SHARE = 0.2
"""Of the points, at most this part may be measured."""
LOSS = 0.03


@pytest.fixture(scope="module", params=["openmpi", "mpich"])
def exhaustive(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Exhaustive:
    return read(request.param, tmp_path_factory.mktemp("replay"))


@dataclass(frozen=True)
class Outcome:
    """Of one search: the part of the points that it measured, and log(time of its choice / best time)."""

    share: float
    loss: dict[str, float]

    @property
    def mean_loss(self) -> float:
        return statistics.fmean(self.loss.values())


def median(data: Exhaustive, problem: str, variant: Variant) -> float:
    return statistics.median(launch[variant][0] for launch in data.launches[problem])


def outcome(data: Exhaustive, history: dict[str, list[Launch]]) -> Outcome:
    """What the decisions on what was measured are worth."""
    loss, measured, points = {}, 0, 0
    for problem, launches in data.launches.items():
        tried = {v for launch in history[problem] for v in launch if not v.is_native}
        won = decide(problem.split("@")[0], history[problem], tried).winner.variant
        best = min(median(data, problem, variant) for variant in launches[0])
        loss[problem] = math.log(median(data, problem, won) / best)
        measured += len(tried)
        points += len(launches[0]) - 1
    return Outcome(measured / points, loss)


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
    gains = []
    for seed in seeds:
        found, tried = search(exhaustive, seed)
        blind = at_random(exhaustive, seed, tried)
        worst = max(found.loss, key=found.loss.__getitem__)
        print(
            f"seed {seed}: {found.share:.3f} of the points, {math.exp(found.mean_loss):.4f} of the best "
            f"time, {math.exp(found.loss[worst]):.3f} at worst ({worst}); "
            f"at random {math.exp(blind.mean_loss):.4f}"
        )
        assert found.share <= SHARE
        assert found.mean_loss <= math.log(1 + LOSS)
        gains.append(blind.mean_loss - found.mean_loss)
    assert statistics.fmean(gains) > 0


def test_the_data_are_exhaustive(exhaustive: Exhaustive) -> None:
    problems = plan.problems(exhaustive.made, exhaustive.goal)
    assert len(problems) == 18
    for problem in problems:
        for launch in exhaustive.launches[problem.problem]:
            names = {variant.name for variant in launch}
            assert names == {case.NATIVE, *exhaustive.points(problem)}
            assert all(samples[0] > 0 for samples in launch.values())
