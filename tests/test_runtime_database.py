"""The C runtime and databases: matching ones, and every kind of mismatch."""

from __future__ import annotations

import os
import re
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from stub_build import HERE, Build, make_build
from support import LIBRARIES

SCHEMA = HERE.parent / "db" / "schema.sql"


@pytest.fixture(scope="module", params=LIBRARIES)
def build(request: pytest.FixtureRequest) -> Build:
    return make_build(str(request.param), "program", "units", "native")


Row = tuple[str, int, str, str, str]
CHAIN: Row = (
    "allreduce",
    400,
    "full_lane",
    "lane_algorithm=chain,segment_bytes=64",
    "a1",
)
NATIVE: Row = ("allreduce", 400, "native", "", "")
HOW = ("", "", "[]", 7, "", "", "[]", "", 0)
"""The columns of a run that no runtime reads: versions, hosts, seed and how it was started."""


def insert(db: sqlite3.Connection, table: str, *values: object) -> int:
    """Inserts a row and returns its id."""
    marks = ", ".join("?" * len(values))
    row = db.execute(f"INSERT INTO {table} VALUES (NULL, {marks})", values).lastrowid
    assert row is not None
    return row


@dataclass(frozen=True)
class Database:
    """The contents of a test database: the rows for each of the systems (name, host pattern)."""

    rows: tuple[Row, ...] = (CHAIN,)
    systems: tuple[tuple[str, str], ...] = (("here", ""),)
    layout: str = "2x2"
    schema: int = 2
    mpi: str = ""
    version: str = ""
    points: tuple[tuple[int, int, Row], ...] = ()
    """Nodes, ranks per node, and the row of points of the map; they need schema 5."""
    evidence: str = "predicted"
    """Of the points."""

    def write(self, path: Path, build: Build) -> Path:
        time = "2026-01-01T00:00:00Z"
        with closing(sqlite3.connect(path)) as db, db:
            db.executescript(SCHEMA.read_text())
            db.execute(f"PRAGMA user_version = {self.schema}")
            version = self.version or build.version
            library = insert(db, "mpi_library", self.mpi or build.mpi, version)
            layout = insert(db, "layout", self.layout, 2, 4)
            known: dict[tuple[str, ...], int] = {}
            for collective, size, *names in self.rows:
                key = (collective, *names)
                variant = known[key] = known.get(key) or insert(db, "variant", *key)
                for name, pattern in self.systems:
                    db.execute(
                        "INSERT OR IGNORE INTO system VALUES (NULL, ?, ?)",
                        (name, pattern),
                    )
                    query = "SELECT id FROM system WHERE name = ?"
                    (system,) = db.execute(query, (name,)).fetchone()
                    run = insert(
                        db,
                        "run",
                        f"{variant}{name}{size}",
                        system,
                        library,
                        layout,
                        time,
                        *HOW,
                    )
                    proof = insert(db, "verification", run, variant, "problem", 1, "")
                    place = (system, library, layout, collective, size, variant)
                    insert(db, "winner", *place, 1.5, 1.4, 1.6, 3, proof, time, "decided", 2e-5)
            for nodes, ranks, (collective, size, *names) in self.points:
                variant = insert(db, "variant", collective, *names)
                run = insert(db, "run", f"point{variant}", 1, library, layout, time, *HOW)
                proof = insert(db, "verification", run, variant, "problem", 1, "")
                row = (1, library, nodes, ranks, collective, size, variant, 1.5, 1.4)
                insert(db, "point", *row, self.evidence, "[]", proof)
        return path


def runs_with(build: Build, path: Path, **variables: str) -> tuple[int, list[str]]:
    return build.runs(COLLFORGE_DB=str(path), **{"COLLFORGE_NODE_MAP": "2", **variables})


def test_winners_run(build: Build, tmp_path: Path) -> None:
    path = Database().write(tmp_path / "db", build)
    assert runs_with(build, path) == (1, [])
    assert runs_with(build, path, COLLFORGE_NODE_MAP="3,1") == (0, [])
    assert runs_with(build, path, COLLFORGE_FORCE="allreduce=native") == (0, [])


def test_winners_wait_for_a_second_call(build: Build, tmp_path: Path) -> None:
    """On communicators other than the world, so that one used for a single call gets no hidden ones."""
    path = Database().write(tmp_path / "db", build)
    for nodes in ("2", "map:0,0,1,1"):
        done = build.program(4, "second", COLLFORGE_DB=str(path), COLLFORGE_NODE_MAP=nodes)
        assert done.log == []


