"""The C runtime with a stub registry (tests/c/stub): three collectives, variants that count their runs."""

from __future__ import annotations

import csv
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
RUNTIME = HERE.parent / "runtime"
STUB = HERE / "c" / "stub"
SCHEMA = HERE.parent / "db" / "schema.sql"
WRAPPED = {"MPI_Bcast", "MPI_Allreduce", "MPI_Gather"}

OPENMPI = "mpirun.openmpi --oversubscribe --mca pml ob1 --mca btl vader,self"
MPIRUN = {
    "openmpi": [*OPENMPI.split(), "--mca", "mpi_yield_when_idle", "1"],
    "mpich": ["mpirun.mpich"],
}


@dataclass(frozen=True)
class Output:
    """What a finished process left behind; err holds the lines that are Collforge's."""

    code: int
    out: list[str]
    err: list[str]


def execute(command: list[str], seconds: float = 90, **variables: str) -> Output:
    """Runs a command in its own process group, which is killed when the time is over."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("COLLFORGE_")}
    environment.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", **variables)
    with subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            out, err = process.communicate(timeout=seconds)
        except BaseException:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
    print(out, err, sep="\n")
    lines = [line for line in err.splitlines() if line.startswith("collforge: ")]
    return Output(process.returncode, out.splitlines(), lines)


@dataclass(frozen=True)
class Build:
    """The runtime built with the stub for one MPI library."""

    mpi: str
    folder: Path
    version: str

    @property
    def library(self) -> Path:
        return self.folder / "libcollforge.so"

    def make(self, generated: Path, *options: str) -> Output:
        command = [
            "make",
            "-j2",
            "-C",
            str(RUNTIME),
            f"MPICC=mpicc.{self.mpi}",
            f"OUT={self.folder}",
        ]
        command += [f"GENERATED={generated}", "VERSION=1.2.3", *options, str(self.library)]
        return execute(command, 300)

    def link(self, source: Path) -> None:
        """A program that has the runtime's object files in it, and so sees hidden functions."""
        objects = [str(path) for path in sorted((self.folder / "obj").rglob("*.o"))]
        flags = ["-std=c11", "-D_POSIX_C_SOURCE=200809L", "-g", "-pthread"]
        flags += ["-Wall", "-Wextra", "-Werror"]
        flags += [f"-I{folder}" for folder in (RUNTIME / "src", RUNTIME / "include", STUB)]
        target = self.folder / source.stem
        command = [f"mpicc.{self.mpi}", *flags, str(source), "-o", str(target), *objects]
        assert execute([*command, "-lsqlite3", "-lm"], 120).code == 0

    def units(self, *arguments: str) -> list[str]:
        done = execute([str(self.folder / "units"), *arguments])
        assert done.code == 0
        return done.out

    def launch(self, ranks: int, *command: str, **variables: str) -> Output:
        return execute([*MPIRUN[self.mpi], "-n", str(ranks), *command], **variables)

    def program(self, ranks: int, command: str, **variables: str) -> Output:
        done = self.launch(ranks, str(self.folder / "program"), command, **variables)
        assert done.code == 0
        return done

    def runs(self, ranks: int = 4, **variables: str) -> tuple[int, list[str]]:
        """How many variants ran on world rank 0 in a program whose results are right, and the log."""
        done = self.program(ranks, "results", **variables)
        found = re.fullmatch(r"runs (\d+) .* version 1\.2\.3", done.out[-1])
        assert found
        return int(found[1]), done.err


def make_build(mpi: str, folder: Path, *programs: str) -> Build:
    source = folder / "version.c"
    source.write_text(
        "#include <mpi.h>\n#include <stdio.h>\nint main(void) {\nint length;\n"
        "char version[MPI_MAX_LIBRARY_VERSION_STRING];\n"
        "MPI_Get_library_version(version, &length);\nreturn puts(version) < 0;\n}\n"
    )
    assert execute([f"mpicc.{mpi}", str(source), "-o", str(folder / "version")]).code == 0
    version = "\n".join(execute([str(folder / "version")]).out).rstrip()
    built = Build(mpi, folder, version)
    assert built.make(STUB).code == 0
    for name in programs:
        built.link(HERE / "c" / f"{name}.c")
    return built


