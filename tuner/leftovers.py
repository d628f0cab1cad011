"""Jobs whose tuner did not live to store them: what they had written is taken in at the next start.

The folder of a job names the place and the database that its results are for. The tuner that runs it holds a
lock on the folder, which the system releases however that process ends, and leaves a mark when all is stored.
A run is stored under the name of its folder, so that nothing is counted twice.
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

from collforge import records
from collforge.db import Store
from collforge.place import Place
from collforge.tuner import ingest

JOB, STORED = "job.json", "stored"
LABEL = "tune"
"""Of the folders of such jobs (request.new_folder)."""


@dataclass(frozen=True)
class _Claim:
    """For what a job's results are."""

    database: str
    place: Place


@contextmanager
def claimed(folder: Path, place: Place, database: Path) -> Iterator[None]:
    """Claims a job's new folder for its results; marks it as stored where the block ends without an error."""
    with (folder / JOB).open("w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(msgspec.json.encode(_Claim(str(database.absolute()), place)).decode())
        file.flush()
        yield
        (folder / STORED).touch()


def take_in(runs: Path, database: Path, quiet: float = 4.0) -> int:
    """Stores what jobs for this database had written when their tuners died; returns how many results.

    Waits until nothing was written for `quiet` seconds.
    """
    taken = 0
    for folder in sorted(runs.glob(f"*-{LABEL}-*")):
        if (folder / STORED).exists() or not (folder / JOB).exists():
            continue
        # Open for writing, as network file systems want it for an exclusive lock.
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
    """The driver may outlive its tuner by some seconds, and what it still writes counts."""
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
        return 0  # the tuner died while it wrote this: the job had not begun
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
