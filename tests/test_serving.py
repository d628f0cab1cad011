"""The serving rule: one set of test vectors for serving.py and runtime/src/winners/rules.c."""

from __future__ import annotations

from pathlib import Path

import pytest
from stub_build import Build, make_build
from support import LIBRARIES

from collforge.layout import from_name
from collforge.serving import (
    Point,
    Stored,
    bytes_at,
    decides,
    nearest_point,
    serving,
    serving_layout,
)

VECTORS = [
    line
    for line in (Path(__file__).parent / "data" / "serving.txt").read_text().splitlines()
    if line and not line.startswith("#")
]


def pairs(text: str) -> list[tuple[int, str]]:
    return [(int(size), name) for size, _, name in (word.partition("=") for word in text.split())]


def rows(text: str) -> list[Stored]:
    return [
        Stored(n, "" if name in ("native", "tie") else name, name == "tie")
        for n, name in pairs(text)
    ]


@pytest.fixture(scope="module")
def build() -> Build:
    return make_build(LIBRARIES[0], "units")


LAYOUTS = [line.removeprefix("layouts ") for line in VECTORS if line.startswith("layouts ")]
NEAR = [line.removeprefix("near ") for line in VECTORS if line.startswith("near ")]
SIZES = [line for line in VECTORS if not line.startswith(("layouts ", "near "))]


@pytest.mark.parametrize("vector", SIZES)
def test_python_and_the_runtime_serve_alike(build: Build, vector: str) -> None:
    stored, calls = vector.split("=>")
    own, _, of_collective = map(str.strip, stored.partition("/"))
    sizes = pairs(calls)
    names = []
    for nbytes, _ in sizes:
        follows = "/" in stored and not decides(rows(own), nbytes)
        row = serving(reversed(rows(of_collective if follows else own)), nbytes)
        names.append((nbytes, row.variant or ("tie" if row.tie else "native") if row else "native"))
    assert names == sizes
    told = build.units("serving", stored.strip(), *(str(n) for n, _ in sizes))
    assert told == [f"{n} {name.replace('tie', 'native')}" for n, name in sizes]


@pytest.mark.parametrize("vector", LAYOUTS)
def test_python_and_the_runtime_take_the_same_layout(build: Build, vector: str) -> None:
    head, _, calls = vector.partition(" => ")
    placement, _, layouts = head.partition(": ")
    for at, name in (word.split("=") for word in calls.split()):
        threads, _, sockets = at.partition("-")
        serves = [
            serving_layout(layouts.split(), placement, int(threads), on) for on in (sockets, "")
        ]
        assert (serves[0] or serves[1] or "none") == name
        assert build.units("layout", placement, at, *layouts.split()) == [name]


@pytest.mark.parametrize("vector", NEAR)
def test_python_and_the_runtime_take_the_same_point_of_the_map(build: Build, vector: str) -> None:
    head, _, calls = vector.partition(" => ")
    placement, _, stored = head.partition(": ")
    layout = from_name(placement)
    sizes = layout.node_sizes
    facts = [placement, layout.size, layout.nodes, min(sizes), max(sizes)]
    points = [
        Point(name[1] == "~", *map(int, name.lstrip("~").split("x")))
        for name in stored.split()
        if name[0] == "~"
    ]
    for word in calls.split():
        collective, _, expected = word.partition("=")
        (told,) = build.units("near", *map(str, facts), collective, *stored.split())
        assert told.split() == (
            [*expected.split(","), str(int("~" in expected))] if "," in expected else ["none"]
        )
        needs = ("even",) * (collective == "gather")  # cf_map_needs of tests/c/stub/registry.c
        follows = all(getattr(layout, need) for need in needs) and placement not in stored.split()
        point = nearest_point(points, layout) if follows else None
        if not expected.startswith("~"):
            assert point is None
            continue
        assert point is not None
        shape = point.nodes, point.ranks_per_node
        row = bytes_at(1024, shape, layout.size, collective == "gather")
        lowest = next(n for n in range(1, row + 1) if serving([Stored(row, "x")], n))
        name = f"{'~~' if point.far else '~'}{shape[0]}x{shape[1]}"
        assert [name, str(lowest)] == expected.split(",")


@pytest.mark.parametrize(
    ("threads", "stored", "serves"),
    [
        (1, "~2x2", "expected expected"),
        (1, "~2x2 =3x2", "expected learnt"),
        (1, "~2x2 !3x2", "expected native"),
        (1, "~2x2 =2x3 !3x2", "learnt native"),
        (1, "~2x2 =3x2 !3x2", "expected native"),
        (1, "=3x2", "native native"),
        (1, "~2x2 3x2 !3x2", "expected measured"),
        (1, "~2x2 =3x2x2 !3x2-packed", "expected expected"),
        (2, "~2x2 =3x2x2 !3x2", "expected learnt"),
        (2, "~2x2 =3x2 !2x3x4", "expected expected"),
        (2, "~2x2 =3x2 !3x2x2", "expected native"),
    ],
)
def test_what_jobs_learnt_holds_on_its_layout(
    build: Build, threads: int, stored: str, serves: str
) -> None:
    """Of the map, whose point serves both layouts; nothing else changes."""
    assert build.units("learnt", str(threads), *stored.split()) == serves.split()
