"""A real Slurm on the nodes of an emulated cluster: it starts, runs jobs, and leaves nothing."""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import shlex
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from conftest import Installation
from slurm_commands import REFRAME, SECONDS, Commands, need_slurm, run_night, tune_words
from support import assert_nothing_left, execute, marked_processes, network_namespaces

from collforge import reframe_checks
from collforge.db import Store
from collforge.errors import CollforgeError
from collforge.reframe_checks.systems import slurm
from collforge.reframe_checks.systems.emulated import ClusterError
from collforge.reframe_checks.systems.slurm import config
from collforge.toolchain import libraries
from collforge.tuner.run import measuring

PROGRAM = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int rank, size, sum;
    char host[64] = "";
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    gethostname(host, sizeof host);
    printf("rank %d %d %d %s %s\n", rank, size, sum, host, getenv("UCX_NET_DEVICES"));
    if (getenv("LD_PRELOAD") != NULL)
        printf("preloaded %s\n", getenv("LD_PRELOAD"));
    MPI_Finalize();
    return 0;
}
"""


@pytest.fixture(scope="module")
def short() -> Iterator[Path]:
    """A folder whose name is short enough for sockets below it."""
    need_slurm()
    with tempfile.TemporaryDirectory(prefix="cf-", dir="/tmp") as name:
        yield Path(name)


@pytest.fixture(scope="module")
def cluster(short: Path) -> Iterator[Commands]:
    """A cluster that is up, of two nodes with two ranks each."""
    commands = Commands(short / "up")
    commands.up()
    yield commands
    namespaces = network_namespaces(marked_processes(commands.mark))
    jobs = commands.run("exec", "--", "squeue", "--noheader")
    gone = commands.run("down")
    assert len(namespaces) == 3  # the switch's and two nodes'
    assert jobs == (0, "")
    assert gone == (0, "the Slurm cluster is gone\n")
    commands.assert_nothing_left(namespaces)


@pytest.mark.either
@pytest.mark.emulated
def test_a_job_has_its_ranks_on_its_nodes_and_rails(
    cluster: Commands, mpi: str, tmp_path: Path
) -> None:
    (tmp_path / "program.c").write_text(PROGRAM)
    program = tmp_path / "program"
    execute([f"mpicc.{mpi}", f"{program}.c", "-o", str(program)])
    job = tmp_path / "job"
    launchers = (f"srun --mpi={config.PMI[mpi]}", f"mpirun.{mpi} -n 4")
    lines = [f"{words} ${slurm.RANK_VARIABLE} {program}" for words in launchers]
    job.write_text("\n".join(["#!/bin/sh", "set -e", lines[0], "echo then", lines[1], ""]))
    words = ["sbatch", "--wait", "--nodes=2", "--ntasks-per-node=2", f"--output={tmp_path}/out"]
    code, output = cluster.run("exec", "--", *words, str(job))
    found = (tmp_path / "out").read_text()
    assert code == 0, output + found
    # Without its own preload MPICH may hang in MPI_Finalize where ranks share cores.
    assert found.count("mpich_progress") == (8 if mpi == "mpich" else 0), found
    wanted = [f"rank {rank} 4 6 node{rank // 2} eth{rank % 2}" for rank in range(4)]
    # srun may say that it waits for the nodes.
    printed = re.findall(r"^rank \d .*|^then$", found, re.MULTILINE)
    assert [*sorted(printed[:4]), *printed[4:5], *sorted(printed[5:])] == [*wanted, "then", *wanted]


@pytest.mark.wide
# One library by each launcher; the other pairs take as long again.
@pytest.mark.emulated
@pytest.mark.parametrize(
    ("system", "mpi"),
    [
        ("slurm", "openmpi"),
        ("slurm-mpirun", "mpich"),
        pytest.param("slurm", "mpich", marks=pytest.mark.slow),
        pytest.param("slurm-mpirun", "openmpi", marks=pytest.mark.slow),
    ],
    indirect=["mpi"],
)
def test_tuning_through_the_queue(
    cluster: Commands, system: str, built: Installation, tmp_path: Path
) -> None:
    database = tmp_path / "winners.db"
    mpi = built.library.name
    words = tune_words(system, mpi, database, "--layout", "2x2", "--collective", "bcast")
    words += ["--sizes", "4KiB", "--launches", "1", "--budget", "4s"]
    code, output = cluster.run(*words)
    assert code == 0, output
    with Store(database, create=False) as store:
        assert store.winners(system, mpi, "2x2") or store.undecided(system, mpi, "2x2")
    assert cluster.run("exec", "--", "squeue", "--noheader") == (0, "")


def winners_file(path: Path, seconds: dict[str, float]) -> Path:
    """Winners that took this long when tuned, as fast as native; their launches hardly differed."""
    spread = {"spread": 0.02, "launches": 9, "df": 30}
    here = {"system": "slurm", "mpi": "openmpi", "layout": "2x2", "bytes": 65536}
    here |= {"mpi_version": libraries.find("openmpi").first_line, "variant": "hierarchical"}
    rows = []
    for collective, mean in seconds.items():
        references = {"seconds": {"mean": mean, **spread}, "speed_up": {"mean": 1e-3, **spread}}
        rows.append({**here, "collective": collective, "references": references})
    path.write_text(json.dumps({"rows": rows}))
    return path


@pytest.mark.wide
@pytest.mark.emulated
def test_two_nights_as_a_pipeline_reads_them(cluster: Commands, tmp_path: Path) -> None:
    """ReFrame's comparison, perflog (as CSV) and JUnit have each winner; a finding is in all of them."""
    junit = tmp_path / "junit.xml"
    words = ["--report-junit", str(junit), "-S", "Winner.timed.samples=5"]
    winners = winners_file(tmp_path / "winners.json", {"bcast": 1e3, "allreduce": 1e3})
    first = run_night(cluster, winners, tmp_path, *words)
    assert (first.code, len(first.winners)) == (0, 2), first.said
    times = {one["collective"]: value(one, "time") for one in first.winners}
    quarter = {"bcast": times["bcast"] / 4 * 1e-6, "allreduce": 1e3}
    second = run_night(cluster, winners_file(winners, quarter), tmp_path, *words)
    (finding,) = second.findings
    assert second.code == 1
    assert finding.startswith("bcast:hierarchical@2x2,bytes=65536,type=double: performance error")

    nights = f"{first.session}/{second.session}/mean:/"
    compare = ["-C", str(reframe_checks.SLURM_SETTINGS), "--performance-compare", nights]
    env = ["env", f"RFM_SQLITE_DB_FILE={tmp_path / 'results.db'}"]
    shown = execute([*env, str(REFRAME), *compare, "--table-format=csv", "--system=slurm"]).stdout
    perflog = (tmp_path / "perflogs" / "slurm" / "openmpi" / "Winner.log").read_text()
    rows = list(csv.DictReader(perflog.splitlines(), delimiter="|"))
    assert len(rows) == 2 * 2 * 2  # nights, winners, variables
    for night, logged in ((first, rows[:4]), (second, rows[4:])):
        for one in night.winners:
            mine = [row for row in logged if row["display_name"] == one["display_name"]]
            assert {row["perf_var"]: float(row["perf_value"]) for row in mine} == {
                name: value(one, name) for name in ("time", "speed_up")
            }
            assert shown.count(f"{one['display_name']},slurm:openmpi+openmpi") == 2, shown
    failed = {
        (row["display_name"], row["perf_var"]) for row in rows if row["perf_result"] == "fail"
    }
    name = "Winner %collective=bcast %bytes=65536 %layout=2x2"
    assert failed == {(name, "time")}
    (reference,) = {
        float(row["perf_ref"])
        for row in rows[4:]
        if (row["display_name"], row["perf_var"]) in failed
    }
    assert reference == pytest.approx(times["bcast"] / 4)
    tests = ElementTree.parse(junit).getroot().iter("testcase")
    found = {one.attrib["name"].split(" @")[0]: one.find("failure") for one in tests}
    assert {test["display_name"] for test in first.winners} < set(found)
    (wrong,) = {name: one for name, one in found.items() if one is not None}.items()
    assert wrong[0] == name and f"expected {reference}" in (wrong[1].text or "")


