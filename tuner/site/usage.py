"""What the jobs of COLLFORGE_USAGE have left (runtime/src/comm/usage.c): a file a user, a line a job."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, BinaryIO, Optional

import msgspec

from collforge.errors import CollforgeError
from collforge.tuner.run.plain_file import open_plain

MOST_FILE = 1 << 30
"""Bytes of a user's file; some million jobs have less. A sparse file would take days."""
MOST_LINE = 4096
"""Bytes of a line. A user may have written the file by hand."""

Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
# No more than a century, on a million ranks.
Seconds = Annotated[float, msgspec.Meta(ge=-4e15, le=4e15)]


class Job(msgspec.Struct, frozen=True):
    """A line: what the library did for a job, as rank 0 saw it."""

    date: datetime
    """Of its end, UTC."""
    ranks: Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
    calls: Count
    """Blocking calls of collectives that have a winner on the layout of their communicator."""
    served: Count
    """Those of them that a variant served."""
    seconds: Seconds
    """In these calls."""
    # Not `|`, which msgspec cannot read from Python 3.9.
    saved: Optional[tuple[Seconds, Seconds, Seconds]]  # noqa: UP045
    """The seconds saved: the least, the estimate, the most; None: not known."""


@dataclass(frozen=True)
class Usage:
    """The jobs of each user, and the number of lines that are none."""

    jobs: Mapping[str, Sequence[Job]]
    damaged: int


@dataclass(frozen=True)
class Row:
    """The jobs of a month or a user. Seconds are on rank 0; those of cores are on all ranks alike."""

    name: str
    jobs: int
    users: int
    calls: int
    served: int
    seconds: float
    saved: float
    saved_low: float
    saved_high: float
    core_seconds_saved: float
    jobs_of_unknown_saving: int
    """A variant served calls of theirs, and no time is known."""


def read(folder: Path) -> Usage:
    """Reads every FOLDER/*.jsonl. A user is the owner of a file. Raises CollforgeError without a folder."""
    if not folder.is_dir():
        raise CollforgeError(f"{folder} is no folder: name the one that COLLFORGE_USAGE names")
    if not os.access(folder, os.R_OK | os.X_OK):
        raise CollforgeError(f"{folder} cannot be listed: its group or root may (docs/site.md)")
    jobs: dict[str, list[Job]] = {}
    damaged = 0
    for path in sorted(folder.glob("*.jsonl")):
        found = open_plain(path, MOST_FILE)
        if found is None:
            damaged += 1
            continue
        with found:
            own = jobs.setdefault(_owner(found), [])
            for job in map(_job, _lines(found)):
                damaged += job is None
                own += [job] if job else []
    return Usage(jobs, damaged)


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """A longer line in pieces, so that no file fills the memory."""
    return iter(lambda: file.readline(MOST_LINE), b"")


def _owner(file: BinaryIO) -> str:
    number = os.fstat(file.fileno()).st_uid
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _job(line: bytes) -> Job | None:
    """None for a line that no job wrote, or not whole."""
    try:
        job = msgspec.json.decode(line, type=Job) if line.endswith(b"\n") else None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return job if job and job.served <= job.calls else None


def rows(usage: Usage, by: str) -> list[Row]:
    """Of each month (``by``: month), or of each user (user), sorted by name, then one of all."""
    groups: dict[str, list[tuple[str, Job]]] = {}
    for user, job in _each(usage):
        groups.setdefault(f"{job.date:%Y-%m}" if by == "month" else user, []).append((user, job))
    return [*(_row(name, groups[name]) for name in sorted(groups)), _row("all", _each(usage))]


def _each(usage: Usage) -> Iterator[tuple[str, Job]]:
    return ((user, job) for user, jobs in usage.jobs.items() for job in jobs)


def _row(name: str, found: Iterable[tuple[str, Job]]) -> Row:
    pairs = list(found)
    jobs = [job for _, job in pairs]
    known = [(job.saved, job.ranks) for job in jobs if job.saved]
    return Row(
        name,
        jobs=len(jobs),
        users=len({user for user, _ in pairs}),
        calls=sum(job.calls for job in jobs),
        served=sum(job.served for job in jobs),
        seconds=sum(job.seconds for job in jobs),
        saved=sum(saved[1] for saved, _ in known),
        saved_low=sum(saved[0] for saved, _ in known),
        saved_high=sum(saved[2] for saved, _ in known),
        core_seconds_saved=sum(saved[1] * ranks for saved, ranks in known),
        jobs_of_unknown_saving=sum(job.saved is None and job.served > 0 for job in jobs),
    )