@pytest.fixture(scope="session", params=sorted(MPIRUN))
def build(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Build:
    mpi = str(request.param)
    if shutil.which(f"mpicc.{mpi}") is None:
        pytest.skip(f"mpicc.{mpi} is not installed")
    return make_build(mpi, tmp_path_factory.mktemp(mpi), "program")


@pytest.fixture(scope="session")
def one_build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """For what has nothing to do with MPI."""
    mpi = next((name for name in sorted(MPIRUN) if shutil.which(f"mpicc.{name}")), None)
    if mpi is None:
        pytest.skip("no MPI library is installed")
    return make_build(mpi, tmp_path_factory.mktemp("units"), "units")


# ---- without MPI_Init ---------------------------------------------------------------------------


@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
def test_handle_table(tmp_path: Path, sanitizer: str) -> None:
    program = tmp_path / "table"
    command = ["gcc", "-std=c11", "-g", "-O1", f"-fsanitize={sanitizer}", f"-I{RUNTIME / 'src'}"]
    command += ["-pthread", "-o", str(program), str(HERE / "c" / "table.c")]
    assert execute([*command, str(RUNTIME / "src" / "handle_table.c")], 120).code == 0
    done = execute([str(program)])
    assert (done.code, done.out) == (0, ["passed"])


def test_sizes_are_bucketed_exactly(one_build: Build) -> None:
    assert one_build.units("sizes") == ["passed"]


@pytest.mark.parametrize(
    ("collective", "text", "expected"),
    [
        ("bcast", "native", "native"),
        ("bcast", "hierarchical", "hierarchical"),
        ("bcast", "full_lane", "full_lane[lane_algorithm=native,segment_bytes=4096]"),
        (
            "allreduce",
            "full_lane[segment_bytes=0,lane_algorithm=ring]",
            "full_lane[lane_algorithm=ring,segment_bytes=0]",
        ),
        (
            "bcast",
            "full_lane[segment_bytes=77]",
            "full_lane[lane_algorithm=native,segment_bytes=77]",
        ),
        ("bcast", "full_lane[segment_bytes=63]", "error"),
        ("bcast", "full_lane[segment_bytes=-1]", "error"),
        ("bcast", "full_lane[segment_bytes=4294967296]", "error"),
        ("bcast", "full_lane[segment_bytes=]", "error"),
        ("bcast", "full_lane[segment_bytes=64,segment_bytes=64]", "error"),
        ("bcast", "full_lane[lane_algorithm=tree]", "error"),
        ("bcast", "full_lane[lanes=2]", "error"),
        ("bcast", "full_lane[lane_algorithm]", "error"),
        ("bcast", "full_lane[lane_algorithm=ring,]", "error"),
        ("bcast", "full_lane[lane_algorithm=ring", "error"),
        ("bcast", "full_lane[lane_algorithm=ring]x", "error"),
        ("bcast", "full_lane[]", "error"),
        ("bcast", "native[]", "error"),
        ("bcast", "", "error"),
        ("allreduce", "hierarchical", "error"),
        ("barrier", "native", "error"),
    ],
)
def test_choice(one_build: Build, collective: str, text: str, expected: str) -> None:
    (line,) = one_build.units("choice", collective, text)
    assert line == expected or (expected == "error" and line.startswith("error: "))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("*=hierarchical", ["bcast hierarchical", "gather hierarchical"]),
        ("gather=native;*=hierarchical;", ["bcast hierarchical", "gather native"]),
        ("*=failing;bcast=hierarchical", ["bcast hierarchical"]),
        ("bcast=failing;bcast=hierarchical", ["bcast hierarchical"]),
        ("", []),
    ],
)
def test_force(one_build: Build, text: str, expected: list[str]) -> None:
    assert one_build.units("force", text) == expected


@pytest.mark.parametrize("text", ["bcast", "=native", "*=no", "no=native", ";", "bcast=native;x"])
def test_malformed_force_is_ignored_as_a_whole(one_build: Build, text: str) -> None:
    (line,) = one_build.units("force", text)
    assert line.startswith("error: ")


def fnv1a(text: str) -> int:
    """64-bit FNV-1a, by its definition."""
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


# The node of each of 201 ranks in blocks of 2, 1, 2, 1, ...: too many nodes to spell out.
UNEVEN = ".".join(f"{node}" for node in range(134) for _ in range(2 - node % 2))


