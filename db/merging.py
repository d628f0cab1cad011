"""Several databases joined into a new one. Tables and columns are those of the schema, not a list of here."""

from __future__ import annotations

import heapq
import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from collforge.db.errors import Unverified
from collforge.db.store import Store
from collforge.db.structure import Table, tables
from collforge.errors import CollforgeError, unknown
from collforge.place import Place

SAME_RATE = 1.5
"""Lanes whose measured rates differ by a larger factor are those of different systems."""

# What follows from the measurements -> the columns that say for what.
_DERIVED = {
    "winner": ("system", "mpi_library", "layout"),
    "undecided": ("system", "mpi_library", "layout"),
    "point": ("system", "mpi_library"),
}
# What may differ in files that are joined, and is no result: that of the first file holds.
_FIRST_HOLDS = (
    "system",
    "lanes",
    "source",
    "decision",
    "epoch",
    "native_best",
    "job",
    "finding",
    "profile",
    "tree",
    "job_use",
)
# What the caller derives anew.
_REBUILT = ("learnt",)

Row = dict[str, Any]
Scope = tuple[int, ...]
"""The ids of a system, an MPI library and, but for maps, a layout."""


class Conflict(CollforgeError):
    """Files have different systems of the same name; nothing was written."""


class Contradiction(CollforgeError):
    """Two files have different contents for the same launch."""


@dataclass(frozen=True)
class Source:
    """A database that is read."""

    store: Store
    renames: Mapping[str, str]
    """Names of systems in the file -> their new names."""

    @property
    def path(self) -> Path:
        return self.store.path

    def rows(self, table: Table) -> Iterator[Row]:
        """The rows in their order, with ``id`` if the table has one."""
        columns = [row[1] for row in self.store._rows(f"PRAGMA table_info({table.name})")]
        for values in self.store._rows(f"SELECT * FROM {table.name} ORDER BY {columns[0]}"):
            row = dict(zip(columns, values))
            if table.name == "system":
                row["name"] = self.renames.get(row["name"], row["name"])
            yield row


@contextmanager
def opened(path: Path, renames: Mapping[str, str]) -> Iterator[Source]:
    """A file that is only read, as it is now: others wait with writing.

    Raises CollforgeError for an unknown system to rename.
    """
    with Store(path, create=False) as store:
        store._rows("PRAGMA query_only = ON")
        store._rows("BEGIN")
        names = [name for (name,) in store._rows("SELECT name FROM system")]
        for old in renames:
            if old not in names:
                raise unknown(f"system of {path}", old, names)
        yield Source(store, renames)


# ---- which systems are the same ------------------------------------------------------------------


@dataclass(frozen=True)
class SystemFacts:
    """What identifies a system, by the file that has it."""

    path: Path
    pattern: str
    lanes: Mapping[tuple[str, str], tuple[int, float]]
    """MPI library and version -> number and rate."""
    hosts: Collection[str]
    """The names of hosts that measured, with # for each number."""


def compare_systems(sources: Sequence[Source], same: Collection[str] = ()) -> None:
    """Raises Conflict if systems of the same name are not the same. ``same``: those that the user says are."""
    known: dict[str, SystemFacts] = {}
    found = []
    for source in sources:
        for name, facts in _systems(source):
            first = known.setdefault(name, facts)
            why = [] if name in same else list(contradictions(first, facts))
            found += [
                f"system {name} of {facts.path} is not that of {first.path}: {w}" for w in why
            ]
    if found:
        fix = "--rename FILE:OLD=NEW keeps two systems apart, --same SYSTEM joins them"
        raise Conflict("\n".join([*found, f"nothing was written; {fix}"]))


def _systems(source: Source) -> Iterator[tuple[str, SystemFacts]]:
    store = source.store
    hosts: dict[str, set[str]] = defaultdict(set)
    for run in store.runs(counted=False):
        hosts[run.place.system] |= unnumbered(run.hosts)
    for name, pattern in store._rows("SELECT name, host_pattern FROM system"):
        facts = SystemFacts(source.path, pattern, store.system_lanes(name), hosts[name])
        yield source.renames.get(name, name), facts


def unnumbered(hosts: Iterable[str]) -> set[str]:
    """Their names, with # for each number."""
    return {re.sub(r"\d+", "#", host) for host in hosts}


def contradictions(first: SystemFacts, other: SystemFacts) -> Iterator[str]:
    """Why two systems of one name are not the same, in words."""
    if first.pattern and other.pattern and first.pattern != other.pattern:
        yield f"its host pattern is {other.pattern}, not {first.pattern}"
    for library in sorted(first.lanes.keys() & other.lanes.keys()):
        (number, rate), (others, its_rate) = first.lanes[library], other.lanes[library]
        if number != others or max(rate / its_rate, its_rate / rate) > SAME_RATE:
            yield f"its nodes have {others} lanes of {its_rate:.3g} bytes/s, not {number} of {rate:.3g}"
    if first.hosts and other.hosts and not set(first.hosts) & set(other.hosts):
        ran, here = (", ".join(sorted(one.hosts)[:3]) for one in (other, first))
        yield f"it ran on hosts named {ran}, not {here}"


# ---- joining -------------------------------------------------------------------------------------


@dataclass
class _Joined:
    """What one source gave, or all of them."""

    ids: dict[str, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))
    """Table -> the id of each of its rows there -> its id here."""
    results: Counter[Scope] = field(default_factory=Counter)
    """Measurements, verifications and epochs."""


