"""Removes old measurements from a database, but for those that winners of a current MPI library stand on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from collforge.db.production import VARIANT
from collforge.db.store import Store
from collforge.db.structure import tables
from collforge.errors import unknown
from collforge.place import Place
from collforge.variant import Variant

_RESULTS = """
    SELECT {table}.id, run.id, problem, system.name, mpi_library.name, version, layout.name, started,
        variant.collective, variant.family, variant.parameters, variant.fingerprint
    FROM {table}
    JOIN run ON run.id = {table}.run
    JOIN variant ON variant.id = {table}.variant
    JOIN system ON system.id = run.system
    JOIN mpi_library ON mpi_library.id = run.mpi_library
    JOIN layout ON layout.id = run.layout
"""


@dataclass(frozen=True)
class Old:
    """What is to be removed. At least one of `fingerprints` and `libraries`, or `before` alone."""

    before: str = ""
    """Only what ran before this date (ISO 8601); '' for any."""
    fingerprints: Collection[str] | None = None
    """The fingerprints that are not old, with '' for native; None: their age does not matter."""
    libraries: bool = False
    """Libraries that are not current (see `kept`)."""
    kept: tuple[str, ...] = ()
    """Parts of the versions of current libraries; without them the newest of each name is current."""

    def has(self, started: str, variant: Variant, is_current: bool) -> bool:
        """Whether a result is old: of a run that started then, with a library that is current or not."""
        if self.before and started >= self.before:
            return False
        if self.fingerprints is None and not self.libraries:
            return True
        return self.is_stale(variant) or (self.libraries and not is_current)

    def is_stale(self, variant: Variant) -> bool:
        """Whether the age of a variant's code counts, and it is old."""
        return self.fingerprints is not None and variant.fingerprint not in self.fingerprints


@dataclass
class Removed:
    """What was removed, and what was kept for a winner's sake."""

    measurements: Counter[Place] = field(default_factory=Counter)
    kept: Counter[Place] = field(default_factory=Counter)
    """Measurements that a stored winner stands on."""
    verifications: int = 0
    runs: int = 0

    @property
    def places(self) -> list[Place]:
        """The places (database keys) of which measurements were removed, sorted."""
        return sorted(self.measurements)


@dataclass(frozen=True)
class _Result:
    """A measurement or a verification."""

    id: int
    run: int
    problem: str
    place: Place
    started: str
    variant: Variant


