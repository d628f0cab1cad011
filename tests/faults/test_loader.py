"""The runtime's reader of databases and settings, with all kinds of damage (loader.c)."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import some
from faults import databases
from stub_build import STUB
from support import TOP, execute

from collforge.db import Store
from collforge.db.published import render, sections
from collforge.toolchain import libraries

HERE = Path(__file__).resolve().parent
SOURCES = (
    "winners/winners",
    "winners/load",
    "winners/published",
    "winners/sqlite",
    "winners/fixed_order",
    "winners/rules",
    "winners/sources",
    "winners/stored",
    "winners/table",
    "winners/choice",
    "data/facts",
    "data/sizes",
    "place/topology",
    "place/layout",
    "base/chain",
    "base/runtime",
    "base/handle_table",
    "base/log",
    "base/environment",
    "base/library",
    "base/library_openmpi",
    "base/sha256",
    "base/span",
    "base/threads",
    "place/numa",
)
SANITIZERS = {"plain": [], "sanitized": ["-fsanitize=address,undefined", "-fno-sanitize-recover"]}
LAYOUTS = ("2x2", "3+1", "cyclic:2x3")
MOST_MIB = 100
# Command prefix that makes file permissions apply to root, too.
UNPRIVILEGED = (
    ["setpriv", "--bounding-set", "-dac_override,-dac_read_search,-fowner"]
    if os.geteuid() == 0
    else []
)


@dataclass(frozen=True)
class Loader:
    """loader.c, built for the first MPI library."""

    program: Path
    sanitized: bool

    def run(self, *arguments: str, timeout: float = 300) -> list[str]:
        """Runs loader.c and returns its lines; without a sanitizer its memory is limited."""
        done = execute([*UNPRIVILEGED, str(self.program), *arguments], timeout=timeout)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
        *lines, last = done.stdout.rstrip("\n").split("\n")
        assert self.sanitized or int(last.split()[-1]) < MOST_MIB
        return lines

    def load(self, *paths: Path, system: str = "", timeout: float = 300) -> list[str]:
        """For each path, the number of winners and a hash of the rules, or "error: ..."."""
        return self.run("load", system, *map(str, paths), timeout=timeout)

    def tally(self, *arguments: str) -> tuple[int, int, int]:
        """The number of files that gave the stored winners, other winners, and none."""
        (line,) = self.run(*arguments)
        found = re.search(r"as stored (\d+), other winners (\d+), refused (\d+)", line)
        assert found
        return int(found[1]), int(found[2]), int(found[3])


# Under the sanitizers more is found; what the plain program shows is the memory that it takes.
@pytest.fixture(scope="module", params=some(["sanitized", "plain"]))
def loader(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Loader:
    source = TOP / "runtime" / "src"
    program = tmp_path_factory.mktemp("loader") / "loader"
    command = [str(libraries.find("openmpi").mpicc), "-std=gnu11", "-g", "-O1"]
    command += ["-Wall", "-Wextra", "-Werror", "-pthread", "-rdynamic"]
    command += [
        *SANITIZERS[request.param],
        f"-I{source}",
        f"-I{source.parent / 'include'}",
        f"-I{STUB}",
    ]
    command += [str(HERE / "loader.c"), *(str(source / f"{name}.c") for name in SOURCES)]
    done = execute([*command, "-ldl", "-o", str(program)])
    assert done.returncode == 0, done.stderr
    return Loader(program, request.param == "sanitized")


@pytest.fixture
def good(tmp_path: Path) -> Path:
    """A database whose winners fit the loader's registry."""
    path = tmp_path / "good.db"
    return databases.write(
        path, libraries.find("openmpi"), databases.LOADER_VARIANTS, layouts=LAYOUTS
    )


@pytest.fixture
def small(good: Path) -> Path:
    """The database `good` with pages of 512 bytes, nearly all of which are used."""
    path = good.with_name("small.db")
    shutil.copy(good, path)
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA page_size = 512")
        db.execute("VACUUM")
    return path


@pytest.fixture
def published(good: Path) -> Path:
    """The winners of `good` alone."""
    path = good.with_name("winners.txt")
    with Store(good, create=False) as store:
        path.write_text(render(sections(store)))
    return path


