"""The costs of communicators of 10 000 and 100 000 ranks, with a simulated MPI library (tests/c/scale).

`.venv/bin/python -m pytest -s tests/test_scale.py` prints the table of docs/results.md.
"""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass
from functools import cached_property
from math import ceil, log2
from pathlib import Path
from typing import Any

import pytest
from stub_build import HERE, STUB, Build, link_alone, make_build
from support import LIBRARIES, execute, make_folder
from test_runtime_database import Database

SOURCES = HERE / "c" / "scale"
RANKS = (10_000, 100_000)
PER_NODE = 125
PIECE = 64  # CF_GROUP_PIECE of runtime/src/place/topology.c, as built for Open MPI
LAUNCHES = 5
INT = 4
each_size = pytest.mark.parametrize("ranks", RANKS)

Event = dict[str, Any]


@dataclass(frozen=True)
class Scale:
    """The program, and its output for each number of ranks."""

    program: Path
    database: Path

    def run(self, ranks: int) -> dict[str, Event]:
        """Event -> its cost; the event "left" has the bytes at the end."""
        at = Database(
            layout=f"{ranks // PER_NODE}x{PER_NODE}", mpi="mpich", version="MPICH that pretends"
        )
        path = self.database / f"{self.program.name}-{ranks}.db"
        if not path.exists():
            at.write(path, Build("mpich", self.database, ""))
        settings = [f"COLLFORGE_DB={path}", "COLLFORGE_START_TIMEOUT=60"]
        done = execute(["env", *settings, str(self.program), str(ranks)], timeout=60)
        assert (done.returncode, done.stderr) == (0, "")
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        return {str(line.get("event", "left")): line for line in lines}

    @cached_property
    def events(self) -> dict[int, dict[str, Event]]:
        """Number of ranks -> events. Times are medians over launches; all other values are repeatable."""
        found = {}
        for ranks in RANKS:
            launches = [self.run(ranks) for _ in range(LAUNCHES)]
            times: dict[str, list[float]] = {}
            for launch in launches:
                for name, event in launch.items():
                    times.setdefault(name, []).append(event.pop("microseconds", 0.0))
            assert all(launch == launches[0] for launch in launches)
            for name, event in launches[0].items():
                event["microseconds"] = statistics.median(times[name])
            found[ranks] = launches[0]
        return found


def link(build: Build, folder: Path) -> Path:
    wraps = [f"-Wl,--wrap={one}" for one in ("malloc", "calloc", "realloc", "free")]
    sources = (SOURCES / "scale.c", SOURCES / "mpi.c")
    return link_alone(build.folder, STUB, sources, folder, *wraps)


@pytest.fixture(scope="module")
def scale(tmp_path_factory: pytest.TempPathFactory) -> Scale:
    folder = tmp_path_factory.mktemp("scale")
    return Scale(link(make_build("mpich"), folder), folder)


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Scale:
    """The program with the rank translation that is used for Open MPI."""
    folder = tmp_path_factory.mktemp("searched")
    build = Build("mpich", make_folder("stub-mpich-pieces"), "", f"-O0 -DCF_GROUP_PIECE={PIECE}")
    assert build.make(STUB) == 0
    return Scale(link(build, folder), folder)


def paid(event: Event) -> tuple[int, int, int, int]:
    """The repeatable costs: collectives, bytes sent, allocations, bytes kept."""
    return (event["collectives"], event["bytes"], event["allocations"], event["kept"])


NOTHING = (0, 0, 0, 0)


@each_size
def test_an_untuned_size_costs_nothing(scale: Scale, ranks: int) -> None:
    found = scale.events[ranks]
    for name in ("untuned, first call", "untuned, later call", "untuned, both freed"):
        assert paid(found[name]) == NOTHING, name
    assert paid(found["duplicate of an untuned one, with its first call"]) == NOTHING


@each_size
def test_stage_one_is_local_and_paid_once(scale: Scale, ranks: int) -> None:
    found = scale.events[ranks]
    nodes = ranks // PER_NODE
    first = found["tuned, first call"]
    assert first["collectives"] == first["runs"] == 0
    arrays = INT * (2 * ranks + nodes)
    assert arrays < first["kept"] < arrays + 8192
    assert paid(found["duplicate"]) == NOTHING
    assert found["duplicate, first call"]["collectives"] == 0
    assert found["duplicate, first call"]["kept"] < 4000


def test_a_duplicate_keeps_the_same_whatever_the_ranks(scale: Scale) -> None:
    few, many = (scale.events[ranks] for ranks in RANKS)
    for name in ("duplicate, first call", "duplicate, second call"):
        assert few[name]["kept"] == many[name]["kept"], name
        assert few[name]["allocations"] == many[name]["allocations"], name
        assert few[name]["most"] == many[name]["most"], name


@each_size
def test_the_second_call_makes_communicators(scale: Scale, ranks: int) -> None:
    found = scale.events[ranks]
    for name in ("tuned, first call", "duplicate, first call", "all ranks backwards, first call"):
        assert (found[name]["made"], found[name]["runs"]) == (0, 0), name
    for name in ("tuned, second call", "duplicate, second call", "the world, first call"):
        event = found[name]
        # Five collectives: two agreements before (may be made, memory for lanes), node split, lane split, and
        # the agreement after.
        assert (event["made"], event["runs"], event["collectives"]) == (2, 1, 5), name
        assert event["steps"] == 5 * ceil(log2(ranks)), name
        assert event["bytes"] == 2 * 8 * (ranks - 1) + 3 * INT * ceil(log2(ranks)), name
    assert found["tuned, second call"]["kept"] < 5 * INT * ranks