def value(test: dict[str, Any], name: str) -> float:
    """A performance variable in a test of ReFrame's report."""
    return float(test["perfvalues"][f"slurm:openmpi:{name}"][0])


@pytest.mark.wide
@pytest.mark.emulated
@pytest.mark.parametrize("mpi", ["openmpi"], indirect=True)
def test_a_detected_site_is_tuned_without_options(
    cluster: Commands, built: Installation, tmp_path: Path
) -> None:
    """`collforge site detect` finds the queue and its PMI; then `tune` needs no more than the library.

    Its configuration knows nothing of COLLFORGE_RANK, without which MPICH may hang (test above).
    """
    command = [sys.executable, "-m", "collforge"]
    env = {"COLLFORGE_SITE": str(tmp_path / "site.ini")}
    config = str(tmp_path / "site.py")
    code, output = cluster.run("exec", "--", *command, "site", "detect", config, env=env)
    assert code == 0, output
    assert "Slurm's partition compute" in output
    database = tmp_path / "winners.db"
    mpi = built.library.name
    words = ["tune", "--mpi", mpi, "--collective", "bcast", "--sizes", "4KiB", "--max-jobs", "1"]
    code, output = cluster.run("exec", "--", *command, *words, "--db", str(database), env=env)
    assert code == 0, output
    with Store(database, create=False) as store:
        (run,) = store.runs()
    assert (run.place.system, run.place.layout) == ("cluster", "2x2")
    assert (run.start.launcher, run.hosts) == ("srun", ("node0", "node1"))