class Pruned(Store):
    """A database that is made smaller."""

    def remove(self, old: Old) -> Removed:
        """Removes old measurements and their passing verifications, in one transaction.

        Failed verifications stay as long as their MPI library does: what was wrong once is wrong. Winners of
        which no measurement is left go, too; those that remain are not decided again. A current library's
        winners stay, with all measurements of their collective on their layout; a winner of old code with
        those of its variant.
        """
        with self.transaction(), self._indexed():
            removed = Removed()
            current = self._current(old.kept)
            measured = self._results("measurement")
            doomed = self._doomed(old, current, measured, removed)
            removed.measurements.update(one.place for one in measured if one.id in doomed)
            left = {(one.place, one.variant.collective) for one in measured if one.id not in doomed}
            gone = {(one.place, one.variant.collective) for one in measured if one.id in doomed}
            for place, collective in sorted(gone - left):
                self.replace_winners(place, collective, [])
            for library in {place.library for place, _ in gone} - {p.library for p, _ in left}:
                self.replace_map(library, [])
                self._rows(
                    "DELETE FROM lanes WHERE system = (SELECT id FROM system WHERE name = ?) AND"
                    " mpi_library = (SELECT id FROM mpi_library WHERE name = ? AND version = ?)",
                    *(library.system, library.mpi, library.mpi_version),
                )
            keys = {_key(one) for one in measured if one.id in doomed}
            removed.verifications = self._remove_verifications(old, current, keys)
            self._delete("measurement", doomed)
            self._remove_verdicts(old, current)
            removed.runs = self._remove_orphans("run")
            for name in ("variant", "layout", "mpi_library"):
                self._remove_orphans(name)
            self._remove_sources(old)
            return removed

    def compact(self) -> None:
        """Gives the free pages of the file back."""
        self._rows("VACUUM")

    @contextmanager
    def _indexed(self) -> Iterator[None]:
        """With indexes by which SQLite finds what refers to a deleted row."""
        columns = {"winner": "verification", "point": "verification", "measurement": "variant"}
        columns["decision"] = "run"
        for table, column in columns.items():
            self._rows(f"CREATE INDEX pruning_{table} ON {table} ({column})")
        yield
        for table in columns:
            self._rows(f"DROP INDEX pruning_{table}")

    def _current(self, kept: Collection[str]) -> set[Place]:
        """The system and MPI library of each current library; the layout is ''."""
        newest: dict[Place, str] = {}
        for run in self.runs():
            library = run.place.library
            newest[library] = max(run.started, newest.get(library, ""))
        for part in kept:
            versions = {one.mpi_version for one in newest}
            if not any(part in version for version in versions):
                raise unknown("part of an MPI library's version", part, versions)
        if kept:
            return {one for one in newest if any(part in one.mpi_version for part in kept)}
        best: dict[tuple[str, str], Place] = {}
        for library in sorted(newest, key=lambda one: newest[one]):
            best[library.system, library.mpi] = library
        return set(best.values())

    def _results(self, table: str) -> list[_Result]:
        return [
            _Result(row[0], row[1], row[2], Place(*row[3:7]), row[7], Variant(*row[8:]))
            for row in self._rows(_RESULTS.format(table=table))
        ]

    def _doomed(
        self, old: Old, current: Collection[Place], measured: Iterable[_Result], removed: Removed
    ) -> set[int]:
        """The ids of the measurements to be removed."""
        stored = self.winners()
        winning = {(one.place.library, one.choice.variant) for one in stored}
        winning |= {(library, point.variant) for library in current for point in self.map(library)}
        decided = {(one.place, one.choice.variant.collective) for one in stored}
        doomed = set()
        for one in measured:
            library, variant = one.place.library, one.variant
            if not old.has(one.started, variant, library in current):
                continue
            stands = (
                (library, variant) in winning
                if old.is_stale(variant)
                else (one.place, variant.collective) in decided
            )
            if library in current and stands:
                removed.kept[one.place] += 1
            else:
                doomed.add(one.id)
        # Native's samples mean something beside those of a variant only.
        lonely = {(one.run, one.problem) for one in measured if one.id in doomed} - {
            (one.run, one.problem)
            for one in measured
            if one.id not in doomed and not one.variant.is_native
        }
        return doomed | {one.id for one in measured if (one.run, one.problem) in lonely}

    def _remove_verifications(
        self, old: Old, current: Collection[Place], keys: Collection[object]
    ) -> int:
        """``keys``: of the measurements that are removed. What a winner or a point rests on stays."""
        rows = self._rows("SELECT verification FROM winner UNION SELECT verification FROM point")
        failed = {one for (one,) in self._rows("SELECT id FROM verification WHERE NOT passed")}
        needed = {one for (one,) in rows}
        doomed = set()
        for one in self._results("verification"):
            is_current = one.place.library in current
            of_old = old.libraries and old.has(one.started, one.variant, is_current)
            if one.id in failed or one.id in needed:
                remove = of_old and not is_current and one.id not in needed
            else:
                remove = _key(one) in keys or (of_old and not is_current)
            if remove:
                doomed.add(one.id)
        self._delete("verification", doomed)
        return len(doomed)

    def _remove_verdicts(self, old: Old, current: Collection[Place]) -> None:
        """Those of production jobs, which stay, so that their files are not taken in again."""
        rows = self._rows(
            f"SELECT verdict.id, ended, system.name, mpi_library.name, version, {VARIANT} FROM verdict"
            " JOIN job ON job.id = verdict.job JOIN variant ON variant.id = verdict.variant"
            " JOIN system ON system.id = job.system"
            " JOIN mpi_library ON mpi_library.id = job.mpi_library"
        )
        self._delete(
            "verdict",
            (
                row[0]
                for row in rows
                if old.has(row[1], Variant(*row[5:]), Place(*(*row[2:5], "")) in current)
            ),
        )

    def _remove_sources(self, old: Old) -> None:
        """Those of fingerprints that are old and that no variant has any more."""
        if old.fingerprints is None:
            return
        sql = "SELECT DISTINCT fingerprint FROM source EXCEPT SELECT fingerprint FROM variant"
        for (fingerprint,) in self._rows(sql):
            if fingerprint not in old.fingerprints:
                self._rows("DELETE FROM source WHERE fingerprint = ?", fingerprint)

    def _remove_orphans(self, name: str) -> int:
        """Removes the rows of a table that no other table refers to; returns their number.

        The history keeps the variants that it names, but no place, with which it goes, and no launch.
        """
        children = [
            f"id NOT IN (SELECT {column} FROM {table.name} WHERE {column} IS NOT NULL)"
            for table in tables(self._connection)
            for column, parent in table.parents.items()
            if parent == name
            and (table.name not in ("decision", "epoch", "native_best") or name == "variant")
        ]
        orphans = self._rows(f"SELECT id FROM {name} WHERE {' AND '.join(children)}")
        ids = {one for (one,) in orphans}
        if name == "run":
            self._hand_on(ids)
        self._delete(name, ids)
        return len(orphans)

    def _delete(self, table: str, ids: Iterable[int]) -> None:
        for one in ids:
            self._rows(f"DELETE FROM {table} WHERE id = ?", one)


def _key(one: _Result) -> object:
    return one.run, one.variant, one.problem
