"""The output of a tuning without a terminal, and the tables at its end."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.table import Table

from collforge.db import Choice, Undecided, Winner
from collforge.generator.manifest import Manifest
from collforge.layout import from_name
from collforge.place import Place
from collforge.tuner.cli import bench_tables, plots, progress, tables, winner_table
from collforge.tuner.cli.winner_table import print_winners
from collforge.tuner.decide.evidence import Interval
from collforge.tuner.run.benchmark import Row
from collforge.tuner.run.pictures import Line, LinePicture
from collforge.tuner.run.tune import Progress
from collforge.variant import Variant, split_name

PLACE = Place("emulated", "openmpi", "Open MPI v4.1.4", "4x2")
RING = Variant("bcast", "full_lane", "lane_algorithm=ring", "ab12")


def winner(size: int, variant: Variant, evidence: str) -> Winner:
    return Winner(
        PLACE, "", Choice(size, variant, 1.5, 1.4, 1.6, 3, evidence), "2026-01-01T00:00:00Z"
    )


def test_a_line_for_each_launch() -> None:
    said: list[str] = []
    log = progress._Log("openmpi", said.append)
    for launches, settled in ((0, 0), (0, 0), (1, 5), (1, 5)):
        log.show(Progress(settled, 9, 2, launches, "a case", 61.0))
    assert len(said) == 2
    assert said[1] == (
        "openmpi: launch 1: 5 of 9 problems decided, 4 open, 2 won by a variant; 1:01 left\n"
    )


def test_decided_tie_and_undecided_are_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    native = Variant("bcast")
    winners = [
        winner(8, native, "tie"),
        winner(16, RING, "decided"),
        winner(32, RING, "neighbour"),
        winner(64, native, "fallback"),
    ]
    undecided = [(PLACE, Undecided("bcast", size, 1, "few")) for size in (32, 64, 128)]
    rows = tables.winner_rows(winners, undecided)
    assert [(row["bytes"], row["evidence"]) for row in rows] == [
        *((8, "tie"), (16, "decided"), (32, "neighbour"), (64, "fallback"), (128, "undecided"))
    ]
    assert [row["launches"] for row in rows] == [3, 3, 3, 3, 1]
    for wide in (False, True):
        print_winners(winners, undecided, wide=wide)
        shown = capsys.readouterr().out
        for word in ("tie", "neighbour", "fallback", "undecided"):
            assert word in shown
        assert "lane_algorithm=ring" in shown


def test_the_table_fits_80_columns(monkeypatch: pytest.MonkeyPatch, made: Manifest) -> None:
    """With the longest names, and the parameters that are as usual left out."""
    entry = next(
        one for one in made.variants_of("reduce_scatter_block") if one.family == "full_lane"
    )
    points = entry.points(from_name("4x2").facts())
    names = [split_name(entry.name(point)) for point in (points[0], points[-1])]
    variants = [Variant("reduce_scatter_block", *name, "ab12") for name in names]
    lines: list[str] = []
    monkeypatch.setattr(winner_table, "show", lambda table: lines.append(printed(table)))
    print_winners([winner(8, one, "decided") for one in variants], (), made)
    text = "".join(lines)
    assert max(map(len, text.splitlines())) <= 80
    assert "overlap=yes" in text
    first = made.variants_of("reduce_scatter_block")[0].parameters[0]
    assert f"{first.name}={first.values[0]}" not in text


def printed(table: Table) -> str:
    console = Console(width=80, file=io.StringIO())
    console.print(table)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_bench_fits_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the longest collective and family; without a tuned choice the best family is told."""
    lines: list[str] = []
    monkeypatch.setattr(bench_tables.tables, "show", lambda table: lines.append(printed(table)))
    rest = {"neighbour": "", "launches": 3, "limit": 1e-3, "native_cpu": None, "tuned_cpu": None}
    times = {"native": 2e-3, "native_low": 1e-3, "native_high": 3e-3}
    known = {"families": {"hierarchical": 1.75, "full_lane": 1.25}, "variants": {}, "intervals": {}}
    rows = [
        Row(
            **{**times, **known, **rest},
            problem="reduce_scatter_block@4x2,bytes=8",
            collective="reduce_scatter_block",
            bytes=1 << 20,
            tuned=tuned,
            ratio=2.0,
            ratio_low=1.25,
            ratio_high=2.75,
            tuned_memory=0,
        )
        for tuned in ("-", "thread_split[threads=2]")
    ]
    bench_tables.print_rows(rows, "openmpi, 4x2", "native")
    text = "".join(lines)
    assert max(map(len, text.splitlines())) <= 80
    for word in ("2.00 ms", "1.25-2.75", "0.50->1.00", "hierarchical", "1.75", "thread_split.1"):
        assert word in text
    assert "…" not in text


@pytest.mark.parametrize("panels", [1, 2, 11])
def test_a_legend_covers_no_panel(
    panels: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from matplotlib import pyplot

    kept: list[Any] = []
    monkeypatch.setattr(pyplot, "close", kept.append)
    points = [(2.0**n, 1e-6 * n) for n in range(3, 27)]
    wide = [Interval(seconds, seconds / 1e6, seconds * 1e6) for _, seconds in points]
    lines = [Line(f"family_{n}[{'x' * 8 * n}]", "o-", points, wide) for n in range(9)]
    names = [f"reduce_scatter_block{n}" for n in range(panels)]
    plots.draw(LinePicture(dict.fromkeys(names, lines), title="openmpi"), tmp_path / "x.png")
    (figure,) = kept
    renderer = figure.canvas.get_renderer()
    (legend,) = figure.legends
    box = legend.get_window_extent(renderer)
    assert figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1
    for axes in figure.axes:
        assert not axes.get_tightbbox(renderer).overlaps(box)
        low, high = axes.get_ylim()
        assert high < 1e4 * low, "the axis follows the values, not the intervals"


@pytest.mark.parametrize(
    ("value", "text"), [(1e-5, "0.00001"), (250.0, "250"), (1.0, "1"), (1e9, "1e+09"), (0.5, "0.5")]
)
def test_numbers_of_axes(value: float, text: str) -> None:
    assert plots.plain_number(value) == text
