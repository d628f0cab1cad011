"""Real jobs under the preload with faulty databases or environments.

Their output must equal native's, with one warning at most. faults/test_loader.py tests the reader of databases
with every kind of damage, without launches.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import Installation, Launch
from faults import databases
from support import compile_once, mostly_wide, run_native

from collforge.db import Store
from collforge.db.published import sections
from collforge.generator import manifest
from collforge.tuner.site import publishing

# Which file and which variables are of use, the library finds out alike under every MPI library.
pytestmark = pytest.mark.either
wide = pytest.mark.wide
SOURCE = Path(__file__).resolve().parent / "faults" / "program.c"
RANKS = 4
NODES = {"COLLFORGE_NODE_MAP": "2"}


@dataclass(frozen=True)
class Job:
    """A program, launched with and without the library."""

    installation: Installation
    program: Path
    launch: Launch
    native: str
    """Its output without the library."""

    def run(self, *arguments: str, prefix: tuple[str, ...] = (), **variables: str) -> list[str]:
        """Runs it under the preload; its output must equal native's. Returns Collforge's lines.

        `prefix`: a command prefix of the program on each rank, which is not preloaded itself.
        """
        preload = 'LD_PRELOAD="$LD_PRELOAD:$0" exec "$@"'
        library = str(self.installation.built.library_path)
        words = [*prefix, "sh", "-c", preload, library, str(self.program), *arguments]
        done = self.launch(self.installation.library.name, RANKS, words, {**NODES, **variables})
        assert done.returncode == 0
        assert done.stdout == self.native
        return [line for line in done.stderr.splitlines() if "collforge" in line]


@pytest.fixture(scope="module")
def job(mpi: str, built: Installation, launch: Launch) -> Job:
    program = compile_once("faults", [built.library.mpicc, "-O1", SOURCE], SOURCE)
    native = run_native(mpi, RANKS, [str(program)])
    assert native.returncode == 0
    assert native.stdout.count("\n") > 100
    return Job(built, program, launch, native.stdout)


@pytest.fixture(scope="module")
def winners(job: Job, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with winners of every variant on the layouts of the program's communicators."""
    made = manifest.load(job.installation.home / "generated" / "manifest.json")
    variants = databases.manifest_variants(made)
    layouts = ["2x2", "1x2"]
    path = tmp_path_factory.mktemp("winners") / "good.db"
    return databases.write(path, job.installation.library, variants, layouts)


@pytest.fixture
def good(winners: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(winners, tmp_path))


def variant_lines(lines: list[str]) -> int:
    return sum("full_lane" in line or "hierarchical" in line for line in lines)


def test_a_good_database_is_used(job: Job, good: Path) -> None:
    assert job.run(COLLFORGE_DB=str(good)) == []
    assert variant_lines(job.run(COLLFORGE_DB=str(good), COLLFORGE_VERBOSE="2")) > 20


# ---- the file ------------------------------------------------------------------------------------


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 1024 * 512)


