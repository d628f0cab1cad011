"""`collforge db`: real databases, as the tuner's own decisions fill them, from invented measurements."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from invented_tunings import FAST, PLACE, SECONDS, SIZES, SLOW, Out, Tuning, content, run

from collforge.db import Choice, Lanes, ReadOnly, Store, migrate
from collforge.db.inspection import Inspection
from collforge.generator.manifest import Manifest
from collforge.tuner.cli import main
from collforge.variant import NATIVE


def change(path: Path, *statements: str) -> None:
    """As a program would that knows nothing of Collforge."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def first_version(path: Path) -> Path:
    """An empty database as the first Collforge made it."""
    change(path, f"PRAGMA application_id = {migrate.APPLICATION_ID}", "PRAGMA user_version = 1")
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript((Path(__file__).parent / "data" / "schema-1.sql").read_text())
    return path


# --------------------------------------------------------------------------------------------- check


def test_a_database_that_was_tuned_is_sound(made: Manifest, tmp_path: Path, capsys: Out) -> None:
    path = Tuning(made, collectives=("bcast", "allreduce")).store(tmp_path / "a.db")
    before = path.read_bytes()
    assert run(capsys, 0, "check", "--db", path).endswith("6 runs, 4 winners: sound\n")
    assert path.read_bytes() == before
    with Store(path) as store:
        assert {one.choice.variant.family for one in store.winners()} == {"full_lane"}


KEEP = "DROP TRIGGER winner_is_replaced_not_changed"


@pytest.mark.parametrize(
    ("statements", "words"),
    [
        (["DROP TRIGGER winner_is_verified"], ["trigger winner_is_verified is missing"]),
        (["ALTER TABLE run ADD COLUMN mood TEXT"], ["column run.mood is not part of it"]),
        (["DROP INDEX run_place"], ["index of run (system, mpi_library, layout) is missing"]),
        (
            ["DELETE FROM variant WHERE family = 'native'"],
            ["of measurement refers to a row of var"],
        ),
        (
            ["DELETE FROM winner WHERE bytes = 1024"],
            ["bcast of 1 KiB: stored is nothing, measured"],
        ),
        (
            [KEEP, "UPDATE winner SET ratio = 9, ratio_low = 8, ratio_high = 10"],
            ["bcast of 64 KiB: stored is full_lane[", "9.00x native", "it was changed"],
        ),
        (
            [KEEP, "UPDATE winner SET variant = (SELECT id FROM variant WHERE family = 'native')"],
            ["stored is native", "measured is full_lane[", "it was changed"],
        ),
        (["UPDATE point SET ratio = 9"], ["the map of cluster, openmpi", "tune again"]),
    ],
)
def test_check_says_what_is_wrong(
    made: Manifest, tmp_path: Path, capsys: Out, statements: list[str], words: list[str]
) -> None:
    path = Tuning(made).store(tmp_path / "a.db")
    change(path, *statements)
    told = run(capsys, 1, "check", "--db", path)
    for word in words:
        assert word in told


def test_check_of_another_formatting(made: Manifest, tmp_path: Path, capsys: Out) -> None:
    path = Tuning(made).store(tmp_path / "a.db")
    with closing(sqlite3.connect(path)) as connection:
        ((sql,),) = connection.execute(
            "SELECT sql FROM sqlite_master WHERE name = 'winner_is_verified'"
        ).fetchall()
    change(
        path, "DROP TRIGGER winner_is_verified", sql.replace("\n", " -- why\n\t").replace("S", "s")
    )
    assert "sound" in run(capsys, 0, "check", "--db", path)


