"""Looks at a database without changing it: is the file sound, and is its schema the one that it should have?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from collforge.db import database
from collforge.db.errors import Corrupt, SchemaTooOld
from collforge.db.store import Store
from collforge.db.structure import shape


class Inspection(Store):
    """A database of this Collforge's schema that cannot be changed while it is open."""

    def __init__(self, path: Path) -> None:
        """Raises SchemaTooOld where other commands would read a migrated copy."""
        super().__init__(path, create=False)
        if self.is_copy:
            self.close()
            raise SchemaTooOld(path)
        self._rows("PRAGMA query_only = ON")

    def damage(self) -> list[str]:
        """What is wrong with the pages of the file; nothing else can be told before it is mended."""
        try:
            found = [line for (line,) in self._rows("PRAGMA integrity_check")]
        except Corrupt as error:
            return [str(error)]
        return [] if found == ["ok"] else [f"the file is damaged: {line}" for line in found]

    def faults(self) -> Iterator[str]:
        """Where the schema differs from schema.sql, and rows that refer to rows that are not there."""
        with self._errors():
            found = shape(self._connection)
        wanted = database.blank_shape()
        for name in sorted({*found, *wanted}):
            if name not in found:
                yield f"schema: {name} is missing"
            elif name not in wanted:
                yield f"schema: {name} is not part of it"
            elif found[name] != wanted[name]:
                yield f"schema: {name} is {found[name]}; it should be {wanted[name]}"
        for table, rowid, parent, _ in self._rows("PRAGMA foreign_key_check"):
            yield f"row {rowid or ''} of {table} refers to a row of {parent} that is missing"
