"""Creates the schema, brings older databases up to it, and refuses what it cannot read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Protocol

from collforge.db.errors import NotACollforgeDatabase, SchemaTooNew

APPLICATION_ID = int.from_bytes(b"Colf", "big")
VERSION = 4


class Connection(Protocol):
    """The part of sqlite3.Connection used here, in autocommit mode."""

    @property
    def in_transaction(self) -> bool: ...

    def execute(self, sql: str, /) -> Any: ...


Step = Callable[[Connection], None]


def _add_evidence(connection: Connection) -> None:
    """1 to 2: how a winner was decided, what is undecided, and how precisely each sample began.

    Version 1 stored native where nothing was decided. Native rows of fewer launches than a decision takes are
    dropped, but for the largest size of a collective, where such a row bounds the winners below it;
    `collforge tune` rebuilds all of them from the measurements.
    """
    text = "TEXT NOT NULL DEFAULT"
    connection.execute(f"ALTER TABLE measurement ADD COLUMN start_errors {text} '[]'")
    connection.execute(f"ALTER TABLE winner ADD COLUMN evidence {text} 'decided'")
    few = "verification IS NULL AND launches < 3"
    place = "system, mpi_library, layout, collective"
    connection.execute(
        f"CREATE TEMP TABLE bound AS SELECT * FROM winner WHERE {few} AND ({place}, bytes) IN"
        f" (SELECT {place}, max(bytes) FROM winner GROUP BY {place})"
    )
    connection.execute(f"DELETE FROM winner WHERE {few}")
    connection.execute("UPDATE bound SET evidence = 'barrier'")
    connection.execute("INSERT INTO winner SELECT * FROM bound")
    connection.execute("DROP TABLE bound")
    connection.execute("DROP VIEW winner_view")
    for statement in _statements():
        if "CREATE TABLE undecided" in statement or "CREATE VIEW winner_view" in statement:
            connection.execute(statement)


def _add_source(connection: Connection) -> None:
    """2 to 3: what a variant is made of, so that a report can say why a winner no longer serves."""
    (statement,) = [one for one in _statements() if "CREATE TABLE source" in one]
    connection.execute(statement)


def _add_lanes(connection: Connection) -> None:
    """3 to 4: the physical lanes of a system's nodes."""
    (statement,) = [one for one in _statements() if "CREATE TABLE lanes" in one]
    connection.execute(statement)


STEPS: Mapping[int, Step] = {1: _add_evidence, 2: _add_source, 3: _add_lanes}
"""STEPS[v] turns schema version v into v + 1 and keeps all that was measured. It runs inside a transaction."""


def prepare(
    connection: Connection, path: Path, version: int = VERSION, steps: Mapping[int, Step] = STEPS
) -> None:
    """Makes the open file `path` a database of schema `version`, all or nothing.

    An empty file gets the schema, an older database its missing steps, in one transaction. Foreign
    keys must still be off on the connection, so that a step may rebuild a table.
    Raises SchemaTooNew and NotACollforgeDatabase, and changes nothing then.
    """
    if _version(connection, path, version) == version:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Read again: another process may have done the work while this one waited for the lock.
        found = _version(connection, path, version)
        if found is None:
            _create(connection)
        for step in range(version if found is None else found, version):
            if step not in steps:
                raise NotACollforgeDatabase(path, f"no step leads on from schema version {step}")
            steps[step](connection)
        connection.execute(f"PRAGMA user_version = {version}")
        connection.execute("COMMIT")
    finally:
        # After COMMIT none is open; after some failures SQLite has rolled back by itself.
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def is_older(connection: Connection, path: Path) -> bool:
    """Whether the open file is a database of an older schema than this Collforge's."""
    found = _version(connection, path, VERSION)
    return found is not None and found < VERSION


def _version(connection: Connection, path: Path, newest: int) -> int | None:
    """The schema version of a Collforge database, None for an empty file."""
    # One statement, so that a writer cannot come between the three values.
    application, version, tables = connection.execute(
        "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_master)"
        " FROM pragma_application_id, pragma_user_version"
    ).fetchone()
    if not (application or version or tables):
        return None
    if application != APPLICATION_ID:
        raise NotACollforgeDatabase(path, f"its application id is {application:#x}")
    if version > newest:
        raise SchemaTooNew(path, f"its schema is version {version}, this Collforge knows {newest}")
    return int(version)


def _create(connection: Connection) -> None:
    # Not executescript(), which would commit the transaction around it.
    for statement in _statements():
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")


def _statements() -> list[str]:
    schema = resources.files("collforge.db").joinpath("schema.sql").read_text(encoding="utf-8")
    return schema.split("\n\n")