def test_check_of_stale_and_of_failed_winners(made: Manifest, tmp_path: Path, capsys: Out) -> None:
    old = Tuning(made).store(tmp_path / "a.db")
    change(old, "UPDATE variant SET fingerprint = 'old' WHERE family <> 'native'")
    assert run(capsys, 1, "check", "--db", old).count("its code is no longer generated") == 2
    failed = Tuning(made, day=2)
    path = failed.store(tmp_path / "b.db")
    wrong = failed.launch(9)
    results = [replace(one, verified=FAST not in one.variant.name) for one in wrong.results]
    with Store(path) as store:
        store.record_run(replace(wrong, results=tuple(results)))
    assert "stored is nothing" in run(capsys, 1, "check", "--db", path)


def test_check_of_another_version_is_one_line(tmp_path: Path, capsys: Out) -> None:
    old, new = first_version(tmp_path / "old.db"), tmp_path / "new.db"
    with Store(new):
        pass
    change(new, f"PRAGMA user_version = {migrate.VERSION + 1}")
    for path, fix in ((old, "`collforge tune` updates it"), (new, "upgrade Collforge")):
        before = path.read_bytes()
        told = run(capsys, main.USER_ERROR, "check", "--db", path)
        assert told.count("\n") == 1 and fix in told
        assert path.read_bytes() == before


def test_check_of_a_damaged_file(made: Manifest, tmp_path: Path, capsys: Out) -> None:
    path = Tuning(made).store(tmp_path / "a.db")
    content = bytearray(path.read_bytes())
    content[-4096:] = b"\xff" * 4096
    path.write_bytes(content)
    assert "damaged" in run(capsys, 1, "check", "--db", path)


def test_a_migrated_database_has_the_shape_of_a_new_one(tmp_path: Path) -> None:
    path = first_version(tmp_path / "old.db")
    with Store(path):
        pass
    with Inspection(path) as store:
        assert store.damage() == [] and list(store.faults()) == []
        with pytest.raises(ReadOnly):
            store.describe_system("x", "")


# --------------------------------------------------------------------------------------------- merge


def merge(capsys: Out, *words: str | Path, code: int = 0) -> str:
    return run(capsys, code, "merge", *words)


def test_a_database_merged_with_itself_is_the_same(
    made: Manifest, tmp_path: Path, capsys: Out
) -> None:
    one = Tuning(made, collectives=("bcast", "allreduce")).store(tmp_path / "a.db")
    Tuning(made, day=2, place=replace(PLACE, layout="2x2")).store(one)
    with Store(one) as store:
        store.record_lanes(PLACE, Lanes(2, 1e9))
        store.record_sources("ab12", {"ring.c": "34"})
    before = one.read_bytes()
    merge(capsys, one, one, one, "--output", tmp_path / "b.db")
    assert content(tmp_path / "b.db") == content(one)
    assert one.read_bytes() == before
    assert "sound" in run(capsys, 0, "check", "--db", tmp_path / "b.db")
    assert "exists" in merge(capsys, one, "--output", tmp_path / "b.db", code=main.USER_ERROR)


def test_systems_stay_apart(made: Manifest, tmp_path: Path, capsys: Out) -> None:
    """Each keeps the winners that it had, also those of code that is no longer generated."""
    one = Tuning(made).store(tmp_path / "a.db", pattern="node[0-9]+")
    elsewhere = replace(PLACE, system="other")
    two = Tuning(made, elsewhere, hosts=("x1",)).store(tmp_path / "b.db", pattern="x[0-9]+")
    change(two, "UPDATE variant SET fingerprint = 'old' WHERE family <> 'native'")
    merge(capsys, one, two, "--output", tmp_path / "c.db")
    with Store(one) as first, Store(two) as second, Store(tmp_path / "c.db") as both:
        assert both.winners() == [*first.winners(), *second.winners()]
        assert both.measurements(elsewhere) == second.measurements(elsewhere)
        assert both.map(elsewhere) == second.map(elsewhere) != []


