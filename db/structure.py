"""The structure of an open database, as the database itself tells it, whatever the formatting of its SQL."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from collforge.db.migrate import Connection

_TOKEN = re.compile(r"'(?:[^']|'')*'|\w+|[^\s\w]")


@dataclass(frozen=True)
class Table:
    """A table, by which rows of two databases can be compared and copied."""

    name: str
    columns: tuple[str, ...]
    """Without ``id``, which means nothing in another database."""
    key: tuple[str, ...]
    """The columns that identify a row."""
    parents: Mapping[str, str]
    """Column -> the table whose id it holds."""


def tables(connection: Connection) -> list[Table]:
    """The tables; each comes after those that it refers to."""
    found = {name: _table(connection, name) for name in _names(connection, "table")}
    ordered: dict[str, Table] = {}
    while len(ordered) < len(found):
        for name, table in found.items():
            if name not in ordered and ordered.keys() >= set(table.parents.values()):
                ordered[name] = table
    return list(ordered.values())


def shape(connection: Connection) -> dict[str, str]:
    """What makes up the schema: the name of each column, key, trigger and view -> its definition.

    Without CHECK constraints: SQLite adds none to a column that a migration adds.
    """
    found: dict[str, str] = {}
    for table in _names(connection, "table"):
        for _, name, kind, needed, default, _ in _pragma(connection, "table_info", table):
            optional = "" if needed else ", may be NULL"
            found[f"column {table}.{name}"] = f"{kind}{optional}, default {default}"
        for _, _, parent, column, _, *_ in _pragma(connection, "foreign_key_list", table):
            found[f"reference {table}.{column}"] = parent
        for _, index, unique, _, _ in _pragma(connection, "index_list", table):
            columns = ", ".join(row[2] for row in _pragma(connection, "index_info", index))
            found[f"index of {table} ({columns})"] = "unique" if unique else "not unique"
    for kind in ("trigger", "view"):
        for name, sql in _objects(connection, kind):
            found[f"{kind} {name}"] = " ".join(_tokens(sql))
    return found


def _table(connection: Connection, name: str) -> Table:
    columns = [row[1] for row in _pragma(connection, "table_info", name)]
    unique = [row[1] for row in _pragma(connection, "index_list", name) if row[2]]
    (key,) = [[row[2] for row in _pragma(connection, "index_info", index)] for index in unique]
    references = _pragma(connection, "foreign_key_list", name)
    return Table(
        name, tuple(c for c in columns if c != "id"), tuple(key), {r[3]: r[2] for r in references}
    )


def _names(connection: Connection, kind: str) -> list[str]:
    return [name for name, _ in _objects(connection, kind)]


def _objects(connection: Connection, kind: str) -> list[tuple[str, str]]:
    """Without those of the service (service.sql): they are its own, and no part of what is joined or pruned."""
    sql = f"SELECT name, sql FROM sqlite_master WHERE type = '{kind}' ORDER BY name"
    rows = connection.execute(sql).fetchall()
    return [row for row in rows if not row[0].startswith(("sqlite_", "service_"))]


def _pragma(connection: Connection, name: str, of: str) -> list[Any]:
    quoted = of.replace('"', '""')
    rows: list[Any] = connection.execute(f'PRAGMA {name}("{quoted}")').fetchall()
    return rows


def _tokens(sql: str) -> Iterator[str]:
    """The words and signs of a statement; keywords and names, which have no case, in lower case."""
    for token in _TOKEN.findall(re.sub(r"--[^\n]*", "", sql)):
        yield token if token.startswith("'") else token.lower()
