"""Irregular collectives choose by the sizes that the ranks have exchanged."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from conftest import Installation, Launch
from hazards.build import compiled
from preloaded import with_winners

from collforge.db import Choice, Result, RunRecord, Store
from collforge.generator.manifest import Manifest
from collforge.layout import from_name
from collforge.place import Place
from collforge.toolchain import build
from collforge.variant import Variant

COLLECTIVES = ("alltoallv", "gatherv", "scatterv")
SMALL, LARGE = 8, 8192


def chosen(made: Manifest, collective: str) -> list[Variant]:
    entries = made.variants_of(collective)
    points = [(one, one.points(from_name("2x2").facts())[0]) for one in entries]
    return [Variant.from_name(collective, e.name(p), e.fingerprint) for e, p in points]


@pytest.fixture
def database(built: Installation, tmp_path: Path) -> Path:
    """Native wins for small blocks, a variant for large ones."""
    made = build.read_manifest()
    place = Place("here", built.library.name, built.library.first_line, "2x2")
    winners = {name: chosen(made, name)[0] for name in COLLECTIVES}
    proofs = tuple(Result(v, f"{name}@2x2", 8, True) for name, v in winners.items())
    with Store(tmp_path / "db") as store:
        time = "2026-01-01T00:00:00Z"
        store.record_run(RunRecord("uuid", place, 2, 4, time, "", "", (), 0, proofs))
        for name, variant in winners.items():
            small = Choice(SMALL, Variant(name), 1.0, 1.0, 1.0, 3)
            large = Choice(LARGE, variant, 2.0, 1.9, 2.1, 3, seconds=1e-4)
            store.replace_winners(place, name, [small, large])
    return tmp_path / "db"


@pytest.mark.either
@pytest.mark.parametrize("verbose", ["1", "2"])
def test_small_and_large_blocks_in_random_order(
    built: Installation, launch: Launch, database: Path, seed: int, verbose: str
) -> None:
    env = with_winners(built, database, COLLFORGE_VERBOSE=verbose)
    words = [str(compiled(built, "irregular")), str(seed), "2000"]
    done = launch(built.library.name, 4, words, env, timeout=120)
    assert (done.returncode, done.stdout) == (0, "passed\n"), words
    # The choice of these is known at their end only.
    last = re.search(r"variants served (\d+) of (\d+) calls .* saved (\S+) s \(", done.stderr)
    assert last, done.stderr
    served_calls, calls, seconds = map(float, last.groups())
    assert 0 < served_calls < calls
    assert seconds == pytest.approx(1e-4 * served_calls, rel=0.01)
    if verbose == "1":
        return
    found = re.findall(r"(\w+)@2x2, (\d+) to \d+ bytes: (\w+)", done.stderr)
    for name in COLLECTIVES:
        served = {int(size): choice != "native" for one, size, choice in found if one == name}
        assert not any(variant for size, variant in served.items() if size < 200), served
        assert all(variant for size, variant in served.items() if size >= LARGE), served
        assert len(set(served.values())) == 2, served


@pytest.mark.either
def test_nothing_is_exchanged_where_native_always_wins(
    built: Installation, launch: Launch, database: Path, seed: int
) -> None:
    place = Place("here", built.library.name, built.library.first_line, "2x2")
    with Store(database) as store:
        for name in COLLECTIVES:
            store.replace_winners(place, name, [Choice(LARGE, Variant(name), 1.0, 1.0, 1.0, 3)])
    env = with_winners(built, database, COLLFORGE_VERBOSE="2")
    words = [str(compiled(built, "irregular")), str(seed), "200"]
    done = launch(built.library.name, 4, words, env, timeout=120)
    assert (done.returncode, done.stdout) == (0, "passed\n"), words
    found = re.findall(r"(\w+)@2x2, (\d+) to \d+ bytes: (\w+)", done.stderr)
    assert not [row for row in found if row[0] in COLLECTIVES and row[1] != "1"]