def test_launches_of_one_system_are_joined(made: Manifest, tmp_path: Path, capsys: Out) -> None:
    """By date, whatever the order of the files; what was tuned on is there once."""
    one, two = (Tuning(made, day=day).store(tmp_path / f"{day}.db", launches=4) for day in (1, 2))
    (tmp_path / "3.db").write_bytes(one.read_bytes())
    longer = Tuning(made, day=1).store(tmp_path / "3.db", launches=7)
    merge(capsys, longer, one, "--output", tmp_path / "a.db")
    assert content(tmp_path / "a.db") == content(longer)
    told = merge(capsys, one, two, longer, "--output", tmp_path / "b.db")
    assert "decided again: cluster, openmpi (Open MPI v5.0.7), 4x2" in told
    merge(capsys, two, longer, "--output", tmp_path / "c.db")
    first, second = content(tmp_path / "b.db"), content(tmp_path / "c.db")
    assert first[:3] == second[:3]
    with Store(tmp_path / "b.db") as store:
        dates = [one.started for one in store.runs()]
        assert dates == sorted(dates) and len(set(dates)) == 7 + 4
        assert {one.choice.launches for one in store.winners()} == {11}
    assert "sound" in run(capsys, 0, "check", "--db", tmp_path / "b.db")


def test_histories_are_joined(made: Manifest, tmp_path: Path, capsys: Out) -> None:
    """They are no results: more of them give no reason to decide again."""
    one, two = (Tuning(made).store(tmp_path / name, launches=4) for name in ("1.db", "2.db"))
    change(two, "UPDATE decision SET decided = '2026-02-01T00:00:00Z'")
    change(two, "UPDATE decision SET run = 1 WHERE bytes = 1024")
    assert "decided again" not in merge(capsys, two, one, "--output", tmp_path / "b.db")
    with Store(tmp_path / "b.db") as store:
        found = [
            [(one.bytes, one.decided[:7] == "2026-02") for one in store.decisions()[run.uuid]]
            for run in store.runs()
        ]
    assert found == [[(1024, True)], [], [], [(65536, True)]]


def test_a_joined_history_leads_to_the_winners(made: Manifest, tmp_path: Path, capsys: Out) -> None:
    """Also where the files disagree, and when the first launches are gone."""
    one = Tuning(made).store(tmp_path / "1.db")
    slower = {**SECONDS, FAST: 3e-3, SLOW: 1.2e-3}
    for launches in (4, 6):
        other = Tuning(made, day=2, seconds=slower)
        two = other.store(tmp_path / "2.db", launches)
    path = tmp_path / "b.db"
    assert "12 runs, 0 winners" in merge(capsys, one, two, "--output", path)
    changes = [f"2026-01-01T05 - {FAST}", f"2026-01-02T03 {FAST} {SLOW}", f"2026-01-02T05 {SLOW} -"]
    assert told(path) == changes
    run(capsys, 0, "prune", "--db", path, "--older-than", "2026-01-02")
    assert told(path) == [f" - {FAST}", f"2026-01-02T03 {FAST} {SLOW}"]
    assert "no history" not in run(capsys, 0, "log", "--db", path)
    merge(capsys, path, one, "--output", tmp_path / "c.db")
    assert told(tmp_path / "c.db")[0] == f" - {FAST}"


def told(path: Path) -> list[str]:
    """The hour of each launch with the winners before and after it; they lead to those that are stored."""
    found: list[str] = []
    last: dict[object, Choice | None] = {}
    with Store(path, create=False) as store:
        hours = {"": "", **{run.uuid: run.started[:13] for run in store.runs()}}
        for uuid, hour in hours.items():
            for one in store.decisions()[uuid]:
                key = one.place, one.bytes
                assert last.get(key) == one.old != one.new
                last[key] = one.new
                names = [each.variant.name if each else "-" for each in (one.old, one.new)]
                parts = [next((p for p in (FAST, SLOW) if p in name), name) for name in names]
                found.append(" ".join((hour, *parts)))
        won = {(one.place, one.choice.bytes): one.choice.variant for one in store.winners()}
    assert won == {key: one.variant for key, one in last.items() if one}
    return list(dict.fromkeys(found))