@pytest.mark.wide
@pytest.mark.emulated
@pytest.mark.parametrize(
    ("system", "mpi"),
    [("slurm", "openmpi"), pytest.param("slurm-mpirun", "mpich", marks=pytest.mark.slow)],
    indirect=["mpi"],
)
def test_inside_an_allocation_tuning_runs_there(
    cluster: Commands, system: str, mpi: str, built: Installation, tmp_path: Path
) -> None:
    """No further job is submitted, the ranks are on the allocation's nodes, and how they began is stored."""
    database = tmp_path / "winners.db"
    words = ["--collective", "allreduce", "--sizes", "4KiB", "--launches", "1", "--budget", "4s"]
    start, *tune = tune_words(system, mpi, database, *words)
    tunings = " && ".join(f"{shlex.join(tune[1:])} --layout {layout}" for layout in ("2x1", "1x2"))
    salloc = ["salloc", "--nodes=2", "--ntasks-per-node=2", "--exclusive"]
    jobs = "squeue --noheader --format=%A | sort -u | wc -l"
    script = f"({tunings}) & while kill -0 $!; do {jobs} >> {tmp_path}/jobs; sleep 1; done; wait $!"
    code, output = cluster.run(start, tune[0], *salloc, "sh", "-c", script)
    assert code == 0, output
    assert set((tmp_path / "jobs").read_text().split()) == {"1"}, output
    with Store(database, create=False) as store:
        runs = store.runs()
    assert {(one.place.layout, one.hosts) for one in runs} == {
        ("2x1", ("node0", "node1")),
        ("1x2", ("node0",)),
    }
    launcher = f"collforge-slurm-{slurm.SYSTEMS[system]}-{mpi}"
    pmi = {"openmpi": "pmix", "mpich": "pmi"}[mpi]
    assert {(one.start.launcher, one.start.pmi) for one in runs} == {(launcher, pmi)}
    assert cluster.run("exec", "--", "squeue", "--noheader") == (0, "")


