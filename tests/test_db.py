"""The database: origin of rows, no unverified winners, concurrent and killed writers."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from contextlib import closing, suppress
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from recorded_runs import NATIVE, PLACE, PROBLEM, RING, result, run, write_runs

from collforge.db import (
    Choice,
    Corrupt,
    DiskFull,
    Locked,
    NoDatabase,
    NotACollforgeDatabase,
    ReadOnly,
    Result,
    Start,
    Store,
    StoreError,
    Undecided,
    Unverified,
    migrate,
)
from collforge.variant import Variant

LIMIT = 60
"""Time limit of processes in these tests, in seconds."""


def test_a_run_keeps_how_it_was_started(path: Path) -> None:
    start = Start("srun", "pmix", ("s0.s1", "s0.s2"))
    with Store(path) as store:
        store.record_run(replace(run("a"), start=start))
        store.record_run(run("b"))
        assert [one.start for one in store.runs()] == [start, Start()]


def choice(variant: Variant, size: int = 1024) -> Choice:
    return Choice(size, variant, 1.9, 1.8, 2.0, 3)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "er" / "collforge.db"


# ---------------------------------------------------------------------------------------- storing


def test_a_run_comes_back_as_it_was_stored(path: Path) -> None:
    with Store(path) as store:
        assert store.record_run(run("a", result(NATIVE), result(RING)))
    with Store(path, create=False) as store:
        assert store.places() == [PLACE]
        native, ring = store.measurements(PLACE)
        assert (native.variant, ring.variant) == (NATIVE, RING)
        assert (ring.run, ring.problem, ring.bytes, ring.late) == ("a", PROBLEM, 1024, 1)
        assert (ring.samples, ring.median) == ((3.0, 1.0, 2.0), 2.0)
        assert store.measurements(PLACE, "bcast") == [native, ring]
        assert store.measurements(PLACE, "scan") == []
        assert store.measurements(replace(PLACE, layout="2x2")) == []


def test_a_run_is_stored_once(path: Path) -> None:
    with Store(path) as store:
        assert store.record_run(run("a", result(NATIVE)))
        assert not store.record_run(run("a", result(NATIVE), result(RING)))
        assert len(store.measurements(PLACE)) == 1


def test_a_run_is_stored_whole_or_not_at_all(path: Path) -> None:
    with Store(path) as store:
        with pytest.raises(sqlite3.IntegrityError):
            store.record_run(run("a", result(NATIVE), result(NATIVE)))
        assert store.places() == []
        assert store.record_run(run("a", result(NATIVE)))


def test_verification_needs_no_samples(path: Path) -> None:
    with Store(path) as store:
        store.record_run(run("a", Result(RING, PROBLEM, 1024, True)))
        assert store.measurements(PLACE) == []
        assert store.verified("openmpi", PLACE.mpi_version) == {RING}


def test_a_variant_is_verified_if_it_never_failed_with_the_library(path: Path) -> None:
    elsewhere = replace(PLACE, system="local", layout="2x2")
    other_library = replace(PLACE, mpi="mpich", mpi_version="4.0.2")
    with Store(path) as store:
        store.record_run(run("a", result(RING)))
        store.record_run(run("b", result(RING, verified=False), place=other_library))
        assert store.verified("openmpi", PLACE.mpi_version) == {RING}
        assert store.verified("mpich", "4.0.2") == frozenset()
        store.record_run(run("c", result(RING, verified=False), place=elsewhere))
        assert store.verified("openmpi", PLACE.mpi_version) == frozenset()
        (failure,) = store.failures("openmpi", PLACE.mpi_version)
        assert (failure.run, failure.variant, failure.detail) == ("c", RING, "rank 3")


def test_variant_names_round_trip() -> None:
    for variant in (NATIVE, RING, Variant("scan", "hierarchical", "", "cd")):
        assert Variant.from_name(variant.collective, variant.name, variant.fingerprint) == variant
    assert RING.name == "full_lane[lane_algorithm=ring,segment_bytes=65536]"


# ---------------------------------------------------------------------------------------- winners


def test_winners_are_replaced_per_collective_and_place(path: Path) -> None:
    scan = Variant("scan", "hierarchical", "", "cd34")
    with Store(path) as store:
        store.describe_system("emulated", "node[0-9]+")
        store.record_run(run("a", result(RING), result(scan)))
        store.replace_winners(PLACE, "bcast", [choice(NATIVE, 64), choice(RING, 1024)])
        store.replace_winners(PLACE, "scan", [choice(scan)])
        store.replace_winners(PLACE, "bcast", [choice(RING, 2048)])
        bcast, exclusive = store.winners()
        assert (bcast.place, bcast.host_pattern) == (PLACE, "node[0-9]+")
        assert bcast.choice == choice(RING, 2048)
        assert exclusive.choice == choice(scan)
        assert store.winners(system="emulated", mpi="openmpi", layout="4x2", collective="scan") == [
            exclusive
        ]
        assert store.winners(mpi="mpich") == []


def test_the_runtime_can_read_the_winners(path: Path) -> None:
    with Store(path) as store:
        store.record_run(run("a", result(RING)))
        store.replace_winners(PLACE, "bcast", [choice(RING)])
    uri = f"{path.as_uri()}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True)) as reader:
        assert reader.execute("PRAGMA journal_mode").fetchone() == ("delete",)
        assert reader.execute("PRAGMA application_id").fetchone() == (0x436F6C66,)
        assert reader.execute("PRAGMA user_version").fetchone() == (migrate.VERSION,)
        rows = reader.execute(
            "SELECT layout, collective, bytes, family, parameters, fingerprint FROM winner_view"
            " WHERE system = 'emulated' AND mpi = 'openmpi' AND mpi_version = 'Open MPI v4.1.4'"
        ).fetchall()
    assert rows == [("4x2", "bcast", 1024, "full_lane", RING.parameters, "ab12")]


@pytest.mark.parametrize(
    "results",
    [
        (result(NATIVE),),
        (result(replace(RING, fingerprint="other")),),
        (result(RING, verified=False),),
        (result(RING), result(RING, verified=False, problem="bcast@4x2,bytes=2")),
    ],
    ids=["unknown", "other source", "failed", "passed and failed"],
)
def test_no_winner_without_clean_verification(path: Path, results: tuple[Result, ...]) -> None:
    with Store(path) as store:
        store.record_run(run("a", *results))
        store.replace_winners(PLACE, "bcast", [choice(NATIVE)])
        with pytest.raises(Unverified, match="collforge verify"):
            store.replace_winners(PLACE, "bcast", [choice(RING)])
        assert [winner.choice.variant for winner in store.winners()] == [NATIVE]
        assert [one.new for one in store.decisions()["a"]] == [kept(choice(NATIVE))]


def test_verification_with_another_library_does_not_count(path: Path) -> None:
    with Store(path) as store:
        store.record_run(run("a", result(RING), place=replace(PLACE, mpi="mpich")))
        store.record_run(run("b", result(NATIVE)))
        with pytest.raises(Unverified):
            store.replace_winners(PLACE, "bcast", [choice(RING)])


def test_a_wrong_result_dethrones(path: Path) -> None:
    other = Variant("bcast", "hierarchical", "", "cd34")
    with Store(path) as store:
        store.record_run(run("a", result(RING), result(other)))
        choices = [choice(NATIVE, 1), choice(RING, 2), choice(other, 3)]
        store.replace_winners(PLACE, "bcast", choices)
        store.record_run(run("b", result(RING, verified=False), result(NATIVE, verified=False)))
        assert [winner.choice.variant for winner in store.winners()] == [NATIVE, other]
        told = store.decisions()
        assert [(one.old, one.new) for one in told["b"]] == [(kept(choices[1]), None)]
        assert [one.bytes for one in told["a"]] == [1, 2, 3]


def kept(one: Choice) -> Choice:
    """As the history keeps it."""
    return replace(one, low=one.ratio, high=one.ratio, launches=0)


def test_the_history_has_each_launch_that_changed_a_winner(path: Path) -> None:
    ring, native, wider = choice(RING), choice(NATIVE), replace(choice(RING), ratio=1.95)
    with Store(path) as store:
        for uuid, *tried in (
            ("a", [native], [wider], [ring]),
            ("b", [wider]),
            ("c", [native]),
            ("d", [ring], [native]),
            ("e", []),
        ):
            store.record_run(run(uuid, result(RING)))
            for choices in tried:
                store.replace_winners(PLACE, "bcast", choices)
        told = store.decisions()
        assert {uuid: [(one.old, one.new) for one in each] for uuid, each in told.items()} == {
            "a": [(None, kept(wider))],
            "c": [(kept(wider), kept(native))],
            "e": [(kept(native), None)],
        }
        (last,) = told["e"]
        assert (last.place, last.collective, last.bytes) == (PLACE, "bcast", 1024)


def test_winners_need_no_launch(path: Path) -> None:
    with Store(path) as store:
        store.record_run(run("a"))
        store._rows("DELETE FROM run")
        for one in (RING, NATIVE):
            with suppress(Unverified):
                store.replace_winners(PLACE, "bcast", [choice(one)])
        assert [one.new for one in store.decisions()[""]] == [kept(choice(NATIVE))]


COPY_WINNER = """
    INSERT INTO winner
    SELECT 99, system, {library}, layout, {collective}, 7, variant, ratio, ratio_low, ratio_high,
        launches, {verification}, decided, evidence, seconds
    FROM winner
