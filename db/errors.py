"""The errors of a database file; each message names the fix."""

from __future__ import annotations

from pathlib import Path

from collforge.errors import CollforgeError


class StoreError(CollforgeError):
    """The database could not be used; nothing stored was lost.

    The message names the file, the problem (with `detail`, where SQLite or a version has more to
    say) and the fix.
    """

    problem = "the database cannot be opened"
    fix = "check that the path is right and that you may write there"

    def __init__(self, path: Path, detail: str = "") -> None:
        super().__init__(f"{path}: {self.problem}{detail and f' ({detail})'}; {self.fix}")


class NoDatabase(StoreError):
    problem = "there is no database yet"
    fix = "make one with `collforge tune`, or name another file with --db"


class NotACollforgeDatabase(StoreError):
    problem = "this is not a Collforge database"
    fix = "name another file with --db, or move this one away and run `collforge tune`"


class PublishedOnly(StoreError):
    problem = "this is a published file, which has winners only"
    fix = "name the database that it was made from with --db, or unload the module that sets COLLFORGE_DB"


class SchemaTooNew(StoreError):
    problem = "the database was written by a newer Collforge"
    fix = "upgrade Collforge, or name another file with --db"


class SchemaTooOld(StoreError):
    problem = "the database was written by an older Collforge"
    fix = (
        "`collforge tune` updates it, `collforge db merge FILE --output NEW` makes an updated copy"
    )


class Locked(StoreError):
    problem = "another process kept the database locked for too long"
    fix = "wait for the other collforge to finish, then run this again"


class ReadOnly(StoreError):
    problem = "the database cannot be written"
    fix = "get write permission for it and its directory, or name another file with --db"


class DiskFull(StoreError):
    problem = "the disk is full"
    fix = "free some space and run this again; what was stored before is intact"


class Corrupt(StoreError):
    problem = "the database is damaged or its disk fails"
    fix = "restore a backup, or salvage it with `sqlite3 FILE .recover | sqlite3 NEW_FILE`"


class DiskFailed(StoreError):
    problem = "the disk failed, or another process was killed while it wrote"
    fix = "run this again; if it fails again, check the disk and restore a backup"


class Unverified(StoreError):
    problem = "a winner needs a passing verification on record, and no failing one"
    fix = "run `collforge verify`, which shows the failing case, then `collforge tune`"
