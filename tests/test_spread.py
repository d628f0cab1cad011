"""What `collforge report --since` and `--libraries` say of invented measurements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from collforge.db import Choice, Result, RunRecord, Store
from collforge.place import Place
from collforge.toolchain import build
from collforge.tuner.cli import main
from collforge.tuner.site import side_by_side, spread
from collforge.variant import Variant

PLACE = Place("cluster", "openmpi", "Open MPI v5.0.7", "4x2")
OTHER = replace(PLACE, mpi="mpich", mpi_version="MPICH Version:\t4.0.2")
NATIVE, RING = Variant("bcast"), Variant("bcast", "full_lane", "lane_algorithm=ring", "f")
UNUSED = Variant("bcast", "full_lane", "lane_algorithm=chain", "f")
NODES = ("n1", "n2"), ("n3", "n4")


def launch(
    day: int, number: int, hosts: Sequence[str], seconds: float, place: Place = PLACE
) -> RunRecord:
    """Native takes ``seconds``, with a tail; the ring half of it."""
    times = [seconds] * 9 + [2 * seconds]
    results = tuple(
        Result(
            variant, "bcast@4x2,bytes=1024", 1024, True, "", tuple(factor * one for one in times)
        )
        for variant, factor in ((NATIVE, 1.0), (RING, 0.5), (UNUSED, 0.7))
    )
    started = f"2026-01-{day:02d}T{number:02d}:00:00Z"
    uuid = f"{place.mpi}{day}.{number}"
    return RunRecord(uuid, place, 4, 8, started, "0", "4", tuple(hosts), 7, results)


def store(path: Path, runs: Sequence[RunRecord]) -> Store:
    found = Store(path)
    for run in runs:
        found.record_run(run)
    for place in {run.place for run in runs}:
        found.replace_winners(place, "bcast", [Choice(1024, RING, 2.0, 1.9, 2.1, 3)])
    return found


def test_percentiles() -> None:
    values = [1.0, 2.0, 3.0, 4.0, 11.0]
    assert [spread.percentile(values, one) for one in (0.0, 0.5, 1.0)] == [1.0, 3.0, 11.0]
    assert spread.percentile(values, 0.9) == pytest.approx(8.2)
    assert spread.percentile([7.0], 0.99) == 7.0


def test_the_spread_is_told_apart_by_days_and_nodes(tmp_path: Path) -> None:
    # The second day is twice as slow; nodes and launches of a day do not differ.
    days = [(1, 1e-3), (2, 2e-3)]
    runs = [launch(d, n, hosts, s) for d, s in days for n, hosts in enumerate(NODES)]
    with store(tmp_path / "s.db", runs) as found:
        rows = {one.variant: one for one in spread.read(found, PLACE, spread.launches(found, ""))}
        assert rows.keys() == {NATIVE, RING}, "others serve no calls"
        native = rows[NATIVE]
        assert native.launches == 4 and rows[RING].p50 == pytest.approx(native.p50 / 2)
        assert native.p50 == pytest.approx(2e-3) and native.p99 == pytest.approx(4e-3)
        by_days = math.expm1(math.log(2) / math.sqrt(2))
        assert native.between_days == pytest.approx(by_days)
        assert native.between_nodes == pytest.approx(0.0, abs=1e-12)
        assert 0.1 < native.between_launches < by_days
        runs = spread.launches(found, "2026-01-02")
        late = {one.variant: one for one in spread.read(found, PLACE, runs)}[NATIVE]
        assert late.launches == 2 and math.isnan(late.between_days)
        assert spread.read(found, PLACE, spread.launches(found, "2026-01-03")) == []


def test_libraries_are_compared_where_both_were_measured(tmp_path: Path) -> None:
    ours = [launch(1, n, NODES[0], 1e-3 * (1 + n / 10)) for n in range(3)]
    theirs = [launch(2, n, NODES[0], 3e-3, OTHER) for n in range(3)]
    alone = [launch(3, n, NODES[0], 3e-3, replace(OTHER, layout="2x2")) for n in range(3)]
    with store(tmp_path / "l.db", [*ours, *theirs, *alone]) as found:
        rows = side_by_side.read(found, found.places(), ["bcast"])
        ((key, row),) = rows.items()
        assert key == ("cluster", "bcast", 1024, "bcast@4x2,bytes=1024")
        assert sorted(row) == ["mpich: MPICH 4.0.2", "openmpi: Open MPI v5.0.7"]
        assert side_by_side.fastest(row).startswith("openmpi")
        assert row["openmpi: Open MPI v5.0.7"].typical == pytest.approx(0.55e-3)
        found.record_run(launch(4, 0, NODES[0], 9e-3))
        (row,) = side_by_side.read(found, found.places(), ["bcast"]).values()
        assert side_by_side.fastest(row) == "", "a launch was slower than the other library"


def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    build.current_manifest()
    runs = [launch(d, 0, NODES[0], 1e-3, place) for d in (1, 2) for place in (PLACE, OTHER)]
    store(tmp_path / "c.db", runs).close()
    path = str(tmp_path / "c.db")
    assert main.main(["report", "--db", path, "--since", "2026-01-02"]) == 0
    output = capsys.readouterr().out
    assert "4x2: launches since 2026-01-02" in output and "P99" in output
    assert main.main(["report", "--db", path, "--since", "2027-01-01"]) == 0
    assert "nothing was measured since 2027-01-01" in capsys.readouterr().out
    assert main.main(["report", "--db", path, "--libraries"]) == 0
    assert "fastest" in capsys.readouterr().out
    assert main.main(["report", "--db", path, "--libraries", "--mpi", "mpich"]) == main.USER_ERROR
    assert "no two MPI libraries" in capsys.readouterr().err
