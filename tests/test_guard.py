"""The map of winners and the guard under the preload: random programs on communicators that nobody measured."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Installation, Launch
from hazards.build import compiled

from collforge.db import PREDICTED, MapPoint, Result, RunRecord, Store
from collforge.generator.manifest import Manifest
from collforge.layout import from_name
from collforge.place import Place
from collforge.toolchain import build
from collforge.variant import Variant

POINTS = ("1x2", "1x4", "2x1", "3x1", "2x2", "3x2")
SIZES = (1, 64, 1024, 16384)


def variants(made: Manifest, collective: str) -> list[Variant]:
    """The first and the last point of every variant on 2x2."""
    found: dict[Variant, None] = {}
    for entry in made.variants_of(collective):
        points = entry.points(from_name("2x2").facts())
        for point in (points[0], points[-1]):
            found[Variant.from_name(collective, entry.name(point), entry.fingerprint)] = None
    return list(found)


def rows(made: Manifest) -> Iterator[MapPoint]:
    """At every point and size another variant, whether it is fast or slow there."""
    for collective in made.collectives:
        if collective.sized != "block" or collective.hybrid:
            continue
        own = variants(made, collective.name)
        cells = [(name, size) for name in POINTS for size in SIZES]
        for turn, (name, size) in enumerate(cells):
            nodes, ranks = map(int, name.split("x"))
            yield MapPoint(nodes, ranks, size, own[turn % len(own)], 2.0, 1.5, PREDICTED, ("9x9",))


def write(path: Path, built: Installation, made: Manifest) -> Path:
    place = Place("here", built.library.name, built.library.first_line, "9x9")
    with Store(path) as store:
        found = list(rows(made))
        proofs = tuple(Result(v, "problem", 8, True) for v in {row.variant for row in found})
        time = "2026-01-01T00:00:00Z"
        store.record_run(RunRecord("uuid", place, 9, 81, time, "", "", (), 0, proofs))
        store.replace_map(place, found)
    return path


@pytest.fixture(scope="module")
def database(built: Installation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("map") / "db", built, build.read_manifest())


JOBS = [
    (ranks, nodes, threads)
    for ranks, nodes in [(4, "2"), (4, "3,1"), (6, "map:0,1,2,0,1,2"), (5, "1,2,2")]
    for threads in (1, 2)
]


@pytest.mark.parametrize("job", JOBS, ids=str)
@pytest.mark.parametrize("programs", [15, pytest.param(650, marks=pytest.mark.slow)])
def test_random_programs_under_the_guard(
    built: Installation,
    launch: Launch,
    database: Path,
    seed: int,
    job: tuple[int, str, int],
    programs: int,
) -> None:
    ranks, nodes, threads = job
    program = compiled(built, "trials")
    env = {
        "LD_PRELOAD": str(built.built.library_path),
        "COLLFORGE_DB": str(database),
        "COLLFORGE_SYSTEM": "here",
        "COLLFORGE_NODE_MAP": nodes,
        "COLLFORGE_GUARD": "reductions",
        "COLLFORGE_VERBOSE": "1",
    }
    words = [str(program), str(seed), str(programs), str(threads)]
    done = launch(built.library.name, ranks, words, env, timeout=1800 if programs > 100 else 120)
    assert (done.returncode, done.stdout) == (0, "passed\n"), words
    verdicts = re.findall(r"guard: \w+@.*: (kept|dropped)$", done.stderr, re.MULTILINE)
    # Open MPI makes no hidden communicators while other threads may make some (connect.c): all is native.
    can_serve = threads == 1 or built.library.flavor != "openmpi"
    assert len(verdicts) > 5 if can_serve else not verdicts
