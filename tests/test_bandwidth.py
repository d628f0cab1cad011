"""The plot of `collforge report`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import some

from collforge.cases import timing_case
from collforge.db import Choice, Lanes, Result, RunRecord, Store
from collforge.generator import manifest
from collforge.layout import from_name
from collforge.place import Place
from collforge.reframe_checks.systems.emulated import ClusterSpec
from collforge.tuner.cli import report_plot
from collforge.tuner.decide import bandwidth
from collforge.tuner.decide.evidence import Interval
from collforge.variant import Variant

AT = from_name("4x2")
PLACE = Place("emulated", "openmpi", "Open MPI v4.1.4, and so on", "4x2")
NATIVE_SECONDS = 1.0
TUNED = Choice(1 << 20, Variant("bcast", "full_lane", "", "1"), 2.0, 1.5, 3.0, 3)


@pytest.fixture
def store(made: manifest.Manifest, tmp_path: Path) -> Store:
    """A bcast of 1 MiB whose winner takes 0.5 s and native 1 s, and a barrier, on the emulated cluster."""
    found = Store(tmp_path / "winners.db")
    problems = [
        timing_case(made, name, AT, size) for name, size in (("bcast", 1 << 20), ("barrier", 1))
    ]
    results = [
        Result(Variant(one.collective), one.problem, one.bytes, True, "", (NATIVE_SECONDS,) * 7)
        for one in problems
    ]
    results.append(Result(TUNED.variant, problems[0].problem, 1 << 20, True, "", (0.5,) * 7))
    when = "2026-01-01T00:00:00Z"
    found.record_run(RunRecord("1", PLACE, 4, 8, when, "1", "4", ("a",), 7, tuple(results)))
    found.replace_winners(PLACE, "bcast", [TUNED])
    return found


def test_bandwidth_is_bytes_over_time(made: manifest.Manifest, store: Store) -> None:
    panels = bandwidth.read_series(
        store, made, store.places(), [one.name for one in made.collectives]
    )
    assert list(panels) == ["bcast"]  # a barrier moves no data
    native, tuned = panels["bcast"]
    moved = made.collective("bcast").least_bytes(4, 2, 1 << 20)
    assert native.points == {moved: Interval(*[moved / NATIVE_SECONDS] * 3)}
    assert tuned.points[moved] == Interval(*(moved * ratio for ratio in (2.0, 1.5, 3.0)))


def test_the_picture_is_drawn(made: manifest.Manifest, store: Store, tmp_path: Path) -> None:
    picture = tmp_path / "winners.svg"
    report_plot.draw(bandwidth.read_series(store, made, store.places(), ["bcast"]), picture)
    drawn = picture.read_text(encoding="utf-8")
    for words in (
        report_plot.FRACTION,
        "Open MPI v4.1.4, native",
        "Open MPI v4.1.4, tuned",
        "intervals",
    ):
        assert f"<!-- {words}" in drawn or words in drawn


@pytest.mark.parametrize(
    "spec", [ClusterSpec(), ClusterSpec(rails=3, rate="1gbit", rail_model="hashed")]
)
def test_a_systems_name_tells_its_rails(spec: ClusterSpec) -> None:
    assert ClusterSpec.of_system(spec.system) == spec
    rate = spec.rails * spec.bits_per_second / 8
    assert bandwidth.link_rate(replace(PLACE, system=spec.system)) == rate


def test_the_rate_of_other_systems_is_what_was_measured(store: Store) -> None:
    site = replace(PLACE, system="cluster")
    assert bandwidth.link_rate(site, store) is None
    store.record_lanes(site, Lanes(2, 1e9))
    store.record_lanes(site, Lanes(3, 2e9))
    assert store.lanes(site) == Lanes(3, 2e9)
    assert bandwidth.link_rate(site, store) == 6e9
    assert bandwidth.link_rate(replace(site, mpi="mpich"), store) is None


def test_where_one_rate_is_not_known_no_fraction_is_shown(
    made: manifest.Manifest, store: Store, tmp_path: Path
) -> None:
    (panel,) = bandwidth.read_series(store, made, store.places(), ["bcast"]).values()
    elsewhere = [
        replace(one, place=replace(one.place, system="cluster"), rate=None) for one in panel
    ]
    picture = tmp_path / "winners.svg"
    report_plot.draw({"bcast": [*panel, *elsewhere]}, picture)
    drawn = picture.read_text(encoding="utf-8")
    assert "MB/s" in drawn and report_plot.FRACTION not in drawn
    assert "cluster 4x2, tuned" in drawn and "emulated 4x2, native" in drawn


@pytest.mark.parametrize("collectives", some([1, 10, 2], fast=2))
@pytest.mark.parametrize("systems", [["cluster"], ["emulated", "a-system-with-a-long-name"]])
def test_the_legend_and_the_numbers_fit(
    systems: list[str], collectives: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of them is outside the picture, nor do they overlap."""
    from matplotlib import pyplot

    kept: list[Any] = []
    monkeypatch.setattr(pyplot, "close", kept.append)
    points = {2.0**n: Interval(n * 1e6, 0.9 * n * 1e6, 1.2 * n * 1e6) for n in range(3, 27)}
    places = [
        Place(system, mpi, version, layout)
        for system in systems
        for mpi, version in (("openmpi", "Open MPI v4.1.4"), ("mpich", "MPICH 4.0.2"))
        for layout in ("4x2", "16x48")
    ]
    series = [
        bandwidth.Series(one, tuned, points, 25e6) for one in places for tuned in (True, False)
    ]
    names = [f"reduce_scatter_block{n}" for n in range(collectives)]
    report_plot.draw(dict.fromkeys(names, series), tmp_path / "x.png")
    (figure,) = kept
    assert len(figure.axes) == collectives * len(systems)
    renderer = figure.canvas.get_renderer()
    page = figure.bbox
    for legend in figure.legends:
        box = legend.get_window_extent(renderer)
        assert page.x0 <= box.x0 and box.x1 <= page.x1 and box.y1 <= page.y1
    for axes in figure.axes:
        title = axes.title.get_window_extent(renderer)
        assert page.x0 <= title.x0 and title.x1 <= page.x1
        texts = [one for one in axes.get_xticklabels() if one.get_text() and one.get_visible()]
        boxes = [one.get_window_extent(renderer) for one in texts]
        assert all(one.x1 < other.x0 for one, other in zip(boxes, boxes[1:]))
        assert not any("e+" in one.get_text() for one in axes.get_yticklabels())
