"""The history of winners: which of them changed, and after which launch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from collforge.db.database import Database
from collforge.db.records import Choice, Decision
from collforge.place import Place
from collforge.variant import Variant

_KEY = "system, mpi_library, layout, collective, bytes"


class History(Database):
    """An open database that keeps how its winners changed."""

    def decisions(self) -> dict[str, list[Decision]]:
        """A launch (a uuid) -> how winners changed after it and before the next, sorted by place and size.

        '' -> the winners that the history begins with. A launch that changed nothing has an empty list.
        """
        found: dict[str, list[Decision]] = defaultdict(list)
        last: dict[tuple[Any, ...], Choice | None] = {}
        for uuid, *key, decided, ratio, evidence, family, points, code in self._rows(
            "SELECT coalesce(uuid, ''), system.name, mpi_library.name, version, layout.name,"
            " decision.collective, bytes, decided, ratio, evidence, family, parameters, fingerprint"
            " FROM decision JOIN system ON system.id = decision.system"
            " JOIN mpi_library ON mpi_library.id = decision.mpi_library"
            " JOIN layout ON layout.id = decision.layout"
            " LEFT JOIN run ON run.id = run LEFT JOIN variant ON variant.id = variant"
            " ORDER BY run, 2, 3, 4, 5, 6, 7"
        ):
            collective, size = key[4:]
            old, new = last.get(tuple(key)), None
            if family is not None:
                variant = Variant(collective, family, points, code)
                new = Choice(size, variant, ratio, ratio, ratio, 0, evidence)
            # Joined files may both say the same.
            if (old and old.variant) != (new and new.variant):
                last[tuple(key)] = new
                found[uuid].append(Decision(Place(*key[:4]), collective, size, decided, old, new))
        return found

    def _note(self, **at: object) -> None:
        """Adds to the history how the winners with these values of columns changed; in the same transaction.

        All changes of a winner after the same launch are one, which is gone if they lead back to it.
        """
        which = " AND ".join(("1", *(f"{column} = :{column}" for column in at)))
        newest = "(SELECT max(id) FROM run)"
        self._rows(
            f"DELETE FROM decision WHERE {which} AND run IS {newest} AND variant IS NOT ("
            f" SELECT variant FROM winner WHERE ({_KEY}) = ({_of('decision')}))",
            **at,
        )
        self._rows(
            f"INSERT INTO decision SELECT NULL, {newest}, {_KEY}, variant, ratio, evidence,"
            " strftime('%Y-%m-%dT%H:%M:%SZ', 'now') FROM ("
            f" SELECT {_KEY} FROM winner WHERE {which} UNION SELECT {_KEY} FROM decision WHERE {which}"
            f") AS one LEFT JOIN winner USING ({_KEY}) WHERE variant IS NOT ("
            f" SELECT variant FROM decision WHERE ({_KEY}) = ({_of('one')}) ORDER BY run DESC LIMIT 1)",
            **at,
        )

    def _hand_on(self, runs: Iterable[int]) -> None:
        """Before launches (ids) are removed: what changed after each has changed after the one before it."""
        for run in sorted(runs, reverse=True):
            ((before,),) = self._rows("SELECT max(id) FROM run WHERE id < ?", run)
            again = f"({_KEY}) IN (SELECT {_KEY} FROM decision WHERE run = ?)"
            self._rows(f"DELETE FROM decision WHERE run IS ? AND {again}", before, run)
            # Not dated after the launch: those that follow it have a history.
            self._rows(
                "UPDATE decision SET run = ?, decided = min(decided, (SELECT started FROM run WHERE id = ?))"
                " WHERE run = ?",
                *(before, run, run),
            )


def _of(table: str) -> str:
    return ", ".join(f"{table}.{column}" for column in _KEY.split(", "))
