"""A database as it was after some of its runs, to tell what each run changed."""

from __future__ import annotations

from pathlib import Path

from collforge.db.store import Store

_READ = "main.run WHERE id <= (SELECT id FROM main.run WHERE uuid = '{uuid}')"


class Past(Store):
    """A database, which is not changed; after `until`, its measurements and verifications are those of then.

    Winners and the map are not: nothing of older ones is stored.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, create=False)

    def until(self, uuid: str) -> None:
        """Hides the runs that were stored after this one.

        A temporary view has precedence over the table of its name, so every query reads it.
        """
        self._rows("DROP VIEW IF EXISTS temp.run")
        # A view has no parameters; a quote cannot be in ReFrame's names, but in a damaged file.
        words = _READ.format(uuid=uuid.replace("'", "''"))
        self._rows(f"CREATE TEMP VIEW run AS SELECT * FROM {words}")
