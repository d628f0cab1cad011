"""Half way between two searched sizes: what is measured there, and when it ends. Measurements are made up."""

from __future__ import annotations

import random

import pytest
from support import SEED

from collforge.db import Variant
from collforge.generator import layout, manifest, render
from collforge.generator.manifest import Manifest
from collforge.tuner import between, plan
from collforge.tuner.plan import Goal
from collforge.tuner.select import Comparison, Decision, Launch, decide

CHAIN = "full_lane[lanes=0,lane_algorithm=chain,segment_bytes=8192,window=4,node_phase=shared,overlap=no]"
TREE = "hierarchical[lane_algorithm=binomial,segment_bytes=0,window=0,node_phase=native]"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    out = tmp_path_factory.mktemp("generated")
    render.generate(out)
    return manifest.load(out / "manifest.json")


def goal(*sizes: int, collectives: tuple[str, ...] = ("bcast",)) -> Goal:
    return Goal(layout.from_name("4x2"), collectives, sizes, seed=SEED)


def variant(made: Manifest, name: str) -> Variant:
    (entry,) = [v for v in made.variants_of("bcast") if v.family == name.split("[", maxsplit=1)[0]]
    return Variant.from_name("bcast", name, entry.fingerprint)


def decisions(asked: Goal, made: Manifest, winners: list[Variant]) -> dict[str, Decision]:
    each = zip(plan.problems(made, asked), winners)
    return {p.problem: Decision(Comparison(v, 2.0, 1.9, 2.1, 3), "", ()) for p, v in each}


def play(
    made: Manifest, asked: Goal, won: dict[str, Decision], seconds: dict[str, float]
) -> dict[str, list[Launch]]:
    """Launches until nothing is open; seconds by variant."""
    noise = random.Random(SEED)
    history: dict[str, list[Launch]] = {}
    for _ in range(asked.max_launches + 1):
        found = between.halfway(made, asked, won, history)
        tasks = list(between.tasks(made, asked, found, history))
        if not tasks:
            return history
        for task in tasks:
            assert task.cases[0].variant == "native" and task.seconds > 0
            launch = {
                (variant(made, one.variant) if one.variant != "native" else Variant("bcast")): [
                    seconds[one.variant] * noise.uniform(0.99, 1.01) for _ in range(3)
                ]
                for one in task.cases
            }
            history.setdefault(task.problem.problem, []).append(launch)
    raise AssertionError("it must come to an end")


def test_the_winners_of_both_sides_are_measured_half_way(made: Manifest) -> None:
    asked = goal(1024, 4096, 16384, 32768)
    native = Variant("bcast")
    chain, tree = variant(made, CHAIN), variant(made, TREE)
    found = between.halfway(made, asked, decisions(asked, made, [native, tree, chain, chain]), {})
    assert [one.problem.bytes for one in found] == [2048, 8192], "32 KiB is near enough to 16 KiB"
    assert [set(one.candidates) for one in found] == [{tree}, {tree, chain}]
    assert not between.halfway(made, asked, decisions(asked, made, [native] * 4), {})
    failed = between.halfway(
        made, asked, decisions(asked, made, [native, tree, chain, chain]), {}, {tree}
    )
    assert [set(one.candidates) for one in failed] == [{chain}]


def test_a_choice_that_loses_half_way_does_not_hold_there(made: Manifest) -> None:
    asked = goal(4096, 16384)
    chain, tree = variant(made, CHAIN), variant(made, TREE)
    won = decisions(asked, made, [tree, chain])
    slower = play(made, asked, won, {"native": 1.0, CHAIN: 1.1, TREE: 1.2})
    ((problem, launches),) = slower.items()
    assert "bytes=8192," in problem and len(launches) == asked.min_launches
    assert decide("bcast", launches, {chain, tree}).winner.variant.is_native
    (launches,) = play(made, asked, won, {"native": 1.0, CHAIN: 0.5, TREE: 1.2}).values()
    assert decide("bcast", launches, {chain, tree}).winner.variant == chain


def test_what_moves_nothing_or_has_one_choice_for_all_sizes_has_no_middle(made: Manifest) -> None:
    asked = goal(1024, 1 << 20, collectives=("barrier", *sorted(made.unsized)))
    assert not list(between.neighbouring(made, asked))


def test_sizes_are_whole_doubles(made: Manifest) -> None:
    lower, upper = plan.problems(made, goal(10920, 43688))
    assert between.middle(made, goal(), lower, upper).bytes == 21840
