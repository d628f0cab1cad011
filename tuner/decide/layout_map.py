"""The map: what is expected to win on layouts that were not measured.

Its points are layouts of N nodes with R ranks each, at a grid of N and R around those measured. A point
follows from the measured layouts of its kind (one node or several, one rank on each or more) that are
nearest to it: up to twice as far as the nearest one, where a doubling of nodes or of ranks per node is the
unit of distance. Sizes correspond by the bytes of the whole call.

At each size, a variant's speed-up is the mean of its speed-ups at these layouts, the nearer the heavier.
Its lower bound is the least of the lower bounds there, minus a doubt that grows with the distance. Sizes
far from the measured ones bring a doubt of their own. The variant with the largest expected speed-up of
those whose lower bound clears the margin is published; else native.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from collforge.db import MEASURED, PREDICTED, MapPoint, Store
from collforge.decision import MARGIN
from collforge.generator.manifest import CollectiveEntry, Manifest
from collforge.layout import Layout, from_name
from collforge.place import Place
from collforge.tuner.decide import plan
from collforge.tuner.decide.decisions import without
from collforge.tuner.decide.evidence import History, by_problem, estimate, measured_problems, pooled
from collforge.variant import Variant

STEPS = (1, 1.5)
"""Points of the grid in an octave: 1, 2, 3, 4, 6, 8, 12, ..."""
BEYOND = 2.0
"""The grid reaches this factor beyond the measured nodes, and ranks per node."""
CONFIDENCE = 0.9
"""Of a variant's interval at one measured layout; its lower end counts."""
DOUBT = 0.05
"""Of a prediction over a doubling of nodes or of ranks per node, as a logarithm of times."""
UNSEEN = 0.15
"""Doubt of a variant that was not measured at one of the layouts that a point follows from."""
NEAR_SIZE = 1.0
"""Octaves beyond the sizes at which a variant was measured where it is believed to gain as much."""
REACH = 2.0
"""Octaves beyond them where it is believed to gain anything."""
DOUBT_OF_SIZE = 0.3
"""Of an octave between the two, as a logarithm of times."""
SAME_SIZE = 0.3
"""Octaves by which two sizes differ that count as one."""


Shape = tuple[int, int]
"""Nodes and ranks per node."""


@dataclass(frozen=True)
class Known:
    """log(native's time / a variant's) at one size, and the low end of its interval."""

    octave: float
    """log2 of the bytes of the whole call."""
    mean: float
    low: float


@dataclass(frozen=True)
class Site:
    """What is known of a collective on one measured layout."""

    layout: Layout
    curves: Mapping[Variant, Sequence[Known]]
    """By octave, ascending."""
    native: Mapping[float, float] = field(default_factory=dict)
    """Octave -> seconds of native: the median of its launches' medians."""

    @cached_property
    def shape(self) -> Shape:
        return self.layout.nodes, self.layout.size // self.layout.nodes

    @property
    def octaves(self) -> set[float]:
        return {one.octave for curve in self.curves.values() for one in curve}


@dataclass
class Sources:
    """The measurements that a map follows from: of one system and MPI library, on all layouts."""

    made: Manifest
    history: History
    """Without launches of variants that failed."""
    verified: Collection[Variant]
    margin: float = MARGIN
    sites: dict[str, list[Site]] = field(default_factory=dict)
    """Collective -> the measured layouts that are regular, of one thread, no parts of a job and any sockets."""

    def __post_init__(self) -> None:
        found: dict[str, dict[str, dict[Variant, list[Known]]]] = {}
        seconds: dict[tuple[str, str], dict[float, float]] = {}
        noise = pooled(self.history)
        for problem in measured_problems(self.history):
            entry = self.made.collective(problem.collective)
            at = from_name(problem.layout)
            usual = entry.sized == "block" and not (entry.hybrid or entry.moves_nothing)
            if not usual or not at.regular or at.threads > 1 or at.job or at.sockets:
                continue
            curves = found.setdefault(problem.collective, {}).setdefault(problem.layout, {})
            launches = self.history[problem.problem]
            native = Variant(problem.collective)
            octave = math.log2(entry.total_bytes(at.size, problem.bytes))
            medians = [statistics.median(one[native]) for one in launches if native in one]
            if medians:
                at_octave = seconds.setdefault((problem.collective, problem.layout), {})
                at_octave[octave] = statistics.median(medians)
            current = {v.fingerprint for v in self.made.variants_of(problem.collective)}
            for variant in {v for launch in launches for v in launch} - {native}:
                known = estimate(variant, native, launches, noise)
                if known and variant.fingerprint in current and variant in self.verified:
                    low = known.ends(CONFIDENCE)[0]
                    curves.setdefault(variant, []).append(Known(octave, known.mean, low))
        for collective, layouts in found.items():
            self.sites[collective] = [
                Site(
                    from_name(name),
                    {v: sorted(one, key=_octave) for v, one in curves.items()},
                    seconds.get((collective, name), {}),
                )
                for name, curves in sorted(layouts.items())
            ]

    @property
    def spread(self) -> list[list[Site]]:
        """The layouts around which the map has points: for each collective, or form, those that were measured.

        A job has one point for all collectives, so forms, which have their collective's winners, bring none of
        their own. Where nothing else was measured they do.
        """
        blocking = [s for name, s in self.sites.items() if not self.made.collective(name).blocking]
        return blocking or list(self.sites.values())