@each_size
def test_later_calls_ask_for_nothing(scale: Scale, ranks: int) -> None:
    found = scale.events[ranks]
    for name in ("tuned, later call", "duplicate, later call", "the world, later call"):
        assert paid(found[name]) == NOTHING, name
        assert found[name]["runs"] == 1, name


@each_size
def test_short_lives_cost_nothing_for_long(scale: Scale, ranks: int) -> None:
    one, none = (
        scale.events[ranks][f"duplicate of the world: dup, {calls}free"]
        for calls in ("one call, ", "")
    )
    assert (one["collectives"], one["made"], one["runs"], one["kept"]) == (0, 0, 0, 0)
    assert paid(none) == NOTHING


@each_size
def test_the_last_duplicate_frees_what_is_shared(scale: Scale, ranks: int) -> None:
    found = scale.events[ranks]
    assert found["tuned, freed before its duplicate"]["kept"] > -5000
    assert found["duplicate, freed last"]["kept"] < -2 * INT * ranks
    names = [name for name in found if name.startswith(("tuned, ", "duplicate, "))]
    got = sum(found[name]["kept"] for name in [*names, "duplicate"])
    assert got == 0
    assert found["left"]["left"] == 0


@each_size
def test_ranks_in_order_are_found_piece_by_piece(scale: Scale, searched: Scale, ranks: int) -> None:
    """Counts the steps that Open MPI's translate_ranks would take."""
    name = "tuned, first call"
    assert scale.events[ranks][name]["compared"] == ranks * (ranks + 1) // 2
    assert searched.events[ranks][name]["compared"] <= ranks * PIECE
    assert searched.events[ranks]["the world, first call"]["compared"] == 0
    assert searched.events[ranks]["duplicate, first call"]["compared"] == 0
    backwards = "all ranks backwards, first call"
    assert searched.events[ranks][backwards]["compared"] < ranks * ranks


@each_size
def test_domains_take_no_square_of_the_ranks(scale: Scale, ranks: int) -> None:
    """The program checks the result of cf_layout_split_domains; quadratic time would be 10 s."""
    event = scale.events[ranks]["domains of the nodes"]
    assert event["collectives"] == 2
    assert event["bytes"] == INT * (ranks - 1) + INT * ceil(log2(ranks))
    assert event["microseconds"] < 1e6


@pytest.mark.wide
@pytest.mark.parametrize("piece", [pytest.param(1, marks=pytest.mark.slow), 2])
@pytest.mark.parametrize("mpi", LIBRARIES)
def test_layouts_found_piece_by_piece(mpi: str, piece: int) -> None:
    """With the real library, for all ranks in order and in reverse order."""
    build = Build(mpi, make_folder(f"stub-{mpi}-piece{piece}"), "", f"-DCF_GROUP_PIECE={piece}")
    assert build.make(STUB) == 0
    build.link(HERE / "c" / "program.c")
    for nodes, names in (("3,1,2", {"3+1+2", "2+1+3"}), ("map:0,1,0,1,0,1", {"cyclic:2x3"})):
        done = build.program(6, "layouts", COLLFORGE_NODE_MAP=nodes)
        assert set(done.out) == {f"layout {name}" for name in names}


# ---- the table -----------------------------------------------------------------------------------

ROWS = {
    "MPI_Init": "MPI_Init, with a winner for all ranks",
    "untuned, first call": "a size for which nothing is tuned: first call",
    "tuned, first call": "a tuned size: first call (native)",
    "duplicate": "its duplicate: MPI_Comm_dup",
    "duplicate, first call": "its duplicate: first call (native)",
    "tuned, second call": "second call, by the winner",
    "duplicate, second call": "its duplicate: second call, by the winner",
    "tuned, later call": "each later call",
    "duplicate of the world: dup, one call, free": "a duplicate of the world, called once and freed",
    "duplicate of the world: dup, free": "one freed without a call",
    "duplicate, freed last": "the last of the duplicates is freed",
}


def cell(event: Event) -> str:
    parts = (event["collectives"], event["steps"], event["bytes"], event["kept"])
    collectives, steps, sent, kept = (f"{part:,}".replace(",", " ") for part in parts)
    time = float(f"{event['microseconds']:.2g}")
    return f"{collectives} ({steps}) | {sent} | {kept} | {time:g}"


def test_table(scale: Scale) -> None:
    """Prints the table; the tests above assert its values, except the times."""
    head = "collectives (steps) | bytes sent | bytes kept | µs"
    lines = [f"| p | {' | '.join(f'{ranks}: {head}' for ranks in RANKS)} |"]
    lines.append("|---" * (1 + 4 * len(RANKS)) + "|")
    for name, words in ROWS.items():
        cells = " | ".join(cell(scale.events[ranks][name]) for ranks in RANKS)
        lines.append(f"| {words} | {cells} |")
    print("\n", *lines, sep="\n")
    assert len(lines) == 2 + len(ROWS)
