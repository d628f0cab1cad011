"""`collforge bench --startup` and `--overhead`: that they measure what they say, not how long it takes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from conftest import Installation

from collforge import layout
from collforge.db import Store
from collforge.generator import manifest
from collforge.layout import Layout
from collforge.mpi_library import MpiLibrary
from collforge.reframe_checks.systems.emulated import ClusterSpec
from collforge.tuner import cli, startup
from collforge.tuner.commands import startup as startup_commands
from collforge.tuner.evidence import Comparison, Interval
from collforge.variant import Variant

AT = layout.from_name("2x1")
LIBRARY = MpiLibrary("mpich", Path("mpicc"), Path("mpirun"), "MPICH", True)
NOWHERE = startup.Programs(LIBRARY, Path("o"), Path("c"), Path("p"), Path("d"))


@pytest.fixture(scope="module")
def programs(built: Installation, tmp_path_factory: pytest.TempPathFactory) -> startup.Programs:
    made = manifest.load(built.home / "generated" / "manifest.json")
    folder = tmp_path_factory.mktemp(built.library.name)
    return startup.prepare(built.library, built.built, made, [AT], folder)


def test_native_is_the_winner_of_every_collective(
    programs: startup.Programs, built: Installation
) -> None:
    made = manifest.load(built.home / "generated" / "manifest.json")
    with Store(programs.database, create=False) as store:
        winners = store.winners(layout=AT.name)
    native = {w.choice.variant.collective for w in winners if w.choice.variant.is_native}
    assert native == {entry.collective for entry in made.variants}


@pytest.mark.parametrize(
    ("kind", "preloaded", "database"),
    [("native", False, False), ("inactive", True, False), ("tuned", True, True)],
)
def test_what_is_launched(
    programs: startup.Programs, tmp_path: Path, kind: str, preloaded: bool, database: bool
) -> None:
    script = tmp_path / "script"
    script.write_text(
        "#!/bin/sh\n"
        '[ "${PMI_RANK:-${OMPI_COMM_WORLD_RANK:-0}}" = 0 ] || exit 0\n'
        'printf \'{"number": %s, "preload": "%s", "database": "%s", "nodes": "%s"}\\n\' '
        '"$1" "$LD_PRELOAD" "$COLLFORGE_DB" "$COLLFORGE_NODE_MAP"\n'
    )
    script.chmod(0o755)
    found = programs.launch(AT, script, kind, 17)
    assert found["number"] == 17
    assert found["nodes"] == AT.node_map
    assert str(programs.preload) in found["preload"].split(":") or not preloaded
    assert preloaded or str(programs.preload) not in found["preload"]
    assert found["database"] == (str(programs.database) if database else "")


class Recorded(startup.Programs):
    """Launches that took what they were recorded to take."""

    records: Iterator[dict[str, Any]]

    def launch(self, at: Layout, program: Path, kind: str, *numbers: int) -> dict[str, Any]:
        found = next(self.records)
        assert found.pop("kind") == kind
        return found


def recorded(records: list[dict[str, Any]]) -> startup.Programs:
    programs = Recorded(**vars(NOWHERE))
    object.__setattr__(programs, "records", iter(records))
    return programs


def test_ratios_are_of_pairs() -> None:
    """The machine is ten times slower during the second launch, and in every other round."""

    def record(kind: str, factor: float, slow: float) -> dict[str, Any]:
        direct = [slow, 10 * slow, slow]
        wrapped = [factor * seconds for seconds in direct]
        times = {"init": slow, "calls": factor * slow - slow / 2, "finalize": -slow / 2}
        ways = {"direct": direct, "wrapped": wrapped}
        halves = {
            way: {"scan": [s / 2 for s in seconds], "bcast": [s / 2 for s in seconds]}
            for way, seconds in ways.items()
        }
        return {"kind": kind, **halves, **times}

    records = [record("native", 1.0, 1.0), record("tuned", 1.5, 1.0)]
    records += [record("tuned", 1.5, 10.0), record("native", 1.0, 10.0)]
    program, calls, control = startup.measure_overhead(recorded(records), AT, 2, 3)
    for row, expected in ((program, 1.5), (calls, 1.5), (control, 1.0)):
        assert row.ratio.ratio == pytest.approx(expected)
        assert row.ratio.low == pytest.approx(row.ratio.high)
    assert (program.without, program.having) == (5.5, 8.25)


def test_small_calls_are_compared_one_by_one() -> None:
    def record(slow: float) -> dict[str, Any]:
        direct = {"scan": [50 * slow] * 3, "bcast": [100 * slow] * 3}
        wrapped = {"scan": [25 * slow] * 3, "bcast": [200 * slow] * 3}
        return {"kind": "forced", "burst": 50, "direct": direct, "wrapped": wrapped}

    scan, bcast = startup.measure_small(recorded([record(1.0), record(3.0)]), AT, 2, 3)
    assert (scan.what, scan.without, scan.having) == ("scan", 2.0, 1.0)
    assert (bcast.what, bcast.without, bcast.having) == ("bcast", 4.0, 8.0)
    assert scan.ratio.ratio == pytest.approx(0.5)
    assert bcast.ratio.ratio == pytest.approx(2.0)


def test_cells_are_medians_over_launches() -> None:
    def stages(seconds: float) -> dict[str, Any]:
        cell = {"seconds": [seconds, 100.0, seconds], "bytes": 7e6 * seconds}
        return {"kind": "tuned", "start": seconds, **dict.fromkeys(startup.STAGES, cell)}

    records: list[dict[str, Any]] = []
    for number in (1.0, 2.0, 6.0):
        records += [{"kind": kind, "init": number} for kind in startup.STARTS]
        records.append({"kind": "inactive", "start": number * 1e-6})
        records.append(stages(number * 1e-6))
    rows = startup.measure_start(recorded(records), [AT], 3)
    by_unit = {row.unit: row.cells[AT.name] for row in rows}
    for unit, scale in (("ms", 1e3), ("us", 1.0), ("bytes", 7.0)):
        cell = by_unit[unit]
        expected = [2.0 * scale, 1.0 * scale, 6.0 * scale]
        assert [cell.median, cell.low, cell.high] == pytest.approx(expected), unit


@pytest.mark.parametrize(
    "cluster",
    [
        pytest.param(None, id="local"),
        pytest.param(ClusterSpec(), id="emulated", marks=pytest.mark.emulated),
    ],
)
def test_start_is_measured(programs: startup.Programs, cluster: ClusterSpec | None) -> None:
    found = startup.measure_start(replace(programs, cluster=cluster), [AT], 1)
    rows = {row.primitive: row.cells[AT.name].median for row in found}
    parts = (startup.STARTS, startup.ADDED, startup.STAGES, startup.MEMORY)
    assert len(rows) == sum(map(len, parts))
    assert all(value > 0 for value in rows.values())
    one, two = (rows[f"memory: {startup.STAGES[name]}"] for name in ("stage_one", "stage_two"))
    # Room for the layout's arrays at least; and no more than a communicator is worth.
    assert 100 < one < 10_000
    assert 100 < two < 200_000


def test_small_calls_are_measured(programs: startup.Programs) -> None:
    at = layout.from_name(startup.SMALL_LAYOUT)
    rows = startup.measure_small(programs, at, 2, 2)
    assert {"allreduce", "bcast", "barrier"} <= {row.what for row in rows}
    assert all(row.without > 0 and row.having > 0 for row in rows)


def test_overhead_is_measured(programs: startup.Programs) -> None:
    for row in startup.measure_overhead(programs, AT, 2, 2):
        assert row.ratio.launches == 2
        assert row.without > 0
        assert row.having > 0


ROW = startup.Row("MPI_Init, native", "ms", {"3x1": Interval(1.25, 1.0, 1.5)})
RATIO = Comparison(Variant("program"), 1.005, 0.995, 1.015, 4)
OVERHEAD = startup.Overhead("program, preloaded over not", 2.0, 2.01, RATIO)


@pytest.mark.parametrize(
    ("option", "rows", "words"),
    [
        (
            "--startup",
            [ROW],
            ["MPI_Init, native", "1.25 (1 .. 1.5)", "median of 4", "3x1: 3 ranks"],
        ),
        ("--overhead", [OVERHEAD], ["program", "2010", "1.0050", "0.9950 .. 1.0150", "3x1"]),
        ("--small", [OVERHEAD], ["program", "2.01e+06", "1.0050", "shared_window", "3x1"]),
    ],
)
def test_commands(
    option: str,
    rows: list[Any],
    words: list[str],
    programs: startup.Programs,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def measure(_: object, at: Any, launches: int, *__: object) -> list[Any]:
        assert launches == 4
        assert layout.from_name("3x1") in (at, *(at if isinstance(at, list) else ()))
        return rows

    monkeypatch.setattr(startup_commands, "prepare", lambda *_: programs)
    monkeypatch.setattr(startup, "measure_start", measure)
    monkeypatch.setattr(startup, "measure_overhead", measure)
    monkeypatch.setattr(startup, "measure_small", measure)
    arguments = ["bench", option, "--mpi", programs.library.name]
    arguments += ["--layout", "3x1", "--launches", "4"]
    assert cli.main(arguments) == 0
    shown = capsys.readouterr().out
    for word in words:
        assert word in shown
    assert cli.main([*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [asdict(row) for row in rows]