FOREIGN = """
#include <stdlib.h>
int sqlite3_initialize(void) { abort(); }
void sqlite3_mutex_enter(void *mutex) { (void)mutex; abort(); }
void *sqlite3_malloc(int bytes) { (void)bytes; abort(); }
"""


def test_a_program_may_have_an_sqlite_of_its_own(
    loader: Loader, good: Path, tmp_path: Path
) -> None:
    """The calls inside libsqlite3 would go to the program's functions, which it has not initialised."""
    (tmp_path / "foreign.c").write_text(FOREIGN)
    library = tmp_path / "libforeign.so"
    build = ["gcc", "-shared", "-fPIC", str(tmp_path / "foreign.c"), "-o", str(library)]
    assert execute(build).returncode == 0
    before = loader.load(good)
    preload = f"{library}"
    if loader.sanitized:  # its own library has to be the first
        preload = f"{execute(['gcc', '-print-file-name=libasan.so']).stdout.strip()}:{library}"
    words = ["env", f"LD_PRELOAD={preload}", str(loader.program), "load", "", str(good)]
    done = execute([*UNPRIVILEGED, *words])
    assert done.returncode == 0, done.stderr
    found = done.stdout.splitlines()[: len(before)]
    assert "AddressSanitizer" in found[0] if loader.sanitized else found == before


def changed(good: Path, script: str) -> Path:
    path = good.with_name("changed.db")
    shutil.copy(good, path)
    return databases.rewrite(path, script)


# ---- damage --------------------------------------------------------------------------------------


def test_an_undamaged_file_gives_its_winners(
    loader: Loader, good: Path, small: Path, published: Path
) -> None:
    with Store(good, create=False) as store:
        expected = len(store.winners())
    first, second, third = loader.load(good, small, published)
    assert first == second == third
    assert first.split()[0] == str(expected)


def test_cut_at_every_512th_byte(loader: Loader, good: Path, small: Path, tmp_path: Path) -> None:
    for path in (good, small):
        cuts = path.stat().st_size // 512
        whole, others, refused = loader.tally("cut", str(path), str(tmp_path / "copy"))
        # Only the history of decisions, which is not read, may be cut without a word.
        assert others == 0 and whole + refused == 1 + cuts and refused > 0.9 * cuts


def test_a_published_file_is_whole_or_refused(
    loader: Loader, published: Path, tmp_path: Path
) -> None:
    _, others, refused = loader.tally("cut", str(published), str(tmp_path / "copy"))
    assert others == 0
    assert refused == -(-published.stat().st_size // 512)


@pytest.mark.parametrize("pages", some(["good", "published", "small"], fast=2))
def test_flipped_bytes(
    loader: Loader, pages: str, request: pytest.FixtureRequest, tmp_path: Path, seed: int
) -> None:
    path: Path = request.getfixturevalue(pages)
    seeds = 1000 if loader.sanitized else 5000
    stored, others, refused = loader.tally(
        "flip", str(path), str(tmp_path / "copy"), str(seed), str(seeds)
    )
    print(f"{seeds} seeds: {stored} as stored, {others} other winners, {refused} refused")
    assert stored + others + refused == seeds
    assert min(stored, others, refused) > 0


@pytest.mark.slow
def test_flipped_bytes_under_sanitizers(loader: Loader, small: Path, tmp_path: Path) -> None:
    assert sum(loader.tally("flip", str(small), str(tmp_path / "copy"), "0", "10000")) == 10000


def test_written_while_read(loader: Loader, good: Path, tmp_path: Path) -> None:
    assert sum(loader.tally("race", str(good), str(tmp_path / "copy"), "200")) == 200


def test_random_settings(loader: Loader, seed: int) -> None:
    read, _, refused = loader.tally("text", str(seed), "10000")
    assert read > 0
    assert refused > 0


# ---- texts that nobody publishes ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("collforge winners 1", "collforge winners 2", "'2' is newer"),
        ("\tfull_lane[", "\ttree[", "no family 'tree'"),
        ("variant\tbcast", "variant\ttoast", "no collective 'toast'"),
        ("lane_algorithm=", "lanes=", "no parameter 'lanes'"),
        ("\tb1b1", "\tf", "other generated code"),
        ("\tb1b1", "", "other generated code"),
        ("winners\there\t", "winners\there\tOther ", "collforge tune"),
        ("winners\there", "winners\tthere", "collforge tune"),
        ("system\there", "system\tthere", "no winners of system there"),
        ("system\there\t\n", "", "no winners yet"),
        ("layout\t2x2\n", "", "damaged"),
        ("layout\t2x2", "layout\t*", "damaged"),
        ("layout\t2x2", f"layout\t{'x' * 300}", "damaged"),
        ("\n1024\t", "\n1024\t9", "damaged"),
        ("\n1024\t", "\n1024", "damaged"),
        ("\n1024\t", "\n-1024\t", "damaged"),
        ("\n1024\t", "\n99999999999999999999\t", "damaged"),
        ("\n1024\t", "\n\n1024\t", "damaged"),
        ("\n1024\t", "\n10\0\t", "no text"),
        ("end\t", "end\t1", "winners are missing"),
        ("end\t", "\nend\t", "damaged"),
        ("end\t", "end of it\t", "damaged"),
    ],
)
def test_a_published_winner_that_does_not_fit(
    loader: Loader, published: Path, old: str, new: str, words: str
) -> None:
    text = published.read_text()
    assert old in text
    published.write_text(text.replace(old, new))
    (line,) = loader.load(published, system="")
    assert line.startswith("error: ")
    assert words in line


