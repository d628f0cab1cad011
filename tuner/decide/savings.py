"""What the stored winners are expected to save of the time that an application spends in collectives."""

from __future__ import annotations

from dataclasses import dataclass

from collforge.db import Store, Winner
from collforge.generator.manifest import Manifest
from collforge.layout import Layout, from_name
from collforge.place import Place
from collforge.tuner.decide.profile import Calls, Profile
from collforge.tuner.decide.winner_lookup import read_winners, serving_winner


@dataclass(frozen=True)
class Saving:
    """Of calls of a profile."""

    seconds: float
    """Sum over calls and ranks."""
    by: str
    """The variant that serves them and its evidence, or why native does."""


def savings(store: Store, made: Manifest, place: Place, found: Profile) -> list[Saving]:
    """Of each row of a profile, by the winners of a place's system and library; its layout is ignored."""
    known: dict[str, list[Winner]] = {}
    saved = []
    for row in found.rows:
        at = row.at
        if at is None:
            saved.append(Saving(0.0, "native: the layout's name is a hash"))
            continue
        if row.served_as not in known:
            known[row.served_as] = read_winners(store, made, place, from_name(row.served_as))
        winner = serving_winner(made, known[row.served_as], row.collective, row.size)
        saved.append(_saving(made, row, at, winner))
    return saved


def _saving(made: Manifest, row: Calls, at: Layout, winner: Winner | None) -> Saving:
    if winner is None:
        return Saving(0.0, "native: no stored size is near")
    choice = winner.choice
    if choice.variant.is_native:
        return Saving(0.0, f"native ({choice.evidence})")
    entries = {v.fingerprint: v for v in made.variants_of(row.collective)}
    if choice.variant.fingerprint not in entries:
        return Saving(0.0, f"native: {choice.variant.family} has changed, tune anew")
    if not entries[choice.variant.fingerprint].applies(made.facts(row.collective, at, row.size)):
        return Saving(0.0, f"native: {choice.variant.family} does not apply")
    seconds = row.moving * (1 - 1 / choice.ratio)
    return Saving(seconds, f"{choice.variant.name} ({choice.evidence})")
