"""The main job: tunes through ReFrame into a database, whose winners an unmodified program then runs."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from conftest import Installation, Launch
from support import SEED, TOP, execute

from collforge.db import Choice, Result, RunRecord, Store
from collforge.generator import manifest
from collforge.home import home
from collforge.place import Place
from collforge.tuner.probes import instructions, programs
from collforge.tuner.run import leftovers
from collforge.tuner.run.verification import Verdict
from collforge.variant import Variant

ASKED = ["--system", "local", "--layout", "2x2", "--collective", "bcast,allgather", "--seed", "7"]


def tune_command(mpi: str, database: Path, budget: str, sizes: str = "1KiB") -> list[str]:
    arguments = [
        "tune",
        *ASKED,
        "--mpi",
        mpi,
        "--budget",
        budget,
        "--db",
        str(database),
        "--sizes",
        sizes,
    ]
    return [sys.executable, "-m", "collforge", *arguments]


@pytest.mark.wide
@pytest.mark.either
def test_tuning_stores_decisions_and_resumes(mpi: str, built: Installation, tmp_path: Path) -> None:
    database = tmp_path / "t.db"
    first = execute(tune_command(mpi, database, "20s"), timeout=280)
    assert first.returncode == 0
    assert "allgather" in first.stdout
    with Store(database) as store:
        (place,) = store.places()
        before = store.measurements(place)
        assert {one.choice.bytes for one in store.winners()} <= {1024}
        rows = [one for one in store.winners() if one.choice.evidence in ("decided", "tie")]
        assert all(one.choice.launches >= 3 for one in rows), "no decision on less"
        assert store.winners() or store.undecided()
        ((pattern,),) = store._rows("SELECT host_pattern FROM system")
    assert re.fullmatch(pattern, socket.gethostname()), "this host's winners serve this host"
    assert (place.system, place.mpi, place.layout) == ("local", mpi, "2x2")
    families = {"native", "full_lane", "hierarchical", "rank_shift", "zero_copy"}
    assert {one.variant.family for one in before} == families
    # With a budget of 0 nothing is measured, and the table does not show the problems of another run.
    other = execute(tune_command(mpi, database, "0s", "4KiB"), timeout=280)
    assert "none of 2 problems was measured: try --budget 60s" in other.stdout
    assert "winners:" not in other.stdout and "1 KiB" not in other.stdout
    # One more size, so that the second run has something to do even if the first has settled all.
    assert execute(tune_command(mpi, database, "10s", "1KiB,2KiB"), timeout=280).returncode == 0
    with Store(database) as store:
        after = store.measurements(place)
    assert {one.bytes for one in after} == {1024, 2048}
    assert set(before) <= set(after), "nothing stored is lost"


def run_and_kill(command: list[str], seconds: float) -> None:
    """Kills only the tuner, after ``seconds``; ReFrame and its job then end by themselves."""
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    ) as process:
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
    time.sleep(3.0)  # until the driver has ended, too


def written(database: Path) -> dict[str, set[str]]:
    """Folder of a job -> cases that it has written, for the jobs of a database."""
    found: dict[str, set[str]] = {}
    for job in (home() / "runs").glob(f"*-{leftovers.LABEL}-*/{leftovers.JOB}"):
        try:
            if json.loads(job.read_text())["database"] != str(database):
                continue
        except ValueError:
            continue
        for path in job.parent.glob("**/results.jsonl"):
            lines = [line for line in path.read_text().splitlines() if line.endswith("}")]
            records = [json.loads(line) for line in lines if '"record":"result"' in line]
            cases = {one["case"] for one in records if one["samples"]}
            found.setdefault(job.parent.name, set()).update(cases)
    return found


def lost(database: Path) -> list[str]:
    """The written cases that are not in the database, or are there twice."""
    with Store(database) as store:
        measured = [one for place in store.places() for one in store.measurements(place)]
    stored: dict[str, list[str]] = {}
    for one in measured:
        case = one.problem.replace("@", f":{one.variant.name}@", 1)
        stored.setdefault(one.run, []).append(case)
    return [
        f"{run}: {case}"
        for run, cases in written(database).items()
        for case in sorted(cases)
        if stored.get(run, []).count(case) != 1
    ]


@pytest.mark.wide
def test_what_a_killed_tuner_had_measured_is_taken_in(built: Installation, tmp_path: Path) -> None:
    database = tmp_path / "t.db"
    command = tune_command(built.library.name, database, "60s")
    seconds = 12.0
    while not any(written(database).values()):
        assert seconds < 100, "no job has written anything"
        run_and_kill(command, seconds)
        seconds *= 1.5
    assert execute(tune_command(built.library.name, database, "1s"), timeout=200).returncode == 0
    assert lost(database) == []


@pytest.mark.slow
def test_twenty_kills_lose_nothing(built: Installation, tmp_path: Path) -> None:
    database = tmp_path / "t.db"
    draw = random.Random(SEED)
    print(f"seed {SEED}")
    for number in range(20):
        seconds = draw.uniform(6.0, 28.0)
        run_and_kill(tune_command(built.library.name, database, "90s"), seconds)
        print(
            f"kill {number + 1} after {seconds:.1f} s: {sum(map(len, written(database).values()))} cases"
        )
    assert execute(tune_command(built.library.name, database, "1s"), timeout=200).returncode == 0
    assert lost(database) == []
    assert sum(map(len, written(database).values())) > 0


PROGRAM = r"""
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    enum { COUNT = 1000 };
    static int data[COUNT];
    static int all[4 * COUNT];
    int rank = 0;
    int wrong = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < COUNT; i++)
        data[i] = rank == 1 ? i : -1;
    MPI_Bcast(data, COUNT, MPI_INT, 1, MPI_COMM_WORLD);
    for (int i = 0; i < COUNT; i++) {
        wrong += data[i] != i;
        data[i] = 7 * rank + i;
    }
    MPI_Allgather(data, COUNT, MPI_INT, all, COUNT, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < 4 * COUNT; i++)
        wrong += all[i] != 7 * (i / COUNT) + i % COUNT;
    MPI_Finalize();
    printf("rank %d: %d wrong\n", rank, wrong);
    return wrong != 0;
}
"""


@pytest.fixture
def program(built: Installation, tmp_path: Path) -> Path:
    source = tmp_path / "program.c"
    source.write_text(PROGRAM)
    command = [str(built.library.mpicc), "-std=c11", "-o", str(tmp_path / "program"), str(source)]
    subprocess.run(command, check=True, timeout=60)
    return tmp_path / "program"


def winners_database(built: Installation, path: Path) -> Path:
    """A database in which full_lane won both collectives of the program, with all required rows."""
    made = manifest.load(built.home / "generated" / "manifest.json")
    version = built.library.version.splitlines()[0].strip()
    place = Place("test", built.library.name, version, "2x2")
    variants = [
        Variant(v.collective, v.family, "", v.fingerprint)
        for v in made.variants
        if v.family == "full_lane" and v.collective in ("bcast", "allgather")
    ]
    results = tuple(
        Result(v, f"{v.collective}@2x2,bytes=4000", 4000, verified=True) for v in variants
    )
    record = RunRecord("u", place, 2, 4, programs.NEVER, "0", "0", ("h",), 0, results)
    with Store(path) as store:
        store.record_run(record)
        for variant in variants:
            store.replace_winners(
                place, variant.collective, [Choice(4000, variant, 2, 1.9, 2.1, 3)]
            )
    return path


@pytest.mark.either
def test_an_unmodified_program_runs_the_winners(
    built: Installation, program: Path, tmp_path: Path, launch: Launch
) -> None:
    env = {
        "LD_PRELOAD": str(built.built.library_path),
        "COLLFORGE_DB": str(winners_database(built, tmp_path / "w.db")),
        "COLLFORGE_NODE_MAP": "2",
        "COLLFORGE_VERBOSE": "2",
    }
    tuned = launch(built.library.name, 4, [str(program)], env=env)
    assert tuned.returncode == 0
    assert tuned.stdout.count(" 0 wrong") == 4
    told = tuned.stdout + tuned.stderr
    assert "full_lane" in told, "verbose 2 tells which variants ran"
    off = launch(built.library.name, 4, [str(program)], env={**env, "COLLFORGE_DISABLE": "1"})
    assert off.returncode == 0
    assert "full_lane" not in off.stdout + off.stderr


@pytest.mark.either
@pytest.mark.parametrize("damage", ["missing", "truncated", "garbage", "newer"])
def test_a_bad_database_means_native_and_one_warning(
    built: Installation, program: Path, tmp_path: Path, launch: Launch, damage: str
) -> None:
    path = winners_database(built, tmp_path / "w.db")
    if damage == "missing":
        path.unlink()
    elif damage == "truncated":
        path.write_bytes(path.read_bytes()[:5000])
    elif damage == "garbage":
        path.write_bytes(b"x" * 5000)
    else:
        import sqlite3

        with sqlite3.connect(path) as connection:
            connection.execute("PRAGMA user_version = 0")
        connection.close()
    env = {
        "LD_PRELOAD": str(built.built.library_path),
        "COLLFORGE_DB": str(path),
        "COLLFORGE_NODE_MAP": "2",
    }
    done = launch(built.library.name, 4, [str(program)], env=env)
    assert done.returncode == 0
    assert done.stdout.count(" 0 wrong") == 4
    assert (done.stdout + done.stderr).count("collforge: ") == 1


@pytest.mark.wide
@pytest.mark.either
def test_a_broken_step_fails_verification(mpi: str, tmp_path: Path) -> None:
    """The proof cannot detect an error in the C of a step; `collforge verify` must."""
    package = Path(shutil.copytree(TOP / "collforge", tmp_path / "collforge"))
    for folder in ("db", "generator", "reframe_checks", "runtime", "templates", "tuner"):
        shutil.copytree(TOP / folder, package / folder)
    steps = package / "generator" / "steps" / "local.py"
    right = 'lanes = f"&{use.at}->single" if by_node else use.lanes'
    assert right in steps.read_text()
    wrong = right.replace("if by_node else use.lanes", "")
    steps.write_text(steps.read_text().replace(right, wrong))
    env = ["env", f"PYTHONPATH={tmp_path}", f"COLLFORGE_HOME={tmp_path / 'home'}"]
    command = [sys.executable, "-m", "collforge", "verify", "--mpi", mpi, "--family", "full_lane"]
    done = execute([*env, *command, "--collective", "allgather"], cwd=tmp_path, timeout=280)
    assert done.returncode == 1
    assert f"FAILED {mpi} allgather:full_lane[" in done.stderr


def test_verify_takes_cases(collforge: Launch) -> None:
    tail = "@2x2,bytes=8,type=int,root=1"
    cases = [f"bcast:{family}{tail}" for family in ("full_lane", "shared_window")]
    done = collforge("verify", "--mpi", "openmpi", *cases, timeout=280)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (1, "0 failed, 1 do not apply")
    done = collforge("verify", "--mpi", "openmpi", f"bcast:full_lan{tail}", timeout=280)
    assert done.returncode == 2 and "did you mean full_lane?" in done.stderr


def test_verify_command_passes(collforge: Launch) -> None:
    done = collforge(
        "verify", "--mpi", "openmpi", "--collective", "scan", "--family", "full_lane", timeout=280
    )
    assert done.returncode == 0
    assert "openmpi 1x3: nothing applies" in done.stdout
    assert re.search(r"openmpi 3x2: (\d+) cases, \1 verified, 0 failed\n", done.stdout)


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        ({"verified": 3}, "3 verified, 0 failed"),
        ({"verified": 3, "failed": 0, "do not apply": 2}, "3 verified, 0 failed, 2 do not apply"),
        ({"failed": 1, "were not run": 4}, "0 verified, 1 failed, 4 were not run"),
    ],
)
def test_what_became_of_cases_is_counted_apart(outcome: dict[str, int], words: str) -> None:
    assert str(Verdict(Counter(outcome))) == words


@pytest.mark.either
def test_native_winners_cost_little(built: Installation, tmp_path: Path) -> None:
    """At most BUDGET additional instructions, and no call out of the runtime; callgrind is repeatable."""
    made = manifest.load(home() / "generated" / "manifest.json")
    costs = instructions.count(built.library, built.built, made, tmp_path)
    assert {one.function for one in costs} == {
        entry.function for entry in made.collectives if not entry.hybrid
    }
    for one in costs:
        print(one)
        assert 20 < one.instructions <= instructions.BUDGET, one
        assert not one.foreign, one
