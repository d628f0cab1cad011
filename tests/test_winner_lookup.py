"""What serves a call, by the tuner's look-up and `collforge why`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from collforge.db import PREDICTED, Choice, MapPoint, Result, RunRecord, Store
from collforge.decision import DECIDED
from collforge.generator.manifest import Manifest
from collforge.layout import from_name
from collforge.place import Place
from collforge.tuner.cli.commands import why
from collforge.tuner.decide.winner_lookup import read_winners, rows_of, serving_winner
from collforge.variant import Variant

PLACE = Place("here", "openmpi", "Open MPI 4.1.4", "4x2")


def variant_of(made: Manifest, collective: str, family: str = "full_lane") -> Variant:
    (entry,) = [v for v in made.variants_of(collective) if v.family == family]
    point = entry.points(from_name("4x2").facts())[0]
    return Variant.from_name(collective, entry.name(point), entry.fingerprint)


@pytest.fixture
def store(made: Manifest, tmp_path: Path) -> Store:
    """Winners of bcast on 4x2, with this MPI library and an older one, and a map of five collectives."""
    names = ("bcast", "allgather", "scan", "allreduce", "gather")
    variants = [variant_of(made, name) for name in names]
    started = replace(variants[0], collective="ibcast")
    part = replace(PLACE, layout="8x2/4x2")
    old = replace(PLACE, mpi_version="Open MPI 4.1.3", layout="3x2")
    larger = replace(PLACE, layout="5x2")
    with Store(tmp_path / "db") as store:
        for number, place in enumerate((PLACE, part, old, larger)):
            shown = (*variants, started)
            results = tuple(Result(v, f"{v.collective}@4x2", 8, True) for v in shown)
            time = "2026-01-01T00:00:00Z"
            store.record_run(RunRecord(str(number), place, 4, 8, time, "", "", (), 0, results))
        own = Choice(4096, variants[0], 3.0, 2.9, 3.1, 3, DECIDED)
        store.replace_winners(PLACE, "bcast", [own])
        of_form = Choice(65536, started, 2.0, 1.9, 2.1, 3, DECIDED)
        store.replace_winners(PLACE, "ibcast", [of_form])
        for place in (part, larger):
            store.replace_winners(place, "bcast", [own])
        older = Choice(65536, variants[0], 9.0, 8.0, 9.1, 3, DECIDED)
        store.replace_winners(old, "bcast", [older])
        store.replace_map(
            PLACE,
            [
                *(MapPoint(4, 2, 4096, v, 2.0, 1.5, PREDICTED, ("4x2",)) for v in variants),
                MapPoint(4, 2, 65536, started, 2.0, 1.5, PREDICTED, ("4x2",)),
            ],
        )
    return Store(tmp_path / "db")


def served(store: Store, made: Manifest, layout: str, collective: str, nbytes: int) -> str:
    with store:
        winners = read_winners(store, made, PLACE, from_name(layout))
    found = serving_winner(made, winners, collective, nbytes)
    return f"{found.place.layout} {found.choice.bytes}" if found else "none"


@pytest.mark.parametrize(
    ("layout", "collective", "nbytes", "expected"),
    [
        ("4x2", "bcast", 4096, "4x2 4096"),  # its own, before the map
        ("4x2", "allgather", 4096, "~4x2 4096"),  # not measured there
        ("3x2", "bcast", 4096, "~4x2 4096"),  # another version's winners are not there
        ("3x2", "allgather", 5461, "~4x2 5461"),  # as many bytes in all, from fewer ranks
        ("3x2", "bcast", 8, "none"),  # below all sizes
        ("4x1", "bcast", 4096, "none"),  # another kind of layout
        ("4x2", "ibcast", 65536, "4x2 65536"),
        ("4x2", "ibcast", 4096, "4x2 4096"),  # not near its own: its collective's
        (
            "8x2/4x2",
            "ibcast",
            65536,
            "8x2/4x2 4096",
        ),  # its collective has winners for this part of a job
        ("5x2", "ibcast", 65536, "5x2 4096"),  # its collective has winners for this very layout
        ("3x2", "ibcast", 65536, "~4x2 65536"),
        ("3x2", "scan", 4096, "~4x2 4096"),
        ("cyclic:3x2", "scan", 4096, "none"),
        ("cyclic:3x2", "allreduce", 4096, "~4x2 4096"),
        ("cyclic:3x2", "gather", 5461, "~4x2 5461"),
        ("3+2+1", "gather", 5461, "none"),  # its nodes differ
        ("3+2+1", "bcast", 4096, "~4x2 4096"),
    ],
)
def test_which_row_serves(
    store: Store, made: Manifest, layout: str, collective: str, nbytes: int, expected: str
) -> None:
    assert served(store, made, layout, collective, nbytes) == expected


@pytest.mark.parametrize(
    ("layout", "collective", "nbytes", "words"),
    [
        ("4x2", "bcast", 5461, ["winners of 4x2", "3.00 times", "COLLFORGE_MEMORY"]),
        (
            "3x2",
            "allgather",
            5461,
            ["point 4x2 of the map", "2.00 times", "tried against native on"],
        ),
        ("3x2", "allreduce", 5461, ["point 4x2 of the map", "not tried against native"]),
        ("4x2", "ibcast", 5461, ["winners of 4x2", "3.00 times", "those of bcast serve it"]),
        ("4x2", "ibcast", 65536, ["winners of 4x2", "2.00 times", "(decided)"]),  # its own
        ("3x2", "iallgather", 5461, ["with COLLFORGE_NONBLOCKING=1", "tried against native on"]),
        ("7x7", "bcast", 5461, ["neither this layout nor one near it"]),
    ],
)
def test_why(
    store: Store, made: Manifest, layout: str, collective: str, nbytes: int, words: list[str]
) -> None:
    at = from_name(layout)
    with store:
        winners = rows_of(made, read_winners(store, made, PLACE, at), collective, nbytes)
    text = "\n".join(why.explain(made, at, winners, collective, nbytes).lines)
    assert all(word in text for word in words), text
