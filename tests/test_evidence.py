"""Statistics of measurements: ratios, intervals, and the effect of noise."""

from __future__ import annotations

import math
import random
import statistics

import pytest

from collforge.db import Measurement
from collforge.tuner.decide.evidence import (
    Estimate,
    Launch,
    Noise,
    Samples,
    advantages,
    by_problem,
    compare,
    estimate,
    median_interval,
    pooled,
)
from collforge.variant import Variant

NATIVE = Variant("bcast")
RING = Variant("bcast", "full_lane", "lane_algorithm=ring,segment_bytes=65536", "ab12")
CHAIN = Variant("bcast", "full_lane", "lane_algorithm=chain,segment_bytes=65536", "ab12")
LEADER = Variant("bcast", "hierarchical", "", "cd34")
SEED = 20240607


def launches(**ratios: list[float]) -> list[Launch]:
    """Launches in which native takes 1 s; `ratios` has each variant's speed-up in each launch."""
    named = {"ring": RING, "chain": CHAIN, "leader": LEADER}
    return [
        {NATIVE: [1.0] * 3, **{named[name]: [1 / ratio] * 3 for name, ratio in zip(ratios, row)}}
        for row in zip(*ratios.values())
    ]


def test_the_interval_is_students_on_the_logarithms() -> None:
    compared = compare(RING, NATIVE, launches(ring=[1.8, 2.0, 2.1]))
    logs = [math.log(ratio) for ratio in (1.8, 2.0, 2.1)]
    # 4.302653 is the 97.5 % quantile of the t distribution with 2 degrees of freedom.
    half = 4.302653 * statistics.stdev(logs) / math.sqrt(3)
    middle = math.log(1.8 * 2.0 * 2.1) / 3
    assert compared.ratio == pytest.approx(math.exp(middle))
    assert compared.low == pytest.approx(math.exp(middle - half))
    assert compared.high == pytest.approx(math.exp(middle + half))
    assert compared.launches == 3


def test_one_launch_says_nothing_about_the_next() -> None:
    compared = compare(RING, NATIVE, launches(ring=[2.0]))
    assert compared.ratio == pytest.approx(2.0)
    assert (compared.low, compared.high) == (0.0, math.inf)


def test_a_ratio_is_of_medians_within_the_launch() -> None:
    launch = {NATIVE: [4.0, 4.0, 900.0], RING: [2.0, 0.1, 2.0]}
    assert compare(RING, NATIVE, [launch]).ratio == pytest.approx(2.0)


def test_natives_bad_luck_in_a_launch_is_no_merit_of_the_variants_there() -> None:
    """Native was slow in launches with the chain but without the leader; variants in all launches were not."""
    always = {Variant("bcast", "full_lane", f"window={n}", "ab12"): [0.6] for n in range(6)}
    slow = {NATIVE: [1.2], RING: [0.5], CHAIN: [0.52], **always}
    measured = [{NATIVE: [1.0], RING: [0.5], LEADER: [0.45], **always}] * 3 + [slow] * 3
    assert compare(CHAIN, NATIVE, measured).ratio > compare(LEADER, NATIVE, measured).ratio
    faster = advantages(measured, NATIVE)
    assert faster[NATIVE] == 0
    assert faster[LEADER] > faster[RING] > faster[CHAIN]


def test_advantages_where_all_ran_together_are_the_ratios() -> None:
    measured = launches(ring=[1.8, 2.0, 2.1], chain=[1.7, 2.2, 2.1])
    faster = advantages(measured, NATIVE)
    assert faster[CHAIN] == pytest.approx(math.log(compare(CHAIN, NATIVE, measured).ratio))
    assert faster[RING] == pytest.approx(math.log(compare(RING, NATIVE, measured).ratio))


def test_measurements_are_grouped_by_problem_and_launch() -> None:
    def measured(run: str, problem: str, variant: Variant) -> Measurement:
        return Measurement(run, problem, 8, variant, (1.0,), 1.0, 0)

    grouped = by_problem(
        [
            measured("a", "bcast@4x2,bytes=8", NATIVE),
            measured("a", "bcast@4x2,bytes=8", RING),
            measured("b", "bcast@4x2,bytes=8", NATIVE),
            measured("b", "bcast@4x2,bytes=8,root=3", NATIVE),
        ]
    )
    assert {problem: [set(launch) for launch in runs] for problem, runs in grouped.items()} == {
        "bcast@4x2,bytes=8": [{NATIVE, RING}, {NATIVE}],
        "bcast@4x2,bytes=8,root=3": [{NATIVE}],
    }


def test_the_median_interval_is_of_order_statistics() -> None:
    """For 20 samples the textbook's 95 % interval is from the 6th to the 15th smallest."""
    interval = median_interval([float(n) for n in reversed(range(1, 21))])
    assert (interval.median, interval.low, interval.high) == (10.5, 6.0, 15.0)


def test_few_samples_give_their_range() -> None:
    interval = median_interval([3.0, 1.0, 2.0])
    assert (interval.median, interval.low, interval.high) == (2.0, 1.0, 3.0)
    with pytest.raises(ValueError, match="no samples"):
        median_interval([])


def test_the_median_interval_covers() -> None:
    seed = 7
    print(f"seed {seed}")
    noise = random.Random(seed)
    covered = 0
    for _ in range(400):
        interval = median_interval([noise.expovariate(1.0) for _ in range(25)])
        covered += interval.low <= math.log(2) <= interval.high
    assert covered / 400 >= 0.93


