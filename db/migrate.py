"""Creates the schema, updates older databases to it, and refuses files that it cannot read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from collforge.db.errors import NotACollforgeDatabase, SchemaTooNew

if TYPE_CHECKING:
    from importlib.abc import Traversable

APPLICATION_ID = int.from_bytes(b"Colf", "big")
VERSION = 10


class Connection(Protocol):
    """The part of sqlite3.Connection used here, in autocommit mode."""

    @property
    def in_transaction(self) -> bool: ...

    def execute(self, sql: str, /) -> Any: ...


def steps() -> dict[int, list[str]]:
    """The statements that turn schema version v into v + 1 and keep all measurements: steps/to_{v + 1}.sql.

    They are those of their time: a later change of schema.sql must not change them.
    """
    folder = resources.files("collforge.db") / "steps"
    files = {before: folder / f"to_{before + 1}.sql" for before in range(1, VERSION)}
    return {before: _statements(file) for before, file in files.items() if file.is_file()}


def prepare(
    connection: Connection,
    path: Path,
    version: int = VERSION,
    known: Mapping[int, Sequence[str]] | None = None,
) -> None:
    """Makes the open file `path` a database of schema `version`, all or nothing.

    An empty file gets the schema, an older database its missing steps (``known``, by default steps()), in one
    transaction. Foreign keys must still be off on the connection, so that a step may rebuild a table.
    Raises SchemaTooNew or NotACollforgeDatabase; the file is then unchanged.
    """
    if _version(connection, path, version) == version:
        return
    known = steps() if known is None else known
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Read the version again: another process may have migrated the file while this one waited.
        found = _version(connection, path, version)
        if found is None:
            _create(connection)
        for step in range(version if found is None else found, version):
            if step not in known:
                raise NotACollforgeDatabase(path, f"no step leads on from schema version {step}")
            for statement in known[step]:
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {version}")
        connection.execute("COMMIT")
    finally:
        # No transaction is open after COMMIT, or after failures where SQLite has rolled back itself.
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
    for statement in _statements(resources.files("collforge.db") / "schema.sql"):
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")


def _statements(file: Traversable) -> list[str]:
    return file.read_text(encoding="utf-8").split("\n\n")