def read_sources(store: Store, made: Manifest, place: Place, margin: float = MARGIN) -> Sources:
    """The measurements of a place's system and MPI library."""
    failed = frozenset(one.variant for one in store.failures(place.mpi, place.mpi_version))
    places = [p for p in store.places() if p.library == place.library]
    history = by_problem(one for p in places for one in store.measurements(p))
    verified = store.verified(place.mpi, place.mpi_version)
    return Sources(made, without(history, failed), verified, margin)


def _octave(one: Known) -> float:
    return one.octave


def points(sources: Sources) -> list[MapPoint]:
    """The map around what was measured.

    All collectives have the same points, as far as they were measured around them.
    """
    everywhere = sorted({at for sites in sources.spread for at in grid(sites)})
    return [
        point
        for collective, sites in sorted(sources.sites.items())
        for nodes, ranks in everywhere
        if is_around(sites, (nodes, ranks))
        for point in at_layout(sources, collective, nodes, ranks)
    ]


def grid(sites: Sequence[Site]) -> list[Shape]:
    """The points around these layouts."""
    found: set[Shape] = set()
    for one in {kind(site.shape) for site in sites}:
        alike = [site.shape for site in sites if kind(site.shape) == one]
        over_nodes, over_ranks = (axis(numbers) for numbers in zip(*alike))
        found |= {(n, r) for n in over_nodes for r in over_ranks if kind((n, r)) == one}
        found |= set(alike)
    return sorted(found)


def is_around(sites: Sequence[Site], point: Shape) -> bool:
    """Whether a point is at most the factor BEYOND outside the nodes and ranks per node measured."""
    alike = [site.shape for site in sites if kind(site.shape) == kind(point)]
    return bool(alike) and all(
        min(measured) / BEYOND <= value <= max(measured) * BEYOND
        for value, measured in zip(point, zip(*alike))
    )


def axis(measured: Sequence[int], beyond: float = BEYOND) -> list[int]:
    low, high = min(measured) / beyond, max(measured) * beyond
    steps = (2**octave * step for octave in range(math.ceil(math.log2(high)) + 1) for step in STEPS)
    return [int(value) for value in steps if value == int(value) and low <= value <= high]


def kind(shape: Shape) -> tuple[bool, bool]:
    """Layouts of different kinds tell nothing of each other."""
    nodes, ranks = shape
    return nodes == 1, ranks == 1


def distance(a: Shape, b: Shape) -> float:
    """In doublings of nodes and of ranks per node."""
    return math.fsum(abs(math.log2(one / other)) for one, other in zip(a, b))


def at_layout(sources: Sources, collective: str, nodes: int, ranks: int) -> list[MapPoint]:
    """A collective's rows at a point, one for each size; none if no layout of its kind was measured."""
    made = sources.made
    entry = made.collective(collective)
    layout = from_name(f"{nodes}x{ranks}")
    near = nearest(sources.sites.get(collective, ()), nodes, ranks)
    rows: dict[int, MapPoint] = {}
    for octave in sizes(near):
        nbytes = block_bytes(entry, (nodes, ranks), octave)
        facts = made.facts(collective, layout, nbytes)
        applicable = {v.fingerprint for v in made.variants_of(collective) if v.applies(facts)}
        variant, mean, low = best(near, octave, applicable, sources.margin)
        rows[nbytes] = MapPoint(
            nodes,
            ranks,
            nbytes,
            variant or Variant(collective),
            math.exp(mean),
            math.exp(low),
            MEASURED if near[0].distance == 0 and octave in near[0].site.octaves else PREDICTED,
            tuple(one.site.layout.name for one in near),
        )
    return [rows[nbytes] for nbytes in sorted(rows)]