@pytest.mark.parametrize(
    ("ranks", "text", "name"),
    [
        (4, "2", "2x2"),
        (4, "1", "4x1"),
        (4, "9", "1x4"),
        (1, "map:0", "1x1"),
        (4, "3,1", "3+1"),
        (6, "3,1", "3+1+1+1"),
        (5, "2,2,1,7", "2+2+1"),
        (6, "map:0,1,0,1,0,1", "cyclic:2x3"),
        (6, "map:5,4,3,5,4,3", "cyclic:3x2"),
        (5, "map:0,1,0,1,0", "map:0.1.0.1.0"),
        (4, "map:3,1,1,3", "map:0.1.1.0"),
        (4, "map:3,3,0,0", "2x2"),
        (64, "map:" + ",".join(["0", "1", "1", "0"] * 16), "map:" + ".".join("0110" * 16)),
        (66, "map:" + ",".join("010" * 22), f"map#{fnv1a('.'.join('010' * 22)):016x}"),
        (201, ",".join(["2", "1"] * 67), f"map#{fnv1a(UNEVEN):016x}"),
    ],
)
def test_layout_names(one_build: Build, ranks: int, text: str, name: str) -> None:
    assert one_build.units("map", str(ranks), text) == [name]


@pytest.mark.parametrize(
    "text",
    ["0", "-1", "a", "2,", ",2", "2,,2", "2,0", "2 ", "2;2", "99999999999", "map:", "map:0,1,0"]
    + ["map:0,1,0,4", "map:0,1,0,1,0", "map:0,1,0,1,", "map:0.1.0.1", "MAP:0,1,0,1"],
)
def test_malformed_node_maps(one_build: Build, text: str) -> None:
    assert one_build.units("map", "4", text) == ["error: map"]


@pytest.mark.parametrize(
    "nodes", [[0, 0, 1, 1], [0, 0, 0, 1, 1], [0, 1, 0, 1, 0, 1], [0, 1, 1, 0, 0], [0], [0, 1]]
)
def test_lanes(one_build: Build, nodes: list[int]) -> None:
    """The orders by their definition."""
    members = [[r for r, node in enumerate(nodes) if node == n] for n in range(max(nodes) + 1)]
    expected = []
    for title, k in (("full", min(map(len, members))), ("single", 1)):
        shares = [ranks[lane::k] for lane in range(k) for ranks in members]
        order = [rank for share in shares for rank in share]
        lanes = [sum(map(len, shares[lane * len(members) :][: len(members)])) for lane in range(k)]
        expected.append(f"{title}: k {k} identity {int(order == sorted(order))}")
        expected.append("  order " + " ".join(map(str, order)))
        expected.append("  lane_size " + " ".join(map(str, lanes)))
        expected.append("  share_size " + " ".join(str(len(share)) for share in shares))
    text = "map:" + ",".join(map(str, nodes))
    assert one_build.units("lanes", str(len(nodes)), text)[1:] == expected


def rules(build: Build, *winners: str) -> dict[int, str]:
    lines = build.units("rules", *winners)
    return {int(size): choice.partition("[")[0] for size, choice in map(str.split, lines)}


def test_a_size_takes_the_winner_of_the_nearest_measured_one(one_build: Build) -> None:
    found = rules(one_build, "2x2:65536:full_lane", "2x2:1024:hierarchical", "2x2:4096:native")
    assert [size for size, choice in found.items() if choice == "hierarchical"] == [
        *(1000, 1024, 1448, 1449)
    ]
    assert [size for size, choice in found.items() if choice == "full_lane"] == [
        *(16384, 65536, 1 << 20, 2**31 - 1)
    ]


def test_below_the_smallest_measured_size_is_native(one_build: Build) -> None:
    found = rules(one_build, "2x2:724:hierarchical")
    assert found[500] == "native"
    assert found[512] == "hierarchical"


def test_forced_choice_goes_before_winners_of_its_collective(one_build: Build) -> None:
    found = rules(one_build, "*:1:hierarchical", "2x2:1024:full_lane")
    assert set(found.values()) == {"hierarchical"}


def test_no_rules_where_native_is_best(one_build: Build) -> None:
    for winner in ("4x1:64:hierarchical", "2x2:64:native"):
        assert one_build.units("rules", winner) == ["none"]