def test_a_loser_is_compared_in_the_rounds_that_it_was_in() -> None:
    """Native slowed down in rounds that the pruned variant was not in."""
    launch: Launch = {NATIVE: [1.0, 1.0, 1.0, 9.0, 9.0, 9.0, 9.0], RING: [0.5, 0.5, 0.5]}
    assert compare(RING, NATIVE, [launch]).ratio == pytest.approx(2.0)


def rounds(noise: random.Random, median: float, spread: float, count: int) -> list[float]:
    return [median * math.exp(noise.gauss(0, spread)) for _ in range(count)]


def test_a_launch_of_more_rounds_weighs_more() -> None:
    noise = random.Random(SEED)
    many: Launch = {
        NATIVE: rounds(noise, 1e-3, 0.2, 60),
        RING: rounds(noise, 0.5e-3, 0.2, 60),
    }
    few: Launch = {NATIVE: [1e-3] * 2, RING: [1e-3] * 2}
    known = estimate(RING, NATIVE, [many, few], Noise(between={1: 0.02}, within={1: 0.3}))
    assert known and known.launches == 2
    assert math.log(2.0) / 2 < 0.4 < known.mean < math.log(2.0)


def test_samples_that_began_late_weigh_less() -> None:
    def launch(ratio: float, late: float) -> Launch:
        native, ring = Samples([1e-3] * 9), Samples([1e-3 / ratio] * 9)
        native.errors = ring.errors = (late,) * 9
        return {NATIVE: native, RING: ring}

    small = Noise(between={1: 0.02}, within={1: 0.05})
    sure = estimate(RING, NATIVE, [launch(2.0, 1e-6), launch(1.0, 1e-6)], small)
    unsure = estimate(RING, NATIVE, [launch(2.0, 1e-6), launch(1.0, 5e-4)], small)
    assert sure and unsure
    assert sure.mean == pytest.approx(math.log(2.0) / 2, rel=0.05)
    assert unsure.mean > 0.9 * math.log(2.0)


def test_the_moderated_interval_covers() -> None:
    """Three launches of ten rounds, with the noise of the emulated cluster, which is known."""
    print(f"seed {SEED}")
    noise = random.Random(SEED)
    between, within = Noise().of(5e-4)
    covered = trials = 0
    widths = []
    for _ in range(400):
        measured = []
        for _ in range(3):
            mode = math.exp(noise.gauss(0, 0.3))
            ring = 0.5e-3 * mode * math.exp(noise.gauss(0, between))
            measured.append(
                {
                    NATIVE: rounds(noise, 1e-3 * mode * 0.5, within / math.sqrt(2), 10),
                    RING: rounds(noise, ring * 0.5, within / math.sqrt(2), 10),
                }
            )
        known = estimate(RING, NATIVE, measured, Noise())
        assert known
        low, high = known.ends(0.95)
        covered += low <= math.log(2.0) <= high
        trials += 1
        widths.append(high - low)
    print(
        f"{covered} of {trials} intervals contain the ratio; median width {statistics.median(widths):.3f}"
    )
    assert 0.92 <= covered / trials <= 0.99
    assert statistics.median(widths) < 0.6, "a t-interval of three launches alone is wider"


def test_the_noise_of_a_place_is_found() -> None:
    print(f"seed {SEED}")
    noise = random.Random(SEED)
    history: dict[str, list[Launch]] = {}
    for size in range(30):
        for _ in range(5):
            ring = 0.5e-3 * math.exp(noise.gauss(0, 0.2))
            launch: Launch = {
                NATIVE: rounds(noise, 1e-4, 0.1, 20),
                RING: rounds(noise, ring, 0.1, 20),
            }
            history.setdefault(f"bcast@4x2,bytes={size}", []).append(launch)
    found = pooled(history)
    assert 0.14 < found.between[0] < 0.26
    assert 0.1 < found.within[0] < 0.25
    assert set(found.between) == {0}, "nothing is known of longer calls"
    assert found.of(1.0) == Noise().of(1.0)
    assert pooled({}).of(1e-4) == Noise().of(1e-4)


def test_what_has_cleared_a_bar_is_worth_less_than_it_shows() -> None:
    """Corrected values above the threshold are unbiased in the mean; far above it there is no correction."""
    print(f"seed {SEED}")
    noise = random.Random(SEED)
    reported, plain = [], []
    for _ in range(4000):
        true, error, bar = noise.uniform(0.0, 0.4), 0.05, 0.15
        mean = noise.gauss(true, error)
        if mean > bar:
            reported.append(Estimate(mean, error, 10, 4).beyond(bar) - true)
            plain.append(mean - true)
    print(
        f"mean error {statistics.fmean(reported):.4f}, of the plain mean {statistics.fmean(plain):.4f}"
    )
    assert -0.02 < statistics.fmean(reported) < 0.002
    assert statistics.fmean(plain) > 0.005
    assert Estimate(1.0, 0.01, 10, 4).beyond(0.1) == pytest.approx(1.0, abs=1e-6)
    assert Estimate(1.0, 0.0, 10, 4).beyond(0.1) == 1.0


def test_gains_are_expected_ones() -> None:
    assert Estimate(0.5, 0.001, 10, 4).gain == pytest.approx(0.5)
    assert Estimate(-0.5, 0.001, 10, 4).gain == pytest.approx(0.0)
    assert Estimate(0.0, 0.1, 10, 4).gain == pytest.approx(0.1 / math.sqrt(2 * math.pi))
