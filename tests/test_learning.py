"""What production jobs learn (COLLFORGE_LEARN), how it is weighed, and what it changes for later jobs."""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import Installation
from hazards.build import pass_cases
from invented_tunings import Tuning
from preloaded import with_winners
from stub_build import Build, make_build
from support import LIBRARIES
from test_guard import map_of_2x2, write
from test_runtime_database import MAP, Database

from collforge.db import JobRecord, Learnt, Store, Verdict, migrate
from collforge.db.published import render, sections
from collforge.generator.manifest import Manifest
from collforge.layout import from_name
from collforge.place import Place
from collforge.serving import bucket
from collforge.toolchain import build
from collforge.tuner.cli import main
from collforge.tuner.decide import learning
from collforge.tuner.run import learnt
from collforge.variant import Variant

VERDICT = re.compile(r"guard: (\w+)@(\S+): (\S+) took .*: (kept|dropped)$", re.MULTILINE)
SIZES = {"1000": "kept", "20000": "dropped"}
"""Those of the program's broadcasts, and what the invented jobs say of them."""
NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")


@pytest.fixture(scope="module")
def database(built: Installation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("map") / "db", built, build.read_manifest())


def serve(built: Installation, path: Path, case: str, **more: str) -> str:
    """What is said on standard error."""
    (said,) = pass_cases(built, 4, [f"trial_cases {case}"], with_winners(built, path, **more))
    return said.err


@pytest.fixture(scope="module")
def written(
    built: Installation,
    database: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Path, str]:
    """The file of a job with two sizes, and what the job said."""
    folder = tmp_path_factory.mktemp("learnt")
    said = serve(built, database, "sizes", COLLFORGE_LEARN=str(folder))
    (file,) = folder.iterdir()
    return file, said


def test_the_file_tells_what_the_guard_said(built: Installation, written: tuple[Path, str]) -> None:
    file, said = written
    found = json.loads(file.read_text())
    told = [(v["collective"], v["layout"], v["variant"], v["kept"]) for v in found["verdicts"]]
    assert told == [(*one[:3], one[3] == "kept") for one in VERDICT.findall(said)]
    assert {bucket(v["bytes"]) for v in found["verdicts"]} == {bucket(int(n)) for n in SIZES}
    assert all(v["native_ns"] > 0 and v["variant_ns"] > 0 for v in found["verdicts"])
    assert re.fullmatch(rf"{os.geteuid()}-\d\d\.json", file.name)
    assert str(file.parent) not in file.read_text(), "no paths"
    place = Place("here", built.library.name, built.library.first_line, "9x9")
    job = learnt.parse(file.read_bytes(), "7", [place])
    assert (job.place, job.owner, len(job.verdicts)) == (place.library, "7", 2)


def invent(
    file: Path, folder: Path, owners: Sequence[int], edit: dict[str, Any] | None = None
) -> None:
    """Files of jobs of these owners that say what SIZES says, as variations of one that a job wrote."""
    document = {**json.loads(file.read_text()), **(edit or {})}
    for size, word in SIZES.items():
        for one in document["verdicts"] if edit is None else ():
            if bucket(one["bytes"]) == bucket(int(size)):
                one["kept"] = word == "kept"
                one["native_ns"], one["variant_ns"] = (200, 100) if one["kept"] else (100, 200)
    folder.mkdir(exist_ok=True)
    for number, owner in enumerate(owners):
        path = folder / f"{owner}-{len(list(folder.iterdir())):02d}.json"
        path.write_text(json.dumps({**document, "nonce": f"{number:016x}"}))
        os.chown(path, owner, -1)


def copied(database: Path, path: Path, owner: int = 0) -> Path:
    path.write_bytes(database.read_bytes())
    os.chown(path, owner, -1)
    return path