@pytest.mark.parametrize(
    "times",
    [
        *("", "\t20000\t30000", "\t1\t3\t4\t5", f"\t{'9' * 18}" + "\t9" * 3),
        *("\tfast\t3\t2\t4", "\t2\t-3\t2\t4", f"\t20000\t30000\t28000\t{'9' * 20}"),
    ],
)
def test_times_that_say_nothing_are_left_out(loader: Loader, published: Path, times: str) -> None:
    """As in an older file, cut, in no order, too long, or no numbers; more are for newer libraries."""
    text = published.read_text()
    usual = "\t20000\t30000\t28000\t32000\n"
    (stored,) = loader.load(published)
    published.write_text(text.replace(usual, "\n"))
    (without,) = loader.load(published)
    assert without != stored
    published.write_text(text.replace(usual, f"{times}\n"))
    assert loader.load(published) == [without]
    published.write_text(text.replace(usual, usual.replace("\n", "\tmore\n")))
    assert loader.load(published) == [stored]


def test_a_point_of_the_map_that_does_not_fit_is_left_out(loader: Loader, published: Path) -> None:
    """As of a database. Also sizes that no call has."""
    stored = loader.load(published)
    text = published.read_text()
    last, end = len(re.findall("^variant", text, re.M)), int(text.rsplit("\t", 1)[1])
    extra = f"0\t0\nlayout\t~2x2\n64\t{last}\n1024\t{last + 1}\nend\t{end + 3}\n"
    unknown = "variant\tbcast\ttree\t\nvariant\ttoast\tx\t\n"
    text = text.replace("winners\there", f"{unknown}winners\there")
    published.write_text(re.sub(r"^end\t.*\n", extra, text, flags=re.M))
    assert loader.load(published) == stored


def test_a_published_file_of_another_host_or_too_large(loader: Loader, published: Path) -> None:
    text = published.read_text()
    other = text.replace("system\there\t", "system\there\t\nsystem\tthere\t")
    published.write_text(other)
    assert "0 of its 2 systems match" in loader.load(published)[0]
    assert loader.load(published, system="here")[0].split()[0].isdigit()
    published.write_text(text + "x" * (1 << 24))
    assert "larger than" in loader.load(published)[0]
    first = re.search(r"^variant\t.*\n", text, flags=re.M)
    assert first
    published.write_text(text.replace(first[0], first[0] * 70_000))
    assert "more than 65536 variants" in loader.load(published)[0]


# ---- tables that no tuner writes -----------------------------------------------------------------

VALUES = {
    "null": "NULL",
    "blob": "randomblob(100)",
    "huge": "9223372036854775807",
    "negative": "-1",
    "real": "1e308",
    "empty": "''",
    "star": "'*'",
    "long": "printf('%.900000c', 'x')",
    "endless": "printf('%.3000000c', 'x')",
    "lines": "replace(printf('%.60c', 'x'), 'x', char(13, 10))",
    "not utf-8": "CAST(X'FFFEC0AF80' AS TEXT)",
    "zero byte": "CAST(X'676174686572006761746865720A' AS TEXT)",
}


