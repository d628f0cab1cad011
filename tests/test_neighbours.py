"""Neighbouring sizes: nominations, half-way problems and stored rows, with invented measurements."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import pytest
from support import SEED

from collforge import layout
from collforge.generator.manifest import Manifest
from collforge.tuner.decide import neighbours, plan
from collforge.tuner.decide.decisions import FALLBACK, NEIGHBOUR, judge, stored
from collforge.tuner.decide.evidence import Comparison, Launch
from collforge.tuner.decide.plan import Examination, Goal
from collforge.tuner.decide.select import DECIDED, TIE, UNDECIDED, Decision, Rule
from collforge.variant import Variant

CHAIN = (
    "full_lane[lanes=0,lane_algorithm=chain,radix=0,segment_bytes=8192,window=4,node_phase=shared,"
    "overlap=no]"
)
TREE = "hierarchical[lane_algorithm=binomial,radix=2,segment_bytes=0,window=0,node_phase=native]"


def goal(*sizes: int, collectives: tuple[str, ...] = ("bcast",)) -> Goal:
    return Goal(layout.from_name("4x2"), collectives, sizes, seed=SEED)


def variant(made: Manifest, name: str) -> Variant:
    if name == "native":
        return Variant("bcast")
    (entry,) = [v for v in made.variants_of("bcast") if v.family == name.split("[", maxsplit=1)[0]]
    return Variant.from_name("bcast", name, entry.fingerprint)


def launches(made: Manifest, seconds: Mapping[str, float], count: int = 4) -> list[Launch]:
    noise = random.Random(SEED)
    return [
        {
            variant(made, name): [mean * noise.uniform(0.99, 1.01) for _ in range(9)]
            for name, mean in seconds.items()
        }
        for _ in range(count)
    ]


def history_of(
    made: Manifest, asked: Goal, sizes: Sequence[Mapping[str, float]]
) -> dict[str, list[Launch]]:
    """Four launches for each size of a goal, from the seconds of each variant."""
    each = zip(plan.problems(made, asked), sizes)
    return {problem.problem: launches(made, seconds) for problem, seconds in each}


def won(made: Manifest, asked: Goal, winners: list[Variant]) -> dict[str, Decision]:
    each = zip(plan.problems(made, asked), winners)
    return {p.problem: Decision(Comparison(v, 2.0, 1.9, 2.1, 3), DECIDED, "", ()) for p, v in each}


def test_the_winners_of_both_sides_are_measured_half_way(made: Manifest) -> None:
    asked = goal(1024, 4096, 16384, 32768)
    native, chain, tree = (variant(made, name) for name in ("native", CHAIN, TREE))
    seen = Examination(made, asked, {}, Rule())
    decisions = won(made, asked, [native, tree, chain, chain])
    found = [one.bytes for one, _ in neighbours.problems(seen, decisions)]
    assert found == [2048, 8192], "32 KiB is near enough to 16 KiB"
    nominated = neighbours.nominations(made, asked, plan.problems(made, asked), decisions)
    halves = {one.bytes: nominated[one.problem] for one, _ in neighbours.problems(seen, decisions)}
    assert {size: set(each) for size, each in halves.items()} == {2048: {tree}, 8192: {tree, chain}}
    by_size = {one.bytes: nominated.get(one.problem) for one in plan.problems(made, asked)}
    assert by_size == {1024: [tree], 4096: [chain], 16384: [tree, chain], 32768: [chain]}
    assert not neighbours.problems(seen, won(made, asked, [native] * 4))
    undecided = Decision(Comparison(native, 1.0, 1.0, 1.0, 1), UNDECIDED, "", ())
    (first, *_) = decisions
    without = {**decisions, first: undecided}
    assert [one.bytes for one, _ in neighbours.problems(seen, without)] == [8192]
    launched = Examination(made, asked, {first: launches(made, {"native": 1.0})}, Rule())
    assert [one.bytes for one, _ in neighbours.problems(launched, without)] == [2048, 8192], (
        "an undecided size no longer keeps the half way from being measured after four launches"
    )


def test_a_quarter_is_measured_where_the_winners_beside_it_are_far_apart(made: Manifest) -> None:
    asked = goal(4096, 16384)
    native, chain, tree = (variant(made, name) for name in ("native", CHAIN, TREE))
    (half,) = [middle for *_, middle in neighbours.halfway(made, asked)]
    here = {"native": 1.0, CHAIN: 0.5, TREE: 0.9}
    history = {half.problem: launches(made, here)}
    seen = Examination(made, asked, history, Rule())

    def found(*winners: Variant) -> list[int]:
        ends = won(made, asked, [winners[0], winners[2]])
        middle = {half.problem: Decision(Comparison(winners[1], 2.0, 1.9, 2.1, 3), DECIDED, "", ())}
        every = [one.bytes for one, _ in neighbours.problems(seen, {**ends, **middle})]
        return [nbytes for nbytes in every if nbytes != half.bytes]

    assert found(tree, chain, chain) == [5792], "the tree is far behind half way"
    assert found(chain, chain, tree) == [11584]
    assert found(native, chain, tree) == [5792, 11584]
    assert found(chain, chain, chain) == []
    alike = {half.problem: launches(made, {"native": 1.0, CHAIN: 0.5, TREE: 0.52})}
    seen = Examination(made, asked, alike, Rule())
    assert found(tree, chain, chain) == [], "either would do"


def test_what_may_lose_most_half_way_is_measured_first(made: Manifest) -> None:
    native, chain, tree = (variant(made, name) for name in ("native", CHAIN, TREE))
    alike = neighbours.stake([chain, chain], [2.0, 2.0])
    apart = neighbours.stake([chain, tree], [2.0, 2.0])
    beside_native = neighbours.stake([native, tree], [1.0, 2.0])
    assert alike < apart < beside_native


@pytest.mark.parametrize(
    ("seconds", "name"),
    [
        ({"native": 1.0, CHAIN: 1.1, TREE: 1.2}, "native"),
        ({"native": 1.0, CHAIN: 0.5, TREE: 1.2}, CHAIN),
    ],
    ids=["native", "chain"],
)
def test_three_launches_decide_half_way(
    made: Manifest, seconds: dict[str, float], name: str
) -> None:
    """The winners of neighbouring sizes are nominated from the first launch."""
    asked = goal(4096, 16384)
    ends = [{"native": 1.0, TREE: 0.5, CHAIN: 0.9}, {"native": 1.0, CHAIN: 0.5, TREE: 0.9}]
    history = history_of(made, asked, ends)
    (half,) = [middle for *_, middle in neighbours.halfway(made, asked)]
    for count in range(4):
        seen, decisions = judge(
            made, asked, {**history, half.problem: launches(made, seconds, count)}
        )
        tasks = [task for _, task in neighbours.tasks(seen, decisions)]
        halves = [task.problem.bytes for task in tasks if task.problem.bytes == half.bytes]
        assert halves == ([8192] if count < 3 else [])
        assert all({CHAIN, TREE} <= {one.variant for one in task.cases} for task in tasks)
    assert decisions[half.problem].winner.variant == variant(made, name)
    assert decisions[half.problem].winner.launches == 3


def test_what_moves_nothing_has_no_middle(made: Manifest) -> None:
    asked = goal(1024, 1 << 20, collectives=("barrier",))
    assert not list(neighbours.halfway(made, asked))


@pytest.mark.parametrize(
    ("lower", "upper", "middle"),
    [(10920, 43688, 21840), (10920, 21840, 16384), (174760, 349520, 262144), (4096, 5000, 4528)],
)
def test_sizes_are_whole_doubles_and_powers_of_two_where_these_are_near(
    made: Manifest, lower: int, upper: int, middle: int
) -> None:
    ends = plan.problems(made, goal(lower, upper))
    assert neighbours.half(made, goal(), *ends).bytes == middle


# ---- what is stored ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("middle", "count", "evidence", "name"),
    [
        # A size with one launch that used to be stored as native, between sizes where a variant wins.
        ({"native": 1.0, CHAIN: 0.6}, 1, NEIGHBOUR, CHAIN),
        ({"native": 1.0, CHAIN: 1.3}, 1, FALLBACK, "native"),
        ({"native": 1.0, CHAIN: 1.02}, 1, FALLBACK, "native"),
        ({"native": 1.0, TREE: 0.9}, 1, None, ""),
        ({"native": 1.0, CHAIN: 1.2, TREE: 1.0}, 4, FALLBACK, "native"),
        ({"native": 1.0, CHAIN: 0.985}, 4, TIE, "native"),
        ({"native": 1.0, CHAIN: 1.5}, 4, DECIDED, "native"),
        ({"native": 1.0, CHAIN: 0.3}, 4, DECIDED, CHAIN),
    ],
    ids=[
        "between",
        "slower",
        "maybe slower",
        "not measured",
        "a tie with another",
        "a tie",
        "slower beyond doubt",
        "wins",
    ],
)
def test_an_undecided_size_is_served_by_those_beside_it_unless_they_were_slower(
    made: Manifest, middle: dict[str, float], count: int, evidence: str | None, name: str
) -> None:
    asked = goal(4096, 16384, 65536)
    clear = {"native": 1.0, CHAIN: 0.3}
    history = history_of(made, asked, [clear, middle, clear])
    key = plan.problems(made, asked)[1].problem
    history[key] = history[key][:count]
    seen, decisions = judge(made, asked, history)
    choices, undecided = stored(seen, decisions, "bcast")
    rows = {one.bytes: one for one in choices}
    assert {rows[size].variant for size in (4096, 65536)} == {variant(made, CHAIN)}
    assert all(
        rows[size].launches >= 3 and rows[size].evidence == DECIDED for size in (4096, 65536)
    )
    assert [one.bytes for one in undecided] == ([16384] if count == 1 else [])
    assert all(one.launches < 3 for one in undecided)
    if evidence is None:
        assert 16384 not in rows
    else:
        assert (rows[16384].evidence, rows[16384].variant) == (evidence, variant(made, name))


def test_an_undecided_largest_size_bounds_the_winners_below_it(made: Manifest) -> None:
    """Otherwise they would serve all larger calls, for which they were not measured."""
    asked = goal(4096, 65536)
    history = history_of(made, asked, [{"native": 1.0, CHAIN: 0.3}, {"native": 1.0, TREE: 0.9}])
    key = plan.problems(made, asked)[1].problem
    history[key] = history[key][:1]
    choices, _ = stored(*judge(made, asked, history), "bcast")
    assert [(one.bytes, one.evidence) for one in choices] == [(4096, DECIDED), (65536, FALLBACK)]
    nothing = history_of(made, asked, [{"native": 1.0, TREE: 0.9}] * 2)
    few = {problem: launches[:1] for problem, launches in nothing.items()}
    assert stored(*judge(made, asked, few), "bcast")[0] == [], "there is nothing to bound"
