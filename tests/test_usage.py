"""What the library did for a job: its last line, COLLFORGE_USAGE, and `collforge db usage`."""

from __future__ import annotations

import json
import os
import resource
from pathlib import Path

import pytest
from invented_tunings import FAST, SECONDS, Tuning
from stub_build import Build, make_build
from support import LIBRARIES
from test_runtime_database import CHAIN, Database

from collforge.db import Store
from collforge.generator.manifest import Manifest
from collforge.tuner.cli import main
from collforge.tuner.site import usage


@pytest.fixture(scope="module", params=LIBRARIES)
def build(request: pytest.FixtureRequest) -> Build:
    return make_build(str(request.param), "program")


def ends(build: Build, database: Path, **variables: str) -> list[str]:
    """The last line of a job of 50 calls of a tuned collective; a call served by a variant saves 10 us."""
    settings = {"COLLFORGE_DB": str(database), "COLLFORGE_NODE_MAP": "2", **variables}
    return build.program(4, "usage", **settings).log[-1:]


def test_two_jobs(build: Build, tmp_path: Path) -> None:
    """Calls of sizes without a winner count, those of collectives without one do not."""
    folder = tmp_path / "usage"
    folder.mkdir()
    database = Database(schema=8).write(tmp_path / "db", build)
    wanted = {"COLLFORGE_USAGE": str(folder)}
    begin = (
        "collforge: on rank 0: variants served 38 of 50 calls of tuned collectives (full_lane 38), "
    )
    told = ends(build, database, COLLFORGE_VERBOSE="1", **wanted)
    assert told == [f"{begin}estimated to have saved 0.00038 s (0.000304 to 0.000456)"]
    older = Database(schema=7).write(tmp_path / "older", build)
    told = ends(build, older, COLLFORGE_VERBOSE="2")
    assert told == [f"{begin}time saved unknown (no times were measured for them)"]
    profile = str(tmp_path / "profile")
    assert ends(build, database, COLLFORGE_PROFILE=profile, **wanted) == []

    (file,) = folder.iterdir()
    assert file.name == f"{os.geteuid()}.jsonl"
    first, second = map(json.loads, file.read_text().splitlines())
    for job in first, second:
        assert (job["layout"], job["ranks"], job["calls"], job["served"]) == ("2x2", 4, 50, 38)
        assert job["saved"] == [0.000304, 0.00038, 0.000456]
        assert job["mpi"] in build.version.replace("\t", " ")
        assert 0 < job["seconds"] < 60
    found = usage.read(folder)
    ((_, jobs),) = found.jobs.items()
    assert len(jobs) == 2 and found.damaged == 0


@pytest.mark.either
@pytest.mark.parametrize(
    ("variables", "words"),
    [
        # The first call on the duplicate is native.
        ({}, "45 of 58 calls of tuned collectives (full_lane 38, hierarchical 7), "),
        (
            {"COLLFORGE_FORCE": "bcast=full_lane"},
            "46 of 58 calls of tuned collectives (full_lane 46), ",
        ),
        ({"COLLFORGE_FORCE": "bcast=full_lane"}, " in the 38 of them with measured times"),
        ({"COLLFORGE_NODE_MAP": "3,1"}, "no call was of a collective"),
    ],
)
def test_what_served(build: Build, tmp_path: Path, variables: dict[str, str], words: str) -> None:
    rows = (CHAIN, ("bcast", 400, "hierarchical", "", "b2"))
    database = Database(rows, schema=8).write(tmp_path / "db", build)
    (line,) = ends(build, database, COLLFORGE_VERBOSE="1", **variables)
    assert words in line


@pytest.mark.either
@pytest.mark.parametrize("how", ["folder", "link", "hard link", "pipe", "owner", "limit"])
def test_a_line_that_cannot_be_written(build: Build, tmp_path: Path, how: str) -> None:
    """The job goes on with one warning, and another file is never written to."""
    folder, other = tmp_path / "usage", tmp_path / "other"
    folder.mkdir()
    other.write_text("mine\n")
    path = folder / f"{os.geteuid()}.jsonl"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    if how == "folder":
        folder.rmdir()
    elif how == "link":
        path.symlink_to(other)
    elif how == "hard link":
        path.hardlink_to(other)
    elif how == "pipe":
        os.mkfifo(path)
    elif how == "owner":
        if os.geteuid() != 0:
            pytest.skip("only root can give a file away")
        path.write_text("")
        os.chown(path, 1, 1)
    else:
        path.write_text("")
        os.truncate(path, 1 << 30)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, hard))
    database = Database(schema=8).write(tmp_path / "db", build)
    try:
        (line,) = ends(build, database, COLLFORGE_USAGE=str(folder))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert line.startswith("collforge: warning: COLLFORGE_USAGE: cannot write ")
    assert other.read_text() == "mine\n"