@NEEDS_ROOT
@pytest.mark.parametrize("published", [False, True])
def test_later_jobs(
    built: Installation,
    database: Path,
    written: tuple[Path, str],
    tmp_path: Path,
    published: bool,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What is confirmed has no trial, what is refuted is native, read from the database or published."""
    path = copied(database, tmp_path / "db")
    invent(written[0], tmp_path / "learnt", [1001, 1001, 1002])
    words = ["--db", str(path)]
    assert main.main(["db", "learn", str(tmp_path / "learnt"), *words]) == 0
    told = capsys.readouterr().out
    assert told.startswith("3 files taken in, 0 known before, 0 of no job")
    assert len(re.findall(r": (?:confirmed|refuted) by [23] jobs of 2 users, ", told)) == 2, told
    assert main.main(["db", "learn", str(tmp_path / "learnt"), *words]) == 0
    assert (
        capsys.readouterr().out
        == "0 files taken in, 3 known before, 0 of no job that is known here\n"
    )
    assert main.main(["db", "check", *words]) == 1, "the map of this test is invented"
    assert "learnt" not in capsys.readouterr().out
    why = ["why", "--system", "here", "--layout", "2x2", "--mpi", built.library.name, "bcast"]
    for size, word in {"1000": "no trial", "20000": "native"}.items():
        assert main.main([*why, size, *words]) == 0
        assert re.search(
            rf"(?:confirmed|refuted) by .* jobs .*: {word}$", capsys.readouterr().out, re.MULTILINE
        )
    if published:
        assert main.main(["publish", "--output", str(tmp_path / "w"), *words]) == 0
        path = tmp_path / "w"
    said = serve(built, path, "sizes", COLLFORGE_VERBOSE="2")
    assert not VERDICT.findall(said)
    served = dict(re.findall(r"bcast@2x2, (\d+) to \d+ bytes: (\S+)", said))
    assert [name == "native" for _, name in sorted(served.items(), key=lambda o: int(o[0]))] == [
        False,
        True,
    ]


# Each: owner and whether the job kept the variant, in the order of their ends.
VOICES = [
    ("ab", "kept kept", None),
    ("aba", "kept kept kept", True),
    ("aaa", "kept kept kept", None),
    ("___", "kept kept kept", True),
    ("__", "kept kept", None),
    ("_", "dropped", False),
    ("a", "dropped", None),
    ("aaaa", "dropped dropped dropped dropped", None),
    ("ab", "dropped dropped", False),
    ("abcd", "kept kept kept dropped", True),
    ("abcd", "kept kept dropped dropped", False),
    ("abca", "kept kept kept dropped", None),
    ("abcdea", "kept kept kept kept kept dropped", True),
    ("aabb", "dropped kept dropped kept", None),
    ("_ab", "dropped kept kept", False),
]


@pytest.mark.parametrize(("owners", "said", "confirmed"), VOICES)
def test_voices(owners: str, said: str, confirmed: bool | None) -> None:
    """An owner is one voice, the newest; '_' is the owner of the database, who has two."""
    variant = Variant("bcast", "full_lane", "", "ab")
    jobs = []
    for number, (owner, word) in enumerate(zip(owners, said.split())):
        ratio = 3.0 if word == "kept" else 0.5
        verdict = Verdict("3x2", variant, 1024, ratio, 1.0, 6, False, word == "kept")
        about = owner.replace("_", ""), f"2026-11-{number + 1:02d}T00:00:00Z", ""
        jobs.append(JobRecord(str(number), Place("s", "m", "v", ""), *about, (verdict,)))
    found = learning.summary(jobs)
    assert [one.confirmed for one in found] == ([] if confirmed is None else [confirmed])
    assert all(one.ratio == (3.0 if confirmed else 0.5) for one in found)


def test_databases_joined_and_pruned(
    made: Manifest, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two jobs here and two there confirm together; those of last year go, but are not taken in again."""
    tuning = Tuning(made)
    variant = next(one for one in tuning.variants("bcast") if not one.is_native)
    files = []
    for name, numbers in (("a", (1, 2, 3)), ("b", (3, 4))):
        files.append(tuning.store(tmp_path / name))
        with Store(files[-1]) as store:
            for number in numbers:
                verdict = Verdict("3x2", variant, 1024, 3.0, 1.0, 6, False, True)
                ended = f"202{number}-11-01T00:00:00Z"
                at = tuning.place.library, str(number), ended, "", (verdict,)
                assert store.record_job(JobRecord(f"{number:064x}", *at))
            learning.renew_all(store)
            assert [one.jobs for one in store.learnt(tuning.place)] == ([3] if name == "a" else [])
    both = tmp_path / "both"
    assert main.main(["db", "merge", *map(str, files), "--output", str(both)]) == 0
    with Store(both) as store:
        assert [one.jobs for one in store.learnt(tuning.place)] == [4]
        store.replace_learnt(tuning.place, [])
    assert main.main(["db", "check", "--db", str(both)]) == 1
    assert "what jobs learnt on cluster with openmpi" in capsys.readouterr().out
    assert main.main(["db", "prune", "--db", str(both), "--older-than", "2022-01-01"]) == 0
    with Store(both) as store:
        assert [one.jobs for one in store.learnt(tuning.place)] == [3]
        assert not store.record_job(JobRecord(f"{1:064x}", *at))
    assert main.main(["db", "check", "--db", str(both)]) == 0


def test_where_it_holds() -> None:
    """On this placement, with as many threads, in this quarter octave, of this variant."""
    variant = Variant("bcast", "full_lane", "", "ab")
    one = Learnt("3x2", variant, 1024, True, 2.0, 3, 2, "2026-11-11T", "2026-11-25T")

    def holds(name: str, size: int, of: Variant = variant) -> bool:
        return learning.learnt_of([one], from_name(name), of, size) is one

    assert holds("3x2", 1024) and holds("3x2", 1200) and not holds("3x2x4", 1024)
    assert not holds("3x2", 1300) and not holds("3x2", 1023) and not holds("3x2", 0)
    assert not holds("2x3", 1024) and not holds("3x2", 1024, replace(variant, fingerprint="cd"))
    assert learning.told(one) == "confirmed by 3 jobs of 2 users, 2026-11-11 to 2026-11-25"


@pytest.mark.either
def test_files_that_no_job_wrote(
    built: Installation,
    database: Path,
    written: tuple[Path, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = copied(database, tmp_path / "db")
    folder = tmp_path / "learnt"
    for edit in (
        {"collforge": 2}, {"system": "elsewhere"}, {"mpi": "Open MPI v9"}, {"ended": "2999-01-01T00:00:00Z"},
        {"ended": "0999-01-01T00:00:00Z"}, {"ended": "9999-12-31T23:59:59-14:00"},
        {"ended": "yesterday"}, {"system": 7}, {"verdicts": [{}]}, {"verdicts": 7},
    ):  # fmt: skip
        invent(written[0], folder, [0], {"verdicts": [], **edit})
    verdict = json.loads(written[0].read_text())["verdicts"][0]
    for edit in (
        {"variant": "x[" + "a" * 500 + "]"}, {"variant": "'; DROP TABLE job; --"}, {"native_ns": 0},
        {"native_ns": 1e400}, {"bytes": 0}, {"pairs": -1}, {"kept": "yes"}, {"fingerprint": ""},
    ):  # fmt: skip
        document = {**json.loads(written[0].read_text()), "verdicts": [{**verdict, **edit}]}
        (folder / f"verdict{len(list(folder.iterdir()))}.json").write_text(json.dumps(document))
    large = [{**verdict, "layout": f"1024x{1024 - n}"} for n in range(50)]
    document = {**json.loads(written[0].read_text()), "verdicts": large}
    (folder / "large.json").write_text(json.dumps(document))
    (folder / "deep.json").write_text("[" * 60000)
    (folder / "part.json").write_bytes(written[0].read_bytes()[:-20])
    (folder / "long.json").write_bytes(written[0].read_bytes() + b" " * learnt.MOST_FILE)
    (folder / "empty.json").touch()
    (folder / "link.json").symlink_to(written[0])
    (folder / "folder.json").mkdir()
    os.mkfifo(folder / "pipe.json")
    files = len(list(folder.iterdir()))
    assert main.main(["db", "learn", str(folder), "--db", str(path)]) == 0
    assert (
        capsys.readouterr().out
        == f"0 files taken in, 0 known before, {files} of no job that is known here\n"
    )
    for edit in (
        {"layout": "99999x99999"},
        {"layout": "1048577x1-packed"},
        {"layout": "map#0123456789abcdef"},
        {"layout": "map:" + ".".join(["0", *["1"] * 63, *["2"] * 100])},
        {"layout": "2+2"},
        {"layout": "1\u0663x2"},
        {"fingerprint": "ab" * 16},
    ):
        document = {**json.loads(written[0].read_text()), "verdicts": [{**verdict, **edit}]}
        (folder / "again.json").write_text(json.dumps(document))
        assert main.main(["db", "learn", str(folder), "--db", str(path)]) == 0
    with Store(path, create=False) as store:
        assert [job for p in store.job_places() for job in store.jobs(p)] == [], "without verdicts"
    assert main.main(["db", "learn", str(tmp_path / "none"), "--db", str(path)]) == 2


@NEEDS_ROOT
@pytest.mark.either
def test_a_user_with_too_many_files(
    built: Installation,
    database: Path,
    written: tuple[Path, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    invent(written[0], tmp_path / "learnt", [1001] * (learnt.MOST_FILES + 3) + [1002])
    path = copied(database, tmp_path / "db")
    assert main.main(["db", "learn", str(tmp_path / "learnt"), "--db", str(path)]) == 0
    assert capsys.readouterr().out.startswith("65 files taken in, 0 known before, 3 of no job")


@pytest.mark.either
@pytest.mark.parametrize("how", ["missing", "file", "link", "owner"])
def test_a_folder_that_takes_no_file(
    built: Installation,
    database: Path,
    tmp_path: Path,
    how: str,
) -> None:
    """Silently nothing, and no other file is written to."""
    folder, other = tmp_path / "learnt", tmp_path / "other"
    other.write_text("mine")
    if how == "file":
        folder.touch()
    elif how != "missing":
        folder.mkdir()
        for slot in range(64):
            for ending in ("part", "json"):
                path = folder / f"{os.geteuid()}-{slot:02d}.{ending}"
                path.symlink_to(other) if how == "link" else path.mkdir()
    said = serve(built, database, "sizes", COLLFORGE_LEARN=str(folder))
    assert "warning" not in said and "LEARN" not in said
    assert other.read_text() == "mine"
    assert how == "link" or not list(folder.glob("*.json/*"))


@pytest.fixture(scope="module", params=LIBRARIES)
def stub(request: pytest.FixtureRequest) -> Build:
    return make_build(str(request.param), "program")


@pytest.mark.parametrize(
    ("slow", "served"), [("1", [1, 0, 0, 0]), ("", [14, 14, 14, 20])], ids=["wrong", "right"]
)
def test_a_map_in_four_jobs(stub: Build, tmp_path: Path, slow: str, served: list[int]) -> None:
    """Of 20 calls in each: one job tells the database's owner that it is wrong, three that it is right."""
    version = stub.version.split("\n")[0].rstrip()
    made = Database(schema=migrate.VERSION, points=MAP, layout="9x9", version=version)
    path = made.write(tmp_path / "db", stub)
    with closing(sqlite3.connect(path)) as database:
        database.execute(f"PRAGMA application_id = {migrate.APPLICATION_ID}")
    folder = tmp_path / "learnt"
    folder.mkdir()
    found = []
    for _ in served:
        variables = {"COLLFORGE_NODE_MAP": "2", "COLLFORGE_LEARN": str(folder)}
        variables |= {"PROGRAM_IS_SLOW": slow} if slow else {}
        done = stub.program(4, "learn", COLLFORGE_DB=str(path), **variables)
        found.append(int(done.out[-1]))
        assert main.main(["db", "learn", str(folder), "--db", str(path)]) == 0
    assert found == served


def test_the_map_is_read_before_what_was_learnt(stub: Build, tmp_path: Path) -> None:
    """A library has room for so many layouts; what jobs learnt must not cost the map, or a winner."""
    version = stub.version.split("\n")[0].rstrip()
    made = Database(schema=migrate.VERSION, points=MAP, layout="9x9", version=version)
    path = made.write(tmp_path / "db", stub)
    with closing(sqlite3.connect(path)) as database:
        database.execute(f"PRAGMA application_id = {migrate.APPLICATION_ID}")
    with Store(path) as store:
        (place,) = store.places()
        (variant, *_) = (one.variant for one in store.map(place) if not one.variant.is_native)
        date = "2026-11-01T00:00:00Z"
        layouts = [f"{nodes}x{ranks}" for nodes in range(10, 60) for ranks in range(1, 31)]
        rows = [Learnt(name, variant, 8, False, 0.5, 2, 2, date, date) for name in layouts]
        store.replace_learnt(place, rows)
        found = sections(store)
    published = tmp_path / "winners.txt"
    published.write_text(render(found))
    for file in (path, published):
        variables = {"COLLFORGE_NODE_MAP": "2", "COLLFORGE_GUARD": "0", "COLLFORGE_DB": str(file)}
        done = stub.program(4, "learn", **variables)
        assert done.out[-1] == "20", file


@pytest.mark.wide
def test_the_probe_of_first_calls(built: Installation, tmp_path: Path) -> None:
    """Jobs learn on 3x2, which the map of 2x2 serves."""
    map_of_2x2(built, tmp_path / "db")
    words = ["probe", "first-calls", "--system", "local", "--layout", "3x2", "--launches", "1"]
    words += ["--mpi", built.library.name, "--db", str(tmp_path / "db"), "--size", "8KiB"]
    before = (tmp_path / "db").read_bytes()
    assert main.main([*words, "--json", str(tmp_path / "json")]) == 0
    rows = json.loads((tmp_path / "json").read_text())["rows"]
    assert {"bcast", "allgather"} <= {row["collective"] for row in rows}
    assert all(
        row[kind]["ratio"] > 0
        for row in rows
        for kind in ("expected", "tried", "learnt", "guarded")
    )
    assert (tmp_path / "db").read_bytes() == before