def test_a_failure_in_one_file_dethrones_in_the_other(
    made: Manifest, tmp_path: Path, capsys: Out
) -> None:
    one = Tuning(made).store(tmp_path / "a.db")
    elsewhere = Tuning(made, replace(PLACE, system="other"), day=2)
    record = elsewhere.launch(1)
    results = [replace(one, verified=FAST not in one.variant.name) for one in record.results]
    with Store(tmp_path / "b.db") as store:
        store.record_run(replace(record, results=tuple(results)))
    elsewhere.decide(tmp_path / "b.db")
    merge(capsys, one, tmp_path / "b.db", "--output", tmp_path / "c.db")
    with Store(tmp_path / "c.db") as store:
        assert {one.choice.variant.family for one in store.winners("cluster")} == {NATIVE}
        decisions = store.decisions()
        changes = [decisions[one.uuid] for one in store.runs()]
        told = [one.new.variant.family for change in changes for one in change if one.new]
        assert told == ["full_lane"] * 2 + [NATIVE] * 2
    assert "sound" in run(capsys, 0, "check", "--db", tmp_path / "c.db")


@pytest.mark.parametrize(
    ("other", "pattern", "lanes", "word"),
    [
        ({}, "x[0-9]+", Lanes(2, 1e9), "its host pattern is x[0-9]+, not node[0-9]+"),
        ({"hosts": ("fat1", "fat2")}, "", Lanes(2, 1e9), "hosts named fat#, not node#"),
        ({}, "", Lanes(1, 1e9), "its nodes have 1 lanes of 1e+09 bytes/s, not 2"),
        ({}, "", Lanes(2, 3e9), "its nodes have 2 lanes of 3e+09 bytes/s, not 2"),
    ],
)
def test_different_systems_of_one_name_are_refused(
    made: Manifest,
    tmp_path: Path,
    capsys: Out,
    other: dict[str, Any],
    pattern: str,
    lanes: Lanes,
    word: str,
) -> None:
    one = Tuning(made).store(tmp_path / "a.db", 4, "node[0-9]+")
    two = Tuning(made, day=2, **other).store(tmp_path / "b.db", 4, pattern)
    for path, known in ((one, Lanes(2, 1.1e9)), (two, lanes)):
        with Store(path) as store:
            store.record_lanes(PLACE, known)
    words = [one, two, "--output", tmp_path / "c.db"]
    told = merge(capsys, *words, code=1)
    assert word in told and "--rename" in told and "--same" in told
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.db", "b.db"]
    merge(capsys, *words, "--rename", f"{two}:cluster=annex")
    with Store(tmp_path / "c.db") as store:
        assert {place.system for place in store.places()} == {"annex", "cluster"}
        assert store.lanes(replace(PLACE, system="annex")) == lanes
    (tmp_path / "c.db").unlink()
    merge(capsys, *words, "--same", "cluster")
    with Store(tmp_path / "c.db") as store:
        assert store.places() == [PLACE] and len(store.runs()) == 8
        assert store.winners()[0].host_pattern == "node[0-9]+"


def test_a_launch_that_was_changed_is_refused(made: Manifest, tmp_path: Path, capsys: Out) -> None:
    one, two = (Tuning(made).store(tmp_path / name) for name in ("a.db", "b.db"))
    change(two, "UPDATE measurement SET median = 9.5 WHERE id = 7")
    words = [one, two, "--output", tmp_path / "c.db"]
    assert "has another median" in merge(capsys, *words, code=main.USER_ERROR)
    assert not (tmp_path / "c.db").exists()
    for wrong in ("x.db:cluster=a", f"{one}:clust=a", "cluster=a"):
        merge(capsys, *words, "--rename", wrong, code=main.USER_ERROR)


