"""Decides winners anew after launches came in: one thread, each place once however many pushes it had."""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager

from collforge.place import Place
from collforge.service.store import ServiceStore
from collforge.tuner.site import rebuild
from collforge.tuner.site.rebuild import Rules

POLL_SECONDS = 30.0
"""How often it looks for what another process, or the one before it, left pending."""
REST_SECONDS = 5.0
"""It rests as long as it worked, at most this long: pushes and pages need the processor, too."""
TRIES = 3
"""A place is decided beside pushes so often; then pushes wait for it."""
MOST_FAILURES = 3
"""After so many a place waits for its next launch, or the next start of the service."""

Writer = Callable[[], "AbstractContextManager[ServiceStore]"]


class Worker:
    """``done``: called after each round: winners may have changed, by another process, too."""

    def __init__(
        self,
        reader: Writer,
        writer: Writer,
        rules: Callable[[], Rules],
        done: Callable[[], None] = lambda: None,
    ) -> None:
        self._reader, self._writer, self._rules, self._done = reader, writer, rules, done
        self._wake, self._stop = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="deciding", daemon=True)

    def start(self) -> None:
        """Another version of Collforge may decide what this one could not: it begins with all of it."""
        with self._writer() as store:
            store.forgive_failures()
        self._thread.start()

    def wake(self) -> None:
        self._wake.set()

    def stop(self) -> None:
        """Waits for the place that is being decided; what is pending stays so."""
        self._stop.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            self._wake.clear()
            begin = time.monotonic()
            try:
                self.work()
                self._done()
            except Exception:  # it must survive, and a person has to see it
                traceback.print_exc()
            self._stop.wait(min(REST_SECONDS, time.monotonic() - begin))
            self._wake.wait(POLL_SECONDS)

    def work(self) -> int:
        """Decides all that is pending now; returns how many places."""
        with self._reader() as store:
            pending = [one.place for one in store.pending() if one.failures < MOST_FAILURES]
        maps = {place.library for place in pending}
        decided = sum(self._one(place) for place in sorted(pending) if place.layout)
        decided += sum(self._one(place) for place in sorted(maps))
        return decided

    def _one(self, place: Place) -> bool:
        if self._stop.is_set():
            return False
        try:
            self.decide(place)
            return True
        except Exception as error:
            print(f"collforge serve: {place}: {error!r}", file=sys.stderr)
            with self._writer() as store:
                store.note_failure(place, f"{type(error).__name__}: {error}"[:1000])
            return False

    def decide(self, place: Place) -> None:
        """Its winners, or the map where it has no layout.

        What is long, the statistics, is done beside pushes, and again if one came in meanwhile.
        """
        rules = self._rules()
        for _ in range(TRIES):
            with self._reader() as store:
                evidence = store.evidence(place)
                found = rebuild.prepare(store, rules, place)
            with self._writer() as store, store.transaction():
                if store.evidence(place) == evidence:
                    rebuild.store_prepared(store, rules, place, found)
                    self._decided(store, place)
                    return
        with self._writer() as store, store.transaction():
            rebuild.store_prepared(store, rules, place, rebuild.prepare(store, rules, place))
            self._decided(store, place)

    def _decided(self, store: ServiceStore, place: Place) -> None:
        """The map follows: it is pending until it is decided, too, if the process dies before."""
        store.forget_pending(place)
        if place.layout:
            store.mark_pending(place.library)
