"""Databases of chosen winners, as if they had been tuned."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from collforge.db import PREDICTED, Choice, MapPoint, Result, RunRecord, Store
from collforge.decision import DECIDED
from collforge.generator.manifest import Manifest
from collforge.layout import from_name
from collforge.mpi_library import MpiLibrary
from collforge.place import Place
from collforge.variant import NATIVE, Variant

SIZE = 4
"""The bytes of every winner."""


def store_winners(
    path: Path,
    made: Manifest,
    library: MpiLibrary,
    winners: Mapping[str, Mapping[str, str]],
    system: str = "here",
) -> Path:
    """``winners``: layout -> collective -> family, or native. A variant is that of its first point.

    ``~2x2`` is a point of the map.
    """
    with Store(path) as store:
        for layout, families in winners.items():
            at = from_name(layout.lstrip("~"))
            place = Place(system, library.name, library.first_line, at.name)
            variants = [_variant(made, *names) for names in families.items()]
            proofs = tuple(Result(v, f"{v.collective}@{at.name}", 8, True) for v in variants)
            run = RunRecord(
                layout, place, at.nodes, at.size, "2026-01-01T00:00:00Z", "", "", (), 0, proofs
            )
            store.record_run(run)
            if layout.startswith("~"):
                numbers = at.nodes, at.size // at.nodes, SIZE
                store.replace_map(
                    place,
                    [MapPoint(*numbers, v, 2.0, 1.5, PREDICTED, ("9x9",)) for v in variants],
                )
                continue
            for one in variants:
                choice = Choice(SIZE, one, 2.0, 1.9, 2.1, 3, DECIDED)
                store.replace_winners(place, one.collective, [choice])
    return path


def _variant(made: Manifest, collective: str, family: str) -> Variant:
    if family == NATIVE:
        return Variant(collective)
    (entry,) = [v for v in made.variants_of(collective) if v.family == family]
    names = [entry.name(point) for point in entry.points(from_name("2x1").facts())]
    return Variant.from_name(collective, names[0], entry.fingerprint)
