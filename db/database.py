"""An open database: the file, its transactions and its rows. Each error names its fix."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, TypeVar

from collforge.db import migrate, structure
from collforge.db.errors import (
    Corrupt,
    DiskFailed,
    DiskFull,
    Locked,
    NoDatabase,
    NotACollforgeDatabase,
    PublishedOnly,
    ReadOnly,
    StoreError,
    Unverified,
)

PUBLISHED = b"collforge winners "
"""The first bytes of a file of `collforge publish` (published.py), which is no database."""

# Matched by message, because Python has SQLite's error codes only from 3.11 on.
_ERRORS = (
    ("unverified winner", Unverified),
    ("not a database", NotACollforgeDatabase),
    ("malformed", Corrupt),
    ("disk I/O error", DiskFailed),
    ("disk is full", DiskFull),
    ("locked", Locked),
    ("readonly", ReadOnly),
    ("unable to open", StoreError),
)

Opened = TypeVar("Opened", bound="Database")


class Database:
    """An open database; use it in a `with` statement.

    Several processes may write at once: each waits up to `timeout` seconds for the others. If a
    process dies, what it has committed stays. Every method may raise StoreError or a subclass.
    """

    def __init__(self, path: Path, *, create: bool = True, timeout: float = 60.0) -> None:
        """Opens `path`, only for reading if the file has no write permission.

        With `create` a missing file is created, with its directory. Without it a missing file raises
        NoDatabase, and a database of an older schema is not changed: a copy in memory is migrated and read.
        """
        self.path = path
        if _is_published(path):
            raise PublishedOnly(path)
        if create:
            _make_directory(path)
        elif not path.exists():
            raise NoDatabase(path)
        uri = f"{path.absolute().as_uri()}?mode={'rwc' if create else 'rw'}"
        with self._errors():
            self._connection = sqlite3.connect(uri, uri=True, timeout=timeout, isolation_level=None)
        try:
            with self._errors():
                self.is_copy = not create and migrate.is_older(self._connection, path)
                if self.is_copy:
                    self._connection = _copied(self._connection)
                migrate.prepare(self._connection, path)
                self._connection.execute("PRAGMA foreign_keys = ON")
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._connection.close()

    def __enter__(self: Opened) -> Opened:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Everything inside is one transaction that other writers wait for. An inner one joins the outer.

        Read measurements and replace winners inside one transaction. Otherwise winners decided from
        old measurements may overwrite another tuner's newer winners.
        """
        if self._connection.in_transaction:
            yield
            return
        with self._errors():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            finally:
                # No transaction is open after COMMIT, or after failures where SQLite has rolled back itself.
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")

    def _id(self, table: str, **columns: object) -> int:
        """The id of the row with these values; the row is inserted if missing."""
        matches = " AND ".join(f"{name} = :{name}" for name in columns)
        rows = self._rows(f"SELECT id FROM {table} WHERE {matches}", **columns)
        return int(rows[0][0]) if rows else self._insert(table, **columns)

    def _insert(self, table: str, **columns: object) -> int:
        names, marks = ", ".join(columns), ", ".join(f":{name}" for name in columns)
        with self._errors():
            cursor = self._connection.execute(
                f"INSERT INTO {table} ({names}) VALUES ({marks})", columns
            )
        return cursor.lastrowid or 0

    def _rows(self, sql: str, *values: object, **named: object) -> list[Any]:
        # Fetch all rows at once: an unfinished cursor would keep other processes from writing.
        with self._errors():
            return self._connection.execute(sql, values or named).fetchall()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turns SQLite errors that a user can fix into a StoreError. Others are defects and pass through."""
        try:
            yield
        except sqlite3.Error as error:
            for text, kind in _ERRORS:
                if text in str(error):
                    raise kind(self.path, str(error)) from error
            raise


def blank_shape() -> dict[str, str]:
    """The shape (structure.py) of an empty database of this schema."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        migrate.prepare(connection, Path(":memory:"))
        return structure.shape(connection)


def _copied(connection: sqlite3.Connection) -> sqlite3.Connection:
    copy = sqlite3.connect(":memory:", isolation_level=None)
    connection.backup(copy)
    connection.close()
    return copy


def _is_published(path: Path) -> bool:
    try:
        with path.open("rb") if path.is_file() else BytesIO() as file:
            return file.read(len(PUBLISHED)) == PUBLISHED
    except OSError:
        return False  # opening it as a database names the reason


def _make_directory(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(path, error.strerror or str(error)) from error