def test_merging_one_old_database_updates_it(tmp_path: Path, capsys: Out) -> None:
    old = first_version(tmp_path / "old.db")
    change(old, "INSERT INTO system VALUES (7, 'emulated', 'node[0-9]+')")
    before = old.read_bytes()
    merge(capsys, old, "--output", tmp_path / "new.db")
    assert old.read_bytes() == before
    assert "sound" in run(capsys, 0, "check", "--db", tmp_path / "new.db")
    with Store(tmp_path / "new.db") as store:
        assert store._rows("SELECT name, host_pattern FROM system") == [("emulated", "node[0-9]+")]


# --------------------------------------------------------------------------------------------- prune

OLD = replace(PLACE, mpi_version="Open MPI v4.1.4")


def kinds(path: Path) -> set[tuple[str, str]]:
    """The versions of libraries and the fingerprints that have measurements."""
    with Store(path, create=False) as store:
        return {
            (place.mpi_version, one.variant.fingerprint)
            for place in store.places()
            for one in store.measurements(place)
        }


def test_old_libraries_are_removed(made: Manifest, tmp_path: Path, capsys: Out) -> None:
    path = Tuning(made, OLD).store(tmp_path / "a.db")
    Tuning(made, day=2).store(path)
    words = ["prune", "--db", path, "--libraries"]
    before, size = content(path), path.stat().st_size
    assert "(Open MPI v4.1.4), 4x2: 36 measurements" in run(capsys, 0, *words, "--dry-run")
    assert "no-such" in run(capsys, main.USER_ERROR, *words, "no-such")
    assert content(path) == before
    told = run(capsys, 0, *words)
    assert "removed: 36 measurements, 36 verifications, 6 runs" in told and "winner of" in told
    with Store(path) as store:
        assert store.places() == [PLACE]
        assert {one.place for one in store.winners()} == {PLACE} and store.map(OLD) == []
        assert store._rows("SELECT version FROM mpi_library") == [(PLACE.mpi_version,)]
        assert store._rows("SELECT count(*) FROM decision") == [(2,)]
    assert path.stat().st_size < size
    assert "sound" in run(capsys, 0, "check", "--db", path)


def test_libraries_can_be_named(made: Manifest, tmp_path: Path, capsys: Out) -> None:
    path = Tuning(made, OLD).store(tmp_path / "a.db")
    Tuning(made, day=2).store(path)
    run(capsys, 0, "prune", "--db", path, "--libraries", "v4.1.4")
    with Store(path) as store:
        assert store.places() == [OLD]
    assert "say what is old" in run(capsys, main.USER_ERROR, "prune", "--db", path)


def test_old_code_is_removed_but_for_winners(made: Manifest, tmp_path: Path, capsys: Out) -> None:
    """A winner of old code keeps its measurements; once it has lost to a new one they go."""
    path = Tuning(made).store(tmp_path / "a.db")
    change(path, "UPDATE variant SET fingerprint = 'old' WHERE family <> 'native'")
    with Store(path) as store:
        won = store.winners()
    words = ["prune", "--db", path, "--fingerprints"]
    assert "12 measurements; 12 old ones stay, because" in run(capsys, 0, *words, "--dry-run")
    run(capsys, 0, *words)
    with Store(path) as store:
        assert store.winners() == won
        assert store._rows("SELECT count(*) FROM variant") == [(2,)]
        found = {one.variant.name for one in store.measurements(PLACE)}
    assert found == {NATIVE, won[0].choice.variant.name}
    Tuning(made, day=2).store(path)
    before = content(path)[3]
    assert "6 runs" in run(capsys, 0, *words)
    assert "old" not in {fingerprint for _, fingerprint in kinds(path)}
    with Store(path) as store:
        assert len(store.runs()) == 6, "native alone is nothing"
        assert [one.choice.variant for one in store.winners()] == [w.choice.variant for w in before]
        changes = [one for each in store.decisions().values() for one in each if one.old]
        assert [one.old and one.old.variant.fingerprint for one in changes] == ["old", "old"]
    assert "sound" in run(capsys, 0, "check", "--db", path)