@pytest.mark.emulated
def test_a_command_has_its_folder_and_gives_its_exit_code(cluster: Commands) -> None:
    assert cluster.run("exec", "--", "sh", "-c", 'pwd; echo "$1"; exit 3', "-", "a 'b") == (
        3,
        f"{Path.cwd()}\na 'b\n",
    )


@pytest.mark.wide
@pytest.mark.emulated
def test_a_second_cluster_is_refused(cluster: Commands) -> None:
    code, output = cluster.run("up", "--slurm")
    assert code != 0
    assert output.splitlines() == [
        "collforge: error: a Slurm cluster is up already: `collforge cluster down` removes it"
    ]


@pytest.mark.wide
@pytest.mark.emulated
def test_a_cluster_is_not_taken_down_from_within(cluster: Commands) -> None:
    words = ["exec", "--", sys.executable, "-m", "collforge", "cluster", "down"]
    code, output = cluster.run(*words)
    assert code != 0 and "leave it first" in output


@pytest.mark.emulated
def test_the_variables_of_the_caller_are_kept(cluster: Commands) -> None:
    words = ["exec", "--", "sh", "-c", "echo $OMPI_MCA_btl $OMPI_MCA_pml"]
    assert cluster.run(*words, env={"OMPI_MCA_btl": "self,tcp"}) == (0, "self,tcp ob1\n")


@pytest.mark.emulated
def test_no_cluster_is_up(short: Path) -> None:
    commands = Commands(short / "none")
    assert commands.run("down") == (0, "no Slurm cluster is up\n")
    code, output = commands.run("exec", "--", "true")
    assert code != 0 and output.count("\n") == 1
    assert "no Slurm cluster is up: `collforge cluster up --slurm`" in output


@pytest.mark.wide
@pytest.mark.emulated
@pytest.mark.parametrize("daemon", ["munged", "slurmctld", "slurmd"])
def test_a_daemon_that_ends_is_named(short: Path, daemon: str) -> None:
    commands = Commands(short / "ends")
    tools = short / f"tools-{daemon}"
    tools.mkdir()
    (tools / daemon).write_text("#!/bin/sh\necho it cannot >&2\n")
    (tools / daemon).chmod(0o755)
    env = {"PATH": f"{tools}:{os.environ['PATH']}"}
    code, output = commands.run("up", "--slurm", "--nodes", "2", env=env)
    assert code != 0
    assert f"{daemon}{'.node' * (daemon == 'slurmd')}" in output.splitlines()[0]
    assert output.splitlines()[-1] == "it cannot"
    commands.assert_nothing_left(set())


@pytest.mark.wide
@pytest.mark.emulated
def test_killed_processes_leave_nothing_after_down(short: Path) -> None:
    commands = Commands(short / "killed")
    with commands.start("up", "--slurm", "--nodes", "2") as up:
        state = short / "killed" / "collforge" / "slurm" / "state.json"
        deadline = time.monotonic() + SECONDS
        while not state.exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        up.kill()
    namespaces = network_namespaces(marked_processes(commands.mark))
    assert len(namespaces) == 3
    # The cluster that nobody waits for may have ended by itself.
    assert commands.run("down")[0] == 0
    commands.assert_nothing_left(namespaces)
    commands.up()
    namespaces = network_namespaces(marked_processes(commands.mark))
    os.kill(commands.keeper(), signal.SIGKILL)
    assert_nothing_left(commands.mark, namespaces)
    assert commands.run("exec", "--", "true")[0] != 0
    assert commands.run("down") == (0, "the Slurm cluster is gone\n")
    commands.assert_nothing_left(namespaces)


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda tool, **_: None if tool == "sbatch" else tool)
    with pytest.raises(
        ClusterError, match=r"not found: sbatch; run `apt-get install .*slurm-client`"
    ):
        slurm.check()


def test_outside_of_the_cluster_its_systems_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(slurm.RANK_VARIABLE, raising=False)
    with pytest.raises(CollforgeError, match="run the command on it, `collforge cluster exec"):
        measuring.site(argparse.Namespace(system="slurm", config=None), "openmpi")