READ = ("system", "mpi_library", "layout", "variant", "verification", "winner", "point", "learnt")
"""The tables that the runtime reads (runtime/src/winners/winners.c)."""


def columns(path: Path) -> list[tuple[str, str]]:
    with closing(sqlite3.connect(path)) as db:
        read = [(t, row[1]) for t in READ for row in db.execute(f"PRAGMA table_info({t})")]
    return [*read, ("measurement", "samples"), ("run", "hosts")]


@pytest.mark.parametrize("value", sorted(VALUES))
def test_any_value_in_any_column(loader: Loader, good: Path, value: str) -> None:
    unguarded = databases.unguard(good)
    paths = []
    for table, column in columns(good):
        paths.append(good.with_name(f"{table}.{column}.db"))
        shutil.copy(unguarded, paths[-1])
        databases.rewrite(
            paths[-1], f"UPDATE {table} SET {column} = {VALUES[value]} WHERE rowid = 1"
        )
    lines = dict(zip([path.stem for path in paths], loader.load(*paths)))
    stored = loader.load(good)[0]
    # Damage in columns that the runtime does not read has no effect.
    assert lines["winner.launches"] == lines["measurement.samples"] == lines["run.hosts"] == stored
    for name in ("winner.ratio", "winner.ratio_low", "winner.ratio_high", "winner.seconds"):
        too_long = value == "endless" and "too big" in lines[name]
        assert too_long or lines[name].split()[0] == stored.split()[0], "it serves without times"
    for name in ("winner.collective", "variant.family", "variant.fingerprint", "layout.name"):
        assert lines[name] != stored, name


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("UPDATE variant SET family = 'tree' WHERE id = 1", "no family 'tree' for bcast"),
        ("UPDATE variant SET parameters = 'lanes=2' WHERE id = 1", "no parameter 'lanes'"),
        ("UPDATE variant SET parameters = 'segment_bytes=63' WHERE id = 1", "no value '63'"),
        ("UPDATE variant SET parameters = 'segment_bytes=4294967296' WHERE id = 1", "no value"),
        ("UPDATE variant SET fingerprint = 'f' WHERE id = 1", "other generated code"),
        ("UPDATE OR REPLACE winner SET collective = 'toast'", "no collective 'toast'"),
        ("UPDATE OR REPLACE winner SET collective = 'gather' WHERE variant = 1", "no family 'full_lane'"),
        ("UPDATE layout SET name = '*' WHERE id = 1", "damaged"),
        ("UPDATE verification SET passed = 0 WHERE variant = 1", "no passing verification"),
        ("UPDATE winner SET verification = NULL", "no passing verification"),
        ("UPDATE winner SET verification = 3 WHERE variant = 1", "no passing verification"),
        ("UPDATE mpi_library SET version = 'Open MPI v9'", "collforge tune"),
        ("PRAGMA user_version = 11; ALTER TABLE winner RENAME COLUMN bytes TO octets", "schema 11 is newer"),
        ("PRAGMA user_version = -2147483648", "no Collforge database"),
        ("DROP TABLE winner; CREATE VIEW winner AS WITH RECURSIVE n(system) AS (SELECT 1 UNION ALL "
         "SELECT system + 1 FROM n) SELECT * FROM n", "no such column"),
        ("DROP TABLE system; CREATE VIEW system AS WITH RECURSIVE n(id) AS (SELECT 9 UNION ALL "
         "SELECT id + 1 FROM n) SELECT id, 'x' AS name, '' AS host_pattern FROM n",
         "takes too long"),
        ("DROP TABLE system; CREATE VIEW system AS SELECT 1 AS id, '' AS host_pattern, "
         "CAST(zeroblob(999999999) AS TEXT) AS name", "too big"),
    ],
)  # fmt: skip
def test_a_winner_that_does_not_fit(loader: Loader, good: Path, script: str, words: str) -> None:
    (line,) = loader.load(changed(good, f"PRAGMA foreign_keys = 0; {script}"))
    assert line.startswith("error: ")
    assert words in line


def test_a_newer_schema_serves_as_long_as_it_has_what_is_read(loader: Loader, good: Path) -> None:
    """A deployed library must still work if a newer Collforge tunes."""
    script = "PRAGMA user_version = 11; ALTER TABLE winner ADD COLUMN news TEXT"
    assert loader.load(changed(good, script)) == loader.load(good)


