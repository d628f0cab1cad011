"""`collforge db log`: what each launch changed."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from invented_tunings import FAST, PLACE, SECONDS, SIZES, SLOW, Out, Tuning, content, run

from collforge.db import Store
from collforge.generator.manifest import Manifest
from collforge.tuner.cli import main
from collforge.tuner.site import rebuild


def test_each_change_is_told_below_its_launch(made: Manifest, tmp_path: Path, capsys: Out) -> None:
    slower = {**SECONDS, FAST: 3e-3, SLOW: 1.2e-3}
    path = tmp_path / "l.db"
    for launches in range(1, 7):
        Tuning(made).store(path, launches)
    Tuning(made, day=2, seconds=slower, hosts=("node9",)).store(path, launches=23)
    before = content(path)
    lines = run(capsys, 0, "log", "--db", path, "--last", "99").splitlines()
    assert content(path) == before
    at = [number for number, line in enumerate(lines) if not line.startswith("  ")]
    assert len(at) == 6 + 23
    assert lines[0].startswith("2026-01-01T00:00:00Z cluster, openmpi (Open MPI v5.0.7), 4x2: 6 ")
    assert "on node9, by srun and pmix, behind s0.s1 (" in lines[at[6]]
    assert at == [*range(4), *range(6, 31)], "the fourth launch decides, and the last one"
    for size, first, last in zip(("1 KiB", "64 KiB"), lines[4:6], lines[31:]):
        assert first.startswith(f"  winner of bcast of {size}: nothing -> full_lane[")
        old, new = last.split(" -> ")
        assert FAST in first and FAST in old and SLOW in new and new.endswith("x native (decided)")
    newest = run(capsys, 0, "log", "--db", path, "--since", "2026-01-02", "--last", "2")
    assert newest.splitlines()[0] == "27 launches are not shown (--last, --since)"
    assert newest.splitlines()[1:] == lines[at[-2] :]
    assert "1 launch or more" in run(capsys, main.USER_ERROR, "log", "--db", path, "--last", "0")
    assert main.main(["db", "log", "--since", "yesterday"]) == main.USER_ERROR
    assert "argument --since: yesterday: give a date, e.g. 2026-01-31" in capsys.readouterr().err


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
    for decides, winner in ((False, "nothing"), (True, "native (")):
        if decides:
            Tuning(made).decide(path)  # after the same launch: told as one change
        lines = run(capsys, 0, "log", "--db", path, "--last", "1").splitlines()[1:]
        assert f"{len(SIZES)} failed" in lines[0] and len(lines) == 1 + len(SIZES)
        for line in lines[1:]:
            old, new = line.split(" -> ")
            assert FAST in old and new.startswith(winner)
            assert line.endswith(f"({rebuild.name(PLACE)})")


def test_what_was_before_the_history_is_said_once(
    made: Manifest, tmp_path: Path, capsys: Out
) -> None:
    path = Tuning(made).store(tmp_path / "l.db", launches=6)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("DROP TABLE decision")
        connection.execute("DROP VIEW winner_view")
        connection.execute("ALTER TABLE winner DROP COLUMN seconds")
        connection.execute("DROP VIEW map")
        connection.execute("ALTER TABLE point RENAME TO map")
        for table in (
            "verdict",
            "learnt",
            "job",
            "finding",
            "profile",
            "epoch",
            "native_best",
            "tree",
            "job_use",
        ):
            connection.execute(f"DROP TABLE {table}")
        for column in ("scheduler_job", "seconds"):
            connection.execute(f"ALTER TABLE run DROP COLUMN {column}")
        connection.execute("CREATE VIEW winner_view AS SELECT 1")
        connection.execute("PRAGMA user_version = 6")
    for _ in range(2):
        lines = run(capsys, 0, "log", "--db", path).splitlines()
        assert lines[0].startswith("no history before 20") and len(lines) == 1 + 6
        with Store(path) as store:
            assert [one.old for one in store.decisions()[""]] == [None, None]
    with Store(path) as store:
        store.record_run(replace(Tuning(made).launch(7), started="2100-01-01T00:00:00Z"))
        store.replace_winners(PLACE, "bcast", [])
    told = run(capsys, 0, "log", "--db", path, "--last", "1")
    assert "no history" not in told and told.count(f"{FAST},") == told.count("-> nothing") == 2