# ---- communicators ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ranks", "text", "names"),
    [
        (4, "2", ["2x2", "2x2"]),
        (4, "3,1", ["3+1", "1+3"]),
        (6, "map:0,1,0,1,0,1", ["cyclic:2x3", "cyclic:2x3"]),
        (5, "2,2,1", ["2+2+1", "1+2+2"]),
        (4, "map:0,1,1,0", ["map:0.1.1.0", "map:0.1.1.0"]),
        (4, "", ["1x4", "1x4"]),
    ],
)
def test_layouts(build: Build, ranks: int, text: str, names: list[str]) -> None:
    done = build.program(ranks, "layouts", COLLFORGE_NODE_MAP=text)
    assert done.out == [f"layout {name}" for name in names]
    assert done.err == []


def test_freed_and_reused_handles(build: Build) -> None:
    build.program(2, "handles", COLLFORGE_NODE_MAP="1", COLLFORGE_FORCE="*=hierarchical")


def test_communicators_of_several_threads(build: Build) -> None:
    build.program(2, "threads", COLLFORGE_NODE_MAP="1", COLLFORGE_FORCE="*=full_lane")


def test_errors_reach_the_users_handler(build: Build) -> None:
    force = "bcast=failing;allreduce=full_lane"
    done = build.program(2, "errors", COLLFORGE_NODE_MAP="1", COLLFORGE_FORCE=force)
    assert done.err == []


# ---- settings -----------------------------------------------------------------------------------


@pytest.mark.parametrize("node_map", ["2", "3,1", "map:0,1,0,1"])
def test_forced_variants_run(build: Build, node_map: str) -> None:
    force = "*=full_lane;gather=hierarchical"
    runs, log = build.runs(COLLFORGE_NODE_MAP=node_map, COLLFORGE_FORCE=force)
    assert runs > 0
    assert log == []


@pytest.mark.parametrize("disable", ["1", "yes"])
def test_disabled(build: Build, disable: str) -> None:
    variables = {"COLLFORGE_FORCE": "*=hierarchical", "COLLFORGE_DB": "/nonexistent"}
    variables.update(COLLFORGE_NODE_MAP="2", COLLFORGE_VERBOSE="x", COLLFORGE_DISABLE=disable)
    assert build.runs(**variables) == (0, [])


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"COLLFORGE_FORCE": "bcast=tree"}, ["COLLFORGE_FORCE", "tree"]),
        ({"COLLFORGE_VERBOSE": "3"}, ["COLLFORGE_VERBOSE", "3"]),
        ({"COLLFORGE_NODE_MAP": "x", "COLLFORGE_FORCE": "*=hierarchical"}, ["COLLFORGE_NODE_MAP"]),
        (
            {"COLLFORGE_FORCE": "x", "COLLFORGE_VERBOSE": "x", "COLLFORGE_DB": "/nonexistent"},
            ["COLLFORGE_VERBOSE"],
        ),
    ],
)
def test_malformed_settings_give_one_warning(
    build: Build, variables: dict[str, str], words: list[str]
) -> None:
    runs, log = build.runs(**{"COLLFORGE_NODE_MAP": "2", **variables})
    assert runs == 0
    assert len(log) == 1
    assert all(word in log[0] for word in ["warning", *words])


def test_world_rank_0_decides_for_all(build: Build) -> None:
    program = [str(build.folder / "program"), "results"]
    tuned = ["env", "COLLFORGE_FORCE=*=hierarchical", "COLLFORGE_NODE_MAP=1", *program]
    native = ["env", "COLLFORGE_DISABLE=1", "COLLFORGE_NODE_MAP=2", *program]
    for first, second, expected in ((tuned, native, True), (native, tuned, False)):
        done = build.launch(1, *first, ":", "-n", "2", *second)
        assert done.code == 0
        assert (re.match(r"runs [1-9]", done.out[-1]) is not None) == expected


def test_verbose_names_each_decision_once(build: Build) -> None:
    settings = {"COLLFORGE_NODE_MAP": "2", "COLLFORGE_VERBOSE": "2"}
    _, log = build.runs(COLLFORGE_FORCE="allreduce=full_lane", **settings)
    choice = "full_lane[lane_algorithm=native,segment_bytes=4096]"
    assert log.count(f"collforge: allreduce@2x2, 363 to 511 bytes: {choice}") == 1
    assert log.count("collforge: bcast@2x2, 363 to 511 bytes: native") == 1


