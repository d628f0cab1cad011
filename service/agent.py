"""An agent: takes an entry of the queue, tunes it with the site's own configuration, and brings the result."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import msgspec

from collforge.errors import CollforgeError
from collforge.place import Place
from collforge.service.client import Client, quoted
from collforge.service.queue import Request
from collforge.tuner.site.proposals import Proposal

MOST_WAIT, POLL = 300.0, 1.0
"""Seconds."""
RENEWALS = 3
"""Of a lease before it would expire."""


@dataclass(frozen=True)
class Task:
    """An entry that this agent has."""

    id: int
    attempt: int
    proposal: Proposal


@dataclass(frozen=True)
class Agent:
    """What a site lets an agent do."""

    client: Client
    request: Request
    options: Sequence[str]
    """Of `collforge tune`: the system, its configuration, the database and the budget."""
    for_whole: Sequence[str] = ()
    """More of them for entries that ask for a whole layout."""

    def lease(self) -> Task | None:
        """None: there is nothing to measure."""
        request = msgspec.structs.replace(self.request, nonce=uuid.uuid4().hex)
        answer = self.client.post("/api/v1/lease", msgspec.json.encode(request))
        found = answer["task"]
        if found is None:
            return None
        problems = frozenset((str(name), int(size)) for name, size in found["problems"])
        place = Place(found["system"], found["mpi"], found["mpi_version"], found["layout"])
        about = found["reason"], problems, found["why"], found["gain"], found["since"]
        return Task(found["id"], found["attempt"], Proposal(place, *about))

    def tune(self, task: Task) -> int:
        """Runs `collforge tune`, whose exit code it returns, and keeps the lease meanwhile."""
        words = self.words(task.proposal)
        print(f"{task.proposal.why}: {' '.join(words)}", flush=True)
        with self._renewed(task):
            return subprocess.run(
                [sys.executable, "-m", "collforge", *words], check=False
            ).returncode

    def words(self, one: Proposal) -> list[str]:
        """The words behind `collforge`."""
        found = ["tune", "--mpi", one.place.mpi, "--layout", one.place.layout, *self.options]
        return [*found, *(one.choice or self.for_whole)]

    def await_decisions(self) -> None:
        """Until the service has decided what came in, or for MOST_WAIT seconds."""
        end = time.monotonic() + MOST_WAIT
        path = f"/api/v1/pending/{quoted(self.request.system)}"
        while json.loads(self.client.get(path).body)["pending"] and time.monotonic() < end:
            time.sleep(POLL)

    def finish(self, task: Task, good: bool, result: str) -> None:
        """Raises CollforgeError if the lease has expired, and another agent has the entry."""
        self._report(task, {"state": "done" if good else "failed", "result": result})

    def _report(self, task: Task, what: dict[str, object]) -> None:
        document = {"attempt": task.attempt, "seconds": self.request.seconds, **what}
        self.client.post(f"/api/v1/tasks/{task.id}", msgspec.json.encode(document))

    @contextmanager
    def _renewed(self, task: Task) -> Iterator[None]:
        ended = threading.Event()

        def renew() -> None:
            while not ended.wait(self.request.seconds / RENEWALS):
                try:
                    self._report(task, {"state": "leased"})
                except CollforgeError as error:
                    print(f"collforge agent: {error}", file=sys.stderr)

        thread = threading.Thread(target=renew, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
