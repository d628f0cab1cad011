"""What applications call: reading profiles, showing them, and tuning what they call."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from conftest import Installation, Launch
from hazards.build import compiled
from support import execute

from collforge.db import Choice, Result, RunRecord, Store
from collforge.errors import CollforgeError
from collforge.generator.manifest import CollectiveEntry
from collforge.place import Place
from collforge.toolchain import build
from collforge.tuner.cli import main
from collforge.tuner.decide import profile
from collforge.variant import Variant

HEADER = ",".join(profile.COLUMNS)
ROWS = """\
job,2x2,0,0,1,1,world,1,4,0,0,10.0,0.5
bcast,2x2,7512,8191,1,100,world,1,4,0,796000,4.0,1.0
bcast,2x2,7512,8191,1,50,duplicate,2,4,0,404000,1.0,0.0
allreduce,2x1,8,9,1,1000,other,2,2,2,8000,2.0,0.5
allreduce,map#0123456789abcdef,8,9,1,1000,other,1,2,0,8000,0.4,0.0
allreduce,2x2,1,1,1,9,other,1,4,0,9,0.3,0.0
barrier,2x2,1,1,1,10,world,1,4,0,10,0.5,0.0
bcast,1x1,8,9,1,10,other,4,4,0,80,0.1,0.0
reduce,2x2,8,9,1,1,world,1,4,0,8,0.001,0.0
bcast,2x2,7512,8191,0,7,world,1,4,0,56000,0.0,0.0
allreduce,2x2,8,9,0,70,world,1,4,0,560,0.0,0.0
"""


@pytest.fixture
def calls(tmp_path: Path) -> Path:
    path = tmp_path / "calls.csv"
    path.write_text(f"{HEADER}\n{ROWS}")
    return path


@pytest.mark.parametrize("entry", build.current_manifest().collectives, ids=lambda e: str(e.name))
def test_what_can_be_tuned_from_a_profile(tmp_path: Path, entry: CollectiveEntry) -> None:
    """What is chosen by a size that the profile has: of a block, or the mean of all."""
    path = tmp_path / "calls.csv"
    path.write_text(f"{HEADER}\n{entry.name},2x2,7512,8191,1,10,world,1,4,0,80000,4.0,1.0\n")
    found, left_out = profile.worth_tuning(profile.read([path]), build.read_manifest(), 0.01)
    known = entry.sized != "none"
    assert [one.problems for one in found] == ([{(entry.name, 8000)}] if known else [])
    assert bool(left_out) != known


def test_profiles_add_up(calls: Path) -> None:
    one, two = profile.read([calls]), profile.read([calls, calls])
    assert (one.seconds, two.seconds) == (10.0, 20.0)
    assert [row.collective for row in one.rows][:2] == ["bcast", "allreduce"]
    assert (two.rows[0].calls, two.rows[0].size, two.rows[0].moving) == (200, 7960, 6.0)
    assert one.moving == pytest.approx(6.801)
    assert one.waited == pytest.approx(1.5)
    assert not one.tuned
    assert {row.collective: row.calls for row in two.nonblocking} == {"bcast": 14, "allreduce": 140}


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("collective,layout,calls\n", "no profile"),
        (None, "No such file"),
        (f"{HEADER}\nbcast,2x2,8\n", "damaged"),
        (f"{HEADER}\nbcast,2x2,a,b,1,1,world,1,4,0,8,1.0,0.0\n", "damaged"),
        ("\xff\xfe", "damaged"),
    ],
)
def test_a_file_that_is_no_profile(tmp_path: Path, text: str | None, word: str) -> None:
    if text is not None:
        (tmp_path / "file").write_bytes(text.encode("latin-1"))
    with pytest.raises(CollforgeError, match=word):
        profile.read([tmp_path / "file"])


def test_what_is_worth_tuning(calls: Path) -> None:
    """Calls of a bucket together, as doubles; what the guard dropped first, then the most expensive layout."""
    found, left_out = profile.worth_tuning(profile.read([calls]), build.read_manifest(), 0.01)
    assert [(one.layout, one.problems) for one in found] == [
        ("2x1", {("allreduce", 8)}),
        ("2x2", {("bcast", 8000)}),
    ]
    assert [one.part for one in found] == [pytest.approx(1.5 / 6.801), pytest.approx(4 / 6.801)]
    parts = {reason: round(6.801 * part, 3) for reason, part in left_out.items()}
    assert sorted(parts.values()) == [0.001, 0.1, 0.3, 0.4, 0.5]
    assert parts["one rank"] == 0.1
    assert parts["reductions of less than 4 bytes"] == 0.3


def test_what_the_guard_dropped_is_tuned_though_it_takes_little_time(tmp_path: Path) -> None:
    path = tmp_path / "calls.csv"
    rows = "bcast,2x2,8,9,1,9,world,1,4,1,72,0.001,0\nbcast,2x2,64,76,1,9,world,1,4,0,576,9.0,0\n"
    path.write_text(f"{HEADER}\n{rows}")
    found, _ = profile.worth_tuning(profile.read([path]), build.read_manifest(), 0.01)
    assert [(one.problems, one.dropped) for one in found] == [
        ({("bcast", 8)}, True),
        ({("bcast", 64)}, False),
    ]


@pytest.mark.parametrize(
    ("nbytes", "expected"), [(1, 1), (7, 7), (8, 8), (11, 8), (12, 16), (402, 400), (8191, 8192)]
)
def test_sizes_are_whole_doubles(nbytes: int, expected: int) -> None:
    assert profile.measurable(nbytes) == expected


def test_show(calls: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["profile", "show", str(calls), "--plot", str(tmp_path / "p.svg")]
    assert main.main(words) == 0
    assert max(map(len, capsys.readouterr().out.splitlines()[:4])) <= 80
    assert main.main([*words, "--wide"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "68.0% of the time, and 15.0% waiting" in lines[0]
    nonblocking = lines[lines.index(next(line for line in lines if "nonblocking" in line)) :]
    counts = {line.split()[0]: line.split()[-1] for line in nonblocking if "2x2" in line}
    assert counts == {"allreduce": "70", "bcast": "7"}
    (row,) = [line for line in lines if "bcast" in line and "world" in line]
    assert re.findall(r"[\d.]+%|\d+\.?\d* ms", row) == ["30.0%", "10.0%", "10.0 ms"]
    assert "bcast 7960 B @2x2 world" in (tmp_path / "p.svg").read_text()


def test_a_profile_without_collectives(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "calls.csv").write_text(f"{HEADER}\n{ROWS.splitlines()[0]}\n")
    assert main.main(["profile", "show", str(tmp_path / "calls.csv")]) != 0
    assert "no collectives" in capsys.readouterr().err


def test_gain(
    built: Installation, calls: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A winner twice as fast as native halves the time that its calls do not wait."""
    made = build.read_manifest()
    (entry,) = [v for v in made.variants_of("bcast") if v.family == "full_lane"]
    points = entry.points(
        {**dict.fromkeys(("nodes", "min_node_size", "max_node_size"), 2), "size": 4}
    )
    winner = Variant.from_name("bcast", entry.name(points[0]), entry.fingerprint)
    place = Place("local", built.library.name, built.library.first_line, "2x2")
    with Store(tmp_path / "db") as store:
        result = Result(winner, "bcast@2x2,bytes=8192,type=double", 8192, True)
        time = "2026-01-01T00:00:00Z"
        store.record_run(RunRecord("uuid", place, 2, 4, time, "", "", (), 0, (result,)))
        store.replace_winners(place, "bcast", [Choice(8192, winner, 2.0, 1.9, 2.1, 3, "decided")])
    words = ["profile", "gain", str(calls), "--system", "local", "--mpi", built.library.name]
    assert main.main([*words, "--db", str(tmp_path / "db")]) == 0
    out = capsys.readouterr().out
    assert "20.0% of the time saved" in out
    assert "had winners" not in out
    assert out.count("native: no stored size is near") >= 3
    assert "native: the layout's name is a hash" in out


