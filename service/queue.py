"""The queue of what to measure. Agents lease its entries, and the database says what is worth one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from typing import Annotated

import msgspec

from collforge.db import Store
from collforge.generator.manifest import Manifest
from collforge.layout import LayoutError, from_name
from collforge.place import Place
from collforge.tuner.site import proposals
from collforge.tuner.site.proposals import KINDS, Problem, Proposal

NEW = "new"
"""The kind of an entry for an MPI library with which nothing was measured on the system."""
ORDER = (proposals.REGRESSION, proposals.REFUTED, NEW, *KINDS[2:])
"""In which entries are handed out; within a kind by gain."""
ATTEMPTS = 3
"""Leases of an entry that may fail, or expire."""
FAILED = f"CASE WHEN attempts < {ATTEMPTS} THEN 'open' ELSE 'failed' END"
REST = timedelta(days=1)
"""What was measured, or failed, is not asked for again before; it may be as open as it was."""
SHORTEST, LONGEST = 60, 7 * 24 * 3600
"""Seconds of a lease."""


def now() -> str:
    """As the database has dates."""
    return after(timedelta())


def after(distance: timedelta) -> str:
    """So far from now."""
    return (datetime.now(timezone.utc) + distance).strftime("%Y-%m-%dT%H:%M:%SZ")


Name = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]


class Library(msgspec.Struct, frozen=True):
    """An MPI library that an agent has: its name, and the first line of its version."""

    mpi: Name
    version: Annotated[str, msgspec.Meta(min_length=1, max_length=4096)]


class Request(msgspec.Struct, frozen=True):
    """What an agent asks for."""

    agent: Name
    system: Name
    libraries: Annotated[tuple[Library, ...], msgspec.Meta(min_length=1, max_length=64)]
    layout: Annotated[str, msgspec.Meta(max_length=256)] = ""
    """To be measured first, with a library of which nothing is known; '': none."""
    nodes: Annotated[int, msgspec.Meta(ge=1)] = 2**31 - 1
    """That it may use at most."""
    seconds: Annotated[int, msgspec.Meta(ge=SHORTEST, le=LONGEST)] = 3600
    """Of the lease; it may be renewed."""
    nonce: Annotated[str, msgspec.Meta(max_length=64)] = ""
    """The same in a repeated request, whose first answer may be lost; '': it is another one."""


@dataclass(frozen=True)
class Lease:
    """An entry that an agent got."""

    id: int
    proposal: Proposal
    until: str
    attempt: int
    """How often the entry was handed out: tells this lease from one before it."""


class Queue(Store):
    """The open database with its queue."""

    def proposed(self, made: Manifest, request: Request) -> list[Proposal]:
        """What is worth measuring on the agent's system now. It takes seconds, and only reads."""
        places = [one for one in self.places() if one.system == request.system]
        return [*_new(places, request), *proposals.read(self, made, places)]

    def fill(self, found: Sequence[Proposal], request: Request) -> None:
        """Makes them the open entries of the agent's system."""
        rested = after(-REST)
        with self.transaction():
            kept = set()
            for one in found:
                known = self._rows(
                    "SELECT id, state, problems, coalesce(ended, '') FROM service_task"
                    " WHERE (system, mpi, mpi_version, layout, reason) = (?, ?, ?, ?, ?)",
                    *(*place_key(one.place), one.kind),
                )
                if any(state == "leased" for _, state, _, _ in known):
                    continue
                tried = [problems_of(problems) for _, _, problems, ended in known if ended > rested]
                left = one.problems.difference(*tried)
                if [] in tried or (one.problems and not left):
                    continue
                text = json.dumps(sorted(left))
                open_ = [row for row, state, *_ in known if state == "open"]
                kept.add(open_[0] if open_ else self._add(one, text))
                for row in open_[:1]:
                    self._rows(
                        "UPDATE service_task SET problems = ?, why = ?, gain = ?, since = ? WHERE id = ?",
                        *(text, one.why, one.gain, one.since, row),
                    )
            for (row,) in self._rows(
                "SELECT id FROM service_task WHERE system = ? AND state = 'open' AND attempts = 0",
                request.system,
            ):
                if row not in kept:
                    self._rows("DELETE FROM service_task WHERE id = ?", row)

    def lease(self, request: Request) -> Lease | None:
        """The best entry that fits the agent; None if there is none. Nobody else gets it before it expires."""
        until = after(timedelta(seconds=request.seconds))
        with self.transaction():
            self._expire()
            for had in self._held(request):
                return had
            fitting = [one for one in self._open(request.system) if _fits(one.proposal, request)]
            if not fitting:
                self.see_agent(request.agent, request.system, "found nothing to measure")
                return None
            best = min(fitting, key=lambda one: turn(one.proposal.kind, one.proposal.gain, one.id))
            self._rows(
                "UPDATE service_task SET state = 'leased', agent = ?, lease_until = ?,"
                " attempts = attempts + 1, nonce = ? WHERE id = ?",
                *(request.agent, until, request.nonce, best.id),
            )
            what = f"measures {best.proposal.place.layout} ({best.proposal.kind})"
            self.see_agent(request.agent, request.system, what)
            return replace(best, until=until, attempt=best.attempt + 1)

    def renew(self, task: int, attempt: int, seconds: int) -> bool:
        """False if that lease has ended."""
        until = after(timedelta(seconds=seconds))
        return self._change(task, attempt, "lease_until = ?", until, "still measures")

    def finish(self, task: int, attempt: int, good: bool, result: str) -> bool:
        """False if that lease has ended. What failed is open again, ATTEMPTS times in all."""
        state = "'done'" if good else FAILED
        change = f"ended = '{now()}', lease_until = NULL, state = {state}, result = ?"
        return self._change(task, attempt, change, result, "measured" if good else "failed")

    def _change(self, task: int, attempt: int, change: str, value: str, doing: str) -> bool:
        with self.transaction():
            rows = self._rows(
                "SELECT agent, system, layout FROM service_task"
                " WHERE id = ? AND attempts = ? AND state = 'leased' AND lease_until >= ?",
                *(task, attempt, now()),
            )
            for agent, system, layout in rows:
                self._rows(f"UPDATE service_task SET {change} WHERE id = ?", value, task)
                self.see_agent(agent, system, f"{doing} {layout}")
            # The same again: its first answer was lost.
            again = self._rows(
                "SELECT 1 FROM service_task WHERE id = ? AND attempts = ? AND result = ?"
                " AND state <> 'leased'",
                *(task, attempt, value),
            )
            return bool(rows or again)

    def system_of(self, task: int) -> str | None:
        """The system of an entry; None if there is no such entry."""
        rows = self._rows("SELECT system FROM service_task WHERE id = ?", task)
        return str(rows[0][0]) if rows else None

    def see_agent(self, name: str, system: str, doing: str) -> None:
        sql = "INSERT OR REPLACE INTO service_agent (name, system, seen, doing) VALUES (?, ?, ?, ?)"
        self._rows(sql, name, system, now(), doing)

    def _add(self, one: Proposal, problems: str) -> int:
        system, mpi, version, layout = place_key(one.place)
        return self._insert(
            "service_task",
            system=system,
            mpi=mpi,
            mpi_version=version,
            layout=layout,
            problems=problems,
            reason=one.kind,
            why=one.why,
            gain=one.gain,
            since=one.since,
            created=now(),
        )

    def _expire(self) -> None:
        """An agent that died loses nothing but its time."""
        self._rows(
            "UPDATE service_task SET ended = ?, result = 'the lease expired',"
            f" state = {FAILED}"
            " WHERE state = 'leased' AND lease_until < ?",
            *(now(), now()),
        )

    def _open(self, system: str) -> Iterator[Lease]:
        return self._entries("state = 'open' AND system = ?", system)

    def _held(self, request: Request) -> Iterator[Lease]:
        """What a request with this nonce got before."""
        return self._entries(
            "state = 'leased' AND system = ? AND agent = ? AND nonce = ? AND nonce <> ''",
            *(request.system, request.agent, request.nonce),
        )

    def _entries(self, which: str, *values: str) -> Iterator[Lease]:
        for row in self._rows(
            "SELECT id, system, mpi, mpi_version, layout, reason, problems, why, gain, since,"
            f" coalesce(lease_until, ''), attempts FROM service_task WHERE {which}",
            *values,
        ):
            problems = frozenset(problems_of(row[6]))
            proposal = Proposal(Place(*row[1:5]), row[5], problems, *row[7:10])
            yield Lease(row[0], proposal, *row[10:])


