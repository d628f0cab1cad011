"""Tunings through a real queue that are killed again and again lose nothing that was stored."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from slurm_commands import SECONDS, Commands, own_cluster, tune_words
from support import marked_processes

from collforge.db import Store
from collforge.db.inspection import Inspection

KILLS = 20
SEED = 23
LAYOUTS = ("2x2", "2x1")


@pytest.fixture
def cluster() -> Iterator[Commands]:
    with own_cluster() as commands:
        yield commands


def signal_tuner(cluster: Commands, number: signal.Signals) -> None:
    for process in marked_processes(cluster.mark):
        with suppress(OSError):  # it has just ended
            words = (process / "cmdline").read_text().split("\0")
            if "tune" in words and "cluster" not in words:
                os.kill(int(process.name), number)


def kill_tuner(cluster: Commands) -> None:
    signal_tuner(cluster, signal.SIGKILL)


def interrupt_tuner(cluster: Commands) -> None:
    signal_tuner(cluster, signal.SIGTERM)


def kill_job(cluster: Commands) -> None:
    assert cluster.run("exec", "--", "scancel", "--user", "root")[0] == 0


def fail_node(cluster: Commands) -> None:
    update = ["exec", "--", "scontrol", "update", "nodename=node1"]
    assert cluster.run(*update, "state=down", "reason=test")[0] == 0
    time.sleep(1)
    cluster.run(*update, "state=resume")  # refused if the node has come back by itself
    states = cluster.run("exec", "--", "sinfo", "--noheader", "--format=%T")
    assert states[0] == 0 and "down" not in states[1], states


def stored(database: Path) -> set[str]:
    """The launches, by uuid; the database must be sound."""
    if not database.exists():
        return set()
    with Inspection(database) as store:
        assert [*store.damage(), *store.faults()] == []
        return {one.uuid for one in store.runs()}


@pytest.mark.slow
@pytest.mark.emulated
@pytest.mark.parametrize(("system", "mpi"), [("slurm", "openmpi"), ("slurm-mpirun", "mpich")])
def test_killed_tunings_lose_nothing(
    cluster: Commands, system: str, mpi: str, tmp_path: Path
) -> None:
    print(f"seed {SEED}")
    draw = random.Random(SEED)
    database = tmp_path / "winners.db"
    words = ["--layout", ",".join(LAYOUTS), "--collective", "bcast", "--sizes", "4KiB"]
    words = tune_words(system, mpi, database, *words, "--time-limit", "3m")
    before: set[str] = set()
    for number in range(KILLS):
        kill = draw.choice([kill_tuner, kill_job, fail_node, interrupt_tuner])
        with cluster.start(*words, "--launches", "40") as tuning:
            seconds = draw.uniform(3.0, 15.0)
            print(f"{number}: {kill.__name__} after {seconds:.1f} s")
            try:
                tuning.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                kill(cluster)
            if kill in (kill_job, fail_node):
                time.sleep(draw.uniform(0.0, 5.0))
                interrupt_tuner(cluster)
            tuning.communicate(timeout=SECONDS)
        after = stored(database)
        assert before <= after, "launches were lost"
        before = after
        await_empty_queue(cluster)
    # A tuning has at least a minute.
    with cluster.start(*words, "--budget", "2m") as tuning:
        output, _ = tuning.communicate(timeout=2 * SECONDS)
    assert tuning.returncode == 0, output
    with Store(database, create=False) as store:
        for layout in LAYOUTS:
            found = store.winners(system, mpi, layout), store.undecided(system, mpi, layout)
            assert any(found), output
    assert before <= stored(database)
    await_empty_queue(cluster)


def await_empty_queue(cluster: Commands) -> None:
    """A job that is cancelled is shown until its processes are gone."""
    deadline = time.monotonic() + SECONDS
    while (queue := cluster.run("exec", "--", "squeue", "--noheader")) != (0, ""):
        assert time.monotonic() < deadline, queue
        time.sleep(0.5)
