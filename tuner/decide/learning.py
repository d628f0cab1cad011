"""What production jobs agree on: the verdicts of their guards (COLLFORGE_LEARN), evidence of its own kind.

A job tried few calls, beside other programs, and whoever may write to the folder may have written its file. So

* the jobs of an owner are one voice: the newest verdict. Root and the owner of the database have two;
* a variant is confirmed by JOBS jobs and VOICES voices, if they are more than twice those against it;
* it is refuted by VOICES voices that are not fewer than those for it;
* either holds on the very layout, threads included, where the map serves it, at sizes of the same quarter
  octave, and nowhere else: a measured winner that a job dropped is told as a regression (`dropped`) and stays
  until it is measured again.
"""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from collforge.db import JobRecord, Learnt, Store, Verdict
from collforge.layout import Layout, from_name
from collforge.place import Place
from collforge.serving import bucket, serving_layouts
from collforge.units import format_size
from collforge.variant import Variant

JOBS = 3
VOICES = 2
MOST = 4096
"""The newest of what is agreed on: jobs read all of it when they start."""

Key = tuple[str, Variant, int]
"""A layout, a variant, and the least of a quarter octave of sizes."""
Said = tuple[JobRecord, Verdict]


def summary(jobs: Iterable[JobRecord]) -> list[Learnt]:
    """What jobs with one system and MPI library agree on. ``jobs``: in the order of their ends."""
    found: dict[Key, list[Said]] = {}
    for job in jobs:
        for one in job.verdicts:
            found.setdefault((one.layout, one.variant, one.bytes), []).append((job, one))
    agreed = (_agreed(key, said) for key, said in found.items())
    return sorted((one for one in agreed if one), key=lambda one: one.last)[-MOST:]


def _agreed(key: Key, said: Sequence[Said]) -> Learnt | None:
    newest = {job.owner: verdict.kept for job, verdict in said}
    voices = {
        kept: sum(VOICES if not owner else 1 for owner, one in newest.items() if one is kept)
        for kept in (True, False)
    }
    agreeing = {
        kept: [(job, one) for job, one in said if one.kept is kept is newest[job.owner]]
        for kept in (True, False)
    }
    jobs = len({job.digest for job, _ in agreeing[True]})
    if voices[True] >= VOICES and jobs >= JOBS and voices[True] > 2 * voices[False]:
        confirmed = True
    elif voices[False] >= VOICES and voices[False] >= voices[True]:
        confirmed = False
    else:
        return None
    these = agreeing[confirmed]
    ends = [job.ended for job, _ in these]
    return Learnt(
        *key,
        confirmed,
        statistics.median(one.native / one.seconds for _, one in these),
        len({job.digest for job, _ in these}),
        len({job.owner for job, _ in these}),
        min(ends),
        max(ends),
    )


def renew(store: Store, place: Place) -> None:
    """Makes what the jobs with a place's system and MPI library agree on the stored rows."""
    store.replace_learnt(place, summary(store.jobs(place)))


def renew_all(store: Store) -> None:
    for place in store.job_places():
        renew(store, place)


def differences(store: Store) -> Iterator[str]:
    """Each system and MPI library of which the stored rows do not follow from the jobs."""
    for place in store.job_places():
        if set(store.learnt(place)) != set(summary(store.jobs(place))):
            yield (
                f"what jobs learnt on {place.system} with {place.mpi} ({place.mpi_version}) does not follow "
                "from them; run `collforge db learn` on an empty folder"
            )


def learnt_of(
    rows: Iterable[Learnt], layout: Layout, variant: Variant, nbytes: int
) -> Learnt | None:
    """What holds for a variant of the map in a call of ``nbytes`` bytes; None: nothing is learnt.

    As find_learnt and apply_learnt (sources.c and rules.c in runtime/src/winners).
    """
    at = layout.alone
    said = list(rows)
    for confirmed in (False, True):
        known = {one.layout for one in said if one.confirmed is confirmed}
        name = next((n for n in (at.name, replace(at, sockets="").name) if n in known), "")
        for one in said:
            if (
                (one.confirmed, one.layout, one.variant) == (confirmed, name, variant)
                and nbytes > 0
                and bucket(one.bytes) == bucket(nbytes)
            ):
                return one
    return None


def told(one: Learnt) -> str:
    """``confirmed by 14 jobs of 3 users, 2026-11-11 to 2026-11-25``."""
    first, last = one.first[:10], one.last[:10]
    when = f"{first} to {last}" if first != last else first
    jobs = f"{one.jobs} job{'s' * (one.jobs > 1)} of {one.owners} user{'s' * (one.owners > 1)}"
    return f"{'confirmed' if one.confirmed else 'refuted'} by {jobs}, {when}"


@dataclass(frozen=True)
class Dropped:
    """A measured winner that jobs dropped in a re-test."""

    place: Place
    variant: Variant
    bytes: int
    """Of the winner that is nearest to the calls."""
    jobs: int
    last: str
    ratio: float
    """Time of native / time of the variant: the median of these jobs."""

    def __str__(self) -> str:
        return (
            f"{self.variant.collective} of {format_size(self.bytes)} on {self.place.layout}: "
            f"{self.jobs} job{'s' * (self.jobs > 1)} dropped {self.variant.name}, "
            f"the last on {self.last[:10]}, at {self.ratio:.2f} times the speed of native"
        )


def _served_as(stored: Collection[str], name: str) -> list[str]:
    """The stored layouts whose winners serve a communicator of this layout, which may be a part of a job."""
    at = from_name(name)
    parts = (one for one in sorted(stored) if one.endswith(f"/{at.placement}"))
    return [*serving_layouts(stored, at), *parts]


def dropped(store: Store, place: Place) -> list[Dropped]:
    """The winners of a place's system and MPI library that jobs dropped after their decision.

    By one owner's files alone, too: they change nothing, and whoever looks may measure.
    """
    winners: dict[tuple[str, Variant], dict[int, str]] = {}
    for each in store.winners(place.system, place.mpi):
        if each.place.library == place.library and not each.choice.variant.is_native:
            key = each.place.layout, each.choice.variant
            winners.setdefault(key, {})[each.choice.bytes] = each.decided
    stored = {layout for layout, _ in winners}
    names: dict[str, list[str]] = {}
    found: dict[Key, list[Said]] = {}
    for job in store.jobs(place):
        for one in job.verdicts:
            if one.kept or not one.again:
                continue
            if one.layout not in names:
                names[one.layout] = _served_as(stored, one.layout)
            layout = next((n for n in names[one.layout] if (n, one.variant) in winners), "")
            decided = winners.get((layout, one.variant), {})
            size = min(decided, key=lambda n: abs(bucket(n) - bucket(one.bytes)), default=0)
            if job.ended > decided.get(size, "~"):
                found.setdefault((layout, one.variant, size), []).append((job, one))
    return [
        Dropped(
            Place(place.system, place.mpi, place.mpi_version, layout),
            variant,
            size,
            len({job.digest for job, _ in said}),
            max(job.ended for job, _ in said),
            statistics.median(one.native / one.seconds for _, one in said),
        )
        for (layout, variant, size), said in sorted(found.items())
    ]
