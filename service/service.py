"""What a running service has in memory: tokens, published winners, pages, limits, numbers."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from collforge.db.published import render
from collforge.errors import CollforgeError
from collforge.service import tokens
from collforge.service.limits import Rate
from collforge.service.store import ServiceStore
from collforge.service.tokens import Token
from collforge.service.worker import Worker
from collforge.tuner.site import publishing
from collforge.tuner.site.rebuild import Rules

FRESH_SECONDS = 1.0
"""For so long a token may be one of before a change by another process."""
PAGE_SECONDS = 5.0
"""The same for pages, which take longer to make."""
MOST_KEPT = 200
"""Entries of each cache."""
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
"""Seconds of requests, in /metrics."""

Kept = TypeVar("Kept")


@dataclass(frozen=True)
class Published:
    """A published file, as `collforge publish` writes it."""

    data: bytes
    digest: str
    """SHA-256."""


class Cache(Generic[Kept]):
    """Values by key, made again when the database has changed and they are older than `seconds`.

    One thread makes a value; others get the one of before meanwhile, or wait for the first one.
    """

    def __init__(self, path: Path, seconds: float) -> None:
        self._path, self._seconds = path, seconds
        self._kept: dict[tuple[str, ...], tuple[Kept, object, float]] = {}
        self._lock, self._making = threading.Lock(), threading.Lock()

    def fresh(self, key: tuple[str, ...]) -> Kept | None:
        """The value if it need not be made again; for this nothing is waited for."""
        found = self._kept.get(key)
        if found is None:
            return None
        value, stamp, checked = found
        if time.monotonic() - checked < self._seconds:
            return value
        return value if stamp == self._stamp() else None

    def get(self, key: tuple[str, ...], make: Callable[[], Kept]) -> Kept:
        found = self.fresh(key)
        if found is not None:
            return found
        before = self._kept.get(key)
        if before is not None and self._making.locked():
            return before[0]
        with self._making:
            found = self.fresh(key)
            return self.put(key, make) if found is None else found

    def put(self, key: tuple[str, ...], make: Callable[[], Kept]) -> Kept:
        """Makes it now."""
        stamp = self._stamp()
        value = make()
        with self._lock:
            if len(self._kept) >= MOST_KEPT:
                self._kept.clear()
            self._kept[key] = value, stamp, time.monotonic()
        return value

    def drop(self, key: tuple[str, ...]) -> None:
        with self._lock:
            self._kept.pop(key, None)

    def _stamp(self) -> object:
        try:
            found = os.stat(self._path)  # noqa: PTH116 (no object is made for it)
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino


class Winners:
    """Published winners by system and MPI library, which nobody waits for once they were asked for.

    They are made again when they have changed (`renew`), not when somebody asks for them.
    """

    def __init__(self, make: Callable[[str, str], Published], stamp: Callable[[], object]) -> None:
        self._make, self._stamp = make, stamp
        self._kept: dict[tuple[str, str], Published] = {}
        self._making, self._of = threading.Lock(), stamp()

    def kept(self, system: str, mpi: str) -> Published | None:
        return self._kept.get((system, mpi))

    def get(self, system: str, mpi: str) -> Published:
        """Raises CollforgeError if there is none."""
        with self._making:
            found = self.kept(system, mpi) or self._make(system, mpi)
            if len(self._kept) >= MOST_KEPT:
                self._kept.clear()
            self._kept[system, mpi] = found
            return found

    def renew(self) -> None:
        """If any winner has changed since, by this process or another one."""
        of = self._stamp()
        if of == self._of:
            return
        for key in list(self._kept):
            with self._making:
                try:
                    self._kept[key] = self._make(*key)
                except CollforgeError:  # it has no winners any more
                    self._kept.pop(key, None)
        self._of = of


@dataclass
class Numbers:
    """What was asked since the start, for /metrics."""

    requests: dict[tuple[str, int], int] = field(default_factory=dict)
    """Method and status -> how many."""
    seconds: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))
    """How many requests took up to each of BUCKETS, or longer."""
    total: float = 0.0
    pushed: int = 0
    """Launches that were new."""

    def add(self, method: str, status: int, seconds: float) -> None:
        key = method, status
        self.requests[key] = self.requests.get(key, 0) + 1
        self.seconds[sum(seconds > end for end in BUCKETS)] += 1
        self.total += seconds


class Service:
    """``private``: whatever is read needs a token, too."""

    def __init__(self, path: Path, rules: Callable[[], Rules], private: bool = False) -> None:
        self.path, self.private, self.rules = path, private, rules
        with ServiceStore(path):
            pass  # made, or updated, now; later it is opened as it is
        self.numbers = Numbers()
        self.published = Winners(self._publish, self._winners_stamp)
        self.pages: Cache[tuple[str, str]] = Cache(path, PAGE_SECONDS)
        """The HTML, and its Content-Security-Policy."""
        self._tokens: Cache[list[Token]] = Cache(path, FRESH_SECONDS)
        self.pushing = Rate(most=200, each=20)
        """For each token, or address where there is none."""
        self.reading = Rate(most=400, each=50)
        """The same; winners that are in memory are not counted."""
        self.failing = Rate(most=20, each=0.2)
        """Wrong tokens, for each address."""
        self._writing = threading.Lock()
        self.worker = Worker(self.reader, self.writer, rules, self.published.renew)

    @contextmanager
    def reader(self) -> Iterator[ServiceStore]:
        """A connection of its own."""
        with ServiceStore(self.path, create=False) as store:
            yield store

    @contextmanager
    def writer(self) -> Iterator[ServiceStore]:
        """The only one of this process that writes."""
        with self._writing, ServiceStore(self.path) as store:
            yield store

    def identify(self, given: str) -> Token | None:
        return tokens.identify(self._tokens.get((), self._read_tokens), given)

    def _read_tokens(self) -> list[Token]:
        with self.reader() as store:
            return store.tokens()

    # ---- winners ----

    def warm(self) -> None:
        """So that readers do not wait for the first one after a restart."""
        with self.reader() as store:
            systems = sorted({place.system for place in store.places()})
        for system in systems[:MOST_KEPT]:
            with suppress(CollforgeError):  # nothing is decided yet
                self.published.get(system, "")

    def _winners_stamp(self) -> object:
        with self.reader() as store:
            return store.winners_stamp()

    def _publish(self, system: str, mpi: str) -> Published:
        data = render(publishing.read_sections(self.path, system, mpi)).encode()
        return Published(data, hashlib.sha256(data).hexdigest())
