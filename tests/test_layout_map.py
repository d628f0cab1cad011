"""The map: which winners are expected on layouts that were not measured."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import pytest

from collforge.db import MEASURED, PREDICTED, MapPoint
from collforge.generator.manifest import Manifest
from collforge.layout import from_name
from collforge.tuner.decide import extrapolation, layout_map
from collforge.tuner.decide.evidence import Launch
from collforge.tuner.decide.layout_map import Known, Site, Sources
from collforge.variant import Variant


def variant_of(made: Manifest, collective: str, family: str, turn: int = 0) -> Variant:
    (entry,) = [v for v in made.variants_of(collective) if v.family == family]
    points = entry.points(from_name("4x2").facts())
    return Variant.from_name(collective, entry.name(points[turn]), entry.fingerprint)


def launches(times: Mapping[Variant, float], noise: float = 0.01) -> list[Launch]:
    """Four launches of ten rounds in which each variant takes about this many milliseconds."""
    return [
        {
            variant: [1e-3 * ms * (1 + noise * ((7 * launch + i) % 5 - 2)) for i in range(10)]
            for variant, ms in times.items()
        }
        for launch in range(4)
    ]


def mapped(
    made: Manifest, collective: str, times: Mapping[tuple[str, int], Mapping[Variant, float]]
) -> dict[tuple[int, int, int], MapPoint]:
    """``times``: (layout, bytes) -> milliseconds of each variant."""
    history = {
        f"{collective}@{layout},bytes={nbytes},type=double,root=0": launches(one)
        for (layout, nbytes), one in times.items()
    }
    verified = {variant for one in times.values() for variant in one}
    found = layout_map.points(Sources(made, history, verified))
    return {(one.nodes, one.ranks_per_node, one.bytes): one for one in found}


def test_what_wins_on_both_sides_wins_between(made: Manifest) -> None:
    native, lane, leader = (
        Variant("bcast"),
        variant_of(made, "bcast", "full_lane"),
        variant_of(made, "bcast", "hierarchical"),
    )
    found = mapped(
        made,
        "bcast",
        {
            ("2x2", 65536): {native: 10, lane: 5, leader: 3},
            ("4x2", 65536): {native: 20, lane: 5, leader: 25},
        },
    )
    between = found[3, 2, 65536]
    assert (between.variant, between.evidence) == (lane, PREDICTED)
    assert set(between.sources) == {"2x2", "4x2"}
    assert 2 < between.ratio < 4
    assert 1.03 < between.low < 2
    # On the measured layouts themselves it is the best there.
    assert found[2, 2, 65536].variant == leader
    assert found[2, 2, 65536].evidence == MEASURED
    # Beyond them, by the nearest alone.
    assert found[8, 2, 65536].variant == lane
    assert found[8, 2, 65536].sources == ("4x2",)


def test_native_where_a_variant_loses_on_one_side(made: Manifest) -> None:
    native, lane = Variant("bcast"), variant_of(made, "bcast", "full_lane")
    found = mapped(
        made,
        "bcast",
        {("2x2", 65536): {native: 10, lane: 2}, ("4x2", 65536): {native: 10, lane: 11}},
    )
    assert found[3, 2, 65536].variant.is_native
    assert found[2, 2, 65536].variant == lane


def test_sizes_correspond_by_the_bytes_of_the_whole_call(made: Manifest) -> None:
    native, lane = Variant("allgather"), variant_of(made, "allgather", "full_lane")
    found = mapped(made, "allgather", {("4x2", 12000): {native: 10, lane: 5}})
    assert (3, 2, 16000) in found
    assert found[8, 2, 6000].variant == lane


def test_kinds_of_layouts_do_not_teach_each_other(made: Manifest) -> None:
    native, lane = Variant("bcast"), variant_of(made, "bcast", "full_lane")
    found = mapped(made, "bcast", {("4x2", 65536): {native: 10, lane: 5}})
    assert found
    assert all(nodes > 1 and ranks > 1 for nodes, ranks, _ in found)
    assert max(nodes for nodes, _, _ in found) == 8
    assert {ranks for _, ranks, _ in found} == {2, 3, 4}
    times = {native: 10.0, lane: 5.0}
    found = mapped(made, "bcast", {("4x2", 65536): times, ("4x1", 65536): times})
    assert found[2, 4, 65536].sources == ("4x2",), "4x1 is not much further"


def test_other_layouts_are_not_used(made: Manifest) -> None:
    """Neither those of several threads, nor unequal or cyclic ones, nor variants that are not verified."""
    native, lane = Variant("bcast"), variant_of(made, "bcast", "full_lane")
    times = {native: 10.0, lane: 5.0}
    for layout in ("2x2x4", "3+1", "cyclic:2x2"):
        assert not mapped(made, "bcast", {(layout, 65536): times})
    history = {"bcast@2x2,bytes=65536,type=double,root=0": launches(times)}
    assert not layout_map.points(Sources(made, history, set()))


def test_nonblocking_forms_have_a_map_of_their_own(made: Manifest) -> None:
    times = {Variant("bcast"): 10.0, variant_of(made, "bcast", "full_lane", -1): 0.5}
    started = {replace(variant, collective="ibcast"): ms for variant, ms in times.items()}
    found = mapped(made, "ibcast", {("2x2", 65536): started})
    blocking = mapped(made, "bcast", {("2x2", 65536): times})
    assert found
    assert {at: one.variant for at, one in found.items()} == {
        at: replace(one.variant, collective="ibcast") for at, one in blocking.items()
    }
    words = "bytes=65536,type=double,root=0"
    history = {f"ibcast@16x2,{words}": launches(started)}
    known = Sources(made, history, set(started))
    assert extrapolation.points(known) == layout_map.points(known), "no model has computations"
    history[f"bcast@4x2,{words}"] = launches(times)
    both = extrapolation.points(Sources(made, history, {*times, *started}))
    del history[f"ibcast@16x2,{words}"]
    alone = extrapolation.points(Sources(made, history, set(times)))
    served = [(one.name, one.variant) for one in both if one.variant.collective == "bcast"]
    assert served == [(one.name, one.variant) for one in alone]
    assert {one.name for one in both} == {one.name for one in alone}, "a job has one point"


def site(*sizes: tuple[float, float]) -> Site:
    curve = [Known(octave, mean, mean - 0.1) for octave, mean in sizes]
    return Site(from_name("4x2"), {Variant("bcast", "x", "", "f"): curve})


def test_between_sizes_the_gain_is_interpolated() -> None:
    curve = site((10, 0.2), (14, 1.0)).curves[Variant("bcast", "x", "", "f")]
    assert layout_map.at_size(curve, 12) == pytest.approx((0.6, 0.5))
    assert layout_map.at_size(curve, 15) == pytest.approx((1.0, 0.9))
    assert layout_map.at_size(curve, 15.5) == pytest.approx((0.85, 0.75))
    assert layout_map.at_size(curve, 16.5) is None
    assert layout_map.at_size([], 12) is None


def test_between_sizes_far_apart_are_points(made: Manifest) -> None:
    """A runtime takes no size for one that is more than a factor of 2 away."""
    native, lane = Variant("bcast"), variant_of(made, "bcast", "full_lane")
    leader = variant_of(made, "bcast", "hierarchical")
    small, large = {native: 10, leader: 8}, {native: 10, lane: 2}
    found = mapped(made, "bcast", {("2x2", 4096): small, ("2x2", 65536): large})
    assert sorted(nbytes for *at, nbytes in found if at == [3, 2]) == [4096, 16384, 65536]
    point = found[3, 2, 16384]
    assert (point.variant, point.evidence) == (lane, PREDICTED), "what gains most, with the doubt"
    assert point.ratio == pytest.approx(5 * math.exp(-layout_map.DOUBT_OF_SIZE), rel=0.05)
    assert found[2, 2, 16384].evidence == PREDICTED
    assert found[2, 2, 65536].evidence == MEASURED
    close = mapped(made, "bcast", {("2x2", 16384): small, ("2x2", 65536): large})
    assert sorted(nbytes for *at, nbytes in close if at == [3, 2]) == [16384, 65536]


def test_doubt_grows_with_the_distance() -> None:
    variant = Variant("bcast", "x", "", "f")
    lows = []
    for nodes in (4, 6, 8):
        near = layout_map.nearest([site((10, 0.5))], nodes, 2)
        found = layout_map.expect(near, variant, 10)
        assert found and math.isclose(found[0], 0.5)
        lows.append(found[1])
    assert lows == sorted(lows, reverse=True)
    assert lows[0] > lows[2]


def test_a_layout_of_one_collective_does_not_hide_the_others(made: Manifest) -> None:
    """Off the grid of the others: it is a point of theirs as well, unless it is far from what they know."""
    found = {}
    for collective, layouts in (("bcast", ("4x2", "5x2", "30x2")), ("allgather", ("4x2",))):
        fast, native = variant_of(made, collective, "full_lane"), Variant(collective)
        for layout in layouts:
            found[f"{collective}@{layout},bytes=65536,type=double"] = launches({native: 2, fast: 1})
    verified = {variant_of(made, name, "full_lane") for name in ("bcast", "allgather")}
    points = layout_map.points(Sources(made, found, verified))
    at = {(one.variant.collective, one.nodes) for one in points if one.ranks_per_node == 2}
    assert {("bcast", 5), ("allgather", 5), ("bcast", 30)} <= at
    assert ("allgather", 30) not in at
