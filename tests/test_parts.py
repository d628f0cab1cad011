"""Communicators that divide a job and all call at once: 4x2/4x1 are the columns of a job of 4x2."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from conftest import Installation, Launch
from driver import make_driver, results_by_variant
from hazards.build import hybrid_program
from stored_winners import SIZE, store_winners

from collforge.db import Store
from collforge.errors import CollforgeError
from collforge.generator.manifest import Manifest
from collforge.layout import LayoutError, from_name
from collforge.place import Place
from collforge.tuner.cli import main
from collforge.tuner.decide import bandwidth, plan, profile
from collforge.tuner.decide.plan import Goal
from collforge.tuner.decide.winner_lookup import read_winners, serving_winner
from collforge.tuner.run import measuring

either = pytest.mark.either


@pytest.mark.parametrize("name", ["4x2/4x1", "4x2/1x2", "4x2/2x2", "8x4/2x2x3"])
def test_names(name: str) -> None:
    at = from_name(name)
    assert at.name == name
    assert at.job is not None
    assert at.launched.size == at.job.size
    assert at.launched.threads == at.threads
    assert at.alone.name == name.partition("/")[2]


def test_what_a_part_shares() -> None:
    assert [from_name(name).sharing for name in ("4x2", "4x2/4x1", "4x2/2x2", "8x4/2x1")] == [
        *(1, 2, 1, 4)
    ]


@pytest.mark.parametrize(
    "name",
    ["4x2/3x1", "4x2/4x2", "4x2/8x1", "3+1/2x1", "4x2/3+1", "4x2x2/4x1", "4x2/4x1/2x1", "/2x1"],
)
def test_what_cannot_be_divided(name: str) -> None:
    with pytest.raises(LayoutError):
        from_name(name)


def test_bytes_of_a_node_are_those_of_all_its_parts(made: Manifest) -> None:
    """--per node: two columns share the links, so each moves half as much."""
    sizes = {
        name: plan.problem_at(
            made, Goal(from_name(name), ("bcast",), (), per="node"), "bcast", 1 << 20
        ).bytes
        for name in ("4x1", "4x2/4x1")
    }
    assert sizes["4x1"] == 2 * sizes["4x2/4x1"]
    times = [bandwidth.lower_bound(made, "bcast", from_name(name), 1 << 20, 1e6) for name in sizes]
    assert times[1] == 2 * times[0]


@either
@pytest.mark.parametrize("parts", ["2x1", "1x2"])
def test_the_driver_verifies_and_times_all_parts(
    built: Installation, launch: Launch, tmp_path: Path, parts: str
) -> None:
    driver = make_driver(built.library.name, built.built.driver_path, tmp_path, launch)
    cases = [
        f"allgather:rank_shift@2x2/{parts},bytes=64,type=double",
        f"bcast:full_lane[lane_algorithm=chain]@2x2/{parts},bytes=4096,root=1",
        f"barrier:hierarchical@2x2/{parts},bytes=1",
    ]
    code, records, _ = driver(cases, "--samples", "2", "--parts", parts, ranks=4)
    assert code == 0
    assert (records[0]["layout"], records[0]["ranks"]) == (f"2x2/{parts}", 4)
    results = [one for one in records if one["record"] == "result" and one["applicable"]]
    assert all(one["verified"] and len(one["samples"]) == 2 for one in results)
    assert {"allgather", "bcast"} <= {one["collective"] for one in results}
    assert results_by_variant(records)


@either
def test_the_driver_refuses_parts_that_do_not_fit(
    built: Installation, launch: Launch, tmp_path: Path
) -> None:
    driver = make_driver(built.library.name, built.built.driver_path, tmp_path, launch)
    code, _, error = driver(["bcast:native@2x2/3x1,bytes=4"], "--parts", "3x1", ranks=4)
    assert code == 2
    assert "a job of layout 2x2 cannot be divided into parts of 3x1" in error


@pytest.fixture
def database(built: Installation, made: Manifest, tmp_path: Path) -> Path:
    """Of bcast other winners on 2x1 alone and as a part of 2x2; of allreduce on 2x1 alone."""
    winners = {"2x1": {"bcast": "flat", "allreduce": "flat"}, "2x2/2x1": {"bcast": "rank_shift"}}
    return store_winners(tmp_path / "db", made, built.library, winners)


JOBS = [
    ("2x2", "2x2/2x1", "rank_shift flat"),
    ("2x1", "2x1", "native native"),
    ("2x4", "2x4/2x2", "native native"),
    ("4x1", "4x1/2x1", "flat flat"),
]
"""The job, its columns, and what serves them. Those of 2x1 have one rank each."""


@either
@pytest.mark.parametrize(("job", "columns", "expected"), JOBS)
def test_the_job_decides_which_winners_serve(
    built: Installation,
    made: Manifest,
    database: Path,
    launch: Launch,
    job: str,
    columns: str,
    expected: str,
) -> None:
    """The runtime and the tuner's look-up alike."""
    program = hybrid_program(built, "divided")
    env = {"COLLFORGE_DB": str(database), "COLLFORGE_NODE_MAP": job.partition("x")[2]}
    done = launch(built.library.name, from_name(job).size, [str(program)], env)
    assert done.returncode == 0
    serves = re.sub(r"\[[^]]*\]", "", done.stdout.strip())
    assert serves == expected
    if job == columns:
        return
    place = Place("here", built.library.name, built.library.first_line, columns)
    with Store(database, create=False) as store:
        winners = read_winners(store, made, place, from_name(columns))
    found = [serving_winner(made, winners, c, SIZE) for c in ("bcast", "allreduce")]
    families = [one.choice.variant.family if one else "native" for one in found]
    assert " ".join(families) == expected


