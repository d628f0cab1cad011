"""The search strategies, replayed on tables of measurements."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Mapping
from typing import Union

import pytest

from collforge.tuner.decide.strategies import FEW, Enumeration, Strategy, Surrogate, make

Point = Mapping[str, Union[str, int]]

SEGMENTED = {"chain": 3, "ring": 4}
"""Segmented algorithm -> number of hops; segment_bytes has no meaning for others."""
SEGMENTS = [4096 << n for n in range(9)]
LANES = [1, 2, 4]
PHASES = ["native", "shared"]

SPACE: list[Point] = [
    {"lanes": lanes, "lane_algorithm": name, "segment_bytes": size, "node_phase": phase}
    for lanes in LANES
    for name in ("native", "chain", "ring", "binomial", "scatter_allgather")
    for size in (SEGMENTS if name in SEGMENTED else [0])
    for phase in PHASES
]
SMALL = SPACE[:FEW]
MEDIUM = SPACE[:40]
BOTH = pytest.mark.parametrize("space", [SMALL, MEDIUM], ids=["enumeration", "surrogate"])


def name(point: Point) -> str:
    return str(sorted(point.items()))


def seconds(point: Point, noise: random.Random) -> float:
    """A broadcast of 1 MiB on 4 nodes with 2 rails, from latency and bandwidth, with 1 % noise."""
    lanes, segment = int(point["lanes"]), int(point["segment_bytes"])
    algorithm = str(point["lane_algorithm"])
    share = 2**20 / lanes
    steps, volume = {"native": (3, 3.0), "binomial": (2, 2.0)}.get(algorithm, (4, 1.5))
    if segment:
        steps = math.ceil(share / segment) + SEGMENTED[algorithm] - 1
        volume = steps * min(segment, share) / share
    rail = 12.5e6 / max(1, lanes / 2)
    node = 2e-3 if point["node_phase"] == "shared" else 3e-3 * lanes
    return (steps * 150e-6 + volume * share / rail + node) * math.exp(noise.gauss(0, 0.01))


def table(seed: int) -> dict[str, float]:
    print(f"seed {seed}")
    noise = random.Random(seed)
    return {name(point): seconds(point, noise) for point in SPACE}


def replay(strategy: Strategy, measured: Mapping[str, float], batch: int) -> Iterator[Point]:
    """The points that a search measures, in order, until none is left; ``measured`` has their values."""
    while not strategy.exhausted:
        points = strategy.propose(batch)
        yield from points
        for point in points:
            strategy.observe(point, math.log(measured[name(point)]))


@pytest.mark.parametrize("seed", range(5))
def test_the_surrogate_finds_a_good_point_with_few_measurements(seed: int) -> None:
    measured = table(seed)
    tried = itertools.islice(replay(Surrogate(SPACE, seed), measured, 4), int(0.4 * len(SPACE)))
    assert min(measured[name(point)] for point in tried) <= 1.05 * min(measured.values())


def test_the_surrogate_beats_chance() -> None:
    """Compares the measurements until one is within 5 % of the best, summed over several tables."""
    needed, by_chance = 0, 0.0
    for seed in range(12):
        measured = table(seed)
        good = {point for point in measured if measured[point] <= 1.05 * min(measured.values())}
        tried = map(name, replay(Surrogate(SPACE, seed), measured, 4))
        needed += next(n for n, point in enumerate(tried, 1) if point in good)
        # The expected position of the first good point in random order.
        by_chance += (len(SPACE) + 1) / (len(good) + 1)
    assert needed < 0.85 * by_chance


def test_make_goes_by_the_number_of_points() -> None:
    assert type(make(SPACE[:FEW], seed=1)) is Enumeration
    assert type(make(SPACE[: FEW + 1], seed=1)) is Surrogate


@BOTH
def test_points_of_a_small_rank_come_first(space: list[Point]) -> None:
    strategy = make(space, 1, rank=lambda point: float(point["node_phase"] == "native"))
    first = strategy.propose(Surrogate.INITIAL)
    assert len(first) == Surrogate.INITIAL and {point["node_phase"] for point in first} == {
        "shared"
    }


def test_a_variant_without_parameters_is_one_point() -> None:
    strategy = make([{}], seed=1)
    assert strategy.propose(5) == [{}]
    assert strategy.exhausted


@BOTH
def test_every_point_is_proposed_once_until_none_is_left(space: list[Point]) -> None:
    tried = list(replay(make(space, seed=3), table(3), 10))
    assert sorted(map(name, tried)) == sorted(map(name, space))


@BOTH
def test_an_exhausted_strategy_proposes_nothing(space: list[Point]) -> None:
    strategy = make(space, seed=3)
    assert len(strategy.propose(1000)) == len(space)
    assert strategy.exhausted
    assert strategy.propose(3) == []


@BOTH
def test_a_search_resumes_from_what_was_measured(space: list[Point]) -> None:
    strategy = make(space, seed=1)
    for point in space[:-4]:
        strategy.observe(dict(reversed(list(point.items()))), 0.5)
    assert sorted(map(name, strategy.propose(100))) == sorted(map(name, space[-4:]))


def test_points_are_the_callers_own() -> None:
    """Values must not have numpy types, because they become part of a variant's name."""
    for point in itertools.islice(replay(Surrogate(SPACE, 1), table(1), 4), 12):
        assert any(point is one for one in SPACE)


