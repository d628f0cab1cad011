"""What an application calls: the files of COLLFORGE_PROFILE (columns: runtime/src/comm/observe.h)."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from collforge.errors import CollforgeError
from collforge.layout import Layout, LayoutError, from_name

JOB = "job"
"""The collective's name in the row of the whole job."""
COLUMNS = (
    *("collective", "layout", "bytes_from", "bytes_to", "calls", "origin", "communicators"),
    *("bytes", "seconds", "waited"),
)


@dataclass(frozen=True)
class Calls:
    """Calls of a collective in a bucket of sizes, on communicators of a layout that were made alike."""

    collective: str
    layout: str
    origin: str
    """``world``, ``duplicate`` or ``other``."""
    bytes_from: int
    calls: int
    communicators: int
    bytes: float
    """Sum over the calls."""
    seconds: float
    """Sum over calls and ranks."""
    waited: float
    """The part of ``seconds`` in which ranks waited for the latest one, at least."""

    @property
    def size(self) -> int:
        """The mean bytes of a call, by which its variant is chosen."""
        return round(self.bytes / self.calls) if self.calls else 0

    @property
    def moving(self) -> float:
        """The seconds that a faster collective can shorten."""
        return self.seconds - self.waited

    @property
    def at(self) -> Layout | None:
        """None if the layout's name is a hash."""
        try:
            return from_name(self.layout)
        except LayoutError:
            return None


@dataclass(frozen=True)
class Profile:
    """One job or several."""

    rows: Sequence[Calls]
    """The most expensive first."""
    seconds: float
    """From MPI_Init to MPI_Finalize, over all ranks."""

    @property
    def moving(self) -> float:
        return sum(row.moving for row in self.rows)

    @property
    def waited(self) -> float:
        return sum(row.waited for row in self.rows)


def read(paths: Iterable[Path]) -> Profile:
    """The sum of the profiles in these files. Raises CollforgeError for a file that is none."""
    found: dict[tuple[str, ...], Calls] = {}
    seconds = 0.0
    for path in paths:
        for row in _rows(path):
            one = Calls(
                row["collective"],
                row["layout"],
                row["origin"],
                int(row["bytes_from"]),
                int(row["calls"]),
                int(row["communicators"]),
                float(row["bytes"]),
                float(row["seconds"]),
                float(row["waited"]),
            )
            if one.collective == JOB:
                seconds += one.seconds
                continue
            key = (one.collective, one.layout, one.origin, row["bytes_from"])
            found[key] = _sum(found[key], one) if key in found else one
    return Profile(sorted(found.values(), key=lambda one: -one.seconds), seconds)


def _rows(path: Path) -> list[Mapping[str, str]]:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            if tuple(reader.fieldnames or ()) != COLUMNS:
                raise CollforgeError(
                    f"{path} is no profile of this version of Collforge: make one with COLLFORGE_PROFILE"
                )
            return list(reader)
    except OSError as error:
        raise CollforgeError(f"{path}: {error.strerror}") from error


def _sum(a: Calls, b: Calls) -> Calls:
    return Calls(
        a.collective,
        a.layout,
        a.origin,
        a.bytes_from,
        a.calls + b.calls,
        a.communicators + b.communicators,
        a.bytes + b.bytes,
        a.seconds + b.seconds,
        a.waited + b.waited,
    )


@dataclass(frozen=True)
class Wanted:
    """The problems of a layout that are worth tuning, and their part of the time in collectives."""

    layout: str
    problems: frozenset[tuple[str, int]]
    """Collectives and bytes."""
    part: float


def worth_tuning(found: Profile, collectives: Iterable[str], least: float) -> list[Wanted]:
    """By layout, what takes at least the part ``least`` of the time in collectives; the most expensive first.

    ``collectives``: those that can be tuned at a size. Communicators of one rank, and layouts without a
    readable name, are left out.
    """
    known = set(collectives)
    total = found.moving or 1.0
    layouts: dict[str, dict[tuple[str, int], float]] = {}
    for row in found.rows:
        at = row.at
        if row.collective in known and row.size > 0 and at is not None and at.size > 1:
            problems = layouts.setdefault(row.layout, {})
            key = (row.collective, row.size)
            problems[key] = problems.get(key, 0.0) + row.moving / total
    wanted = []
    for layout, problems in layouts.items():
        kept = {key: part for key, part in problems.items() if part >= least}
        if kept:
            wanted.append(Wanted(layout, frozenset(kept), sum(kept.values())))
    return sorted(wanted, key=lambda one: -one.part)