@either
def test_published_winners_keep_their_parts(
    built: Installation, database: Path, launch: Launch, tmp_path: Path
) -> None:
    published = tmp_path / "winners.txt"
    words = ["publish", "--db", str(database), "--system", "here", "--output", str(published)]
    assert main.main(words) == 0
    env = {"COLLFORGE_DB": str(published), "COLLFORGE_NODE_MAP": "2"}
    done = launch(built.library.name, 4, [str(hybrid_program(built, "divided"))], env)
    assert re.sub(r"\[[^]]*\]", "", done.stdout.strip()) == "rank_shift flat"


HEADER = ",".join(profile.COLUMNS)


def test_a_profile_tells_which_communicators_divide_the_job(made: Manifest, tmp_path: Path) -> None:
    """Those of which every rank has one; not the leaders of the nodes, nor what is no part of the job."""
    rows = """\
job,4x2,0,0,1,1,world,1,8,0,0,10.0,0.0
bcast,4x1,8,9,1,10,other,2,8,0,80,4.0,0.0
bcast,4x2,8,9,1,10,world,1,8,0,80,3.0,0.0
scan,4x1,8,9,1,10,other,1,4,0,80,2.0,0.0
scatter,3x1,8,9,1,10,other,8,8,0,80,1.0,0.0
"""
    (tmp_path / "calls.csv").write_text(f"{HEADER}\n{rows}")
    found = profile.read([tmp_path / "calls.csv"])
    assert [row.layout for row in found.rows] == ["4x2/4x1", "4x2", "4x1", "3x1"]
    assert [row.served_as for row in found.rows] == ["4x2/4x1", "4x2", "4x2/4x1", "3x1"]
    wanted, _ = profile.worth_tuning(found, made, 0.01)
    assert [one.layout for one in wanted] == ["4x2/4x1", "4x2", "4x1", "3x1"]


@pytest.mark.wide
def test_tune_and_bench_parts(collforge: Launch, tmp_path: Path) -> None:
    words = ["--system", "local", "--mpi", "openmpi", "--layout", "2x2/2x1"]
    words += ["--collective", "bcast", "--sizes", "4KiB"]
    done = collforge("tune", *words, "--db", str(tmp_path / "db"), "--budget", "4s")
    assert done.returncode == 0, done.stderr
    with Store(tmp_path / "db", create=False) as store:
        (place,) = store.places()
        assert place.layout == "2x2/2x1"
        assert store.measurements(place)
    out = tmp_path / "bench.json"
    more = ["--launches", "1", "--samples", "3", "--json", str(out), "--db", str(tmp_path / "db")]
    done = collforge("bench", *words, *more)
    assert done.returncode == 0, done.stderr
    assert "2x2/2x1" in str(json.loads(out.read_text()))


def test_parts_where_they_mean_nothing() -> None:
    with pytest.raises(CollforgeError, match="parts of a job"):
        measuring.parse_layout("4x2/4x1", "emulated")
    words = ["export", "--to", "openmpi", "--system", "local", "--layout", "2x2/2x1"]
    with pytest.raises(CollforgeError, match="export --layout 2x1"):
        args = main.build_parser()[0].parse_args(words)
        args.run(args)
