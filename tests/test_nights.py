"""The nightly regression check on the Slurm cluster: silent if nothing changes, not if a rail slows down."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from slurm_commands import Commands, own_cluster, run_night, slow_down, tune_words

NIGHTS = 10
LAYOUT = "2x2"


@pytest.fixture
def cluster() -> Iterator[Commands]:
    with own_cluster() as commands:
        yield commands


@pytest.mark.slow
@pytest.mark.emulated
def test_ten_nights_and_ten_with_a_slow_rail(cluster: Commands, tmp_path: Path) -> None:
    database, winners = tmp_path / "winners.db", tmp_path / "winners.json"
    words = ["--layout", LAYOUT, "--collective", "bcast,allgather,reduce", "--per", "node"]
    words = tune_words("slurm", "openmpi", database, *words, "--sizes", "256KiB", "--budget", "4m")
    with cluster.start(*words) as tuning:
        output, _ = tuning.communicate(timeout=600)
    assert tuning.returncode == 0, output
    listed = [sys.executable, "-m", "collforge", "winners", "--json", str(winners)]
    code, text = cluster.run("exec", "--", *listed, "--db", str(database))
    assert code == 0, text
    print(output, text)

    def nights(kind: str) -> list[list[str]]:
        found = []
        for number in range(NIGHTS):
            folder = tmp_path / f"{kind}{number}"
            folder.mkdir()
            night = run_night(cluster, winners, folder)
            assert (night.code == 0) == (not night.findings), night.said
            found.append(night.findings)
            print(kind, number, night.findings)
        return found

    assert nights("quiet") == [[]] * NIGHTS
    slow_down(cluster, mbit=50)
    assert all(nights("slow"))
