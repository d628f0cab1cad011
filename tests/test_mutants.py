"""The mutants (tests/mutants): each applies to the product as it is, and names tests that exist."""

from __future__ import annotations

from collections import Counter

import pytest
from mutants.run import FAST_SHARE, TIERS, TOP, Mutant, mutated, read

MUTANTS = read()
LEAST = 40
ROOMS = {
    *(
        f"runtime/src/{room}"
        for room in ("base", "place", "data", "node", "lane", "chunks", "comm")
    ),
    *(f"runtime/src/{room}" for room in ("winners", "device", "start", "serve", "hybrid")),
    *("runtime/bench", "generator", "tuner", "db"),
}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda one: str(one.name))
def test_it_applies(mutant: Mutant) -> None:
    assert mutated(mutant, (TOP / mutant.file).read_text(encoding="utf-8"))
    assert mutant.tier in TIERS
    assert mutant.what and mutant.tests
    for test in mutant.tests:
        assert (TOP / test).is_file(), test


def test_they_cover_the_product() -> None:
    assert len(MUTANTS) >= LEAST
    assert max(Counter(one.name for one in MUTANTS).values()) == 1
    assert {room for room in ROOMS if any(one.file.startswith(room) for one in MUTANTS)} == ROOMS
    assert sum(one.tier == "fast" for one in MUTANTS) >= FAST_SHARE * len(MUTANTS)