def test_gain_counts_only_what_runs(
    built: Installation, calls: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not a winner of other code; and it says if the jobs had winners."""
    path = tmp_path / "tuned.csv"
    path.write_text(calls.read_text().replace("job,2x2,0,0,1,1,world", "job,2x2,0,0,1,1,tuned"))
    old = Variant("bcast", "full_lane", "", "0123456789abcdef")
    place = Place("local", built.library.name, built.library.first_line, "2x2")
    with Store(tmp_path / "db") as store:
        result = Result(old, "bcast@2x2,bytes=8192,type=double", 8192, True)
        time = "2026-01-01T00:00:00Z"
        store.record_run(RunRecord("uuid", place, 2, 4, time, "", "", (), 0, (result,)))
        store.replace_winners(place, "bcast", [Choice(8192, old, 2.0, 1.9, 2.1, 3, "decided")])
    words = ["profile", "gain", str(path), "--system", "local", "--mpi", built.library.name]
    assert main.main([*words, "--db", str(tmp_path / "db")]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "0.0% of the time saved" in out
    assert "has changed" in out
    assert "these jobs had winners already" in out


@pytest.mark.either
def test_sizes_that_no_rank_knows_alone(
    built: Installation, launch: Launch, tmp_path: Path
) -> None:
    """The mean of all blocks, of which each rank knows its own, also in place."""
    env = {
        "LD_PRELOAD": str(built.built.library_path),
        "COLLFORGE_NODE_MAP": "2",
        "COLLFORGE_PROFILE": str(tmp_path / "calls.csv"),
    }
    done = launch(built.library.name, 4, [str(compiled(built, "mean_sizes"))], env)
    assert done.returncode == 0
    found = profile.read([tmp_path / "calls.csv"])
    rows = {row.collective: (row.layout, row.calls, row.size) for row in found.rows}
    # Blocks of 1 to 4 ints; in place, alltoallv has 1 to 7.
    assert rows == {
        "gatherv": ("2x2", 2, 10),
        "scatterv": ("2x2", 2, 10),
        "alltoallv": ("2x2", 2, 13),
    }
    wanted, left_out = profile.worth_tuning(found, build.read_manifest(), 0.0)
    found_pairs = {pair for one in wanted for pair in one.problems}
    assert found_pairs == {("gatherv", 8), ("scatterv", 8), ("alltoallv", 16)}
    assert not left_out


def test_overlap_of_nonblocking_calls(
    built: Installation, launch: Launch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of those that variants serve: ranks compute meanwhile, or wait. MPICH 4.0.2 lets none be served."""
    program, path = tmp_path / "overlapped", tmp_path / "calls.csv"
    source = Path(__file__).parent / "c" / "overlapped.c"
    assert execute([str(built.library.mpicc), str(source), "-o", str(program)]).returncode == 0
    env = {
        "LD_PRELOAD": str(built.built.library_path),
        "COLLFORGE_NODE_MAP": "2",
        "COLLFORGE_PROFILE": str(path),
        "COLLFORGE_FORCE": "*=full_lane",
        "COLLFORGE_NONBLOCKING": "1",
    }
    assert launch(built.library.name, 4, [str(program)], env).returncode == 0
    overlap = {row.collective: row.overlap for row in profile.read([path]).nonblocking}
    assert main.main(["profile", "show", str(path)]) == 0
    assert ("%" in capsys.readouterr().out.split("overlap")[1]) == (built.library.flavor != "mpich")
    if built.library.flavor == "mpich":
        large = ("allgather", "reduce_scatter")  # by the functions with large counts
        assert overlap == dict.fromkeys(("allreduce", "bcast", *large))
    else:
        assert 0 <= overlap["bcast"] < overlap["allreduce"] <= 1


@pytest.mark.either
def test_nonblocking_calls_are_counted(
    built: Installation, launch: Launch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also on communicators without another call; they stay native, as their results and order show."""
    path = tmp_path / "calls.csv"
    env = {
        "LD_PRELOAD": str(built.built.library_path),
        "COLLFORGE_NODE_MAP": "2",
        "COLLFORGE_PROFILE": str(path),
        "COLLFORGE_FORCE": "*=full_lane",
    }
    done = launch(built.library.name, 4, [str(compiled(built, "nonblocking"))], env)
    assert done.returncode == 0, done.stdout
    found = profile.read([path])
    standard = [c.name for c in build.read_manifest().collectives if not c.hybrid]
    assert {row.collective: row.calls for row in found.nonblocking} == dict.fromkeys(standard, 1)
    assert all(row.overlap is None for row in found.nonblocking)
    assert [(row.collective, row.calls) for row in found.rows] == [("allreduce", 1)]
    reduced = next(
        line
        for line in path.read_text().splitlines()
        if ",0,1,other," in line and "allreduce" in line
    )
    assert reduced.startswith("allreduce,2x2,8,9,0,1,other,1,4,0,8,0.0")
    assert main.main(["profile", "show", str(path)]) == 0
    assert "nonblocking calls" in capsys.readouterr().out


@pytest.mark.either
def test_tune_what_is_called(built: Installation, calls: Path, tmp_path: Path) -> None:
    words = ["tune", "--system", "local", "--mpi", built.library.name, "--budget", "6s"]
    words += ["--profile", str(calls), "--db", str(tmp_path / "db"), "--least-part", "0.02"]
    done = execute([sys.executable, "-m", "collforge", *words])
    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"[0-9]+ of 1 problems decided \(", done.stdout)) == 2
    assert "left out" in done.stdout
    with Store(tmp_path / "db", create=False) as store:
        places = store.places()
        measured = {one.problem for place in places for one in store.measurements(place)}
    assert {place.layout for place in places} <= {"2x2", "2x1"}
    assert any(problem.startswith("allreduce@2x1,bytes=8,") for problem in measured)


@pytest.mark.either
def test_how_communicators_were_made_and_who_waited(
    built: Installation, launch: Launch, tmp_path: Path
) -> None:
    """Also of a duplicate that was made before any collective."""
    env = {
        "LD_PRELOAD": str(built.built.library_path),
        "COLLFORGE_NODE_MAP": "2",
        "COLLFORGE_PROFILE": str(tmp_path / "calls.csv"),
    }
    done = launch(built.library.name, 4, [str(compiled(built, "profiled"))], env)
    assert done.returncode == 0
    found = profile.read([tmp_path / "calls.csv"])
    rows = {(row.collective, row.origin): row for row in found.rows}
    assert set(rows) == {("allreduce", "duplicate"), ("bcast", "other")}
    reduced, sent = rows["allreduce", "duplicate"], rows["bcast", "other"]
    assert (reduced.layout, reduced.calls, reduced.communicators, reduced.size) == ("2x2", 3, 1, 4)
    assert (sent.layout, sent.calls, sent.communicators) == ("2x2/2x1", 2, 2)
    # Three ranks waited three times for 20 ms.
    assert 0.1 < reduced.waited <= reduced.seconds < found.seconds
    assert sent.waited == 0


@pytest.mark.parametrize("number", ["inf", "-inf", "nan", "1e999", "9" * 400, "x"])
def test_a_number_that_no_job_counts(number: str) -> None:
    """A profile may come from a stranger (`collforge push`), and what it says is added up."""
    row = ["bcast", "4x2", "0", "0", "1", "1", "world", "1", "8", "0", "10", number, "0"]
    with pytest.raises(CollforgeError, match="it is damaged"):
        profile.parse([f"{','.join(profile.COLUMNS)}\n{','.join(row)}\n"])
