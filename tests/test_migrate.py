"""Schema versions of the database: older ones are migrated completely or not at all, newer ones refused."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from collforge.db import NotACollforgeDatabase, SchemaTooNew, Start, Store, migrate

HERE = Path(__file__).parent
NOW = "2026-01-01T00:00:00Z"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "er" / "collforge.db"


def create_version_0(path: Path) -> None:
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE old (name TEXT)")
        connection.execute("INSERT INTO old VALUES ('kept')")
        connection.execute(f"PRAGMA application_id = {migrate.APPLICATION_ID}")
        connection.commit()


RENAME = ["ALTER TABLE old RENAME TO young"]
EXTEND = ["ALTER TABLE young ADD COLUMN age INTEGER NOT NULL DEFAULT 1"]
FAIL = [*EXTEND, "SELECT no_such_function()"]


def test_migration_goes_step_by_step_and_keeps_the_rows(path: Path) -> None:
    create_version_0(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        migrate.prepare(connection, path, 2, {0: RENAME, 1: EXTEND})
        migrate.prepare(connection, path, 2, {})
        assert connection.execute("SELECT * FROM young").fetchall() == [("kept", 1)]
        assert connection.execute("PRAGMA user_version").fetchone() == (2,)


@pytest.mark.parametrize("steps", [{0: RENAME, 1: FAIL}, {0: RENAME}], ids=["fails", "missing"])
def test_a_failed_migration_changes_nothing(path: Path, steps: dict[int, list[str]]) -> None:
    create_version_0(path)
    before = path.read_bytes()
    connection = sqlite3.connect(path, isolation_level=None)
    expected = (sqlite3.OperationalError, NotACollforgeDatabase)
    with closing(connection):
        with pytest.raises(expected):
            migrate.prepare(connection, path, 2, steps)
        assert not connection.in_transaction
    assert path.read_bytes() == before


def test_every_older_version_has_a_step() -> None:
    assert sorted(migrate.steps()) == list(range(1, migrate.VERSION))
    head = (HERE.parent / "db" / "schema.sql").read_text().splitlines()[0]
    assert f"version {migrate.VERSION}." in head


def test_a_database_of_version_1_keeps_what_it_had_decided(path: Path) -> None:
    """Its native winners with fewer than three launches were not decisions."""
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript((HERE / "data" / "schema-1.sql").read_text())
        connection.execute(f"PRAGMA application_id = {migrate.APPLICATION_ID}")
        connection.executescript(
            f"""
            PRAGMA user_version = 1;
            INSERT INTO system VALUES (1, 'emulated', '');
            INSERT INTO mpi_library VALUES (1, 'openmpi', 'Open MPI v4.1.4');
            INSERT INTO layout VALUES (1, '4x2', 4, 8);
            INSERT INTO variant VALUES (1, 'bcast', 'native', '', '');
            INSERT INTO run VALUES (1, 'a', 1, 1, 1, '{NOW}', '', '', '[]', 7);
            INSERT INTO measurement VALUES (1, 1, 1, 'bcast@4x2', 'bcast', 8, '[1.5]', 1.5, 0);
            INSERT INTO winner VALUES (1, 1, 1, 1, 'bcast', 8, 1, 1.0, 1.0, 1.0, 1, NULL, '{NOW}');
            INSERT INTO winner VALUES (2, 1, 1, 1, 'bcast', 9, 1, 1.0, 1.0, 1.0, 3, NULL, '{NOW}');
            INSERT INTO winner VALUES (3, 1, 1, 1, 'bcast', 99, 1, 1.0, 1.0, 1.0, 1, NULL, '{NOW}');
            """
        )
    before = path.read_bytes()
    with Store(path, create=False) as store:
        assert [one.choice.bytes for one in store.winners()] == [9, 99]
    assert path.read_bytes() == before, "who only reads leaves it to older programs"
    with Store(path) as store:
        found = [(one.choice.bytes, one.choice.evidence) for one in store.winners()]
        assert found == [(9, "decided"), (99, "fallback")], "the largest bounds those below it"
        assert store.measurements(store.places()[0])[0].start_errors == ()
        assert [one.start for one in store.runs()] == [Start()]
        begin = [(one.old, one.new) for one in store.decisions()[""]]
        assert begin == [(None, replace(one.choice, launches=0)) for one in store.winners()]
        names = "'undecided', 'source', 'lanes', 'winner_view', 'decision', 'winner'"
        tables = f"SELECT name, sql FROM sqlite_master WHERE name IN ({names}) OR type = 'trigger'"
        migrated = store._rows(tables)
    with Store(path.with_name("new.db")) as store:
        assert sorted(store._rows(tables)) == sorted(migrated)


def test_a_newer_schema_is_refused_and_untouched(path: Path) -> None:
    with Store(path):
        pass
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {migrate.VERSION + 1}")
    before = path.read_bytes()
    with pytest.raises(SchemaTooNew, match=r"collforge\.db: .*upgrade Collforge"):
        Store(path)
    assert path.read_bytes() == before