@dataclass(frozen=True)
class Near:
    """A measured layout that a point follows from."""

    site: Site
    distance: float
    """In doublings of nodes and of ranks per node."""
    weight: float
    """All weights of a point add up to 1."""


def nearest(sites: Iterable[Site], nodes: int, ranks: int) -> list[Near]:
    """The measured layouts that a point follows from, the nearest first."""
    distances = sorted(
        (
            (distance(site.shape, (nodes, ranks)), site)
            for site in sites
            if kind(site.shape) == kind((nodes, ranks))
        ),
        key=lambda pair: pair[0],
    )
    least = distances[0][0] if distances else 0.0
    if least == 0:
        return [Near(site, 0.0, 1.0) for _, site in distances[:1]]
    chosen = [(far, site) for far, site in distances if far < 2 * least]
    total = math.fsum(1 / far for far, _ in chosen)
    return [Near(site, far, 1 / far / total) for far, site in chosen]


def sizes(near: Sequence[Near]) -> list[float]:
    """The sizes measured at these layouts, as octaves, without those that are nearly the same.

    Where two are so far from each other that a runtime would call native between them, also some between them.
    """
    found: list[float] = []
    for octave in sorted({o for one in near for o in one.site.octaves}):
        step = octave - found[-1] if found else 0.0
        if found and step <= SAME_SIZE:
            continue
        parts = math.ceil(step / (2 * NEAR_SIZE)) or 1
        found += [octave - step * (1 - part / parts) for part in range(1, parts)] + [octave]
    return found


def block_bytes(entry: CollectiveEntry, at: Shape, octave: float) -> int:
    """The bytes of a block in a call of 2^octave bytes: whole doubles if there is room for one."""
    nbytes = 2**octave / entry.total_bytes(at[0] * at[1], 1)
    return round(nbytes / plan.WORD) * plan.WORD if nbytes >= plan.WORD else max(1, round(nbytes))


def best(
    near: Sequence[Near], octave: float, applicable: Collection[str], margin: float
) -> tuple[Variant | None, float, float]:
    """The variant expected to be the fastest, its expected gain over native and the low end (logarithms).

    ``applicable``: fingerprints. None, with zeros, for native.
    """
    found: tuple[Variant | None, float, float] = (None, 0.0, 0.0)
    variants = {v for one in near for v in one.site.curves if v.fingerprint in applicable}
    for variant in sorted(variants):
        expected = expect(near, variant, octave)
        if expected and expected[1] > math.log1p(margin) and expected[0] > found[1]:
            found = (variant, *expected)
    return found


def expect(near: Sequence[Near], variant: Variant, octave: float) -> tuple[float, float] | None:
    """A variant's expected gain over native and its low end; None if nothing is known of it near this size."""
    known = [(one, at_size(one.site.curves.get(variant, ()), octave)) for one in near]
    seen = [(one, at) for one, at in known if at]
    if not seen:
        return None
    weight = math.fsum(one.weight for one, _ in seen)
    mean = math.fsum(one.weight * at[0] for one, at in seen) / weight
    low = min(at[1] - DOUBT * one.distance for one, at in seen)
    unseen = UNSEEN * (1 - weight)
    return mean - unseen, low - unseen


def at_size(curve: Sequence[Known], octave: float) -> tuple[float, float] | None:
    """The mean and the low end at a size, between the measured ones on the logarithmic scale."""
    below = [one for one in curve if one.octave <= octave]
    above = [one for one in curve if one.octave >= octave]
    if below and above:
        a, b = below[-1], above[0]
        part = (octave - a.octave) / (b.octave - a.octave) if b.octave > a.octave else 0.0
        return a.mean + part * (b.mean - a.mean), a.low + part * (b.low - a.low)
    end = below[-1] if below else above[0] if above else None
    if end is None or abs(end.octave - octave) > REACH:
        return None
    doubt = DOUBT_OF_SIZE * max(0.0, abs(end.octave - octave) - NEAR_SIZE)
    return end.mean - doubt, end.low - doubt