"""
OTHER_LIBRARY = "(SELECT max(id) FROM mpi_library)"


def copy_winner(
    library: str = "mpi_library", collective: str = "collective", verification: str = "verification"
) -> str:
    return COPY_WINNER.format(library=library, collective=collective, verification=verification)


@pytest.mark.parametrize(
    "statement",
    [
        copy_winner(verification="NULL"),
        copy_winner(collective="'scan'"),
        copy_winner(library=OTHER_LIBRARY),
        "UPDATE winner SET verification = NULL",
        "UPDATE verification SET passed = 0",
        "DELETE FROM verification",
        "UPDATE run SET seed = 'seven'",
        "UPDATE measurement SET samples = 'many'",
        "UPDATE decision SET ratio = NULL",
        "UPDATE decision SET variant = NULL",
        "INSERT INTO variant (collective, family, fingerprint) VALUES ('scan', 'native', 'ab')",
    ],
)
def test_the_schema_refuses_on_its_own(path: Path, statement: str) -> None:
    with Store(path) as store:
        store.record_run(run("a", result(RING)))
        store.replace_winners(PLACE, "bcast", [choice(RING)])
        store.record_run(run("b", place=replace(PLACE, mpi="mpich")))
    # A connection with SQLite's defaults: neither the store nor foreign keys prevent the write.
    with closing(sqlite3.connect(path)) as connection, pytest.raises(sqlite3.IntegrityError):
        connection.execute(statement)


def test_an_outer_transaction_covers_reading_and_deciding(path: Path) -> None:
    with Store(path) as store, Store(path, timeout=0.05) as other:
        with pytest.raises(RuntimeError, match="changed my mind"), store.transaction():
            store.record_run(run("a", result(RING)))
            with pytest.raises(Locked):
                other.record_run(run("b", result(RING)))
            raise RuntimeError("changed my mind")
        assert store.places() == []
        assert other.record_run(run("b", result(RING)))


def test_what_is_undecided_is_no_winner(path: Path) -> None:
    with Store(path) as store:
        store.record_run(run("a", result(RING)))
        open_one = Undecided("bcast", 4096, 2, "too few launches")
        store.replace_winners(PLACE, "bcast", [choice(RING)], [open_one])
        assert store.undecided(system="emulated") == [(PLACE, open_one)]
        assert [one.choice.bytes for one in store.winners()] == [1024]
        store.replace_winners(PLACE, "bcast", [replace(choice(NATIVE), evidence="tie")])
        assert store.undecided() == []
        assert store.winners()[0].choice.evidence == "tie"
        with pytest.raises(sqlite3.IntegrityError):
            store.replace_winners(PLACE, "bcast", [replace(choice(RING), evidence="tie")])


# ---------------------------------------------------------------------------- other files


@pytest.mark.parametrize("kind", ["text", "database"])
def test_a_foreign_file_is_refused_and_untouched(path: Path, kind: str) -> None:
    path.parent.mkdir(parents=True)
    if kind == "text":
        path.write_text("my thesis, the only copy\n" * 100)
    else:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TABLE browser_history (url TEXT)")
            connection.execute("PRAGMA user_version = 1")
    before = path.read_bytes()
    with pytest.raises(NotACollforgeDatabase, match="--db"):
        Store(path)
    assert path.read_bytes() == before


# ---------------------------------------------------------------------------------------- failures


def test_reading_makes_no_database(path: Path) -> None:
    with pytest.raises(NoDatabase, match="collforge tune"):
        Store(path, create=False)
    assert not path.parent.exists()


def test_an_impossible_path(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="check that the path"):
        Store(tmp_path / "file" / "collforge.db")
    with pytest.raises(StoreError, match="check that the path"):
        Store(tmp_path)


def test_disk_full_names_the_fix_and_loses_nothing(path: Path) -> None:
    with Store(path) as store:
        store.record_run(run("first", result(RING)))
        store._rows("PRAGMA max_page_count = 1")
        with pytest.raises(DiskFull, match="free some space"):
            for number in count():
                store.record_run(run(f"run {number}", result(RING)))
        stored = {measurement.run for measurement in store.measurements(PLACE)}
        assert stored == {"first", *(f"run {n}" for n in range(number))}


def test_locked_names_the_fix(path: Path) -> None:
    wait = pytest.raises(Locked, match="wait for the other")
    with Store(path) as store, Store(path, timeout=0.05) as other, store.transaction(), wait:
        other.record_run(run("a"))


def test_read_only_names_the_fix(path: Path) -> None:
    with Store(path) as store:
        store.record_run(run("a", result(RING)))
        store._rows("PRAGMA query_only = 1")
        with pytest.raises(ReadOnly, match="write permission"):
            store.record_run(run("b", result(RING)))


def test_a_write_protected_database_can_be_read(path: Path) -> None:
    with Store(path) as store:
        store.record_run(run("a", result(RING)))
    protected = stat.S_IREAD | stat.S_IEXEC
    path.chmod(stat.S_IREAD)
    path.parent.chmod(protected)
    code = (
        "import sys, pathlib; from collforge.db import Store, StoreError\n"
        "store = Store(pathlib.Path(sys.argv[1]), create=False); print(len(store.places()))\n"
        "try: store.describe_system('x', '')\n"
        "except StoreError as error: print(type(error).__name__)\n"
    )
    command = [sys.executable, "-c", code, str(path)]
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("root ignores write protection, and setpriv is missing")
        command = ["setpriv", "--bounding-set=-dac_override", "--inh-caps=-all", *command]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
    finally:
        path.parent.chmod(stat.S_IRWXU)
    assert done.stdout.split() == ["1", "ReadOnly"], done.stderr


def test_corruption_names_the_fix(path: Path) -> None:
    with Store(path) as store:
        store.record_run(run("a", result(RING)))
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    path.write_bytes(content)
    with pytest.raises(Corrupt, match="recover"), Store(path) as store:
        store.measurements(PLACE)


# -------------------------------------------------------------------------------------- processes


def start(path: Path, name: str, runs: int) -> multiprocessing.process.BaseProcess:
    process = multiprocessing.get_context("spawn").Process(
        target=write_runs, args=(path, name, runs)
    )
    process.start()
    return process


def test_two_tuners_write_at_once(path: Path) -> None:
    writers = [start(path, name, 60) for name in ("left", "right")]
    try:
        for writer in writers:
            writer.join(LIMIT)
            assert writer.exitcode == 0
    finally:
        for writer in writers:
            writer.kill()
    with Store(path, create=False) as store:
        assert len(store.measurements(PLACE)) == 2 * 120
        (winner,) = store.winners()
        assert winner.choice.launches == 120, "the last decision saw every launch"


def test_a_killed_writer_leaves_a_consistent_database(path: Path) -> None:
    stored = 0
    for attempt in range(6):
        writer = start(path, f"attempt {attempt}", 1_000_000)
        try:
            wait_for_more(path, stored)
            assert writer.pid is not None
            os.kill(writer.pid, signal.SIGKILL)
            writer.join(LIMIT)
        finally:
            writer.kill()
        with Store(path, create=False) as store:
            measurements = store.measurements(PLACE)
            assert len(measurements) % 2 == 0, "a run is there whole or not at all"
            assert len(measurements) // 2 > stored
            stored = len(measurements) // 2
            assert stored - 1 <= store.winners()[0].choice.launches <= stored
            assert store._rows("PRAGMA integrity_check") == [("ok",)]
            assert store._rows("PRAGMA foreign_key_check") == []


def wait_for_more(path: Path, stored: int) -> None:
    """Waits until the writer has committed more than `stored` runs."""
    for _ in range(LIMIT * 20):
        try:
            with Store(path, create=False) as store:
                if store.winners() and len(store.measurements(PLACE)) // 2 > stored + 1:
                    return
        except (NoDatabase, Locked):  # the writer makes it
            pass
        time.sleep(0.05)
    raise AssertionError("the writer wrote nothing")