def _new(places: Iterable[Place], request: Request) -> Iterator[Proposal]:
    """A library with which nothing was measured: on the layouts of its other versions, or the agent's."""
    places = list(places)
    for one in request.libraries:
        if any((p.mpi, p.mpi_version) == (one.mpi, one.version) for p in places):
            continue
        before = {p.layout for p in places if p.mpi == one.mpi} or {request.layout} - {""}
        for layout in sorted(before):
            at = Place(request.system, one.mpi, one.version, layout)
            yield Proposal(at, NEW, frozenset(), "nothing was measured with this MPI library")


def _fits(one: Proposal, request: Request) -> bool:
    libraries = {(library.mpi, library.version) for library in request.libraries}
    if (one.place.mpi, one.place.mpi_version) not in libraries:
        return False
    try:
        return from_name(one.place.layout).launched.nodes <= request.nodes
    except LayoutError:
        return False


def turn(kind: str, gain: float, number: int) -> tuple[int, float, int]:
    """By which entries are handed out."""
    return ORDER.index(kind), -gain, number


def problems_of(text: str) -> list[Problem]:
    """Of the column."""
    return [(str(name), int(size)) for name, size in json.loads(text)]


def place_key(place: Place) -> tuple[str, str, str, str]:
    """As tables of the service have it."""
    return place.system, place.mpi, place.mpi_version, place.layout
