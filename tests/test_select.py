"""The choice of winners: what noise may and may not do to it."""

from __future__ import annotations

import math
import random
import statistics

import pytest

from collforge.db import Measurement, Variant
from collforge.tuner.select import (
    Launch,
    advantages,
    by_problem,
    compare,
    compare_together,
    decide,
    decide_together,
    median_interval,
)

NATIVE = Variant("bcast")
RING = Variant("bcast", "full_lane", "lane_algorithm=ring,segment_bytes=65536", "ab12")
CHAIN = Variant("bcast", "full_lane", "lane_algorithm=chain,segment_bytes=65536", "ab12")
LEADER = Variant("bcast", "hierarchical", "", "cd34")
ALL = {RING, CHAIN, LEADER}


def launches(**ratios: list[float]) -> list[Launch]:
    """Launches in which native takes 1 s and variants are faster by one of `ratios` each."""
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
    """Native was slow where the chain ran and the leader did not; those that ran in all were not."""
    always = {Variant("bcast", "full_lane", f"window={n}", "ab12"): [0.6] for n in range(6)}
    slow = {NATIVE: [1.2], RING: [0.5], CHAIN: [0.52], **always}
    measured = [{NATIVE: [1.0], RING: [0.5], LEADER: [0.45], **always}] * 3 + [slow] * 3
    assert compare(CHAIN, NATIVE, measured).ratio > compare(LEADER, NATIVE, measured).ratio
    faster = advantages([measured], NATIVE)
    assert faster[NATIVE] == 0
    assert faster[LEADER] > faster[RING] > faster[CHAIN]
    assert decide("bcast", measured, ALL).winner.variant == LEADER


def test_advantages_where_all_ran_together_are_the_ratios() -> None:
    measured = launches(ring=[1.8, 2.0, 2.1], chain=[1.7, 2.2, 2.1])
    faster = advantages([measured, launches(ring=[3.0, 3.0, 3.0])], NATIVE)
    assert faster[CHAIN] == pytest.approx(math.log(compare(CHAIN, NATIVE, measured).ratio))
    ring = (math.log(compare(RING, NATIVE, measured).ratio) + math.log(3.0)) / 2
    assert faster[RING] == pytest.approx(ring)


def test_a_clear_win() -> None:
    decision = decide("bcast", launches(ring=[1.95, 2.0, 2.05], leader=[1.2, 1.2, 1.2]), ALL)
    assert decision.winner.variant == RING
    assert decision.winner.launches == 3
    assert 1.03 < decision.winner.low < 2.0 < decision.winner.high
    assert [other.variant for other in decision.others] == [LEADER]
    assert "2.00x native" in decision.reason and "3 launches" in decision.reason


@pytest.mark.parametrize(
    ("ratios", "why"),
    [
        ([1.02, 1.02, 1.02], "does not clear 1.03"),
        ([2.0, 2.0], "fewer than 3 launches"),
        ([1.0, 2.0, 3.0], "does not clear 1.03"),
        ([0.5, 0.5, 0.5], "does not clear 1.03"),
        ([], "nothing else measured"),
    ],
    ids=["margin", "launches", "noise", "slower", "empty"],
)
def test_native_stays(ratios: list[float], why: str) -> None:
    decision = decide("bcast", launches(ring=ratios), ALL)
    assert decision.winner.variant == NATIVE
    assert (decision.winner.ratio, decision.winner.low, decision.winner.high) == (1.0, 1.0, 1.0)
    assert "native stays" in decision.reason and why in decision.reason


def test_where_native_cannot_serve_the_best_variant_wins() -> None:
    measured = [launches(ring=[0.7, 0.8, 0.6], leader=[0.5, 0.5, 0.5])]
    decision = decide_together("bcast", measured, ALL, native_serves=False)
    assert decision.winner.variant == RING and "one copy per node" in decision.reason
    few = decide_together("bcast", [launches(ring=[0.7])], ALL, native_serves=False)
    assert few.winner.variant == NATIVE and "fewer than 3 launches" in few.reason


def test_the_margin_and_the_launches_are_the_callers() -> None:
    measured = launches(ring=[1.05, 1.05])
    assert decide("bcast", measured, ALL, min_launches=2).winner.variant == RING
    assert decide("bcast", measured, ALL, min_launches=2, margin=0.06).winner.variant == NATIVE


def test_an_unverified_variant_never_wins() -> None:
    measured = launches(ring=[2.0, 2.0, 2.0], leader=[1.5, 1.5, 1.5])
    assert decide("bcast", measured, {LEADER}).winner.variant == LEADER
    decision = decide("bcast", measured, set())
    assert decision.winner.variant == NATIVE
    assert "failed a verification" in decision.reason


def test_bimodal_launches_do_not_fake_a_win() -> None:
    """A launch settles at 4 or 22 us; the variant, no better, happened to get the fast mode."""
    measured = [
        {NATIVE: [native] * 100, RING: [ring] * 100}
        for native, ring in [(22.8, 4.1), (4.1, 4.1), (4.1, 4.2), (22.2, 4.0), (4.0, 4.1)]
    ]
    assert compare(RING, NATIVE, measured).ratio > 1.9
    assert decide("bcast", measured, ALL).winner.variant == NATIVE


