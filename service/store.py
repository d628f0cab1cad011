"""The service's database: that of Collforge, with tables of its own (db/service.sql)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from collforge import case
from collforge.db import Result, RunRecord, Start
from collforge.db.production import VARIANT
from collforge.place import Place
from collforge.service.queue import Queue, now, place_key, problems_of, turn
from collforge.service.tokens import Token
from collforge.tuner.site.proposals import Problem
from collforge.variant import Variant


@dataclass(frozen=True)
class Pending:
    """A place (database key) whose winners are to be decided."""

    place: Place
    failures: int
    error: str


@dataclass(frozen=True)
class Fleet:
    """What is known of a system with an MPI library."""

    system: str
    mpi: str
    mpi_version: str
    launches: int
    layouts: int
    last: str
    """When its last launch began."""
    winners: int
    undecided: int


@dataclass(frozen=True)
class Audit:
    """Who wrote what."""

    at: str
    token: str
    action: str
    system: str
    detail: str


@dataclass(frozen=True)
class Task:
    """An entry of the queue."""

    id: int
    system: str
    mpi: str
    mpi_version: str
    layout: str
    problems: Sequence[Problem]
    """Collectives and bytes; none: all of the layout."""
    reason: str
    why: str
    gain: float
    """Seconds of the stored profiles in such calls."""
    created: str
    state: str
    agent: str
    lease_until: str
    attempts: int
    result: str


@dataclass(frozen=True)
class Agent:
    """An agent that asked for work once."""

    name: str
    system: str
    seen: str
    doing: str


@dataclass(frozen=True)
class Mark:
    """A finding that somebody acknowledged, or muted."""

    system: str
    problem: str
    environment: str
    until: str
    """The last day that it is muted; '': acknowledged."""
    at: str
    by: str
    why: str


class ServiceStore(Queue):
    """An open database with the service's tables."""

    def __init__(self, path: Path, *, create: bool = True, timeout: float = 60.0) -> None:
        super().__init__(path, create=create, timeout=timeout)
        if create and not self._rows("SELECT 1 FROM sqlite_master WHERE name = 'service_mark'"):
            sql = (resources.files("collforge.db") / "service.sql").read_text(encoding="utf-8")
            with self.transaction():
                for statement in sql.split("\n\n"):
                    self._rows(statement)

    # ---- tokens and the audit log ----

    def add_token(self, token: Token) -> bool:
        """Returns False if there is one of this name."""
        with self.transaction():
            if any(one.name == token.name for one in self.tokens()):
                return False
            self._insert(
                "service_token",
                name=token.name,
                digest=token.digest,
                role=token.role,
                systems=json.dumps(token.systems),
                created=token.created,
            )
            return True

    def tokens(self) -> list[Token]:
        rows = self._rows(
            "SELECT name, digest, role, systems, created, coalesce(revoked, ''), coalesce(used, '')"
            " FROM service_token ORDER BY name"
        )
        return [Token(*row[:3], *(tuple(json.loads(row[3])), *row[4:])) for row in rows]

    def revoke_token(self, name: str) -> bool:
        """Returns False if there is no valid one of this name."""
        with self.transaction():
            valid = "name = ? AND revoked IS NULL"
            found = self._rows(f"SELECT 1 FROM service_token WHERE {valid}", name)
            self._rows(f"UPDATE service_token SET revoked = ? WHERE {valid}", now(), name)
        return bool(found)

    def note_use(self, token: Token) -> None:
        """To the hour, so that not every request writes."""
        hour = f"{now()[:13]}:00:00Z"
        if token.used != hour:
            self._rows("UPDATE service_token SET used = ? WHERE name = ?", hour, token.name)

    def note(self, token: str, action: str, system: str, detail: str) -> None:
        """Adds to the audit log."""
        self._insert(
            "service_audit", at=now(), token=token, action=action, system=system, detail=detail
        )

    def audits(self, last: int) -> list[Audit]:
        """The newest first."""
        rows = self._rows(
            "SELECT at, token, action, system, detail FROM service_audit ORDER BY id DESC LIMIT ?",
            last,
        )
        return [Audit(*row) for row in rows]

    # ---- what is to be decided ----

    def mark_pending(self, place: Place) -> None:
        at = "(system, mpi, mpi_version, layout)"
        self._rows(
            f"INSERT OR REPLACE INTO service_pending {at} VALUES (?, ?, ?, ?)", *place_key(place)
        )

    def pending(self) -> list[Pending]:
        """Those that failed too often, too."""
        rows = self._rows(
            "SELECT system, mpi, mpi_version, layout, failures, error FROM service_pending"
        )
        return [Pending(Place(*row[:4]), *row[4:]) for row in rows]

    def forget_pending(self, place: Place) -> None:
        self._rows(
            "DELETE FROM service_pending WHERE (system, mpi, mpi_version, layout) = (?, ?, ?, ?)",
            *place_key(place),
        )

    def forgive_failures(self) -> None:
        """What could not be decided is tried again."""
        self._rows("UPDATE service_pending SET failures = 0 WHERE failures > 0")

    def note_failure(self, place: Place, error: str) -> None:
        self._rows(
            "UPDATE service_pending SET failures = failures + 1, error = ?"
            " WHERE (system, mpi, mpi_version, layout) = (?, ?, ?, ?)",
            *(error, *place_key(place)),
        )

    def evidence(self, place: Place) -> tuple[int, int]:
        """Tells whether the measurements of a place ('' as layout: of all) are those of before.

        The ids of its last launch, and of the last failed verification with its MPI library; 0: none.
        """
        runs = self._rows(
            "SELECT max(run.id) FROM run JOIN system ON system.id = run.system"
            " JOIN mpi_library ON mpi_library.id = run.mpi_library JOIN layout ON layout.id = run.layout"
            " WHERE system.name = ? AND mpi_library.name = ? AND version = ? AND ? IN ('', layout.name)",
            *place_key(place),
        )
        failed = self._rows(
            "SELECT max(verification.id) FROM verification JOIN run ON run.id = verification.run"
            " JOIN mpi_library ON mpi_library.id = run.mpi_library"
            " WHERE NOT passed AND mpi_library.name = ? AND version = ?",
            *(place.mpi, place.mpi_version),
        )
        return int(runs[0][0] or 0), int(failed[0][0] or 0)

    # ---- launches ----

    def run(self, uuid: str) -> RunRecord | None:
        """A stored launch, as it was given to `record_run`."""
        rows = self._rows(
            "SELECT run.id, system.name, mpi_library.name, version, layout.name, nodes, ranks, started,"
            " tool_version, reframe_version, hosts, seed, launcher, pmi, switches, scheduler_job, seconds"
            " FROM run JOIN system ON system.id = run.system"
            " JOIN mpi_library ON mpi_library.id = run.mpi_library JOIN layout ON layout.id = run.layout"
            " WHERE uuid = ?",
            uuid,
        )
        if not rows:
            return None
        number, *place, nodes, ranks, started, tool, reframe, hosts, seed = rows[0][:12]
        launcher, pmi, switches, *job = rows[0][12:]
        return RunRecord(
            *(uuid, Place(*place), nodes, ranks, started, tool, reframe, tuple(json.loads(hosts))),
            *(seed, self._results(number), Start(launcher, pmi, tuple(json.loads(switches))), *job),
        )

    def uuids(self, system: str) -> list[str]:
        """The launches of a system."""
        sql = "SELECT uuid FROM run JOIN system ON system.id = run.system WHERE name = ? ORDER BY run.id"
        return [uuid for (uuid,) in self._rows(sql, system)]

    def hosts(self, system: str) -> set[str]:
        """The names of all hosts that measured."""
        rows = self._rows(
            "SELECT DISTINCT hosts FROM run JOIN system ON system.id = run.system WHERE name = ?",
            system,
        )
        return {host for (hosts,) in rows for host in json.loads(hosts)}

    def _results(self, run: int) -> tuple[Result, ...]:
        rows = self._rows(
            f"SELECT {VARIANT}, verification.problem, passed, detail, samples, late, start_errors"
            " FROM verification JOIN variant ON variant.id = verification.variant"
            " LEFT JOIN measurement ON measurement.run = verification.run"
            " AND measurement.variant = verification.variant"
            " AND measurement.problem = verification.problem"
            " WHERE verification.run = ? ORDER BY verification.id",
            run,
        )
        return tuple(
            Result(
                *(Variant(*row[:4]), row[4], case.parse(row[4]).bytes, bool(row[5]), row[6]),
                *(tuple(json.loads(row[7] or "[]")), row[8] or 0),
                tuple(json.loads(row[9] or "[]")),
            )
            for row in rows
        )

    # ---- counts ----

    def fleet(self) -> list[Fleet]:
        """A row for each system and MPI library, sorted."""
        at = "run.system, run.mpi_library"
        counts = {
            table: {
                tuple(row[:2]): row[2]
                for row in self._rows(
                    f"SELECT system, mpi_library, count(*) FROM {table} GROUP BY 1, 2"
                )
            }
            for table in ("winner", "undecided")
        }
        rows = self._rows(
            f"SELECT {at}, system.name, mpi_library.name, version, count(*), count(DISTINCT layout),"
            " max(started) FROM run JOIN system ON system.id = run.system"
            f" JOIN mpi_library ON mpi_library.id = run.mpi_library GROUP BY {at} ORDER BY 3, 4, 5"
        )
        return [
            Fleet(*row[2:], *(counts[table].get(tuple(row[:2]), 0) for table in counts))
            for row in rows
        ]

    def count(self, what: str) -> dict[str, int]:
        """The rows of a table of the service by the value of a column: ``service_task.state``."""
        table, column = what.split(".")
        return dict(self._rows(f"SELECT {column}, count(*) FROM {table} GROUP BY 1"))

    def failed_findings(self) -> dict[str, int]:
        """System -> values that failed in its last night."""
        rows = self._rows(
            "SELECT system.name, count(*) FROM finding JOIN system ON system.id = finding.system"
            " JOIN (SELECT system AS at, max(substr(found, 1, 10)) AS day FROM finding GROUP BY 1)"
            " ON at = finding.system WHERE NOT passed AND substr(found, 1, 10) = day GROUP BY 1"
        )
        return dict(rows)

    def winners_stamp(self) -> object:
        """Of what is published: other winners, points of the map, things learnt, host names: another stamp."""
        sums = {
            "winner": "total(ratio), max(decided)",
            "point": "total(ratio), total(ratio_low)",
            "learnt": "total(ratio), total(confirmed), max(last)",
        }
        found = [
            self._rows(f"SELECT count(*), total(bytes), {sum_} FROM {table}")
            for table, sum_ in sums.items()
        ]
        return found, self._rows("SELECT name, host_pattern FROM system ORDER BY id")

    def newest_medians(self, system: str) -> list[tuple[str, str, str, float]]:
        """MPI library, its version, problem and the median seconds of its winner in its newest launch."""
        rows = self._rows(
            "SELECT mpi_library.name, version, measurement.problem, median FROM winner"
            " JOIN system ON system.id = winner.system AND system.name = ?"
            " JOIN mpi_library ON mpi_library.id = winner.mpi_library"
            " JOIN run ON run.system = winner.system AND run.mpi_library = winner.mpi_library"
            " AND run.layout = winner.layout"
            " JOIN measurement ON measurement.run = run.id AND measurement.variant = winner.variant"
            " AND measurement.collective = winner.collective AND measurement.bytes = winner.bytes"
            " ORDER BY run.started, run.id",
            system,
        )
        return list({tuple(row[:3]): tuple(row) for row in rows}.values())

    # ---- queue, agents, marks ----

    def tasks(self, last: int) -> list[Task]:
        """What is leased, then what is open, in the order in which it is handed out, then the newest others."""
        rows = self._rows(
            "SELECT id, system, mpi, mpi_version, layout, problems, reason, why, gain, created, state, agent,"
            " coalesce(lease_until, ''), attempts, result FROM service_task"
            " ORDER BY state NOT IN ('leased', 'open'), id DESC LIMIT ?",
            last,
        )
        found = [Task(*row[:5], *(problems_of(row[5]), *row[6:])) for row in rows]
        leased, open_ = ([one for one in found if one.state == name] for name in ("leased", "open"))
        open_.sort(key=lambda one: turn(one.reason, one.gain, one.id))
        return [*leased, *open_, *(one for one in found if one.state not in ("leased", "open"))]

    def agents(self) -> list[Agent]:
        rows = self._rows("SELECT name, system, seen, doing FROM service_agent ORDER BY seen DESC")
        return [Agent(*row) for row in rows]

    def marks(self) -> list[Mark]:
        rows = self._rows(
            "SELECT system, problem, environment, until, at, by, why FROM service_mark"
        )
        return [Mark(*row) for row in rows]

    def mark(self, one: Mark) -> None:
        names = ", ".join(vars(one))
        marks = ", ".join("?" * len(vars(one)))
        sql = f"INSERT OR REPLACE INTO service_mark ({names}) VALUES ({marks})"
        self._rows(sql, *vars(one).values())
