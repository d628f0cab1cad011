"""Winners rebuilt from the measurements by the decisions of `tune`, and compared with those stored."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from collforge.db import Choice, MapPoint, Store, Winner
from collforge.decision import MARGIN
from collforge.generator.manifest import Manifest
from collforge.layout import from_name
from collforge.place import Place
from collforge.tuner.decide import extrapolation, layout_map
from collforge.tuner.decide.decisions import Standing, read_own
from collforge.tuner.decide.plan import Goal
from collforge.units import format_size

Key = tuple[str, int]
"""Collective and bytes of a winner."""


@dataclass(frozen=True)
class Rules:
    """By what winners are decided: the variants that exist, and the confidence that a decision needs."""

    made: Manifest
    min_launches: int = Goal.min_launches
    margin: float = Goal.margin

    def goal(self, place: Place) -> Goal:
        """Everything that was measured at a place (database key)."""
        names = tuple(one.name for one in self.made.tunable)
        layout = from_name(place.layout)
        return Goal(layout, names, (), min_launches=self.min_launches, margin=self.margin)

    @property
    def fingerprints(self) -> set[str]:
        """Of all variants that exist, native's included."""
        return {"", *(one.fingerprint for one in self.made.variants)}

    def is_stale(self, choice: Choice) -> bool:
        """Whether the chosen variant is of code that is no longer generated."""
        return choice.variant.fingerprint not in self.fingerprints


def read(store: Store, rules: Rules, place: Place) -> Standing:
    """All decisions at a place (database key), from its measurements."""
    return read_own(store, rules.made, rules.goal(place), place)


def winners(standing: Standing) -> dict[Key, Choice]:
    """What would be stored."""
    return {
        (collective, choice.bytes): choice
        for collective in standing.measured()
        for choice in standing.stored(collective)[0]
    }


def stored_at(store: Store, place: Place) -> dict[Key, Winner]:
    return {
        (one.choice.variant.collective, one.choice.bytes): one for one in store.winners_at(place)
    }


def renew(store: Store, rules: Rules, place: Place) -> None:
    """Makes the decisions at a place (database key) the stored winners.

    Collectives with a winner whose code is no longer generated keep what they have: nothing can be decided
    for them here.
    """
    store_prepared(store, rules, place, prepare(store, rules, place))


def renew_map(store: Store, rules: Rules, place: Place) -> None:
    """The same for the map of the place's system and MPI library."""
    renew(store, rules, place.library)


@dataclass(frozen=True)
class Prepared:
    """What was decided at a place, or of the map where it has no layout; not stored yet."""

    standing: Standing | None = None
    points: Sequence[MapPoint] = ()


def prepare(store: Store, rules: Rules, place: Place) -> Prepared:
    """Decides, which takes long, and changes nothing."""
    if place.layout:
        return Prepared(read(store, rules, place))
    sources = layout_map.read_sources(store, rules.made, place, rules.margin)
    return Prepared(points=extrapolation.points(sources))


def store_prepared(store: Store, rules: Rules, place: Place, found: Prepared) -> None:
    """Stores what `prepare` decided; the measurements must be the same still."""
    if found.standing is None:
        known = rules.fingerprints
        if all(one.variant.fingerprint in known for one in store.map(place)):
            store.replace_map(place, found.points)
        return
    stale = {key[0] for key, one in stored_at(store, place).items() if rules.is_stale(one.choice)}
    for collective in found.standing.measured():
        if collective not in stale:
            store.replace_winners(place, collective, *found.standing.stored(collective))


def choices_at(store: Store, place: Place) -> dict[Key, Choice]:
    return {key: one.choice for key, one in stored_at(store, place).items()}


def changes(
    before: Mapping[Key, Choice | None], after: Mapping[Key, Choice | None]
) -> Iterator[str]:
    """Each winner that is another one, is new or is gone: ``bcast of 1 KiB: OLD -> NEW``."""
    for key in sorted({*before, *after}):
        old, new = before.get(key), after.get(key)
        if old is None or new is None or old.variant != new.variant:
            yield f"{key[0]} of {format_size(key[1])}: {told(old)} -> {told(new)}"


def differences(store: Store, rules: Rules) -> Iterator[str]:
    """Each stored winner that does not follow from the measurements, each that is missing, and why."""
    runs = store.runs()
    places = {one.place for one in store.winners()}
    for place in sorted({*places, *(one.place for one in runs)}):
        stored, standing = stored_at(store, place), read(store, rules, place)
        rebuilt = winners(standing)
        newest = max((one.started for one in runs if one.place == place), default="")
        for key in sorted({*stored, *rebuilt}):
            old, new = stored.get(key), rebuilt.get(key)
            if not (old and new and is_alike(old.choice, new)):
                has, gives = (told(one) for one in (old.choice if old else None, new))
                why = _why(rules, standing, old, newest)
                size = format_size(key[1])
                yield f"{name(place)}: {key[0]} of {size}: stored is {has}, measured is {gives}: {why}"


def map_differences(store: Store, rules: Rules) -> Iterator[str]:
    """Each system and MPI library whose map does not follow from the measurements."""
    for place in sorted({place.library for place in store.places()}):
        stored = {_at(one): one for one in store.map(place)}
        sources = layout_map.read_sources(store, rules.made, place, rules.margin)
        rebuilt = {_at(one): one for one in extrapolation.points(sources)}
        other = [
            at
            for at in {*stored, *rebuilt}
            if at not in stored or at not in rebuilt or not _agree(stored[at], rebuilt[at])
        ]
        if other:
            yield (
                f"the map of {place.system}, {place.mpi} ({place.mpi_version}) is not that of the measurements "
                f"at {len(other)} of {len({*stored, *rebuilt})} points; tune again"
            )


def _at(one: MapPoint) -> tuple[int, int, str, int]:
    return one.nodes, one.ranks_per_node, one.variant.collective, one.bytes


def _agree(one: MapPoint, other: MapPoint) -> bool:
    return one.variant == other.variant and math.isclose(one.ratio, other.ratio, rel_tol=MARGIN)


def is_alike(stored: Choice, rebuilt: Choice) -> bool:
    """Whether they serve calls alike, and the ratios agree within the margin.

    Ratios depend a little on the noise of all the place's measurements, also of those that came later.
    """
    same = (stored.variant, stored.evidence) == (rebuilt.variant, rebuilt.evidence)
    low, high = rebuilt.low / (1 + MARGIN), rebuilt.high * (1 + MARGIN)
    return same and low <= stored.ratio <= high


def told(choice: Choice | None) -> str:
    if choice is None:
        return "nothing"
    ratio = "" if choice.variant.is_native else f" {choice.ratio:.2f}x native"
    return f"{choice.variant.name}{ratio} ({choice.evidence})"


def name(place: Place) -> str:
    return f"{place.system}, {place.mpi} ({place.mpi_version}), {place.layout}"


def _why(rules: Rules, standing: Standing, stored: Winner | None, newest: str) -> str:
    """Why a stored winner is not the rebuilt one. ``newest``: the date of the place's last run."""
    verified = standing.seen.verified or ()
    variant = stored.choice.variant if stored else None
    if stored and rules.is_stale(stored.choice):
        return (
            "its code is no longer generated; tune again, or go back to the Collforge that has it"
        )
    if variant in standing.seen.failed:
        return "it failed a verification; tune again"
    if variant and not variant.is_native and variant not in verified:
        return "it has no passing verification; tune again"
    if stored is None or newest > stored.decided:
        return "what was stored later changes it (runs, or a failed verification); tune again"
    return "it was changed, or decided by another --margin or --launches"