def test_duplicates_give_the_same_on_all_ranks(loader: Loader, good: Path) -> None:
    """Either of two winners of a problem may come first in the file."""
    unguarded = databases.unguard(good)
    paths = [good.with_name(f"{order}.db") for order in ("ASC", "DESC")]
    for path in paths:
        shutil.copy(unguarded, path)
        other = "(SELECT v.id FROM variant v WHERE v.collective = winner.collective LIMIT 1)"
        script = f"""
            INSERT INTO winner SELECT id, system, mpi_library, layout, collective, bytes, {other},
                ratio, ratio_low, ratio_high, launches,
                (SELECT max(id) FROM verification WHERE variant = {other}), decided, evidence, seconds
                FROM winner;
            CREATE TABLE other AS SELECT * FROM winner;
            DROP TABLE winner; ALTER TABLE other RENAME TO winner;
            CREATE INDEX by_variant ON winner (system, variant {path.stem})"""
        databases.rewrite(path, f"PRAGMA legacy_alter_table = 1; {script}")
    first, second = loader.load(*paths)
    assert first == second
    assert first.split()[0] == str(2 * int(loader.load(good)[0].split()[0]))


HOSTILE_PATTERNS = [
    r"(a*)*\1*(a*)*\1",
    r"(.*)(.*)(.*)(.*)(.*)(.*)(.*)(.*)\1\2\3\4\5\6\7\8x",
    "((.{255}){255}){255}",
    ".{255}{255}{255}",
    ".{0,32767}",
    ".{32767}?",
    "(" * 100000,
    "[" * 100,
    "x" * 1000,
]


@pytest.mark.parametrize("pattern", HOSTILE_PATTERNS)
def test_a_hostile_host_pattern_matches_nothing(loader: Loader, good: Path, pattern: str) -> None:
    databases.write(
        good, libraries.find("openmpi"), databases.LOADER_VARIANTS, layouts=["2x2"], system="other"
    )
    path = changed(good, f"UPDATE system SET host_pattern = '{pattern}'")
    assert "0 of its 2 systems match" in loader.load(path, system="")[0]


WINNER = (
    "mpi_library, {layout}, collective, {bytes}, variant, 1.0, 1.0, 1.0, 3, verification, decided,"
    " evidence, seconds"
)
MANY = {
    "winners": "INSERT INTO winner SELECT NULL, system, "
    + WINNER.format(layout="layout", bytes="2000000 + i")
    + " FROM n JOIN winner WHERE winner.id = 1",
    "systems": "INSERT INTO system SELECT NULL, 'system' || i, '.*' FROM n",
    "layouts": "INSERT INTO layout SELECT 100 + i, 'layout' || i, 1, 1 FROM n",
}
MORE = {
    "layouts": "INSERT INTO winner SELECT NULL, system, "
    + WINNER.format(layout="layout.id", bytes="bytes")
    + " FROM layout JOIN winner WHERE winner.id = 1 AND layout.id > 100"
}
NUMBERS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows}) "


@pytest.mark.parametrize(
    ("kind", "rows", "words"),
    [
        ("winners", 100_000, "more than 65536 winners"),
        ("layouts", 2000, "more than 1024 layouts"),
        ("systems", 100_000, ""),
        pytest.param("winners", 3_000_000, "more than 65536 winners", marks=pytest.mark.slow),
        pytest.param("systems", 3_000_000, "", marks=pytest.mark.slow),
    ],
)
def test_many_rows(loader: Loader, good: Path, kind: str, rows: int, words: str) -> None:
    """If ``words`` is empty, the rows may exceed the time limit or be harmless."""
    expected = [words] if words else [loader.load(good)[0], "takes too long"]
    script = f"{NUMBERS.format(rows=rows)}{MANY[kind]}; {MORE.get(kind, '')}"
    line = loader.load(changed(good, script), timeout=60)[0]
    assert any(words in line for words in expected)


# ---- files, locks and journals -------------------------------------------------------------------


