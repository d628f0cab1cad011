"""The tuner's planning, from invented measurements, without MPI and ReFrame."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from invented_tunings import FAST, PLACE, SECONDS, SIZES, SLOW, Tuning
from support import SEED

from collforge import layout, units
from collforge.case import Case
from collforge.cases import timing_case
from collforge.db import Result, RunRecord, Store
from collforge.errors import CollforgeError
from collforge.generator.manifest import Manifest
from collforge.place import Place
from collforge.tuner.decide import bandwidth, plan
from collforge.tuner.decide.decisions import judge, read_standing, version_before
from collforge.tuner.decide.evidence import Comparison, History, Launch, measured_problems
from collforge.tuner.decide.plan import Goal
from collforge.tuner.probes.programs import NEVER
from collforge.tuner.run import measuring
from collforge.tuner.run.jobs import Site
from collforge.tuner.run.tune import Session, decide_all
from collforge.variant import NATIVE, Variant, split_name


def goal(**changes: object) -> Goal:
    values: dict[str, object] = {
        "layout": layout.from_name("4x2"),
        "collectives": ("bcast", "allgather"),
        "sizes": (1024, 1 << 20),
        "seed": SEED,
    }
    return Goal(**{**values, **changes})  # type: ignore[arg-type]


def next_tasks(
    made: Manifest, asked: plan.Goal, history: History, failed: Collection[Variant] = ()
) -> Iterator[plan.Task]:
    seen, _ = judge(made, asked, history, failed)
    return (task for _, task in plan.next_tasks(seen, plan.open_contests(seen)))


def winner(made: Manifest, asked: Goal, history: History, problem: str) -> Comparison:
    return judge(made, asked, history)[1][problem].winner


def measure(
    made: Manifest, asked: Goal, seconds: Callable[[Case], float], launches: int
) -> tuple[dict[str, list[Launch]], int]:
    """Simulates at most ``launches`` launches of all planned tasks; returns the history and their number."""
    noise = random.Random(SEED)
    history: dict[str, list[Launch]] = {}
    for number in range(launches):
        tasks = list(next_tasks(made, asked, history))
        if not tasks:
            return history, number
        for task in tasks:
            launch: dict[Variant, list[float]] = {}
            for one in task.cases:
                entries = [
                    v for v in made.variants_of(one.collective) if one.variant.startswith(v.family)
                ]
                fingerprint = entries[0].fingerprint if entries else ""
                variant = Variant.from_name(one.collective, one.variant, fingerprint)
                mean = seconds(one)
                launch[variant] = [mean * noise.uniform(0.99, 1.01) for _ in range(3)]
            history.setdefault(task.problem.problem, []).append(launch)
    return history, launches


def first_point(made: Manifest, problem: Case) -> tuple[Variant, Variant]:
    """Native and the first point of the full-lane family."""
    entry = next(v for v in made.variants_of(problem.collective) if v.family == "full_lane")
    name = next(iter(plan.points(made, entry, problem)))
    return Variant(problem.collective), Variant.from_name(
        problem.collective, name, entry.fingerprint
    )


MOST_JOBS = plan.Goal.max_launches + 2
"""Limit of launches. It exceeds the launches of one problem, because sizes begin one after the other."""


def chain_wins(one: Case) -> float:
    """A chain is best, with segments of 8192 bytes; similar segments are slightly slower."""
    found = re.search(r"full_lane.*chain,.*segment_bytes=(\d+)", one.variant)
    if one.collective == "bcast" and found:
        return 0.25 + 0.02 * abs(math.log2(int(found[1]) / 8192))
    return {"native": 1.0}.get(one.variant, 0.6 if "full_lane" in one.variant else 1.3)


def test_the_first_launch_has_native_first_and_every_family(made: Manifest) -> None:
    for task in next_tasks(made, goal(), {}):
        assert task.cases[0].variant == NATIVE
        families = {split_name(one.variant)[0] for one in task.cases[1:]}
        assert families == {entry.family for entry in plan.applicable(made, goal(), task.problem)}
        assert families >= {"full_lane", "hierarchical", "rank_shift"}
        assert task.seconds > 0


def test_settles_and_comes_near_the_best_point(made: Manifest) -> None:
    history, launches = measure(made, goal(), chain_wins, 20)
    assert launches < 10, "it must come to an end, and soon where all is clear"
    for problem in history:
        collective = problem.split("@")[0]
        won = winner(made, goal(), history, problem)
        assert won.launches >= 3
        if collective == "bcast":
            # Of segments larger than the data only the largest is searched; it takes 0.35 plus noise.
            least = 0.95 / 0.35 if "bytes=1024," in problem else 1 / 0.35
            assert won.ratio > least, won
        assert won.variant.family == "full_lane"


def test_in_spare_time_the_search_goes_on_where_all_is_settled(made: Manifest) -> None:
    asked = goal(collectives=("bcast",), sizes=(65536,))
    (problem,) = plan.problems(made, asked)
    native, lanes = first_point(made, problem)
    known: list[Launch] = [{native: [1.0] * 3, lanes: [0.5] * 3}] * 4
    seen, decisions = judge(made, asked, {problem.problem: known})
    assert decisions[problem.problem].settled
    ((turn, task),) = plan.next_tasks(seen, plan.open_contests(seen))
    assert turn.stage == plan.SPARE
    assert {one.variant for one in task.cases} - {native.name, lanes.name}, "new points"
    _, launches = measure(made, asked, chain_wins, 20)
    assert launches <= plan.SPARE_LAUNCHES + 4, "it comes to an end"


def test_a_new_version_of_the_library_begins_with_the_winners_of_the_old_one(
    made: Manifest, tmp_path: Path
) -> None:
    """Nothing but native is known of the new one: its results decide, but the old winner is tried at once."""
    old, new = PLACE, replace(PLACE, mpi_version="Open MPI v5.0.8")
    path = tmp_path / "winners.db"
    for place, day in ((replace(old, mpi_version="Open MPI v4.1.0"), 1), (old, 2)):
        seconds = SECONDS if day == 2 else {**SECONDS, FAST: 9e-3, SLOW: 9e-3}
        Tuning(made, place, day, seconds).store(path)
    goals = [goal(collectives=("bcast",), sizes=SIZES, seed=SEED + more) for more in range(10)]
    with Store(path, create=False) as store:
        assert version_before(store, new) == old, "that which ran last"
        assert version_before(store, replace(new, layout="2x2")) is None
        standings = [read_standing(store, made, asked, new) for asked in goals]
        winner = store.winners_at(old)[0].choice.variant.name
    for standing in standings:
        assert not standing.decisions
        contests = plan.open_contests(standing.seen)
        for _, task in plan.next_tasks(standing.seen, contests, standing.background):
            assert winner in [one.variant for one in task.cases]
    by_chance = [
        any(one.variant == winner for task in next_tasks(made, asked, {}) for one in task.cases)
        for asked in goals
    ]
    assert not all(by_chance), "without the old measurements it is one point among many"


def test_losers_leave_the_race(made: Manifest) -> None:
    history, _ = measure(made, goal(), chain_wins, 1)
    for task in next_tasks(made, goal(), history):
        if task.problem.collective == "allgather" and task.problem.problem in history:
            families = {split_name(one.variant)[0] for one in task.cases}
            assert {NATIVE, "full_lane"} <= families


def test_native_everywhere_still_rests_on_several_launches(made: Manifest) -> None:
    history, launches = measure(
        made, goal(), lambda one: 1.0 if one.variant == "native" else 2.0, 20
    )
    assert 3 <= launches <= MOST_JOBS
    assert all(len(of_problem) >= 3 for of_problem in history.values())


def test_what_stays_unsure_is_over_after_the_most_launches(made: Manifest) -> None:
    asked = goal(collectives=("bcast",), sizes=(1024,))
    (problem,) = plan.problems(made, asked)
    native, lanes = first_point(made, problem)
    launches: list[Launch] = [
        {native: [1.0], lanes: [0.7 + 0.4 * (number % 2)]} for number in range(asked.max_launches)
    ]
    seen, decisions = judge(made, asked, {problem.problem: launches})
    assert not decisions[problem.problem].settled
    assert not plan.open_contests(seen)
    seen, _ = judge(made, asked, {problem.problem: launches[:-1]})
    assert plan.open_contests(seen)


def test_sizes_are_refined_from_coarse_to_fine(made: Manifest) -> None:
    assert plan.levels(6) == [0, 2, 1, 2, 3, 0]
    assert [plan.levels(count) for count in (1, 2, 3)] == [[0], [0, 0], [0, 1, 0]]
    sizes = (1024, 4096, 16384, 65536, 1 << 18, 1 << 20)
    asked = goal(collectives=("bcast",), sizes=sizes)
    first = [task.problem.bytes for task in next_tasks(made, asked, {})]
    assert first == [1024, 1 << 20]
    history, _ = measure(made, asked, chain_wins, 1)
    again = [task.problem.bytes for task in next_tasks(made, asked, history)]
    assert sorted(again[:2]) == [1024, 1 << 20], "the ends first, then what is between them"
    assert again[2:] == [16384]


def test_what_may_lose_most_is_measured_first(made: Manifest) -> None:
    """Of two sizes with equally many launches, the one with the larger expected gain comes first."""
    asked = goal(collectives=("bcast",))
    history, _ = measure(made, asked, chain_wins, 1)
    small, large = (one.problem for one in plan.problems(made, asked))
    native = Variant("bcast")
    for problem, gain in ((small, 1.2), (large, 3.0)):
        lanes = next(v for v in history[problem][0] if v.family == "full_lane")
        history[problem] = [{native: [1.0] * 5, lanes: [1 / gain] * 5}] * 2
    turns = [task.problem.problem for task in next_tasks(made, asked, history)]
    assert turns == [large, small]


def test_failed_variants_are_out(made: Manifest) -> None:
    failed = Variant("gather", "full_lane")
    tasks = list(next_tasks(made, goal(collectives=("gather",)), {}, {failed}))
    assert tasks
    assert all(one.variant != failed.name for task in tasks for one in task.cases)


def test_a_plan_resumes_from_history_alone(made: Manifest) -> None:
    history, _ = measure(made, goal(), chain_wins, 2)
    again = [str(c) for t in next_tasks(made, goal(), history) for c in t.cases]
    assert again == [str(c) for t in next_tasks(made, goal(), history) for c in t.cases]


def large_wins(one: Case) -> float:
    """full_lane is much faster on large calls and slower on small ones; hierarchical is slightly faster."""
    gains = {"full_lane": (1.0, 0.25), "hierarchical": (0.9, 1.5)}
    return gains.get(split_name(one.variant)[0], (1.0, 1.0))[one.bytes > 1024]


def test_what_moves_nothing_is_one_problem(made: Manifest) -> None:
    silent = tuple(one.name for one in made.collectives if one.moves_nothing)
    asked = goal(collectives=(*silent, "bcast"))
    found = [one.problem for one in plan.problems(made, asked) if one.collective in silent]
    assert found == [f"{name}@4x2,bytes=1" for name in silent]
    of_bcast = 2
    assert len(list(next_tasks(made, asked, {}))) == len(silent) + of_bcast


def test_a_wrong_variant_does_not_steer_the_search(made: Manifest, tmp_path: Path) -> None:
    """Its measured speed must not affect the search."""
    asked = goal(collectives=("bcast",), sizes=(1024,))
    place = Place("local", "openmpi", "Open MPI v4.1.4", "4x2")
    session = Session(made, asked, Site("local", "openmpi"), place, tmp_path / "t.db", tmp_path)
    history, _ = measure(made, asked, large_wins, 1)
    ((problem, (launch,)),) = history.items()
    wrong = next(variant for variant in sorted(launch) if not variant.is_native)
    launch[wrong] = [1e-9]
    good = record(place, 0, history)
    results = [
        replace(one, verified=False, samples=()) if one.variant == wrong else one
        for one in good.results
    ]
    with Store(session.database) as store:
        store.record_run(good)
        store.record_run(replace(good, uuid="wrong", results=tuple(results)))
    seen = decide_all(session).seen
    assert all(wrong not in launch for launch in seen.history[problem])
    assert sum(wrong in launch for launch in history[problem]) == 1
    assert set(seen.history[problem][0]) == set(launch) - {wrong}


def record(place: Place, number: int, history: dict[str, list[Launch]]) -> RunRecord:
    """The run of launch ``number`` of every problem that has one."""
    results = tuple(
        Result(variant, problem, one.bytes, verified=True, samples=tuple(samples))
        for problem, of_problem in history.items()
        for one in measured_problems([problem])
        for launch in of_problem[number : number + 1]
        for variant, samples in launch.items()
    )
    return RunRecord(str(number), place, 4, 8, NEVER, "", "", ("h",), SEED, results)


def test_nothing_is_planned_where_nothing_applies(made: Manifest) -> None:
    assert list(next_tasks(made, goal(layout=layout.from_name("1x1")), {})) == []


def test_what_older_variants_measured_settles_nothing(made: Manifest) -> None:
    asked = goal(collectives=("bcast",))
    history, _ = measure(made, asked, chain_wins, 20)
    assert list(next_tasks(made, asked, history)) == []
    older = {
        problem: [
            {v if v.is_native else replace(v, fingerprint="older"): s for v, s in launch.items()}
            for launch in launches
        ]
        for problem, launches in history.items()
    }
    first, again = (list(next_tasks(made, asked, one)) for one in ({}, older))
    assert {task.problem.problem for task in again} == {task.problem.problem for task in first}


def test_jobs_hold_at_least_one_task_and_keep_to_a_stage_once_they_are_long_enough(
    made: Manifest,
) -> None:
    tasks = [replace(task, seconds=1.0) for task in next_tasks(made, goal(), {})]
    assert len(tasks) == 4
    turns = [plan.Turn(stage, 0, 0.0) for stage in (0, 0, 1, 1)]

    def filled(least: float, most: float) -> int:
        return len(plan.chunk(zip(turns, tasks), least, most))

    assert filled(0.0, 0.0) == 1
    assert (filled(0.0, 9.0), filled(3.0, 9.0), filled(9.0, 9.0)) == (2, 3, 4)


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("1KiB..64KiB", (1024, 4096, 16384, 65536)),
        ("4, 1M", (4, 1 << 20)),
        ("1KiB..6KiB", (1024, 4096, 6144)),
        ("8", (8,)),
    ],
)
def test_sizes(text: str, sizes: tuple[int, ...]) -> None:
    assert units.parse_sizes(text) == sizes


def test_what_is_asked_wrongly_is_explained(made: Manifest) -> None:
    for wrong in ("", "0", "1KB", "4..2", "big"):
        with pytest.raises(CollforgeError, match="size"):
            units.parse_sizes(wrong)
    with pytest.raises(CollforgeError, match="duration"):
        units.parse_duration("soon")
    with pytest.raises(CollforgeError, match="did you mean bcast"):
        measuring.parse_collectives("bcst", made)
    with pytest.raises(CollforgeError, match="--layout"):
        measuring.parse_layout(None, "my_cluster")
    assert units.parse_duration("1.5m") == 90


def test_collectives_are_asked_for_by_name_or_group(made: Manifest) -> None:
    names = ("regular", "irregular", "mpi", "hybrid", "all")
    groups = {name: set(measuring.parse_collectives(name, made)) for name in names}
    assert groups["all"] == {entry.name for entry in made.collectives}
    assert groups["mpi"] | groups["hybrid"] == groups["all"]
    assert groups["hybrid"] == {one.name for one in made.collectives if one.hybrid}
    assert groups["regular"] | groups["irregular"] == groups["mpi"]
    assert not groups["regular"] & groups["irregular"]
    varied = {one.name for one in made.collectives if one.varies != "no"}
    assert groups["irregular"] == varied - groups["hybrid"]
    assert measuring.parse_collectives(None, made) == measuring.parse_collectives("mpi", made)
    forms = measuring.parse_collectives("nonblocking", made)
    assert forms == tuple(one.form for one in made.collectives if one.form)
    assert not groups["all"] & set(forms)
    assert measuring.parse_collectives("iallreduce,bcast", made) == ("iallreduce", "bcast")
    mixed = measuring.parse_collectives("bcast, irregular, bcast", made)
    assert mixed == ("bcast", *measuring.parse_collectives("irregular", made))


def test_lower_bounds_follow_the_notes(made: Manifest) -> None:
    """N = 4 nodes of n = 2 ranks, 1 MiB, 25 MB/s, by the cost model of Träff and Hunold."""
    at, c, rate = layout.from_name("4x2"), 1 << 20, 25e6
    expected = {"bcast": c, "allreduce": 1.5 * c, "allgather": 6 * c, "alltoall": 12 * c}
    for name, nbytes in expected.items():
        assert bandwidth.lower_bound(made, name, at, c, rate) == pytest.approx(nbytes / rate)


def test_a_problem_uses_the_widest_type_that_fits(made: Manifest) -> None:
    at = layout.from_name("2x2")
    options = [timing_case(made, "bcast", at, nbytes).options for nbytes in (8, 4, 5)]
    assert options == [{"type": "double"}, {}, {"type": "chars"}]
    assert timing_case(made, "scan", at, 8).options == {"type": "double", "op": "sum"}


def test_sizes_per_node_give_every_collective_the_same_limit(made: Manifest) -> None:
    sizes = (64 << 10, 1 << 20)
    asked = goal(sizes=sizes, per="node", collectives=("bcast", "gather", "alltoall", "allreduce"))
    found = plan.problems(made, asked)
    assert len(found) == 8
    for at, size in zip(range(0, 8, 4), sizes):
        for one in found[at : at + 4]:
            moved = made.collective(one.collective).least_bytes(4, 2, one.bytes)
            assert moved == pytest.approx(size, rel=0.01)
            assert one.bytes % plan.WORD == 0
    assert found[0].bytes == sizes[0], "a broadcast's block passes the links once"
