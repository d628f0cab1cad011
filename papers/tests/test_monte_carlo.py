"""The Monte Carlo program of Mahéo et al. (2014), its allreduce native, split and shifted."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest
from conftest import Installation, Launch
from support import execute, launch_local

from collforge.errors import CollforgeError
from collforge.layout import from_name
from collforge.papers.probes import monte_carlo as probe
from collforge.papers.probes.monte_carlo import Way
from collforge.papers.programs import applications
from collforge.tuner.run import measuring
from collforge.tuner.run.launches import Outcome

AT = from_name("4x1x2")
NATIVE, SPLIT, SHIFTED = (Way("native", 1), Way("split", 2), Way("shifted", 2))


def said(way: Way, checksum: str = "7", variant: str = "", code: int = 0) -> Outcome:
    variant = variant or way.variant
    log = f"collforge: allreduce@4x1x2, 4 to 9 bytes: {variant}\n" if variant else ""
    line = f"monte_carlo 4 ranks, 2 steps: 0.5 s, of which allreduce 0.2 s; checksum {checksum}\n"
    return Outcome(code, 1.0, line, log)


def test_the_ways() -> None:
    assert probe.ways(AT) == [NATIVE, SPLIT, SHIFTED]
    numbers = [way.threads for way in probe.ways(from_name("4x1x9"))]
    assert numbers == [1, 2, 2, 4, 4, 8, 8, 9, 9]  # the paper's best: 8 and 9
    assert SHIFTED.variant == "rank_shift[chunks=2,carrier=threads,node_order=ranks]"


def test_each_launch_is_a_number() -> None:
    found = probe.rows(AT, [said(way) for way in (NATIVE, SPLIT, SHIFTED)] * 2, "")
    assert [(row.way, row.threads) for row in found] == [
        ("native", 1),
        ("split", 2),
        ("shifted", 2),
    ]
    assert all(row.seconds == (0.5, 0.5) and row.in_allreduce == (0.2, 0.2) for row in found)
    assert not any(row.doubt for row in found)


def test_another_result_is_an_error() -> None:
    with pytest.raises(CollforgeError, match="checksums differ: 7, 8"):
        probe.rows(AT, [said(NATIVE), said(SPLIT, "8"), said(SHIFTED)], "")
    with pytest.raises(CollforgeError, match="split, failed"):
        probe.rows(AT, [said(NATIVE), said(SPLIT, code=1), said(SHIFTED)], "")


def test_what_was_not_split_is_doubted() -> None:
    found = probe.rows(AT, [said(NATIVE), said(SPLIT, variant="native"), said(SHIFTED)], "")
    assert [bool(row.doubt) for row in found] == [False, True, False]
    here = argparse.Namespace(system="local", config=None)
    assert "more threads than cores" in measuring.crowded(here, from_name("512x64x2"))
    assert not measuring.crowded(here, from_name("1x1"))
    site = argparse.Namespace(system="local", config=Path("site.py"))
    assert not measuring.crowded(site, from_name("512x64x2"))


@pytest.mark.emulated
def test_the_probe(built: Installation, collforge: Launch, tmp_path: Path) -> None:
    found = tmp_path / "found.json"
    words = ["--mpi", built.library.name, "--system", "emulated", "--layout", "2x1x2"]
    done = collforge("probe", "monte-carlo", *words, "--launches", "2", "--json", str(found))
    assert done.returncode == 0, done.stderr
    rows = json.loads(found.read_text())["rows"]
    assert [row["way"] for row in rows] == ["native", "split", "shifted"]
    for row in rows:
        assert len(row["seconds"]) == 2
        pairs = zip(row["in_allreduce"], row["seconds"])
        assert all(0 < part <= whole for part, whole in pairs)
        assert "cannot run" not in row["doubt"]


@pytest.mark.parametrize("layout", ["1x2x2", "4x2"])
def test_a_layout_without_nodes_or_threads(collforge: Launch, layout: str) -> None:
    done = collforge(
        "probe", "monte-carlo", "--mpi", "mpich", "--system", "local", "--layout", layout
    )
    assert done.returncode == 2 and "two nodes and two threads" in done.stderr


def test_the_particles_depend_on_neither_ranks_nor_threads(
    built: Installation, tmp_path: Path
) -> None:
    command = applications.compile_command(str(built.library.mpicc), "monte_carlo", tmp_path)
    assert execute(command).returncode == 0
    sums = set()
    for ranks, threads in ((1, "1"), (1, "2"), (3, "2")):
        variables = {"OMP_NUM_THREADS": threads, "OMP_WAIT_POLICY": "passive"}
        words = [str(tmp_path / "monte_carlo"), "5000", "5"]
        done = launch_local(built.library.name, ranks, words, variables)
        (line,) = applications.printed("monte_carlo", done.stdout)
        sums.add(line.checksum)
    assert len(sums) == 1
