"""What is expected to win far beyond the measured layouts."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from functools import cache

import pytest
import simulated_layouts

from collforge.db import EXTRAPOLATED, MapPoint
from collforge.generator.manifest import Manifest
from collforge.layout import MOST_RANKS, from_name
from collforge.tuner.cli import model_terms
from collforge.tuner.cli.commands import tune, why
from collforge.tuner.decide import extrapolation, layout_map
from collforge.tuner.decide.layout_map import Shape, Site, Sources
from collforge.variant import Variant

ROUND, BYTE = 20e-6, 1e-9
"""Seconds of the worlds below."""
Native = Callable[[int, int], float]


def variant_of(made: Manifest, collective: str, name: str) -> Variant:
    family = name.partition("[")[0]
    (entry,) = [v for v in made.variants_of(collective) if v.family == family]
    return Variant.from_name(collective, entry.completed(name), entry.fingerprint)


def seconds(made: Manifest, variant: Variant, at: Shape, nbytes: int) -> float:
    """In a world that is as the model says."""
    counts = made.counts(variant, *at, nbytes)
    assert counts is not None
    return float(ROUND * counts.lane_rounds + BYTE * counts.lane_bytes + 5e-6)


def sources(
    made: Manifest,
    names: tuple[str, ...],
    shapes: tuple[Shape, ...],
    native: Native,
    noise: float = 0,
) -> Sources:
    """bcast of three sizes, measured on these layouts."""
    variants = [variant_of(made, "bcast", name) for name in names]
    history = {}
    for turn, at in enumerate(shapes):
        for nbytes in (64, 16384, 1 << 20):
            times = {
                variant: [seconds(made, variant, at, nbytes) * (1 + noise * (-1) ** turn)] * 5
                for variant in variants
            }
            times[Variant("bcast")] = [native(at[0], nbytes)] * 5
            history[f"bcast@{at[0]}x{at[1]},bytes={nbytes},type=double"] = [times] * 3
    return Sources(made, history, set(variants))


CHAIN = "full_lane[lane_algorithm=chain,segment_bytes=16384,node_phase=shared]"
TREE = "full_lane[lane_algorithm=binomial,node_phase=shared]"
SMALL: tuple[Shape, ...] = ((2, 4), (4, 4), (8, 4))


def slow(nodes: int, nbytes: int) -> float:
    return 1e-4 + 4e-5 * nodes + 3e-9 * nbytes * math.log2(nodes)


def points(found: Sources) -> dict[tuple[int, int, int], MapPoint]:
    return {(p.nodes, p.ranks_per_node, p.bytes): p for p in extrapolation.points(found)}


def test_times_follow_from_smaller_layouts(made: Manifest) -> None:
    model = extrapolation.fit(sources(made, (CHAIN, TREE), SMALL, slow))
    for name in (CHAIN, TREE):
        variant = variant_of(made, "bcast", name)
        for octave in (6, 14, 20):
            expected = seconds(made, variant, (256, 4), 1 << octave)
            assert model.seconds(variant, (256, 4), octave) == pytest.approx(expected, rel=0.02)


def test_another_variant_wins_on_more_nodes(made: Manifest) -> None:
    """A chain's rounds grow with the nodes, a tree's with their logarithm."""
    found = points(sources(made, (CHAIN, TREE), SMALL, slow))
    assert "chain" in found[8, 4, 1 << 20].variant.name
    assert "chain" in found[32, 4, 1 << 20].variant.name
    assert "binomial" in found[512, 4, 16384].variant.name
    point = found[512, 4, 16384]
    tree = seconds(made, point.variant, (512, 4), 16384)
    assert point.evidence == EXTRAPOLATED and set(point.sources) <= {"2x4", "4x4", "8x4"}
    assert point.ratio == pytest.approx(slow(512, 16384) / tree, rel=0.5)
    assert point.low < point.ratio


def test_a_point_is_extrapolated_or_follows_from_those_around_it(made: Manifest) -> None:
    found = points(sources(made, (TREE,), SMALL, slow))
    far = {at[:2] for at, point in found.items() if point.evidence == EXTRAPOLATED}
    near = {at[:2] for at, point in found.items() if point.evidence != EXTRAPOLATED}
    assert max(near) == (16, 8) and far and not far & near
    assert all(p.name.startswith("~~") == (p.evidence == EXTRAPOLATED) for p in found.values())
    assert max(n for n, _ in far) <= 8 * extrapolation.FARTHEST
    assert max(r for _, r in far) <= 4 * extrapolation.FARTHEST_RANKS
    assert all(nodes > 1 and ranks > 1 for nodes, ranks in far), "other kinds are not known"


def test_a_map_of_large_nodes_reaches_512_of_them(made: Manifest) -> None:
    """And no point has more ranks than a layout can."""
    found = points(sources(made, (TREE,), ((2, 64), (4, 64), (8, 64)), slow))
    assert any(at[:2] == (512, 64) for at in found)
    assert max(nodes * ranks for nodes, ranks, _ in found) <= MOST_RANKS


def test_of_another_collective_no_point_is_both(made: Manifest) -> None:
    """A runtime takes one point for all collectives."""
    found = sources(made, (TREE,), SMALL, slow)
    gather = variant_of(made, "allgather", "full_lane[lane_algorithm=bruck]")
    launch = {gather: [1e-5] * 5, Variant("allgather"): [1e-4] * 5}
    history = {**found.history, "allgather@32x4,bytes=64,type=double": [launch] * 3}
    both = extrapolation.points(Sources(made, history, {*found.verified, gather}))
    far = {(p.nodes, p.ranks_per_node) for p in both if p.evidence == EXTRAPOLATED}
    assert (256, 4) in far and not far & {
        (p.nodes, p.ranks_per_node) for p in both if p.evidence != EXTRAPOLATED
    }


def test_the_rows_are_bounded(made: Manifest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The points of the fewest ranks stay."""
    monkeypatch.setattr(extrapolation, "MOST_ROWS", 40)
    found = points(sources(made, (TREE,), SMALL, slow))
    far = [at for at, point in found.items() if point.evidence == EXTRAPOLATED]
    assert 0 < len(far) <= 40
    assert max(nodes * ranks for nodes, ranks, _ in far) <= 256


