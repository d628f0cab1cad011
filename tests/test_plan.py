"""What the tuner plans next, from measurements that are made up: no MPI, no ReFrame."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from support import SEED

from collforge.db import Variant
from collforge.errors import CollforgeError
from collforge.generator import case, layout, manifest, render
from collforge.generator.manifest import Manifest
from collforge.reframe_checks.cases import timing_case
from collforge.tuner import plan, request
from collforge.tuner.plan import Goal
from collforge.tuner.select import Launch, decide


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    out = tmp_path_factory.mktemp("generated")
    render.generate(out)
    return manifest.load(out / "manifest.json")


def goal(**changes: object) -> Goal:
    values: dict[str, object] = {
        "layout": layout.from_name("4x2"),
        "collectives": ("bcast", "allgather"),
        "sizes": (1024, 1 << 20),
        "seed": SEED,
    }
    return Goal(**{**values, **changes})  # type: ignore[arg-type]


def measure(
    made: Manifest, asked: Goal, seconds: Callable[[str, str], float], launches: int
) -> tuple[dict[str, list[Launch]], int]:
    """Plays so many launches of everything planned; returns the history and how often it ran out of plans."""
    noise = random.Random(SEED)
    history: dict[str, list[Launch]] = {}
    for number in range(launches):
        tasks = plan.next_tasks(made, asked, history)
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
                mean = seconds(one.collective, one.variant)
                launch[variant] = [mean * noise.uniform(0.99, 1.01) for _ in range(3)]
            history.setdefault(task.problem.problem, []).append(launch)
    return history, launches


def chain_wins(collective: str, variant: str) -> float:
    if collective == "bcast" and "chain,segment_bytes=8192" in variant and "full_lane" in variant:
        return 0.25
    return {"native": 1.0}.get(variant, 0.6 if "full_lane" in variant else 1.3)


def test_the_first_launch_has_native_first_and_every_family(made: Manifest) -> None:
    for task in plan.next_tasks(made, goal(), {}):
        assert task.cases[0].variant == case.NATIVE
        families = {case.split_variant(one.variant)[0] for one in task.cases[1:]}
        assert families == {"full_lane", "hierarchical"}
        assert task.seconds > 0


def test_settles_and_finds_the_best_point(made: Manifest) -> None:
    history, launches = measure(made, goal(), chain_wins, 10)
    assert launches <= 6, "it must come to an end"
    for problem, of_problem in history.items():
        collective = problem.split("@")[0]
        eligible = {variant for launch in of_problem for variant in launch}
        won = decide(collective, of_problem, eligible).winner
        assert won.launches >= 3
        best = "full_lane[lane_algorithm=chain,segment_bytes=8192]"
        if collective == "bcast":
            assert won.variant.name == best
        assert won.variant.family == "full_lane"


def test_losers_leave_the_race(made: Manifest) -> None:
    history, _ = measure(made, goal(), chain_wins, 1)
    for task in plan.next_tasks(made, goal(), history):
        if task.problem.collective == "allgather":
            families = {case.split_variant(one.variant)[0] for one in task.cases}
            assert families == {case.NATIVE, "full_lane"}


def test_native_everywhere_still_rests_on_several_launches(made: Manifest) -> None:
    history, launches = measure(made, goal(), lambda _, v: 1.0 if v == "native" else 2.0, 10)
    assert 3 <= launches <= 6
    assert all(len(of_problem) >= 3 for of_problem in history.values())


def test_failed_variants_are_out(made: Manifest) -> None:
    failed = Variant("gather", "full_lane")
    tasks = plan.next_tasks(made, goal(collectives=("gather",)), {}, {failed})
    assert tasks
    assert all(one.variant != failed.name for task in tasks for one in task.cases)


def test_a_plan_resumes_from_history_alone(made: Manifest) -> None:
    history, _ = measure(made, goal(), chain_wins, 2)
    again = [str(c) for t in plan.next_tasks(made, goal(), history) for c in t.cases]
    assert again == [str(c) for t in plan.next_tasks(made, goal(), history) for c in t.cases]


def test_nothing_is_planned_where_nothing_applies(made: Manifest) -> None:
    assert plan.next_tasks(made, goal(layout=layout.from_name("1x4")), {}) == []


def test_jobs_hold_at_least_one_task(made: Manifest) -> None:
    tasks = plan.next_tasks(made, goal(), {})
    assert len(plan.chunk(tasks, 0.0)) == 1
    assert len(plan.chunk(tasks, 1e9)) == len(tasks)


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
    assert request.parse_sizes(text) == sizes


def test_what_is_asked_wrongly_is_explained(made: Manifest) -> None:
    for wrong in ("", "0", "1KB", "4..2", "big"):
        with pytest.raises(CollforgeError, match="size"):
            request.parse_sizes(wrong)
    with pytest.raises(CollforgeError, match="duration"):
        request.parse_duration("soon")
    with pytest.raises(CollforgeError, match="did you mean bcast"):
        request.parse_collectives("bcst", made)
    with pytest.raises(CollforgeError, match="--system local"):
        request.parse_layout("3+1", "emulated")
    with pytest.raises(CollforgeError, match="--layout"):
        request.parse_layout(None, "my_cluster")
    assert request.parse_duration("1.5m") == 90


def test_lower_bounds_follow_the_notes(made: Manifest) -> None:
    """N = 4 nodes of n = 2 ranks, 1 MiB, 25 MB/s: the formulas of the paper's cost model."""
    at, c, rate = layout.from_name("4x2"), 1 << 20, 25e6
    expected = {"bcast": c, "allreduce": 1.5 * c, "allgather": 6 * c, "alltoall": 12 * c}
    for name, nbytes in expected.items():
        assert request.lower_bound(made, name, at, c, rate) == pytest.approx(nbytes / rate)


def test_a_problem_uses_the_widest_type_that_fits(made: Manifest) -> None:
    at = layout.from_name("2x2")
    options = [timing_case(made, "bcast", at, nbytes).options for nbytes in (8, 4, 5)]
    assert options == [{"type": "double"}, {}, {"type": "chars"}]
    assert timing_case(made, "scan", at, 8).options == {"type": "double", "op": "sum"}