def test_points_that_do_not_work_are_avoided_and_not_fatal() -> None:
    strategy = Surrogate(SPACE, seed=2)
    for point in SPACE:
        if point["lanes"] != 4:
            works = point["node_phase"] == "shared"
            strategy.observe(point, -float(point["lanes"]) if works else math.inf)
    assert [point["node_phase"] for point in strategy.propose(5)] == ["shared"] * 5


def test_nothing_but_failures_is_searched_on() -> None:
    strategy = Surrogate(SPACE, seed=2)
    for point in strategy.propose(20):
        strategy.observe(point, math.inf)
    assert len(strategy.propose(20)) == 20


def test_points_outside_the_space_are_ignored() -> None:
    strategy = Surrogate(SPACE, seed=2)
    for size in range(1, 20):
        strategy.observe({"lane_algorithm": "forgotten", "segment_bytes": size}, -9.0)
    assert len(strategy.propose(1000)) == len(SPACE)


def test_equal_seeds_search_alike() -> None:
    def proposals(seed: int) -> list[str]:
        return [name(p) for p in itertools.islice(replay(Surrogate(SPACE, seed), table(1), 5), 15)]

    assert proposals(4) == proposals(4)
    assert proposals(4)[:6] != proposals(5)[:6]


def test_neighbours_tell_where_to_begin() -> None:
    """With the measurements of a problem of half the size, the first batch has a good point."""
    for seed in range(5):
        measured = table(seed)
        good = 1.05 * min(measured.values())
        warm = Surrogate(SPACE, seed, here=[20.0])
        for point in (
            random.Random(seed).sample(SPACE, 20)
            + sorted(SPACE, key=lambda one: measured[name(one)])[:3]
        ):
            warm.recall(point, math.log(measured[name(point)] / 2), [19.0])
        assert min(measured[name(point)] for point in warm.propose(4)) <= good


def test_other_algorithms_are_tried_beside_the_best_point() -> None:
    """Even if the best algorithm has few points and other measurements do not favour it."""

    def value(point: Point) -> float:
        best = point["lane_algorithm"] == "binomial" and point["lanes"] == 1
        return -1.0 if best else float(point["lanes"])

    for seed in range(10):
        strategy = Surrogate(SPACE, seed)
        for point in SPACE[seed % 5 :: 5]:
            if point["lane_algorithm"] != "binomial" or point["lanes"] != 1:
                strategy.observe(point, value(point))
        assert min(map(value, strategy.propose(8))) == -1.0


def test_own_values_outvote_recalled_ones() -> None:
    def value(point: Point) -> float:
        return float(point["lanes"])

    strategy = Surrogate(SPACE, seed=3, here=[20.0])
    for point in SPACE[::2]:
        strategy.recall(point, value(point), [4.0])
        strategy.observe(point, -value(point))
    assert {point["lanes"] for point in strategy.propose(4)} == {4}


def test_a_search_ends_when_little_is_left_to_gain() -> None:
    strategy = Surrogate(SPACE, seed=3, least_gain=0.01)
    for point in SPACE[::2]:
        strategy.observe(point, 0.0)
    assert strategy.propose(4) == []
    assert strategy.exhausted
    eager = Surrogate(SPACE, seed=3, least_gain=0.01)
    measured = table(3)
    for point in sorted(SPACE, key=lambda one: -measured[name(one)])[::4]:
        eager.observe(point, math.log(measured[name(point)]))
    assert eager.propose(4)