def test_what_is_no_file(loader: Loader, tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    empty = tmp_path / "empty"
    empty.touch()
    hopeless = {
        loop: "symbolic links",
        pipe: "not a file",
        empty: "empty",
        tmp_path: "not a file",
        Path("/dev/zero"): "not a file",
        Path("/proc/self/environ"): "empty",
        tmp_path / "missing": "no such file",
        tmp_path / ("x" * 300): "name too long",
        empty / "below": "Not a directory",
    }
    for (path, words), line in zip(hopeless.items(), loader.load(*hopeless)):
        assert line.startswith("error: "), path
        assert words in line


def test_permissions(loader: Loader, good: Path, tmp_path: Path) -> None:
    stored = loader.load(good)
    folder = tmp_path / "folder"
    folder.mkdir()
    path = folder / "db"
    shutil.copy(good, path)
    try:
        path.chmod(0o444)
        folder.chmod(0o555)
        assert loader.load(path) == stored
        path.chmod(0)
        assert "permissions" in loader.load(path)[0]
        folder.chmod(0)
        assert "Permission denied" in loader.load(path)[0]
    finally:
        folder.chmod(0o700)


@pytest.mark.parametrize("mode", ["DELETE", "WAL"])
def test_locked_by_a_tuner(loader: Loader, good: Path, mode: str) -> None:
    stored = loader.load(good)
    with closing(sqlite3.connect(good, isolation_level=None)) as db:
        db.execute(f"PRAGMA journal_mode = {mode}")
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
        db.execute("BEGIN EXCLUSIVE")
        db.execute("DELETE FROM winner")
        if mode == "DELETE":
            assert "a tuner writes to it" in loader.load(good)[0]
        else:
            assert loader.load(good) == stored, "nothing is in the log yet"
        db.execute("ROLLBACK")
    assert loader.load(good) == stored


def copy_in_the_middle(good: Path, folder: Path, mode: str) -> Path:
    """A copy of the database as a killed tuner leaves it, with a journal of its last transaction."""
    folder.mkdir()
    with closing(sqlite3.connect(good, isolation_level=None)) as db:
        db.execute(f"PRAGMA journal_mode = {mode}")
        db.execute("PRAGMA wal_autocheckpoint = 0")
        db.execute("PRAGMA cache_size = 1")
        db.execute("BEGIN IMMEDIATE")
        db.execute("UPDATE system SET name = 'changed'")
        db.execute("CREATE TABLE filler AS SELECT randomblob(4000) FROM winner")
        if mode == "WAL":
            db.execute("COMMIT")
        for path in good.parent.glob(f"{good.name}*"):
            if not path.name.endswith("-shm"):
                shutil.copy(path, folder)
    assert len(list(folder.iterdir())) == 2
    return folder / good.name


@pytest.mark.parametrize("permissions", [0o755, 0o555])
@pytest.mark.parametrize("mode", ["DELETE", "WAL"])
def test_what_a_killed_tuner_leaves_is_not_touched(
    loader: Loader, good: Path, tmp_path: Path, mode: str, permissions: int
) -> None:
    path = copy_in_the_middle(good, tmp_path / "copy", mode)
    before = {one.name: one.read_bytes() for one in path.parent.iterdir()}
    path.parent.chmod(permissions)
    try:
        assert "a tuner writes to it, or was killed" in loader.load(path)[0]
        link = tmp_path / "link.db"
        link.symlink_to(path)
        assert "a tuner writes to it, or was killed" in loader.load(link)[0]
        assert {one.name: one.read_bytes() for one in path.parent.iterdir()} == before
    finally:
        path.parent.chmod(0o700)
    with closing(sqlite3.connect(path)) as db:
        db.execute("SELECT * FROM system").fetchall()
    name = "here" if mode == "DELETE" else "changed"
    assert loader.load(path, system=name) == [loader.load(good)[0]], "whoever may write tidies up"


def test_a_name_with_every_sign(loader: Loader, good: Path, tmp_path: Path) -> None:
    path = tmp_path / "a?b#c%20d&mode=rwc e.db"
    shutil.copy(good, path)
    assert loader.load(path) == loader.load(good)
    assert loader.load(Path(f"/{path}")) == loader.load(good), "two slashes: no host of a URI"


@pytest.mark.slow
def test_a_slow_file_system(loader: Loader, good: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = loader.load(good)
    monkeypatch.setenv("LOADER_SLOW", "10")
    assert loader.load(good) == stored
    monkeypatch.setenv("LOADER_SLOW", "2000")
    assert "takes too long" in loader.load(good)[0]
