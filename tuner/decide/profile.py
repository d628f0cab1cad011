"""What an application calls: the files of COLLFORGE_PROFILE (columns: runtime/src/comm/observe.h)."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from collforge.errors import CollforgeError
from collforge.generator.manifest import Manifest
from collforge.layout import Layout, LayoutError, check_names, from_name
from collforge.tuner.decide.plan import WORD

JOB = "job"
"""The collective's name in the row of the whole job."""
TUNED = "tuned"
"""The origin in that row if winners served calls."""
COLUMNS = (
    *("collective", "layout", "bytes_from", "bytes_to", "blocking", "calls", "origin"),
    *("communicators", "ranks", "dropped", "call_bytes", "seconds", "waited"),
)


MOST = 1e18
"""Of any number in a profile."""
MOST_TINY = 4
"""Reductions of fewer bytes have no type that is measured."""


@dataclass(frozen=True)
class Calls:
    """Calls of a collective in a bucket of sizes, on communicators of a layout that were made alike."""

    collective: str
    layout: str
    """That of the communicators; ``4x2/4x1`` where they divide a job, so that all may call at once."""
    origin: str
    """``world``, ``duplicate`` or ``other``."""
    bytes_from: int
    calls: int
    communicators: int
    ranks: int
    """How many ranks of the job called."""
    dropped: int
    """On how many of them the guard dropped a variant."""
    bytes: float
    """Sum over the calls."""
    seconds: float
    """Sum over calls and ranks; of nonblocking ones, from start to end."""
    waited: float
    """The part of ``seconds`` in which ranks waited for the latest one, 0 where not known; of nonblocking
    calls, in which the program was in MPI."""
    served_as: str
    """Under which layout the runtime looks up winners: names the job where such communicators can divide it."""
    blocking: bool

    @property
    def size(self) -> int:
        """The mean bytes of a call, by which its variant is chosen."""
        return round(self.bytes / self.calls) if self.calls else 0

    @property
    def moving(self) -> float:
        """The seconds that a faster collective can shorten."""
        return self.seconds - self.waited

    @property
    def overlap(self) -> float | None:
        """Of nonblocking calls: the part of their time that the program had for itself. None: not known."""
        return 1 - self.waited / self.seconds if self.seconds else None

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
    """The blocking calls, the most expensive first."""
    seconds: float
    """From MPI_Init to MPI_Finalize, over all ranks."""
    tuned: bool = False
    """Whether winners served calls."""
    nonblocking: Sequence[Calls] = ()
    """The longest under way first. Native's have no times."""

    @property
    def moving(self) -> float:
        return sum(row.moving for row in self.rows)

    @property
    def waited(self) -> float:
        return sum(row.waited for row in self.rows)


def read(paths: Iterable[Path]) -> Profile:
    """The sum of the profiles in these files. Raises CollforgeError for a file that is none."""
    return _sum_of([_with_parts(_rows(path)) for path in paths])


def parse(texts: Iterable[str]) -> Profile:
    """The same of the texts of files."""
    return _sum_of([_with_parts(_of_text(text.splitlines(keepends=True), "it")) for text in texts])


def _sum_of(profiles: Iterable[Sequence[Calls]]) -> Profile:
    found: dict[tuple[str, str, str, str, int, bool], Calls] = {}
    seconds, tuned = 0.0, False
    for one in (one for rows in profiles for one in rows):
        if one.collective == JOB:
            seconds, tuned = seconds + one.seconds, tuned or one.origin == TUNED
            continue
        key = (one.collective, one.layout, one.served_as, one.origin, one.bytes_from, one.blocking)
        found[key] = _sum(found[key], one) if key in found else one
    rows = sorted(found.values(), key=lambda one: -one.seconds)
    blocking = [one for one in rows if one.blocking]
    return Profile(blocking, seconds, tuned, [one for one in rows if not one.blocking])


def _with_parts(rows: Sequence[Calls]) -> list[Calls]:
    """The rows of a job, in which the layout of communicators that divide it names the job, too.

    They do if every rank of the job called in one of them.
    """
    job = next((row.at for row in rows if row.collective == JOB), None)
    return [_in_job(row, job) if job else row for row in rows]


def _in_job(row: Calls, job: Layout) -> Calls:
    at = row.at
    if row.collective == JOB or at is None or at.size == job.size:
        return row
    try:
        name = from_name(f"{job.placement}/{row.layout}").name
    except LayoutError:
        return row
    return replace(row, layout=name if row.ranks == job.size else row.layout, served_as=name)


