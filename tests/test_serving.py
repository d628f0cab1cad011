"""Which stored winner serves a call: one set of vectors for serving.py and runtime/src/winners/rules.c."""

from __future__ import annotations

from pathlib import Path

import pytest
from stub_build import LIBRARIES, Build, make_build

from collforge.serving import Stored, serving, serving_layout

VECTORS = [
    line
    for line in (Path(__file__).parent / "data" / "serving.txt").read_text().splitlines()
    if line and not line.startswith("#")
]


def pairs(text: str) -> list[tuple[int, str]]:
    return [(int(size), name) for size, _, name in (word.partition("=") for word in text.split())]


@pytest.fixture(scope="module")
def build() -> Build:
    return make_build(LIBRARIES[0], "units")


@pytest.mark.parametrize("vector", VECTORS)
def test_python_and_the_runtime_serve_alike(build: Build, vector: str) -> None:
    stored, calls = map(pairs, vector.split("=>"))
    rows = [
        Stored(n, "" if name in ("native", "tie") else name, name == "tie") for n, name in stored
    ]
    served = [(nbytes, serving(reversed(rows), nbytes)) for nbytes, _ in calls]
    names = [
        (n, row.variant or ("tie" if row.tie else "native") if row else "native")
        for n, row in served
    ]
    assert names == calls
    told = build.units(
        "serving", vector.split("=>", maxsplit=1)[0].strip(), *(str(n) for n, _ in calls)
    )
    assert told == [f"{n} {name.replace('tie', 'native')}" for n, name in calls]


def test_the_layout_with_the_most_threads_that_a_program_has() -> None:
    stored = ["2x2", "2x2x2", "2x2x8", "2x22", "2x2x04"]
    assert [serving_layout(stored, "2x2", threads) for threads in (1, 2, 4, 7, 8, 99)] == [
        *("2x2", "2x2x2", "2x2x04", "2x2x04", "2x2x8", "2x2x8")
    ]
    assert serving_layout(["2x22", "2x2x3"], "2x2", 2) is None