def test_what_failed_stays_on_record(made: Manifest, tmp_path: Path, capsys: Out) -> None:
    tuning = Tuning(made, fingerprint="old")
    record = tuning.launch(1)
    results = [replace(one, verified=FAST not in one.variant.name) for one in record.results]
    path = Tuning(made, day=2).store(tmp_path / "a.db")
    with Store(path) as store:
        store.record_run(replace(record, results=tuple(results)))
        failed = store.failures(PLACE.mpi, PLACE.mpi_version)
    run(capsys, 0, "prune", "--db", path, "--fingerprints")
    assert {fingerprint == "old" for _, fingerprint in kinds(path)} == {False}
    with Store(path) as store:
        assert store.failures(PLACE.mpi, PLACE.mpi_version) == failed != []


def test_what_is_older_than_a_date_is_removed(made: Manifest, tmp_path: Path, capsys: Out) -> None:
    """But nothing that a stored winner of a current library stands on."""
    path = Tuning(made, OLD).store(tmp_path / "a.db")
    Tuning(made, day=2).store(path)
    undecided = Tuning(made, replace(PLACE, layout="2x2"), day=3).store(path, launches=1)
    change(
        undecided, "DELETE FROM winner WHERE layout = (SELECT id FROM layout WHERE name = '2x2')"
    )
    before = content(path)
    run(capsys, 0, "prune", "--db", path, "--older-than", "2026-01-01")
    assert content(path) == before
    run(capsys, 0, "prune", "--db", path, "--older-than", "2026-01-01", "--libraries")
    assert content(path) == before
    told = run(capsys, 0, "prune", "--db", path, "--older-than", "2027-01-01")
    assert "4x2: 0 measurements; 36 old ones stay, because winners stand on them" in told
    with Store(path) as store:
        left = {place: len(store.measurements(place)) for place in store.places()}
    assert {place: count for place, count in left.items() if count} == {PLACE: 36}
    assert "sound" in run(capsys, 0, "check", "--db", path)


def test_an_epoch_begins(made: Manifest, tmp_path: Path, capsys: Out) -> None:
    """Launches of before count no more for that size, but stay, once there is one since."""
    tuning = Tuning(made)
    path = tuning.store(tmp_path / "a")
    size, begins = SIZES[0], tuning.launch(4).started
    with Store(path) as store:
        everything = store.measurements(PLACE)
        store.begin_epoch(PLACE, "bcast", size, begins)
        store.begin_epoch(PLACE, "bcast", size, "2026-01-01T00:00:00Z")
        counting = store.measurements(PLACE)
        assert store.measurements(PLACE, whole=True) == everything
        gone = {(one.run, one.bytes) for one in everything} - {
            (one.run, one.bytes) for one in counting
        }
        assert gone == {(tuning.launch(number).uuid, size) for number in range(4)}
    run(capsys, 1, "check", "--db", path)
    tuning.decide(path)
    run(capsys, 0, "check", "--db", path)
    with Store(path) as store:
        assert [one.bytes for _, one in store.undecided()] == [size], "two launches are too few"
    other = tuning.store(tmp_path / "b")
    with Store(other) as store:
        store.begin_epoch(PLACE, "bcast", size, "2027-01-01T00:00:00Z")
    run(capsys, 0, "merge", path, other, "--output", tmp_path / "both")
    with Store(tmp_path / "both") as store:
        both = ["2026-01-01T00:00:00Z", begins, "2027-01-01T00:00:00Z"]
        assert [one.begins for one in store.epochs()] == both
        assert store.measurements(PLACE) == counting, "nothing was measured since 2027"
        assert {one.bytes for one in store.measurements(PLACE, anew=True)} == {SIZES[1]}
    run(capsys, 0, "check", "--db", tmp_path / "both")