def test_a_mode_shared_by_the_launch_cancels() -> None:
    measured = [
        {NATIVE: [2.0 * mode] * 9, RING: [1.0 * mode] * 9} for mode in (22.8, 4.1, 4.1, 22.2, 22.6)
    ]
    decision = decide("bcast", measured, ALL)
    assert decision.winner.variant == RING
    assert decision.winner.low == pytest.approx(2.0)


def test_only_launches_with_native_count() -> None:
    measured = [*launches(ring=[2.0, 2.0]), {RING: [0.5]}, {NATIVE: [], RING: [0.5]}]
    decision = decide("bcast", measured, ALL)
    assert decision.winner.variant == NATIVE
    assert decision.others[0].launches == 2


def test_a_tie_goes_to_the_simpler_variant() -> None:
    measured = launches(ring=[2.00, 2.04, 2.02], leader=[2.01, 2.01, 2.01])
    assert decide("bcast", measured, ALL).winner.variant == LEADER


def test_a_tie_of_equals_goes_by_name() -> None:
    measured = launches(ring=[2.00, 2.02, 2.04], chain=[2.01, 2.01, 2.01])
    assert decide("bcast", measured, ALL).winner.variant == CHAIN


def test_a_small_but_steady_lead_is_no_tie() -> None:
    measured = launches(ring=[2.02, 2.52, 3.03], leader=[2.0, 2.5, 3.0])
    assert decide("bcast", measured, ALL).winner.variant == RING


def test_a_wide_interval_is_no_excuse_for_a_slow_choice() -> None:
    measured = launches(ring=[1.9, 2.4, 2.1], leader=[1.9, 1.9, 1.9])
    assert decide("bcast", measured, ALL).winner.variant == RING


def test_equal_variants_rarely_win_by_noise() -> None:
    seed = 20240607
    print(f"seed {seed}")
    noise = random.Random(seed)
    wins = 0
    for _ in range(300):
        ratios = [math.exp(noise.gauss(0, 0.05)) for _ in range(3)]
        wins += decide("bcast", launches(ring=ratios), ALL).winner.variant == RING
    assert wins / 300 < 0.025


def test_a_win_at_one_size_serves_all_where_none_is_slower() -> None:
    series = [launches(ring=[4.0, 4.0, 4.0]), launches(ring=[1.0, 1.0, 1.0, 1.0])]
    decision = decide_together("bcast", series, ALL)
    assert decision.winner.variant == RING
    assert decision.winner.ratio == pytest.approx(2.0), "the geometric mean of 4 and 1"
    assert decision.winner.launches == 3
    assert "slower than native at no size" in decision.reason


@pytest.mark.parametrize(
    ("second", "why"),
    [
        ([0.9, 0.9, 0.9], "is slower than native at some size (0.90x)"),
        ([1.0, 1.0], "fewer than 3 launches"),
        ([], "fewer than 3 launches"),
    ],
    ids=["slower", "launches", "unmeasured"],
)
def test_one_size_may_speak_against_a_variant(second: list[float], why: str) -> None:
    other = launches(leader=[0.8, 0.8, 0.8]) if not second else launches(ring=second)
    decision = decide_together("bcast", [launches(ring=[4.0, 4.0, 4.0]), other], ALL)
    assert decision.winner.variant == NATIVE
    assert (decision.winner.ratio, decision.winner.launches) == (1.0, min(3, len(other)))
    assert "native stays" in decision.reason and why in decision.reason


def test_no_win_at_any_size_is_none_together() -> None:
    series = [launches(ring=[1.02, 1.02, 1.02])] * 6
    assert decide_together("bcast", series, ALL).winner.variant == NATIVE


def test_a_little_slower_is_within_the_margin() -> None:
    series = [launches(ring=[2.0, 2.0, 2.0]), launches(ring=[0.98, 0.98, 0.98])]
    assert decide_together("bcast", series, ALL).winner.variant == RING
    assert decide_together("bcast", series, ALL, margin=0.01).winner.variant == NATIVE


def test_the_best_over_all_sizes_wins() -> None:
    series = [
        launches(ring=[4.0, 4.0, 4.0], leader=[1.5, 1.5, 1.5]),
        launches(ring=[1.0, 1.0, 1.0], leader=[1.5, 1.5, 1.5]),
    ]
    assert decide_together("bcast", series, ALL).winner.variant == RING
    assert decide_together("bcast", series[1:], ALL).winner.variant == LEADER


def test_sizes_measured_before_the_variants_changed_do_not_count() -> None:
    old = Variant("bcast", "full_lane", RING.parameters, "stale")
    stale = [{NATIVE: [1.0], old: [2.0]}]
    series = [launches(ring=[2.0, 2.0, 2.0]), stale]
    assert decide_together("bcast", series, ALL).winner.variant == RING


def test_a_single_launch_of_one_size_is_no_ground_whatever_is_asked() -> None:
    series = [launches(ring=[2.0, 2.0, 2.0]), launches(ring=[2.0])]
    assert decide_together("bcast", series, ALL, min_launches=1).winner.variant == NATIVE


def test_together_is_alone_for_one_size() -> None:
    measured = launches(ring=[1.8, 2.0, 2.1])
    assert compare_together(RING, NATIVE, [measured]) == compare(RING, NATIVE, measured)
    assert math.isnan(compare_together(CHAIN, NATIVE, [measured, []]).ratio)


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
