"""The history of winners: which of them changed, and after which launch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from collforge.db.database import Database
from collforge.db.records import Choice, Decision
from collforge.place import Place
from collforge.variant import Variant

_NOTHING = (None, None, None)

_CHANGE = """
    INSERT INTO decision VALUES (
        NULL, (SELECT max(id) FROM run), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, strftime('%Y-%m-%dT%H:%M:%SZ', 'now')
    )
    ON CONFLICT (run, system, mpi_library, layout, collective, bytes) DO UPDATE
    SET (new_variant, new_ratio, new_evidence, decided)
        = (excluded.new_variant, excluded.new_ratio, excluded.new_evidence, excluded.decided)
"""


class History(Database):
    """An open database that keeps how its winners changed."""

    def decisions(self, run: str) -> list[Decision]:
        """The changes after a launch (a uuid) and before the next; '': the winners when the history began."""
        rows = self._rows(
            "SELECT system.name, mpi_library.name, version, layout.name, decision.collective, bytes,"
            " decided, old_ratio, old_evidence, old.family, old.parameters, old.fingerprint,"
            " new_ratio, new_evidence, new.family, new.parameters, new.fingerprint"
            " FROM decision JOIN system ON system.id = decision.system"
            " JOIN mpi_library ON mpi_library.id = decision.mpi_library"
            " JOIN layout ON layout.id = decision.layout"
            " LEFT JOIN variant AS old ON old.id = old_variant"
            " LEFT JOIN variant AS new ON new.id = new_variant"
            " WHERE run IS (SELECT id FROM run WHERE uuid = ?) ORDER BY 1, 2, 3, 4, 5, 6",
            run,
        )
        return [
            Decision(
                Place(*row[:4]),
                *row[4:7],
                *(_choice(row[4], row[5], *row[n : n + 5]) for n in (7, 12)),
            )
            for row in rows
        ]

    @contextmanager
    def _noted(self, collective: str = "") -> Iterator[None]:
        """Inside a transaction: adds to the history how the block changes winners ('': of all collectives).

        All changes of a winner after the same launch are one, which is gone if they lead back to it.
        """
        before = self._chosen(collective)
        yield
        after = self._chosen(collective)
        for key in sorted({*before, *after}):
            old, new = before.get(key, _NOTHING), after.get(key, _NOTHING)
            if old != new:
                self._rows(_CHANGE, *key, *old, *new)
        self._rows("DELETE FROM decision WHERE run IS NOT NULL AND old_variant IS new_variant")

    def _chosen(self, collective: str) -> dict[tuple[Any, ...], tuple[Any, ...]]:
        rows = self._rows(
            "SELECT system, mpi_library, layout, collective, bytes, variant, ratio, evidence FROM winner"
            " WHERE ? IN ('', collective)",
            collective,
        )
        return {row[:5]: row[5:] for row in rows}


def _choice(
    collective: str, size: int, ratio: float | None, evidence: str, *variant: str
) -> Choice | None:
    if ratio is None:
        return None
    return Choice(size, Variant(collective, *variant), ratio, ratio, ratio, 0, evidence)