MAP = (
    (2, 2, ("bcast", 64, "hierarchical", "", "b2")),
    (2, 2, ("allreduce", 64, "full_lane", "lane_algorithm=ring,segment_bytes=64", "a1")),
)


@pytest.mark.parametrize("guard", ["0", "1", "reductions"])
@pytest.mark.parametrize("nodes", ["map:0,0,0,1", "2"])
def test_the_guard_drops_what_is_slower(
    build: Build, tmp_path: Path, guard: str, nodes: str
) -> None:
    """Also on the very layout of a point: that a row is on the map means that it was not measured there."""
    path = Database(schema=5, points=MAP, layout="9x9").write(tmp_path / "db", build)
    variables = {"COLLFORGE_DB": str(path), "COLLFORGE_NODE_MAP": nodes, "COLLFORGE_VERBOSE": "1"}
    done = build.program(4, "guard", COLLFORGE_GUARD=guard, **variables)
    verdicts = [line.rsplit(" ", 1)[1] for line in done.log if "guard: bcast@" in line]
    assert verdicts == ([] if guard == "0" else ["dropped", "kept"] * 2)


@pytest.mark.parametrize("nodes", ["map:0,0,0,1", "2"])
def test_a_trial_waits_until_native_calls_have_taken_some_time(
    build: Build, tmp_path: Path, nodes: str
) -> None:
    path = Database(schema=5, points=MAP, layout="9x9").write(tmp_path / "db", build)
    if nodes == "2":  # a map alone is served, too
        with closing(sqlite3.connect(path)) as db, db:
            db.execute("DELETE FROM winner")
    variables = {"COLLFORGE_DB": str(path), "COLLFORGE_NODE_MAP": nodes, "COLLFORGE_VERBOSE": "1"}
    done = build.program(4, "wait", COLLFORGE_GUARD_AFTER="0.3", **variables)
    assert len([line for line in done.log if "guard: bcast@" in line]) == 2


@pytest.mark.either
@pytest.mark.parametrize(
    "text", ["soon", "-1", "-0.5", "1,5", "1.", ".5", "1.+5", "1.5s", "1e3", " 1"]
)
def test_a_wait_that_is_no_time_is_refused_with_a_warning(
    build: Build, tmp_path: Path, text: str
) -> None:
    path = Database().write(tmp_path / "db", build)
    runs, log = runs_with(build, path, COLLFORGE_GUARD_AFTER=text)
    assert runs == 1
    (line,) = log
    assert line.startswith(f"collforge: warning: COLLFORGE_GUARD_AFTER='{text}' is no number")


@pytest.mark.either
def test_an_unknown_guard_is_refused_with_a_warning(build: Build, tmp_path: Path) -> None:
    path = Database().write(tmp_path / "db", build)
    runs, log = runs_with(build, path, COLLFORGE_GUARD="2")
    assert runs == 1
    assert log == ["collforge: warning: COLLFORGE_GUARD='2' is none of 0, 1, reductions; taking 1"]


@pytest.mark.either
def test_winners_of_a_layout_come_before_the_map(build: Build, tmp_path: Path) -> None:
    """And a collective without any there follows the map."""
    path = Database(schema=5, points=MAP).write(tmp_path / "db", build)
    assert runs_with(build, path, COLLFORGE_GUARD="0") == (1 + 4, [])
    _, log = runs_with(build, path, COLLFORGE_GUARD="0", COLLFORGE_VERBOSE="2")
    (allreduce,) = [line for line in log if "allreduce@2x2, 363 to" in line]
    assert "lane_algorithm=chain" in allreduce
    (bcast,) = [line for line in log if "bcast@2x2, 363 to" in line]
    assert bcast.endswith(": hierarchical")


@pytest.mark.parametrize(
    ("schema", "guard", "served"),
    [
        (10, "0", set()),
        (10, "1", {"bcast"}),
        (10, "reductions", {"bcast", "allreduce"}),
        (9, "reductions", set()),
    ],
)
def test_what_is_extrapolated_serves_where_it_is_tried(
    build: Build, tmp_path: Path, schema: int, guard: str, served: set[str]
) -> None:
    """Never without the guard, and reductions only where it tries them. A library of schema 9 sees none."""
    database = Database(schema=schema, points=MAP, layout="9x9", evidence="extrapolated")
    path = database.write(tmp_path / "db", build)
    _, log = runs_with(build, path, COLLFORGE_GUARD=guard, COLLFORGE_VERBOSE="2")
    at = [line for line in log if "@2x2, 363 to" in line and not line.endswith(": native")]
    assert {line.split("@")[0].split()[-1] for line in at} == served