class Merged(Store):
    """A new database, to be filled from others."""

    def take(self, sources: Sequence[Source]) -> list[Place]:
        """Copies all rows, those that several sources have once, in one transaction.

        Winners and map are those of the source with the most results for a place. Returns the places (database
        keys; layout '' for a map) where they do not follow from all results: another source has more, or a
        winner failed with another one. Launches keep the order of their dates, and within a source that of
        storing; winners that do not follow from the joined histories are a change after the last launch.
        Raises Contradiction.
        """
        with self.transaction():
            joined, whole = [_Joined() for _ in sources], _Joined()
            ordered = tables(self._connection)
            for table in ordered:
                if table.name not in (*_DERIVED, *_REBUILT):
                    self._join(table, sources, joined, whole)
            again: set[Scope] = set()
            for table in ordered:
                if table.name in _DERIVED:
                    again |= self._derive(table, sources, joined, whole)
            self._note()
            return sorted(map(self._place, again))

    def _join(
        self, table: Table, sources: Sequence[Source], joined: Sequence[_Joined], whole: _Joined
    ) -> None:
        scopes = self._scopes_of(table)
        known: dict[tuple[Any, ...], tuple[int, Row]] = {}
        for number, row in _in_order(table, sources):
            old = row.pop("id", 0)
            _translate(table, row, joined[number].ids)
            key = tuple(row[column] for column in table.key)
            if key not in known:
                known[key] = self._insert(table.name, **row), row
                whole.results.update(scopes(row))
            here, first = known[key]
            if table.name not in _FIRST_HOLDS and first != row:
                self._contradict(table, sources[number], first, row)
            if table.name == "system" and not first["host_pattern"]:
                self.describe_system(row["name"], row["host_pattern"])
                first["host_pattern"] = row["host_pattern"]
            if table.name == "job" and row["owner"] and not first["owner"]:
                # '' is believed alone by who took it in: what another one says of the file is less.
                self._rows("UPDATE job SET owner = ? WHERE id = ?", row["owner"], here)
                first["owner"] = row["owner"]
            joined[number].ids[table.name][old] = here
            joined[number].results.update(scopes(row))

    def _derive(
        self, table: Table, sources: Sequence[Source], joined: Sequence[_Joined], whole: _Joined
    ) -> set[Scope]:
        """Copies the rows of each scope from the source that knows it best; returns those to be rebuilt."""
        found: dict[Scope, dict[int, list[Row]]] = defaultdict(lambda: defaultdict(list))
        for number, row in _in_order(table, sources):
            row.pop("id", 0)
            _translate(table, row, joined[number].ids)
            scope = tuple(row[column] for column in _DERIVED[table.name])
            found[scope][number].append(row)
        length = len(_DERIVED[table.name])
        again = set()
        for scope in {*found, *(one for one in whole.results if len(one) == length)}:
            results = [one.results[scope] for one in joined]
            best = max(range(len(sources)), key=lambda n: (results[n], n in found[scope]))
            if results[best] < whole.results[scope]:
                again.add(scope)
            for row in found[scope][best]:
                try:
                    self._insert(table.name, **row)
                except Unverified:
                    again.add(scope)
        return again

    def _scopes_of(self, table: Table) -> Callable[[Row], tuple[Scope, ...]]:
        """The map and the place whose winners a row of a table bears on."""

        def own(row: Row) -> tuple[Scope, ...]:
            library = row["system"], row["mpi_library"]
            return library, (*library, row["layout"])

        if table.name == "epoch":
            return own
        if "run" not in table.parents or table.name in _FIRST_HOLDS:
            return lambda _: ()
        columns = ("id", "system", "mpi_library", "layout")
        rows = self._rows(f"SELECT {', '.join(columns)} FROM run")
        of_run = {row[0]: own(dict(zip(columns, row))) for row in rows}
        return lambda row: of_run[row["run"]]

    def _place(self, scope: Scope) -> Place:
        system, library, *layout = scope
        (row,) = self._rows(
            "SELECT system.name, mpi_library.name, version FROM system, mpi_library"
            " WHERE system.id = ? AND mpi_library.id = ?",
            system,
            library,
        )
        names = self._rows("SELECT name FROM layout WHERE id = ?", *layout) if layout else [("",)]
        return Place(*row, *names[0])

    def _contradict(self, table: Table, source: Source, first: Row, row: Row) -> None:
        differing = ", ".join(column for column in row if row[column] != first[column])
        uuids = self._rows("SELECT uuid FROM run WHERE id = ?", row.get("run"))
        of = f"run {uuids[0][0]}" if uuids else ", ".join(str(row[column]) for column in table.key)
        raise Contradiction(
            f"{source.path}: {table.name} of {of} has another {differing} than in the files before; one of the "
            "files was changed: find it with `collforge db check`, and leave it out"
        )


def _in_order(table: Table, sources: Sequence[Source]) -> Iterator[tuple[int, Row]]:
    """The rows of all sources, with the number of the source; launches by their dates."""
    each = [zip(itertools.repeat(number), one.rows(table)) for number, one in enumerate(sources)]
    if table.name == "run":
        return heapq.merge(*each, key=lambda pair: (pair[1]["started"], pair[1]["uuid"]))
    return itertools.chain(*each)


def _translate(table: Table, row: Row, ids: Mapping[str, Mapping[int, int]]) -> None:
    """Replaces the ids that a row refers to by those of the new database."""
    for column, parent in table.parents.items():
        if row[column] is not None:
            row[column] = ids[parent][row[column]]
