"""Recovers results of jobs whose tuner was killed before it stored them; done at the next start.

The folder of a job names the place (database key) and the database for its results. The tuner holds a lock on
the folder, which the system releases when the process ends in any way, and marks the folder when all is
stored. A run is stored under the name of its folder, so that nothing is counted twice.
"""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import msgspec

from collforge import launch_log, records
from collforge.db import Store
from collforge.place import Place
from collforge.tuner.run import ingest

JOB, STORED = "job.json", launch_log.STORED
LABEL = "tune"
"""The label in the names of such jobs' folders (home.new_folder)."""


@dataclass(frozen=True)
class _Claim:
    """The place (database key) and the database for a job's results."""

    database: str
    place: Place


@contextmanager
def claimed(folder: Path, place: Place, database: Path) -> Iterator[None]:
    """Claims a job's new folder. Marks it as stored if the block ends without an error."""
    with (folder / JOB).open("w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(msgspec.json.encode(_Claim(str(database.absolute()), place)).decode())
        file.flush()
        yield
        (folder / STORED).touch()


def take_in(runs: Path, database: Path, quiet: float = 4.0) -> int:
    """Stores the results of jobs for this database whose tuners died; returns their number.

    Waits until the job has written nothing for `quiet` seconds.
    """
    taken = 0
    for folder in sorted(runs.glob(f"*-{LABEL}-*")):
        if (folder / STORED).exists() or not (folder / JOB).exists():
            continue
        # Opened for writing because network file systems require it for an exclusive lock.
        with (folder / JOB).open("r+", encoding="utf-8") as file:
            if _is_free(file):
                taken += _take(folder, file.read(), database, quiet)
    return taken


def _is_free(file: TextIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _wait_until_quiet(folder: Path, quiet: float) -> None:
    """Waits for a driver that outlives its tuner by some seconds and still writes results."""
    for _ in range(10):
        newest = max(
            (path.stat().st_mtime for path in folder.glob(f"**/{records.FILE}")), default=0.0
        )
        left = newest + quiet - time.time()
        if left <= 0:
            return
        time.sleep(min(left, quiet))


def _take(folder: Path, job: str, database: Path, quiet: float) -> int:
    try:
        claim = msgspec.json.decode(job, type=_Claim)
    except ValueError:
        return 0  # the tuner died while it wrote this file, before the job began
    if claim.database != str(database.absolute()):
        return 0
    _wait_until_quiet(folder, quiet)
    record = ingest.read_leftovers(folder, claim.place, (folder / JOB).stat().st_mtime)
    taken = 0
    if record is not None:
        with Store(database) as store:
            taken = len(record.results) if store.record_run(record) else 0
    (folder / STORED).touch()
    return taken