@pytest.mark.either
def test_native_everywhere_is_inactive(build: Build, tmp_path: Path) -> None:
    path = Database(rows=(NATIVE,)).write(tmp_path / "db", build)
    assert runs_with(build, path) == (0, [])


@pytest.mark.either
@pytest.mark.parametrize("form", ["one", "mean"])
def test_what_is_native_at_a_glance_is_native_by_the_rules(
    build: Build, tmp_path: Path, form: str
) -> None:
    leader = ("hierarchical", "", "b2")
    rows = [("bcast", size, *leader) for size in (64, 4096)]
    rows += [("bcast", size, "native", "", "") for size in (16, 512, 65536)]
    path = Database(rows=tuple(rows)).write(tmp_path / "db", build)
    done = build.launch(
        4, str(build.folder / "native"), form, COLLFORGE_DB=str(path), COLLFORGE_NODE_MAP="2"
    )
    assert (done.code, done.log) == (0, [])
    found = re.fullmatch(r"glanced (\d+) native (\d+) tuned (\d+)", done.out[0])
    assert found, done.out
    glanced, native, tuned = map(int, found.groups())
    assert 20_000 < glanced < native
    assert tuned > 20_000


@pytest.mark.either
def test_the_first_line_of_the_version_is_enough(build: Build, tmp_path: Path) -> None:
    version = build.version.splitlines()[0]
    assert runs_with(build, Database(version=version).write(tmp_path / "db", build)) == (1, [])


@pytest.mark.either
@pytest.mark.parametrize(
    ("systems", "chosen", "runs"),
    [
        ((("a", "nobody"), ("b", "")), "b", 1),
        ((("a", "nobody"), ("b", ".*")), "", 1),
        ((("a", "[a-z"), ("b", ".*")), "", 1),
        ((("a", "."), ("b", ".*")), "", 1),
        ((("a", "nobody"), ("b", "")), "", 0),
        ((("a", ".*"), ("b", ".*")), "", 0),
        ((("a", ".*"),), "c", 0),
    ],
)
def test_system(
    build: Build,
    tmp_path: Path,
    systems: tuple[tuple[str, str], ...],
    chosen: str,
    runs: int,
) -> None:
    path = Database(systems=systems).write(tmp_path / "db", build)
    found, log = runs_with(build, path, COLLFORGE_SYSTEM=chosen)
    assert found == runs
    assert [("COLLFORGE_SYSTEM" in line or "collforge tune" in line) for line in log] == [True] * (
        1 - runs
    )


@pytest.mark.either
@pytest.mark.parametrize(
    ("database", "words"),
    [
        (Database(schema=0), "no Collforge database"),
        (Database(version="other"), "collforge tune"),
        (Database(rows=()), "collforge tune"),
        (Database(rows=(CHAIN, ("gather", 4, "tree", "", "x"))), "tree"),
        (
            Database(rows=(CHAIN, ("gather", 4, "hierarchical", "", "x"))),
            "other generated code",
        ),
        (Database(rows=(CHAIN, ("bcast", 4, "full_lane", "lanes=2", "b1"))), "lanes"),
        (Database(rows=(CHAIN, ("toast", 4, "full_lane", "", "t1"))), "toast"),
    ],
)
def test_a_database_that_does_not_fit_is_ignored_as_a_whole(
    build: Build, tmp_path: Path, database: Database, words: str
) -> None:
    runs, log = runs_with(build, database.write(tmp_path / "db", build))
    assert runs == 0
    assert len(log) == 1
    assert words in log[0]


@pytest.mark.either
@pytest.mark.parametrize("kind", ["missing", "folder", "empty", "text", "cut", "pipe"])
def test_no_database(build: Build, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "db"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "cut":
        os.truncate(Database().write(path, build), 5000)
    elif kind != "missing":
        path.write_text("" if kind == "empty" else "no database " * 1000)
    runs, log = runs_with(build, path)
    assert runs == 0
    assert len(log) == 1
    assert str(path) in log[0]


@pytest.mark.either
def test_a_database_that_is_being_written(build: Build, tmp_path: Path) -> None:
    path = Database().write(tmp_path / "db", build)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("BEGIN EXCLUSIVE")
        assert runs_with(build, path)[0] == 1, "a lock alone says nothing"
        db.execute("DELETE FROM winner")
        runs, log = runs_with(build, path)
    assert runs == 0
    assert len(log) == 1
    assert "a tuner writes to it" in log[0]
    assert runs_with(build, path)[0] == 1