def test_profile_counts_the_calls_of_the_job(build: Build, tmp_path: Path) -> None:
    path = tmp_path / "profile.csv"
    runs, log = build.runs(COLLFORGE_PROFILE=str(path), COLLFORGE_NODE_MAP="2")
    assert (runs, log) == (0, [])
    with path.open(newline="") as file:
        rows = {
            (r["collective"], r["layout"], int(r["bytes_from"])): r for r in csv.DictReader(file)
        }
    assert rows["bcast", "2x2", 363]["calls"] == "4"
    assert rows["bcast", "2x2", 363]["bytes_to"] == "511"
    assert rows["allreduce", "2x2", 0]["calls"] == "1"
    # Communicators without world rank 0 count too: MPI_COMM_SELF of four ranks, two halves of two.
    assert rows["allreduce", "1x1", 32]["calls"] == "4"
    assert rows["bcast", "2x1", 32]["calls"] == "4"


def test_profile_that_cannot_be_written(build: Build, tmp_path: Path) -> None:
    _, log = build.runs(2, COLLFORGE_PROFILE=str(tmp_path / "no" / "profile"))
    assert len(log) == 1
    assert "COLLFORGE_PROFILE" in log[0]


# ---- the database -------------------------------------------------------------------------------

Row = tuple[str, int, str, str, str]
CHAIN: Row = ("allreduce", 400, "full_lane", "lane_algorithm=chain,segment_bytes=64", "a1")
NATIVE: Row = ("allreduce", 400, "native", "", "")


def insert(db: sqlite3.Connection, table: str, *values: object) -> int:
    """The id of a new row."""
    marks = ", ".join("?" * len(values))
    row = db.execute(f"INSERT INTO {table} VALUES (NULL, {marks})", values).lastrowid
    assert row is not None
    return row


@dataclass(frozen=True)
class Database:
    """What a test database holds: the rows for each of the systems (name, host pattern)."""

    rows: tuple[Row, ...] = (CHAIN,)
    systems: tuple[tuple[str, str], ...] = (("here", ""),)
    layout: str = "2x2"
    schema: int = 1
    mpi: str = ""
    version: str = ""

    def write(self, path: Path, build: Build) -> Path:
        time = "2026-01-01T00:00:00Z"
        with closing(sqlite3.connect(path)) as db, db:
            db.executescript(SCHEMA.read_text())
            db.execute(f"PRAGMA user_version = {self.schema}")
            version = self.version or build.version
            library = insert(db, "mpi_library", self.mpi or build.mpi, version)
            layout = insert(db, "layout", self.layout, 2, 4)
            for collective, size, *names in self.rows:
                variant = insert(db, "variant", collective, *names)
                for name, pattern in self.systems:
                    db.execute("INSERT OR IGNORE INTO system VALUES (NULL, ?, ?)", (name, pattern))
                    query = "SELECT id FROM system WHERE name = ?"
                    (system,) = db.execute(query, (name,)).fetchone()
                    run = insert(
                        db,
                        "run",
                        f"{variant}{name}",
                        system,
                        library,
                        layout,
                        time,
                        "",
                        "",
                        "[]",
                        7,
                    )
                    proof = insert(db, "verification", run, variant, "problem", 1, "")
                    place = (system, library, layout, collective, size, variant)
                    insert(db, "winner", *place, 1.5, 1.4, 1.6, 3, proof, time)
        return path


def runs_with(build: Build, path: Path, **variables: str) -> tuple[int, list[str]]:
    return build.runs(COLLFORGE_DB=str(path), **{"COLLFORGE_NODE_MAP": "2", **variables})


def test_winners_run(build: Build, tmp_path: Path) -> None:
    path = Database().write(tmp_path / "db", build)
    assert runs_with(build, path) == (1, [])
    assert runs_with(build, path, COLLFORGE_NODE_MAP="3,1") == (0, [])
    assert runs_with(build, path, COLLFORGE_FORCE="allreduce=native") == (0, [])


def test_native_everywhere_is_inactive(build: Build, tmp_path: Path) -> None:
    path = Database(rows=(NATIVE,)).write(tmp_path / "db", build)
    assert runs_with(build, path) == (0, [])


def test_the_first_line_of_the_version_is_enough(build: Build, tmp_path: Path) -> None:
    version = build.version.splitlines()[0]
    assert runs_with(build, Database(version=version).write(tmp_path / "db", build)) == (1, [])


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
    build: Build, tmp_path: Path, systems: tuple[tuple[str, str], ...], chosen: str, runs: int
) -> None:
    path = Database(systems=systems).write(tmp_path / "db", build)
    found, log = runs_with(build, path, COLLFORGE_SYSTEM=chosen)
    assert found == runs
    assert [("COLLFORGE_SYSTEM" in line or "collforge tune" in line) for line in log] == [True] * (
        1 - runs
    )


