"""`collforge db log`: what each launch changed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from invented_tunings import FAST, PLACE, SECONDS, SIZES, SLOW, Out, Tuning, content, run

from collforge.db import Store
from collforge.generator.manifest import Manifest
from collforge.toolchain import build
from collforge.tuner.cli import main
from collforge.tuner.site import rebuild


@pytest.fixture(scope="module")
def made() -> Manifest:
    """What the commands of these tests read."""
    return build.current_manifest()


def test_each_change_is_told_below_its_launch(made: Manifest, tmp_path: Path, capsys: Out) -> None:
    slower = {**SECONDS, FAST: 3e-3, SLOW: 1.2e-3}
    path = Tuning(made).store(tmp_path / "l.db", launches=6)
    Tuning(made, day=2, seconds=slower, hosts=("node9",)).store(path, launches=23)
    before = content(path)
    lines = run(capsys, 0, "log", "--db", path, "--last", "99").splitlines()
    assert content(path) == before
    at = [number for number, line in enumerate(lines) if not line.startswith("  ")]
    assert len(at) == 6 + 23
    assert lines[0].startswith("2026-01-01T00:00:00Z cluster, openmpi (Open MPI v5.0.7), 4x2: 6 ")
    assert "on node9, by srun and pmix, behind s0.s1 (" in lines[at[6]]
    first = [line for line in lines[: at[6]] if line.startswith("  ")]
    then = [line for line in lines[at[6] :] if line.startswith("  ")]
    assert all(line.startswith("  winner of bcast of ") for line in first + then)
    assert "nothing -> " in first[0] and FAST in first[-1].partition("->")[2]
    assert SLOW in then[-1].partition("->")[2], "the last state is what is stored"
    with Store(path) as store:
        assert {SLOW in one.choice.variant.name for one in store.winners()} == {True}
    newest = run(capsys, 0, "log", "--db", path, "--since", "2026-01-02", "--last", "2")
    assert newest.splitlines()[0] == "27 launches are not shown (--last, --since)"
    assert newest.splitlines()[1:] == lines[at[-2] :]
    assert "1 launch or more" in run(capsys, main.USER_ERROR, "log", "--db", path, "--last", "0")


def test_a_failure_is_told_for_all_layouts(made: Manifest, tmp_path: Path, capsys: Out) -> None:
    path = Tuning(made).store(tmp_path / "l.db", launches=6)
    other = Tuning(made, replace(PLACE, layout="2x2"), day=2)
    launch = other.launch(0)
    failed = [replace(one, verified=False, samples=()) for one in launch.results]
    results = [
        bad if FAST in bad.variant.name else good for good, bad in zip(launch.results, failed)
    ]
    with Store(path) as store:
        store.record_run(replace(launch, results=tuple(results)))
    lines = run(capsys, 0, "log", "--db", path, "--last", "1").splitlines()[1:]
    assert f"{len(SIZES)} failed" in lines[0]
    gone = [line for line in lines[1:] if line.endswith(f"({rebuild.name(PLACE)})")]
    assert gone and all(FAST in line.partition(" -> ")[0] for line in gone)
