"""The files of COLLFORGE_LEARN (runtime/src/comm/learn.c): what the guard found in production jobs."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from collforge.db import JobRecord, Store, Verdict
from collforge.errors import CollforgeError
from collforge.layout import LayoutError, check_names, from_name
from collforge.place import Place
from collforge.tuner.run.plain_file import open_plain
from collforge.variant import Variant

MOST_FILE = 1 << 16
"""Bytes that a job writes."""
MOST_FILES = 64
"""That the jobs of a user leave in a folder."""
LEAST_LOSS = 1.1
FIRST = datetime(2026, 1, 1, tzinfo=timezone.utc)
"""Before it no job wrote such a file."""

Word = Annotated[str, msgspec.Meta(min_length=1, max_length=512)]
Nanoseconds = Annotated[int, msgspec.Meta(ge=1, le=10**18)]


Name = Annotated[str, msgspec.Meta(pattern="^[a-z][a-z0-9_]{0,63}$")]


class _Verdict(msgspec.Struct, frozen=True):
    layout: Word
    collective: Name
    variant: Annotated[
        str, msgspec.Meta(pattern=r"^[a-z][a-z0-9_]{0,63}(\[[a-z0-9_=,.]{1,400}\])?$")
    ]
    fingerprint: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{1,64}$")]
    bytes: Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
    native_ns: Nanoseconds
    variant_ns: Nanoseconds
    pairs: Annotated[int, msgspec.Meta(ge=1, le=1000)]
    again: bool
    kept: bool


class _File(msgspec.Struct, frozen=True):
    collforge: Literal[1]
    version: Annotated[str, msgspec.Meta(max_length=64)]
    system: Word
    mpi: Annotated[str, msgspec.Meta(min_length=1, max_length=8192)]
    ended: datetime
    verdicts: Annotated[tuple[_Verdict, ...], msgspec.Meta(max_length=256)]


class NotLearnt(CollforgeError):
    """A file that no job wrote, or that tells of what the database does not know."""


def parse(data: bytes, owner: str, places: Collection[Place]) -> JobRecord:
    """The job of a file. ``places``: of each known system and MPI library. Raises NotLearnt.

    Verdicts on layouts without a readable name are left out.
    """
    try:
        read = msgspec.json.decode(data, type=_File)
        ended = read.ended.astimezone(timezone.utc)
        check_names(one.layout for one in read.verdicts)
    except (
        msgspec.MsgspecError,
        LayoutError,
        UnicodeDecodeError,
        RecursionError,
        OverflowError,
    ) as error:
        raise NotLearnt(f"it is no file of COLLFORGE_LEARN: {error}") from error
    if not FIRST <= ended <= datetime.now(timezone.utc):
        raise NotLearnt(f"no job ended at {ended.isoformat()}")
    place = next(
        (one for one in places if (one.system, _clean(one.mpi_version)) == (read.system, read.mpi)),
        None,
    )
    if place is None:
        raise NotLearnt(f"nothing was measured on {read.system} with {read.mpi}")
    verdicts: dict[tuple[str, Variant, int, bool], Verdict] = {}
    for one in read.verdicts:
        found = _verdict(one)
        if found:
            key = found.layout, found.variant, found.bytes, found.again
            verdicts.setdefault(key, found)
    return JobRecord(
        hashlib.sha256(data).hexdigest(),
        place.library,
        owner,
        f"{ended:%Y-%m-%dT%H:%M:%SZ}",
        read.version,
        tuple(verdicts.values()),
    )


def take(store: Store, data: bytes, owner: str) -> tuple[JobRecord, bool]:
    """Stores the job of a file; tells whether it was new. Raises NotLearnt.

    Before its variants are verified here, nothing of it is stored, so that it can be taken in later.
    """
    job = parse(data, owner, store.places())
    verified = store.verified(job.place.mpi, job.place.mpi_version)
    for one in job.verdicts:
        if one.variant not in verified:
            what = f"{one.variant.name} of {one.variant.collective}"
            raise NotLearnt(f"nobody verified {what} here yet: store the launches first")
    return job, store.record_job(job)


def _verdict(one: _Verdict) -> Verdict | None:
    try:
        if from_name(one.layout).name != one.layout:  # no communicator has it, so no job wrote it
            return None
        variant = Variant.from_name(one.collective, one.variant, one.fingerprint)
    except LayoutError:
        return None
    slower = one.variant_ns > one.native_ns
    # The guard keeps what is a little slower in a re-test (least_loss in runtime/src/serve/guard.c).
    if variant.is_native or (one.kept and one.variant_ns > LEAST_LOSS * one.native_ns):
        return None
    if not one.kept and not slower:
        return None
    return Verdict(
        *(one.layout, variant, one.bytes, one.native_ns * 1e-9, one.variant_ns * 1e-9),
        *(one.pairs, one.again, one.kept),
    )


def _clean(version: str) -> str:
    """As cf_own_file_library writes it."""
    return "".join(c if " " <= c <= "~" and c not in '"\\' else " " for c in version)


@dataclass(frozen=True)
class Found:
    """A file, and the number of its owner; no data: it is none that a job wrote."""

    path: Path
    data: bytes
    owner: int = -1


def read(folder: Path) -> Iterator[Found]:
    """Every FOLDER/*.json, sorted. Raises CollforgeError without a folder."""
    if not folder.is_dir() or not os.access(folder, os.R_OK | os.X_OK):
        raise CollforgeError(
            f"{folder} is no folder that can be listed: name the one that COLLFORGE_LEARN names"
        )
    for path in sorted(folder.glob("*.json")):
        file = open_plain(path, MOST_FILE)
        if file is None:
            yield Found(path, b"")
            continue
        with file:
            yield Found(path, file.read(MOST_FILE), os.fstat(file.fileno()).st_uid)


def owner_of(found: Found, database: Path) -> str:
    """'' for root and the owner of the database, if there is one: they are believed alone."""
    trusted = {0, database.stat().st_uid if database.exists() else 0}
    return "" if found.owner in trusted else str(found.owner)