def test_native_is_a_loop_where_it_grew_like_one(made: Manifest) -> None:
    """And the less is known, the further the laws differ."""
    spreads = []
    for shapes in (((4, 4),), ((4, 4), (8, 4)), SMALL):
        sites = sources(made, (TREE,), shapes, lambda nodes, _: 1e-4 * nodes).sites["bcast"]
        mean, spread = extrapolation.expected(extrapolation.native_growth(sites, 14, (64, 4)))
        spreads.append(spread)
    assert math.exp(mean) == pytest.approx(6.4e-3, rel=0.1)
    assert spreads[0] > 1 > spreads[2]
    sites = sources(made, (TREE,), SMALL, lambda nodes, _: 1e-4).sites["bcast"]
    mean, spread = extrapolation.expected(extrapolation.native_growth(sites, 14, (64, 4)))
    assert math.exp(mean) == pytest.approx(1e-4, rel=0.1) and spread < 0.1


@pytest.mark.parametrize("ranks", [(1,), (4,), (2, 4)])
def test_laws_that_grow_alike_count_once(made: Manifest, ranks: tuple[int, ...]) -> None:
    """On nodes with equal ranks a loop over nodes is one over ranks."""
    shapes = tuple((nodes, each) for nodes in (2, 4) for each in ranks)
    sites = sources(made, (CHAIN,), shapes, slow).sites["bcast"]
    laws = extrapolation.native_growth(sites, 14.0, (16, ranks[0]))
    assert len(laws) == (3 if len(ranks) == 1 else 4)
    assert math.fsum(weight for _, weight in laws) == pytest.approx(1)


def test_a_law_of_what_does_not_vary_is_none(made: Manifest) -> None:
    """Four nodes here and there: a loop over nodes does not grow."""
    sites = sources(made, (CHAIN,), ((4, 4),), slow).sites["bcast"]
    assert len(extrapolation.native_growth(sites, 14.0, (4, 16))) == 3


def test_native_stays_where_the_gain_is_in_doubt(made: Manifest) -> None:
    """A chain's gain of 60 % on 4 nodes is lost if native does not grow as much."""
    chain = variant_of(made, "bcast", CHAIN)

    def native(nodes: int, nbytes: int) -> float:
        return 1.6 * seconds(made, chain, (4, 4), nbytes)

    found = points(sources(made, (CHAIN,), ((4, 4),), native))
    assert not found[4, 4, 64].variant.is_native
    assert all(p.variant.is_native for at, p in found.items() if at[0] >= 128 and at[2] == 64)