@pytest.mark.either
def test_a_job_without_winners_leaves_a_line(build: Build, tmp_path: Path) -> None:
    wanted = {"COLLFORGE_USAGE": str(tmp_path), "COLLFORGE_NODE_MAP": "2"}
    assert build.program(4, "usage", **wanted).log == []
    build.program(4, "usage", COLLFORGE_DISABLE="1", **wanted)
    (file,) = tmp_path.iterdir()
    (line,) = map(json.loads, file.read_text().splitlines())
    assert (line["calls"], line["served"], line["saved"]) == (0, 0, None)


def test_a_winner_is_stored_with_its_time(made: Manifest, tmp_path: Path) -> None:
    """The median of its launches, whose samples are drawn from 3 % around a time."""
    with Store(Tuning(made).store(tmp_path / "db")) as store:
        found = [one.choice for one in store.winners() if not one.choice.variant.is_native]
    assert found
    for choice in found:
        assert choice.seconds == pytest.approx(SECONDS[FAST], rel=0.03)


# ---- collforge db usage --------------------------------------------------------------------------


def job(date: str = "2026-11-27T02:22:32Z", **more: object) -> str:
    usual = {"ranks": 4, "calls": 10, "served": 9, "seconds": 1.5, "saved": [3600, 7200, 9000]}
    return json.dumps({"date": date, "mpi": "Open MPI v4.1.4", "layout": "2x2", **usual, **more})


DAMAGED = [
    "",
    "no line",
    job()[:-1],
    job("yesterday"),
    job(calls=-1),
    job(calls=8),
    job(calls=10**30),
    job(ranks=0),
    job(served=None),
    job(seconds=1e300),
    job(saved=[1, 2]),
    job(saved="1"),
    job(layout="x" * 5000),  # two pieces
    "[" * 4000,
]


def test_lines_are_counted_and_damaged_ones_skipped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, out = tmp_path / "usage", tmp_path / "usage.json"
    folder.mkdir()
    good = [job(), job("2026-12-01T00:00:00Z", saved=None), job("2026-12-02T00:00:00Z")]
    lines = [*good[:1], *DAMAGED, *good[1:]]
    (folder / "0.jsonl").write_bytes("\n".join([*lines, "\xff", job()]).encode("latin-1"))
    (folder / "1.jsonl").write_text(f"{job()}\n")
    (folder / "notes.txt").write_text("no job\n")
    (folder / "2.jsonl").symlink_to(folder / "0.jsonl")
    os.mkfifo(folder / "3.jsonl")
    (folder / "4.jsonl").mkdir()
    if os.geteuid() == 0:
        os.chown(folder / "1.jsonl", 54321, 1)

    assert main.main(["db", "usage", str(folder), "--json", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "1 of the jobs have served calls and no known saving" in printed
    # The piece after the long one, the byte, the last line without its end; the link, pipe and folder.
    assert f"{len(DAMAGED) + 3 + 3} damaged lines or files" in printed
    document = json.loads(out.read_text())
    months = {row["name"]: row for row in document["rows"]}
    assert {name: row["jobs"] for name, row in months.items()} == {
        "2026-11": 2,
        "2026-12": 2,
        "all": 4,
    }
    with Store(tmp_path / "db"):
        pass
    assert main.main(["db", "usage", str(folder), "--db", str(tmp_path / "db")]) == 0
    with Store(tmp_path / "db") as store:
        uses = store.uses()
    assert [(one.month, one.jobs, one.saved) for one in uses] == [
        (name, months[name]["jobs"], months[name]["core_seconds_saved"])
        for name in ("2026-12", "2026-11")
    ]
    total = months["all"]
    assert (total["calls"], total["served"], total["seconds"]) == (40, 36, 6.0)
    saved = total["saved_low"], total["saved"], total["saved_high"], total["core_seconds_saved"]
    assert saved == (3 * 3600, 3 * 7200, 3 * 9000, 12 * 7200)
    if os.geteuid() == 0:
        assert total["users"] == 2
        assert main.main(["db", "usage", str(folder), "--by", "user"]) == 0
        assert "54321" in capsys.readouterr().out


def test_a_folder_that_is_empty_or_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["db", "usage", str(tmp_path)]) == 0
    assert main.main(["db", "usage", str(tmp_path / "x")]) == main.USER_ERROR
    assert "COLLFORGE_USAGE" in capsys.readouterr().err
