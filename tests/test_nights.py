"""The nightly regression check on the Slurm cluster: silent if nothing changes, not if a rail slows down."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from slurm_commands import Commands, own_cluster, tune_words

from collforge import reframe_checks
from collforge.reframe_checks.settings import slurm_cluster

NIGHTS = 10
NODES = "2"
LAYOUT = "2x2"
REFRAME = Path(sys.executable).with_name("reframe")


@pytest.fixture
def cluster() -> Iterator[Commands]:
    with own_cluster() as commands:
        yield commands


def run_night(cluster: Commands, winners: Path, folder: Path) -> list[str]:
    """The findings of the check."""
    words = ["-C", slurm_cluster.__file__, "-c", reframe_checks.CHECKS, "-R", "-r"]
    words += ["-n", "^Regression", "--system", "slurm:openmpi", "--exec-policy", "serial"]
    words += ["-S", f"Regression.winners={winners}", "-S", f"Regression.layout={LAYOUT}"]
    words += ["--prefix", folder, "--report-file", folder / "report.json"]
    code, said = cluster.run("exec", "--", str(REFRAME), *map(str, words))
    found = [
        line
        for path in folder.glob("*/slurm/openmpi/*/Regression*/findings.txt")
        for line in path.read_text().splitlines()
    ]
    assert (code == 0) == (not found), said
    return found


def slow_down(cluster: Commands) -> None:
    """Halves the rate at which every node sends on its second rail."""
    change = "tc qdisc change dev eth1 root tbf rate 50mbit burst 16kb latency 400ms"
    words = ["srun", "--nodes", NODES, "--ntasks", NODES, *change.split()]
    assert cluster.run("exec", "--", *words)[0] == 0


@pytest.mark.slow
@pytest.mark.emulated
def test_ten_nights_and_ten_with_a_slow_rail(cluster: Commands, tmp_path: Path) -> None:
    database, winners = tmp_path / "winners.db", tmp_path / "winners.json"
    words = ["--layout", LAYOUT, "--collective", "bcast,allgather,reduce", "--per", "node"]
    words = tune_words("slurm", "openmpi", database, *words, "--sizes", "256KiB", "--budget", "4m")
    with cluster.start(*words) as tuning:
        output, _ = tuning.communicate(timeout=600)
    assert tuning.returncode == 0, output
    listed = [sys.executable, "-m", "collforge", "winners", "--format", "json"]
    code, text = cluster.run("exec", "--", *listed, "--db", str(database))
    assert code == 0, text
    winners.write_text(text)
    print(output, text)

    def nights(kind: str) -> list[list[str]]:
        found = []
        for number in range(NIGHTS):
            folder = tmp_path / f"{kind}{number}"
            folder.mkdir()
            found.append(run_night(cluster, winners, folder))
            print(kind, number, found[-1])
        return found

    assert nights("quiet") == [[]] * NIGHTS
    slow_down(cluster)
    assert all(nights("slow"))