def overwrite(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[100:400] = bytes(range(50)) * 6
    path.write_bytes(data)


def run_sql(script: str) -> Callable[[Path], None]:
    return lambda path: databases.rewrite(path, script) and None


def put_in_place(make: Callable[[Path], None]) -> Callable[[Path], None]:
    def put(path: Path) -> None:
        path.unlink()
        make(path)

    return put


FAULTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "cut": (cut, "damaged"),
    "overwritten": (overwrite, "damaged"),
    "text": (lambda path: path.write_text("no database " * 1000), "damaged"),
    "empty": (put_in_place(Path.touch), "empty"),
    "missing": (Path.unlink, "no such file"),
    "pipe": (put_in_place(os.mkfifo), "not a file"),
    "folder": (put_in_place(Path.mkdir), "not a file"),
    "device": (put_in_place(lambda path: path.symlink_to("/dev/zero")), "not a file"),
    "loop": (put_in_place(lambda path: path.symlink_to(path)), "symbolic links"),
    "schema": (run_sql("PRAGMA user_version = 0"), "no Collforge database"),
    "family": (run_sql("UPDATE variant SET family = 'tree' WHERE id = 2"), "tree"),
    "parameter": (run_sql("UPDATE variant SET parameters = 'a=1' WHERE id = 2"), "parameter"),
    "fingerprint": (run_sql("UPDATE variant SET fingerprint = 'f' WHERE id = 2"), "other generated"),
    "rows": (
        run_sql("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 99999)"
                "INSERT INTO winner SELECT NULL, system, mpi_library, layout, collective,"
                " 2000000 + i, variant, 1.0, 1.0, 1.0, 3, verification, decided, evidence, seconds"
                " FROM n JOIN winner WHERE winner.id = 1"),
        "more than",
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    "fault", mostly_wide(sorted(FAULTS), "cut", "missing", "pipe", "fingerprint")
)
def test_a_database_of_no_use(job: Job, good: Path, fault: str) -> None:
    make, words = FAULTS[fault]
    make(good)
    (line,) = job.run(COLLFORGE_DB=str(good))
    assert words in line


def test_a_lock_is_not_waited_for(job: Job, good: Path) -> None:
    with closing(sqlite3.connect(good, isolation_level=None)) as db:
        db.execute("BEGIN EXCLUSIVE")
        assert job.run(COLLFORGE_DB=str(good)) == []
        db.execute("UPDATE system SET name = 'renamed'")
        (line,) = job.run(COLLFORGE_DB=str(good))
    assert "a tuner writes to it" in line


def test_a_hot_wal_is_left_alone(job: Job, good: Path) -> None:
    with closing(sqlite3.connect(good, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA wal_autocheckpoint = 0")
        db.execute("UPDATE system SET name = 'renamed'")
        copy = good.with_name("copy.db")
        shutil.copy(good, copy)
        shutil.copy(f"{good}-wal", f"{copy}-wal")
    (line,) = job.run(COLLFORGE_DB=str(copy), COLLFORGE_SYSTEM="renamed")
    assert "a tuner writes to it, or was killed" in line


def test_deleted_while_running(job: Job, good: Path) -> None:
    lines = job.run("delete", str(good), COLLFORGE_DB=str(good))
    assert lines == []
    assert not good.exists()


def test_replaced_while_running(job: Job, good: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    other.write_text("no database")
    assert job.run("replace", str(good), str(other), COLLFORGE_DB=str(good)) == []
    assert not other.exists()


def publish(good: Path, path: Path) -> str:
    """Publishes the winners of a database; returns the file's digest."""
    with Store(good, create=False) as store:
        return publishing.publish(sections(store), path)


def test_a_published_file_and_its_checksum(job: Job, good: Path, tmp_path: Path) -> None:
    path = tmp_path / "winners.txt"
    variables = {"COLLFORGE_DB": str(path), "COLLFORGE_DB_SHA256": publish(good, path)}
    assert job.run(**variables) == []
    used = job.run(**variables, COLLFORGE_VERBOSE="2")
    database = job.run(COLLFORGE_DB=str(good), COLLFORGE_VERBOSE="1")
    assert [line for line in database if "winners" in line] == used[:1]
    assert variant_lines(used) > 20
    text = path.read_text()
    path.chmod(0o644)
    path.write_text(text.replace("\n1024\t", "\n1023\t"))
    (line,) = job.run(**variables)
    assert "its SHA-256 is" in line
    assert job.run(COLLFORGE_DB=str(path)) == []
    (line,) = job.run(**{**variables, "COLLFORGE_DB": str(good)})
    assert "unset the variable" in line


# ---- the file system -----------------------------------------------------------------------------

UNPRIVILEGED = ("setpriv", "--bounding-set", "-dac_override,-dac_read_search,-fowner")


@pytest.mark.parametrize(
    ("file", "folder", "words"),
    [
        pytest.param(0o444, 0o555, "", marks=wide),
        (0o000, 0o755, "permissions"),
        pytest.param(0o444, 0o000, "Permission denied", marks=wide),
    ],
)
def test_permissions(job: Job, good: Path, file: int, folder: int, words: str) -> None:
    below = good.parent / "folder"
    below.mkdir()
    path = below / "db"
    good.rename(path)
    path.chmod(file)
    below.chmod(folder)
    try:
        prefix = UNPRIVILEGED if os.geteuid() == 0 else ()
        lines = job.run(COLLFORGE_DB=str(path), prefix=prefix)
    finally:
        below.chmod(0o755)
    assert [words in line for line in lines] == [True] * bool(words)


def in_namespace(script: str, *arguments: str) -> tuple[str, ...]:
    """A command prefix with its own mounts, which a script makes from the arguments."""
    if subprocess.run(["unshare", "-m", "true"], check=False, timeout=60).returncode != 0:
        pytest.skip("needs the right to mount")
    words = ["unshare", "-m", "sh", "-ec", f'{script}\nshift {len(arguments)}; exec "$@"', "sh"]
    return (*words, *arguments)


FULL = """mount -t tmpfs -o size=2m tmpfs "$2"
cp "$1"* "$2"
cat /dev/zero >"$2/filler" 2>/dev/null || true"""


@pytest.mark.parametrize("journal", mostly_wide(["DELETE", "WAL"], "WAL"))
def test_a_full_file_system(job: Job, good: Path, tmp_path: Path, journal: str) -> None:
    full = tmp_path / "full"
    full.mkdir()
    with closing(sqlite3.connect(good)) as db:
        db.execute(f"PRAGMA journal_mode = {journal}")
    lines = job.run(
        COLLFORGE_DB=str(full / good.name),
        COLLFORGE_PROFILE=str(full / "profile"),
        prefix=in_namespace(FULL, str(good), str(full)),
    )
    (line,) = lines
    assert "COLLFORGE_PROFILE" in line, "the database needs no room"


@wide
def test_a_read_only_mount(job: Job, good: Path, tmp_path: Path) -> None:
    script = 'mount --bind "$1" "$1"; mount -o remount,ro,bind "$1"'
    assert job.run(COLLFORGE_DB=str(good), prefix=in_namespace(script, str(tmp_path))) == []


@wide
def test_a_node_without_sqlite(job: Job, good: Path, tmp_path: Path) -> None:
    """The application must start even if its node lacks SQLite."""
    empty = tmp_path / "empty"
    empty.touch()
    script = 'for file in $(ldconfig -p | sed -n "s/.*=> //p" | grep /libsqlite3.so.0)\n'
    script += 'do mount --bind "$1" "$(readlink -f "$file")"; done'
    prefix = in_namespace(script, str(empty))
    assert job.run(prefix=prefix) == []
    (line,) = job.run(COLLFORGE_DB=str(good), prefix=prefix)
    assert "libsqlite3" in line
    path = tmp_path / "winners.txt"
    publish(good, path)
    used = job.run(prefix=prefix, COLLFORGE_DB=str(path), COLLFORGE_VERBOSE="2")
    assert variant_lines(used) > 20


# ---- the environment -----------------------------------------------------------------------------

# The warning for a malformed variable. A system may be any text, and DISABLE has no wrong value.
VARIABLES = {
    "DB": "COLLFORGE_DB",
    "DB_SHA256": "COLLFORGE_DB_SHA256",
    "FORCE": "COLLFORGE_FORCE",
    "NODE_MAP": "COLLFORGE_NODE_MAP",
    "SYSTEM": "no winners of system",
    "VERBOSE": "COLLFORGE_VERBOSE",
}
GARBAGE = {
    "empty": "",
    "garbage": "]=,;[*%s%n:x",
    "long": "x" * 15_000,
    "binary": "\udcff\udcfe\x01\x1b\t\udc80",
}


@pytest.mark.parametrize("kind", sorted(GARBAGE))
def test_malformed_variables(job: Job, tmp_path: Path, kind: str) -> None:
    value = GARBAGE[kind]
    profile = str(tmp_path / "no" / value) if value else ""
    everything = {f"COLLFORGE_{name}": value for name in VARIABLES}
    lines = job.run(**everything, COLLFORGE_PROFILE=profile)
    assert len(lines) == bool(value)


@wide
@pytest.mark.parametrize("kind", sorted(GARBAGE))
def test_malformed_switches(job: Job, good: Path, kind: str) -> None:
    value = GARBAGE[kind]
    switches = {"COLLFORGE_DISABLE": value, "COLLFORGE_NATIVE_ORDER": value}
    assert job.run(COLLFORGE_DB=str(good), **switches) == []


@pytest.mark.parametrize("name", mostly_wide(VARIABLES, "FORCE"))
def test_the_warning_names_the_variable(job: Job, good: Path, name: str) -> None:
    value = GARBAGE["garbage"]
    (line,) = job.run(**{"COLLFORGE_DB": str(good), f"COLLFORGE_{name}": value})
    assert VARIABLES[name] in line