def _rows(path: Path) -> list[Calls]:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            return _of_text(file, str(path))
    except OSError as error:
        raise CollforgeError(f"{path}: {error.strerror}") from error


def _of_text(lines: Iterable[str], name: str) -> list[Calls]:
    """Raises CollforgeError, with this name, for a text that is none."""
    try:
        reader = csv.DictReader(lines)
        if tuple(reader.fieldnames or ()) == COLUMNS:
            rows = [_calls(row) for row in reader]
            check_names(row.layout for row in rows)
            return rows
    except (ValueError, TypeError, csv.Error) as error:
        raise CollforgeError(f"{name} is damaged: {error}") from error
    raise CollforgeError(
        f"{name} is no profile of this version of Collforge: make one with COLLFORGE_PROFILE"
    )


def _calls(row: Mapping[str, str]) -> Calls:
    return Calls(
        row["collective"],
        row["layout"],
        row["origin"],
        _whole(row["bytes_from"]),
        _whole(row["calls"]),
        _whole(row["communicators"]),
        _whole(row["ranks"]),
        _whole(row["dropped"]),
        _number(row["call_bytes"]),
        _number(row["seconds"]),
        _number(row["waited"]),
        row["layout"],
        bool(_whole(row["blocking"])),
    )


def _number(text: str) -> float:
    """Raises ValueError for what no job can count, such as infinity: files come from strangers, too."""
    value = float(text)
    if not 0 <= value < MOST:
        raise ValueError(f"{text} is too large, or negative")
    return value


def _whole(text: str) -> int:
    _number(text)
    return int(text)


def _sum(a: Calls, b: Calls) -> Calls:
    return Calls(
        a.collective,
        a.layout,
        a.origin,
        a.bytes_from,
        a.calls + b.calls,
        a.communicators + b.communicators,
        max(a.ranks, b.ranks),
        a.dropped + b.dropped,
        a.bytes + b.bytes,
        a.seconds + b.seconds,
        a.waited + b.waited,
        a.served_as,
        a.blocking,
    )


@dataclass(frozen=True)
class Wanted:
    """The problems of a layout that are worth tuning, and their part of the time in collectives."""

    layout: str
    problems: frozenset[tuple[str, int]]
    """Collectives and bytes."""
    part: float
    dropped: bool = False
    """Whether the guard dropped a variant of each: what was expected, or measured, does not hold there."""


def worth_tuning(
    found: Profile, made: Manifest, least: float
) -> tuple[list[Wanted], dict[str, float]]:
    """What has at least the part ``least`` of the time in collectives, or where the guard dropped a variant.

    First the problems of the guard, then the others, each with the most expensive layout first. Calls of a
    bucket of sizes are one problem. Also the parts that cannot be tuned, by the reason.
    """
    total = found.moving or 1.0
    left_out: dict[str, float] = {}
    buckets: dict[tuple[str, str, int], Calls] = {}
    for row in found.rows:
        reason = _hindrance(made, row)
        if reason:
            left_out[reason] = left_out.get(reason, 0.0) + row.moving / total
            continue
        key = (row.layout, row.collective, row.bytes_from)
        buckets[key] = _sum(buckets[key], row) if key in buckets else row
    layouts: dict[tuple[str, bool], dict[tuple[str, int], float]] = {}
    for row in buckets.values():
        part = row.moving / total
        dropped = row.dropped > 0
        if part < least and not dropped:
            left_out["little time each"] = left_out.get("little time each", 0.0) + part
            continue
        layouts.setdefault((row.layout, dropped), {})[row.collective, measurable(row.size)] = part
    wanted = [
        Wanted(layout, frozenset(problems), sum(problems.values()), dropped)
        for (layout, dropped), problems in layouts.items()
    ]
    return sorted(wanted, key=lambda one: (not one.dropped, -one.part)), left_out


def measurable(nbytes: int) -> int:
    """Whole doubles, the type with which problems are measured, where there is one at least."""
    return max(1, round(nbytes / WORD)) * WORD if nbytes >= WORD else nbytes


def _hindrance(made: Manifest, row: Calls) -> str:
    """Why calls cannot be tuned at their size; empty if they can."""
    if row.collective not in {one.name for one in made.collectives}:
        return "a collective that this version does not know"
    entry = made.collective(row.collective)
    at = row.at
    if at is None:
        return "a layout without a readable name"
    if at.size == 1:
        return "one rank"
    if entry.sized == "none":
        return "without data: tune --collective NAME"
    if row.size == 0:
        return "no data"
    return "reductions of less than 4 bytes" if entry.has_op and row.size < MOST_TINY else ""
