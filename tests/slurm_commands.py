"""`collforge cluster` with Slurm, for the tests that start one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from support import assert_nothing_left, marked_processes, network_namespaces

from collforge import reframe_checks
from collforge.reframe_checks.systems import slurm
from collforge.reframe_checks.systems.emulated import ClusterError

SECONDS = 150.0
REFRAME = Path(sys.executable).with_name("reframe")


def need_slurm() -> None:
    """Skips the test where no Slurm cluster can run."""
    try:
        slurm.check()
    except ClusterError as error:
        pytest.skip(f"no Slurm cluster here: {error}")


@dataclass
class Commands:
    """`collforge cluster`, with a folder of its own for the cluster."""

    cache: Path
    mark: str = field(default_factory=lambda: f"CLUSTER_TEST={uuid.uuid4().hex}")

    def start(self, *words: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        name, value = self.mark.split("=")
        return subprocess.Popen(
            [sys.executable, "-m", "collforge", "cluster", *words],
            env={**os.environ, "XDG_CACHE_HOME": str(self.cache), name: value, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *words: str, env: Mapping[str, str] | None = None) -> tuple[int, str]:
        """The exit code and the output."""
        process = self.start(*words, env=env)
        try:
            output, _ = process.communicate(timeout=SECONDS)
        finally:
            process.kill()
        return process.returncode, output

    def up(self) -> None:
        code, output = self.run("up", "--slurm", "--nodes", "2", "--ranks-per-node", "2")
        assert code == 0, output

    def assert_nothing_left(self, namespaces: set[str]) -> None:
        assert_nothing_left(self.mark, namespaces)
        assert not (self.cache / "collforge" / "slurm").exists()

    def keeper(self) -> int:
        return int((self.cache / "collforge" / "slurm" / "lock").read_text())


@contextmanager
def own_cluster() -> Iterator[Commands]:
    """A cluster that is up, of two nodes with two ranks each; nothing may be left of it."""
    need_slurm()
    with tempfile.TemporaryDirectory(prefix="cf-", dir="/tmp") as name:
        commands = Commands(Path(name))
        commands.up()
        namespaces = network_namespaces(marked_processes(commands.mark))
        try:
            yield commands
        finally:
            gone = commands.run("down")
        assert gone == (0, "the Slurm cluster is gone\n")
        commands.assert_nothing_left(namespaces)


def tune_words(system: str, mpi: str, database: Path, *words: str) -> list[str]:
    """`collforge tune` on the cluster's login node."""
    start = ["exec", "--", sys.executable, "-m", "collforge", "tune", "--system", system]
    return [*start, "--mpi", mpi, "--db", str(database), *words]


@dataclass(frozen=True)
class Night:
    """A session of the nightly checks: exit code, output, its UUID, and the test of each winner."""

    code: int
    said: str
    session: str
    winners: list[dict[str, Any]]

    @property
    def findings(self) -> list[str]:
        """Case string and reason."""
        failed = [test for test in self.winners if test["result"] == "fail"]
        return [f"{test['case']}: {test['fail_reason']}" for test in failed]


def slow_down(cluster: Commands, mbit: int) -> None:
    """Sets the rate, of 100, at which two nodes send on their second rail."""
    change = f"tc qdisc change dev eth1 root tbf rate {mbit}mbit burst 16kb latency 400ms"
    words = ["srun", "--nodes", "2", "--ntasks", "2", *change.split()]
    assert cluster.run("exec", "--", *words)[0] == 0


def run_night(
    cluster: Commands,
    winners: Path,
    folder: Path,
    *words: str,
    settings: Path = reframe_checks.SLURM_SETTINGS,
) -> Night:
    """What docs/site.md tells a site to do every night. ReFrame's files are below ``folder``."""
    report = folder / "report.json"
    where = ["-C", str(settings), "-c", str(reframe_checks.CHECKS), "-R"]
    where += ["--system", "slurm:openmpi", "--exec-policy", "serial", "-t", "nightly", "-r"]
    where += ["--prefix", str(folder), "--report-file", str(report)]
    env = {
        "COLLFORGE_WINNERS": str(winners),
        "RFM_SQLITE_DB_FILE": str(folder / "results.db"),
        "RFM_COLORIZE": "0",
    }
    code, said = cluster.run("exec", "--", str(REFRAME), *where, *words, env=env)
    assert report.exists(), said
    found = json.loads(report.read_text())
    tests = [test for test in found["runs"][0]["testcases"] if not test["fixture"]]
    return Night(code, said, found["session_info"]["uuid"], tests)
