"""The rooms of runtime/src: no room includes or calls code of a later room."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Installation
from support import TOP, execute, launch_local

from collforge.db import migrate

SOURCES = TOP / "runtime" / "src"
# In order: a room may use only those before it.
ROOMS = (
    "base",
    "place",
    "data",
    "node",
    "lane",
    "chunks",
    "winners",
    "comm",
    "device",
    "start",
    "serve",
    "hybrid",
)


def files(room: str) -> list[Path]:
    return sorted(path for path in (SOURCES / room).rglob("*") if path.suffix in (".c", ".h"))


def included(path: Path) -> list[str]:
    return re.findall(r'#include "(.+)"', path.read_text())


def test_the_list_of_rooms_is_complete() -> None:
    assert {path.name for path in SOURCES.iterdir() if path.is_dir()} == set(ROOMS)


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_is_told_in_one_sentence(room: str) -> None:
    texts = [path.read_text() for path in files(room) if path.suffix == ".h"]
    assert sum(bool(re.match(rf"/\*[\s*]+The room {room}: [^.]+\.", text)) for text in texts) == 1


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_includes_what_is_below_it(room: str) -> None:
    # No header of the driver, and only these of the generated headers.
    below = (*ROOMS[: ROOMS.index(room) + 1], "collforge.h", "collforge_hybrid.h")
    below += {"base": ("arguments.h",), "lane": ("lane_algorithms.h",)}.get(room, ())
    wrong = [
        f"{path.name}: {name}"
        for path in files(room)
        for name in included(path)
        if name.split("/")[0] not in below
    ]
    assert not wrong


def headers_behind(header: str, way: tuple[str, ...] = ()) -> Iterator[str]:
    """All headers that a header includes, directly or not; fails if it includes itself."""
    assert header not in way, " includes ".join((*way, header))
    path = SOURCES / header
    for name in included(path) if path.is_file() else []:
        yield name
        yield from headers_behind(name, (*way, header))


@pytest.mark.parametrize("room", ROOMS)
def test_no_header_includes_itself(room: str) -> None:
    for path in files(room):
        list(headers_behind(str(path.relative_to(SOURCES))))


def test_only_descriptors_ask_for_the_mpi_library() -> None:
    asks = re.compile(r"^#.*(OPEN_MPI|OMPI_|MPICH|I_MPI_|MVAPICH|SMPI_H)", re.MULTILINE)
    found = {path.name for path in SOURCES.rglob("*.[ch]") if asks.search(path.read_text())}
    assert found == {path.name for path in (SOURCES / "base").glob("library_*.c")}


def symbols(objects: Path, kinds: str) -> dict[str, set[str]]:
    """Room -> symbols of these kinds (see nm) that begin with cf_."""
    found = {}
    for room in ROOMS:
        command = ["nm", *map(str, sorted((objects / room).rglob("*.o")))]
        names = re.findall(rf" [{kinds}] (cf_\w+)$", execute(command).stdout, re.MULTILINE)
        assert names, room
        found[room] = set(names)
    return found


@pytest.mark.either
def test_a_room_calls_what_is_below_it(built: Installation) -> None:
    objects = built.built.library_path.parent / "obj" / "src"
    defined = symbols(objects, "TDBR")
    wanted = symbols(objects, "U")
    wrong = [
        f"{room} uses {name} of {above}"
        for at, room in enumerate(ROOMS)
        for above in ROOMS[at + 1 :]
        for name in sorted(wanted[room] & defined[above])
    ]
    assert not wrong


@pytest.mark.either
def test_the_environment_is_read_by_its_table(built: Installation) -> None:
    """No other file calls getenv for a Collforge variable, and the docs repeat the table."""
    asked = [p for p in SOURCES.rglob("*.c") if 'getenv("COLLFORGE' in p.read_text()]
    assert not asked
    done = launch_local(built.library.name, 1, [str(built.built.driver_path), "--help"])
    told = re.findall(r"^\| `COLLFORGE_.*", done.stdout, re.MULTILINE)
    docs = "\n".join(
        path.read_text() for path in [TOP / "README.md", *(TOP / "docs").rglob("*.md")]
    )
    assert told == re.findall(r"^\| `COLLFORGE_.*", docs, re.MULTILINE)
    assert len(told) == len({row.partition("=")[0] for row in told}) > 10


def test_the_runtime_knows_the_schema() -> None:
    text = (SOURCES / "winners" / "winners.c").read_text()
    assert f"SCHEMA_VERSION = {migrate.VERSION}," in text
