"""`collforge probe lanes`: the program, and what is inferred from the times."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from conftest import Installation, Launch
from support import SHARED_HOME, execute

from collforge import layout
from collforge.db import Store
from collforge.place import Place
from collforge.reframe_checks.launches import Outcome
from collforge.tuner.cli import main
from collforge.tuner.probes import lanes as probe
from collforge.tuner.probes.lanes import ALLTOALL, BENCHMARKS, PATTERN, Series

MEBIBYTE, EXCHANGES, RANKS = 1 << 20, 4, 6
AT = layout.from_name(f"2x{RANKS}")
LANE = 12.5e6  # bytes a second


@pytest.fixture(scope="module")
def program(built: Installation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp(built.library.name) / "lanes"
    assert execute(probe.compile_command(str(built.library.mpicc), path)).returncode == 0
    return path


@pytest.mark.either
def test_every_benchmark_size_and_number_of_ranks_is_timed(
    program: Path, built: Installation, launch: Launch, tmp_path: Path
) -> None:
    """7 and 4097 bytes: counts that no number of ranks divides, and none at all."""
    out = tmp_path / "lines"
    words = [str(program), str(out), "3", "2", "5", "1,2,3", "7,4097", *BENCHMARKS]
    done = launch(built.library.name, 6, words, timeout=60)
    assert done.returncode == 0
    found = probe.read(out.read_text())
    assert {(one.benchmark, one.bytes, one.lanes) for one in found} == {
        (name, size, k) for name in BENCHMARKS for size in (7, 4097) for k in (1, 2, 3)
    }
    assert len(found) == 3 * 2 * len(BENCHMARKS)
    assert all(len(one.seconds) == 5 and min(one.seconds) > 0 for one in found)


@pytest.mark.either
@pytest.mark.parametrize(
    "words",
    [
        ["4", "1", "1", "1", "8", PATTERN],
        ["3", "1", "1", "4", "8", PATTERN],
        ["3", "1", "1", "1", "8", "patterns"],
    ],
)
def test_more_ranks_than_nodes_have_are_refused(
    program: Path, built: Installation, launch: Launch, tmp_path: Path, words: list[str]
) -> None:
    done = launch(built.library.name, 6, [str(program), str(tmp_path / "x"), *words], timeout=60)
    assert done.returncode != 0


def times_of(physical: int, tied: bool) -> list[Series]:
    """What a node with so many lanes would take, each rank tied to one in turn or all sharing them."""

    def seconds(name: str, k: int) -> float:
        most = -(-k // physical) / k if tied else 1 / min(k, physical)
        moved = MEBIBYTE * EXCHANGES if name == PATTERN else MEBIBYTE * k / 2
        return moved * most / LANE

    return [
        Series(name, MEBIBYTE, k, (seconds(name, k) * 0.97, seconds(name, k) * 1.05))
        for name in BENCHMARKS
        for k in range(1, RANKS + 1)
    ]


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("physical", range(1, RANKS + 1))
def test_lanes_are_counted(physical: int, tied: bool) -> None:
    found = probe.evaluate("", [times_of(physical, tied)] * 3, AT, EXCHANGES)
    assert found.physical == physical
    assert found.at_least == (physical == RANKS)
    assert found.rate == pytest.approx(LANE, rel=0.02)
    assert ("at least" in found.remark()) == found.at_least
    (last,) = [row for row in found.rows if (row.benchmark, row.lanes) == (ALLTOALL, RANKS)]
    assert found.relative(last) == pytest.approx(RANKS / physical, rel=1e-6) or tied
    assert last.seconds == pytest.approx((last.mean,) * 3) and last.whole and not last.doubt
    interval = found.intervals[last]
    assert interval.low < interval.median < interval.high


def test_lanes_are_counted_by_alltoall_alone() -> None:
    series = [one for one in times_of(2, tied=False) if one.benchmark == ALLTOALL]
    found = probe.evaluate("", [series] * 3, AT, EXCHANGES)
    assert (found.physical, found.fastest) == (2, pytest.approx(2, rel=1e-6))
    assert found.rate == pytest.approx(LANE, rel=0.02), "half of the data stays on the node"


def test_times_of_shared_cores_are_doubted_where_the_links_do_not_limit() -> None:
    """Small counts take three times as long as over the links alone."""
    small = [
        Series(one.benchmark, 1024, one.lanes, tuple(3 * s / 1024 for s in one.seconds))
        for one in times_of(2, tied=False)
    ]
    launches = [[*times_of(2, tied=False), *small]] * 3
    found = probe.evaluate("", launches, AT, EXCHANGES, shares_cores=True)
    assert {row.bytes for row in found.rows if row.doubt} == {1024}
    assert not any(row.doubt for row in probe.evaluate("", launches, AT, EXCHANGES).rows)


def test_short_exchanges_of_shared_cores_are_doubted() -> None:
    """They take what the links take, but less than a millisecond."""
    short = [
        Series(one.benchmark, 64, one.lanes, tuple(s / 16384 for s in one.seconds))
        for one in times_of(2, tied=False)
    ]
    launches = [[*times_of(2, tied=False), *short]] * 3
    found = probe.evaluate("", launches, AT, EXCHANGES, shares_cores=True)
    assert {row.bytes for row in found.rows if row.doubt} == {64}


def test_a_limit_is_drawn_where_nothing_lies_below() -> None:
    """Four ranks of six on two lanes: faster than these allow."""
    series = times_of(2, tied=False)
    faster = [
        Series(one.benchmark, one.bytes, one.lanes, tuple(0.8 * s for s in one.seconds))
        if (one.benchmark, one.lanes) == (PATTERN, 4)
        else one
        for one in series
    ]
    panels = probe.evaluate("", [faster] * 3, AT, EXCHANGES).picture().panels
    assert {title: len(lines) for title, lines in panels.items()} == {
        "pattern, 1 MiB": 1,
        "alltoall, 1 MiB": 2,
    }


def test_the_ranks_that_are_tried() -> None:
    assert probe.virtual_lanes(layout.from_name("2x3")) == [1, 2, 3]
    assert probe.virtual_lanes(layout.from_name("4x48")) == [*range(1, 9), 16, 32, 48]


def test_what_is_found_is_stored_and_drawn(
    built: Installation, collforge: Launch, tmp_path: Path
) -> None:
    """On this machine, through ReFrame, where memory stands for links: whatever number of lanes it has."""
    words = ["--mpi", built.library.name, "--system", "local", "--layout", "2x2", "--launches", "1"]
    files = {name: tmp_path / f"lanes.{name}" for name in ("db", "json", "plot.svg")}
    options = [f"--{name.partition('.')[0]}={path}" for name, path in files.items()]
    done = collforge("probe", "lanes", *words, "--sizes", "1KiB,4KiB", *options)
    assert done.returncode == 0, done.stderr
    assert "physical lane" in done.stdout
    rows = json.loads(files["json"].read_text())["rows"]
    assert len(rows) == 2 * 2 * len(BENCHMARKS)
    assert "ranks of a node" in files["plot.svg"].read_text()
    ran = max((SHARED_HOME / "runs").glob("*-lanes-*/job/reframe.out"))
    assert "[off]" in ran.read_text(), "ReFrame's database is for a site's own sessions"
    place = Place.of("local", built.library, layout.from_name("2x2"))
    with Store(files["db"], create=False) as store:
        found = store.lanes(place)
    assert found is not None and found.number in (1, 2) and found.rate > 0


@pytest.mark.parametrize("named", [True, False])
def test_only_a_database_that_is_named_is_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, named: bool
) -> None:
    """`collforge reproduce` names none, so that its quick rates never limit what serves."""
    found = times_of(2, tied=True)
    text = "\n".join(msgspec.json.encode(one).decode() for one in found)
    monkeypatch.setattr(probe, "run_launches", lambda *_: [Outcome(0, 1.0, text, "")])
    sizes = ",".join(str(size) for size in dict.fromkeys(one.bytes for one in found))
    monkeypatch.setattr(probe, "virtual_lanes", lambda _: list({one.lanes for one in found}))
    database = tmp_path / "serves.db"
    monkeypatch.setenv("COLLFORGE_DB", str(database))
    words = ["probe", "lanes", "--mpi", "openmpi", "--system", "local", "--sizes", sizes]
    assert main.main([*words, *(["--db", str(database)] if named else [])]) == 0
    assert database.exists() == named


def test_the_rate_that_is_stored_is_that_of_the_pattern(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """MPI_Alltoall need not fill the links."""
    words = ["probe", "lanes", "--mpi", "openmpi", "--system", "local", "--benchmark", ALLTOALL]
    assert main.main([*words, "--db", str(tmp_path / "serves.db")]) == 2
    assert "the pattern has" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.emulated
@pytest.mark.parametrize("rails", [1, 2, 3])
def test_the_rails_of_an_emulated_cluster_are_found(
    built: Installation, collforge: Launch, tmp_path: Path, rails: int
) -> None:
    words = ["--mpi", built.library.name, "--rails", str(rails), "--db", str(tmp_path / "lanes.db")]
    done = collforge("probe", "lanes", *words, timeout=600)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith(f"{rails} physical lane")