@pytest.mark.parametrize(
    ("database", "words"),
    [
        (Database(schema=2), "schema 2 is newer"),
        (Database(schema=0), "no Collforge database"),
        (Database(mpi="other"), "collforge tune"),
        (Database(version="other"), "collforge tune"),
        (Database(rows=()), "collforge tune"),
        (Database(rows=(CHAIN, ("gather", 4, "tree", "", "x"))), "tree"),
        (Database(rows=(CHAIN, ("gather", 4, "hierarchical", "", "x"))), "other generated code"),
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


def test_locked_database(build: Build, tmp_path: Path) -> None:
    path = Database().write(tmp_path / "db", build)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("BEGIN EXCLUSIVE")
        runs, log = runs_with(build, path)
    assert runs == 0
    assert len(log) == 1
    assert "locked" in log[0]
    assert runs_with(build, path)[0] == 1


def test_damaged_databases_are_read_to_an_end(one_build: Build, tmp_path: Path) -> None:
    """Cut at every 512th byte, or with random bytes changed: winners or a reason, never a crash."""
    good = Database(rows=(CHAIN, NATIVE[:1] + (9,) + NATIVE[2:])).write(tmp_path / "db", one_build)
    data = good.read_bytes()
    paths = [tmp_path / f"cut{size}" for size in range(0, len(data), 512)]
    for size, path in zip(range(0, len(data), 512), paths):
        path.write_bytes(data[:size])
    for seed in range(300):
        changing = random.Random(seed)
        changed = bytearray(data)
        for _ in range(changing.randint(1, 8)):
            changed[changing.randrange(len(data))] = changing.randrange(256)
        paths.append(tmp_path / f"changed{seed}")
        paths[-1].write_bytes(changed)
    lines = one_build.units("database", str(good), *map(str, paths))
    assert lines[0] == "2"
    assert len(lines) == len(paths) + 1
    assert all(line in ("1", "2") or line.startswith("error: ") for line in lines)


# ---- the library and its Makefile ---------------------------------------------------------------


def test_exported_symbols(build: Build) -> None:
    lines = execute(["nm", "-D", "--defined-only", str(build.library)]).out
    expected = WRAPPED | {"MPI_Init", "MPI_Init_thread", "MPI_Finalize"}
    assert {line.split()[2] for line in lines} == expected | {
        "collforge_version",
        "collforge_choice",
    }


def test_preloaded_under_an_unmodified_program(build: Build, tmp_path: Path) -> None:
    (tmp_path / "hello.c").write_text(
        "#include <mpi.h>\n#include <stdio.h>\nint main(void) {\nint rank, sum = 0;\n"
        "MPI_Init(NULL, NULL);\nMPI_Comm_rank(MPI_COMM_WORLD, &rank);\n"
        "MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);\n"
        'printf("%d\\n", sum);\nreturn MPI_Finalize();\n}\n'
    )
    program = str(tmp_path / "hello")
    assert execute([f"mpicc.{build.mpi}", f"{program}.c", "-o", program]).code == 0
    variables = {"COLLFORGE_NODE_MAP": "1", "COLLFORGE_FORCE": "*=full_lane"}
    preload = ["env", f"LD_PRELOAD={build.library}", program]
    done = build.launch(2, *preload, COLLFORGE_VERBOSE="2", **variables)
    assert (done.code, done.out) == (0, ["1", "1"])
    assert any("allreduce@2x1, 4 to 5 bytes: full_lane" in line for line in done.err)


def test_makefile_follows_the_generated_files(build: Build, tmp_path: Path) -> None:
    generated = tmp_path / "generated"
    shutil.copytree(STUB, generated)
    (generated / "variants").mkdir()
    extra = generated / "variants" / "extra.c"
    extra.write_text('extern int extra;\nint extra __attribute__((visibility("default"))) = 1;\n')
    other = Build(build.mpi, tmp_path / "out", build.version)

    def symbols() -> str:
        assert other.make(generated).code == 0
        assert other.make(generated, "-q").code == 0
        return "\n".join(execute(["nm", "-D", "--defined-only", str(other.library)]).out)

    assert " extra" in symbols()
    extra.write_text(extra.read_text().replace("extra", "added"))
    assert " added" in symbols()
    extra.unlink()
    assert " added" not in symbols()
    assert other.make(generated, "-q", "CFLAGS=-DSOMETHING").code == 1