def test_a_model_that_missed_is_doubted(made: Manifest) -> None:
    doubts = []
    for noise in (0.0, 0.3):
        model = extrapolation.fit(sources(made, (TREE, CHAIN), SMALL, slow, noise))
        doubts.append(model.doubt["bcast", (False, False)])
    assert doubts[0] < 0.5 * doubts[1]


def with_ranks(found: Sources, power: float) -> Sources:
    """All times, native's, too, grow with this power of the ranks, beyond what the model knows."""
    history = {}
    for problem, launches in found.history.items():
        factor = from_name(problem.partition("@")[2].partition(",")[0]).size ** power
        history[problem] = [
            {variant: [factor * one for one in times] for variant, times in launch.items()}
            for launch in launches
        ]
    return Sources(found.made, history, found.verified)


def test_what_makes_all_times_longer_is_no_gain(made: Manifest) -> None:
    """Where ranks share cores, say."""
    model = extrapolation.fit(with_ranks(sources(made, (CHAIN, TREE), SMALL, slow), 0.5))
    rows = extrapolation.at_point(model, "bcast", (32, 4))
    assert len(rows) == 8
    for row in rows:
        alone = slow(32, row.bytes) / seconds(made, row.variant, (32, 4), row.bytes)
        assert (0.85 if row.bytes >= 65536 else 0.5) < row.ratio / alone < 1.1


@pytest.mark.parametrize(("power", "grows"), [(0.5, True), (-0.5, False)])
def test_times_that_grow_less_than_the_model_do_not_go_on_so(
    made: Manifest, power: float, grows: bool
) -> None:
    model = extrapolation.fit(with_ranks(sources(made, (CHAIN, TREE), SMALL, slow), power))
    drift = extrapolation.drift(model, model.sources.sites["bcast"], 6.0)
    assert drift > 0.1 if grows else drift == 0


@pytest.mark.parametrize("noise", [0.05, -0.05])
def test_noise_between_close_layouts_is_no_trend(made: Manifest, noise: float) -> None:
    ratios = []
    for each in (0.0, noise):
        model = extrapolation.fit(sources(made, (TREE,), ((8, 4), (9, 4)), slow, each))
        sites = model.sources.sites["bcast"]
        variant = variant_of(made, "bcast", TREE)
        growth = extrapolation.Growth.of(model, sites, 20.0, (512, 4))
        found = extrapolation.gain(
            model, layout_map.nearest(sites, 512, 4), growth, variant, ((512, 4), 20.0)
        )
        assert found is not None
        ratios.append(math.exp(found[0]))
    assert 0.4 < ratios[1] / ratios[0] < 2.5


def test_what_the_library_runs_between_nodes_is_not_extrapolated(made: Manifest) -> None:
    native = "full_lane[lane_algorithm=native]"
    (entry,) = [v for v in made.variants_of("bcast") if v.family == "full_lane"]
    variant = Variant.from_name("bcast", entry.completed(native), entry.fingerprint)
    times = {variant: [1e-6] * 5, Variant("bcast"): [1e-3] * 5}
    history = {"bcast@4x4,bytes=4096,type=double": [times] * 3}
    found = points(Sources(made, history, {variant}))
    assert found and not any(p.evidence == EXTRAPOLATED for p in found.values())


def test_the_terms_in_words(made: Manifest) -> None:
    found = sources(made, (CHAIN, TREE), SMALL, slow)
    model = extrapolation.fit(found)
    text = model_terms.told(model, variant_of(made, "bcast", TREE), ((64, 4), 20))
    assert "6 rounds x 20.0 us between nodes" in text
    assert "MB / 1 GB/s between nodes" in text and text.endswith(" = 1.70 ms")
    assert "more or less" in model_terms.told_native(model, "bcast", ((64, 4), 20))
    at = from_name("64x4")
    (point,) = [p for k, p in points(found).items() if k == (64, 4, 1 << 20)]
    choice = why.Choice(
        point.bytes, point.variant, point.ratio, point.low, point.ratio, 0, EXTRAPOLATED
    )
    place = why.Place("here", "openmpi", "", "~64x4")
    lines = why.model_lines(found, at, why.Winner(place, "", choice, "8x4"), 1 << 20)
    assert lines[0].startswith("model: ") and lines[0].endswith("it follows from 8x4")
    assert lines[1].startswith("native: ")


@pytest.mark.parametrize("power", [0, 1, 2])
@pytest.mark.parametrize("ranks", [(4,), (2, 4, 8, 16)])
def test_the_laws_of_native_add_up_however_badly_some_fit(
    power: int, ranks: tuple[int, ...]
) -> None:
    """Once, a law that fitted so badly that its weight was 0 had the weight of the best one, or more."""
    shapes = [(nodes, each) for nodes in (2, 4, 8, 16, 32) for each in ranks]
    sites = [
        Site(from_name(f"{nodes}x{each}"), {}, {10.0: 1e-4 * (nodes * each) ** power})
        for nodes, each in shapes
    ]
    laws = extrapolation.native_growth(sites, 10.0, (128, 16))
    assert sum(weight for _, weight in laws) == pytest.approx(1)
    mean, spread = extrapolation.expected(laws)
    assert math.isfinite(spread)
    if power < 2 and len(ranks) > 1:
        assert math.exp(mean) == pytest.approx(1e-4 * 2048**power, rel=0.05)
    elif power > 0:
        assert math.exp(mean) > 1e-4 * 512


def test_what_few_nodes_cannot_tell() -> None:
    assert "beyond 8 nodes" in tune.unlearnt(8, 512) and "up to 512" in tune.unlearnt(8, 512)
    assert "up to 128," in tune.unlearnt(2, 512)
    assert "nothing of several" in tune.unlearnt(1, 512)


# ---- recorded ----


@cache
def recorded() -> dict[str, object]:
    return dict(json.loads(simulated_layouts.FILE.read_text()))


def read(made: Manifest, layouts: tuple[str, ...]) -> Sources:
    names, times = recorded()["variants"], recorded()["times"]
    history = {}
    verified = set()
    for layout in layouts:
        for collective, sizes in times[layout].items():  # type: ignore[index]
            for nbytes, rows in sizes.items():
                launch: dict[Variant, list[float]] = {}
                for number, nanoseconds in rows:
                    name = names[number]  # type: ignore[index]
                    native = name == "native"
                    variant = Variant(collective) if native else variant_of(made, collective, name)
                    launch[variant] = [1e-9 * nanoseconds] * 4
                verified |= set(launch)
                history[f"{collective}@{layout},bytes={nbytes},type=double"] = [launch] * 4
    return Sources(made, history, verified)


def outcomes(made: Manifest, train: tuple[str, ...], test: str) -> list[tuple[float, float]]:
    """For each problem of a layout: the best time, and native's, over that of what is extrapolated."""
    model = extrapolation.fit(read(made, train))
    nodes, ranks = map(int, test.split("x"))
    found = []
    for collective, (site,) in read(made, (test,)).sites.items():
        rows = {p.bytes: p for p in extrapolation.at_point(model, collective, (nodes, ranks))}
        for octave, native in site.native.items():
            times = {v: native / math.exp(gain) for v, gain in gains(site, octave).items()}
            nbytes = layout_map.block_bytes(made.collective(collective), (nodes, ranks), octave)
            own = min(rows, key=lambda n: abs(math.log2(n / nbytes)), default=0)
            at_size = own and abs(math.log2(own / nbytes)) < 0.5
            chosen = times.get(rows[own].variant, native) if at_size else native
            found.append((min([native, *times.values()]) / chosen, native / chosen))
    return found


def gains(site: Site, octave: float) -> Mapping[Variant, float]:
    return {
        v: one.mean for v, curve in site.curves.items() for one in curve if one.octave == octave
    }


@pytest.mark.parametrize(
    ("train", "test", "of_best"),
    [
        (("4x4", "8x4"), "16x8", 0.85),
        (("4x4", "8x4", "4x8", "8x8"), "16x8", 0.85),
        (("4x4", "8x4"), "32x8", 0.8),
        (("4x4", "8x4", "4x8", "8x8"), "32x8", 0.8),
        (("4x32", "8x32"), "36x32", 0.8),
        (("8x32",), "36x32", 0.8),
    ],
)
def test_simulated_layouts(
    made: Manifest, train: tuple[str, ...], test: str, of_best: float
) -> None:
    """Without the guard: near the best of all variants measured there, and not slower than native."""
    found = outcomes(made, train, test)
    best = math.exp(math.fsum(math.log(of) for of, _ in found) / len(found))
    gain = math.exp(math.fsum(math.log(over) for _, over in found) / len(found))
    good = sum(over >= 0.97 for _, over in found) / len(found)
    print(
        f"{','.join(train)} to {test}: {len(found)} problems, {best:.3f} of the best, {gain:.2f} of native"
    )
    assert best >= of_best
    assert good >= 0.95
