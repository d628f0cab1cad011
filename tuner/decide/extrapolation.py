"""What is expected to win far beyond the measured layouts: times by a model of each composition.

A variant's time on N nodes with n ranks each is a sum: what it does there (rounds, messages and bytes, which
the manifest tells for any N and n), each times a constant. The constants are fitted for each collective to all
its measurements on the system with the MPI library: non-negative least squares of relative errors. Only the
growth of the model counts: a variant's time at a point is its time on the nearest measured layouts, times that,
and times what more ranks cost all variants beyond the model, as seen between measured layouts (`drift`).

Native's algorithms are not known. Its time is fitted to what was measured on several layouts, by each of a few
laws of growth, from none to that of a loop over all ranks. The laws count as well as they fit; where one layout
was measured, all do.

The uncertainty of a gain is that of the laws, and that of the model: by how much gains on measured layouts
missed what follows from smaller ones, at a doubling. Errors of several doublings add up as independent ones do.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache

from collforge.counts import Counts
from collforge.db import EXTRAPOLATED, MapPoint
from collforge.layout import MOST_RANKS, from_name
from collforge.tuner.decide.layout_map import (
    UNSEEN,
    Known,
    Near,
    Shape,
    Site,
    Sources,
    at_size,
    block_bytes,
    is_around,
    kind,
    nearest,
    sizes,
)
from collforge.tuner.decide.layout_map import grid as grid_around
from collforge.tuner.decide.layout_map import points as points_around
from collforge.variant import Variant

FARTHEST, FARTHEST_RANKS = 64, 16
"""Points reach these factors beyond the most measured nodes, and ranks per node."""
MOST_ROWS = 16384
"""Of all points of a place: those of the fewest ranks. A runtime reads 65536 winners in all."""
DOUBT = 0.05
"""Of a gain over a doubling of nodes or of ranks per node, as a logarithm: the least, however well it fits."""
UNTESTED = 0.15
"""The same where no measured layout follows from a smaller one of its kind."""
NOISE = 0.1
"""Of a time of native, as a logarithm, when laws of growth are compared."""
STEADY = 0.1
"""Doublings, squared, without a drift: they count with those measured, as close layouts differ by noise."""
STAY, STILL = ("calls", "lane_messages"), 0.05
"""Terms that do not grow with the nodes, and a small penalty: where rounds tell the same times, rounds do."""

At = tuple[Shape, float]
"""Where a collective is called: nodes and ranks per node, and the octave of the bytes of the whole call."""


@dataclass
class Model:
    """The times of variants: constants of the collectives, and what is evaluated so far."""

    sources: Sources
    constants: dict[str, tuple[float, ...]] = field(default_factory=dict)
    """Collective -> seconds for each of Counts' fields."""
    doubt: dict[tuple[str, tuple[bool, bool]], float] = field(default_factory=dict)
    """Collective, kind of layouts -> the error of a gain over a doubling, as a logarithm."""
    known: dict[tuple[Variant, At], float] = field(default_factory=dict)
    residuals: dict[tuple[Variant, Shape, float], float | None] = field(default_factory=dict)

    def counts(self, variant: Variant, places: Sequence[At]) -> Counts | None:
        """Arrays, with a value for each place."""
        import numpy as np

        entry = self.sources.made.collective(variant.collective)
        nodes, ranks = (np.array([at[axis] for at, _ in places]) for axis in (0, 1))
        nbytes = np.array([block_bytes(entry, *place) for place in places], dtype=float)
        return self.sources.made.counts(variant, nodes, ranks, nbytes)

    def learn(self, collective: str, points: Iterable[Shape]) -> None:
        """Evaluates a collective's variants at all these points at once."""
        sites = self.sources.sites[collective]
        octaves = {octave for site in sites for octave in sizes([Near(site, 0.0, 1.0)])}
        places = [(at, octave) for at in points for octave in sorted(octaves)]
        for variant in {v for site in sites for v in site.curves}:
            self.evaluate(variant, places)

    def evaluate(self, variant: Variant, places: Sequence[At]) -> None:
        import numpy as np

        constants = self.constants.get(variant.collective, ())
        counts = self.counts(variant, places) if constants and places else None
        found = np.dot(constants, counts.values) if counts else np.zeros(len(places))
        self.known.update(((variant, at), time) for at, time in zip(places, found.tolist()))

    def seconds(self, variant: Variant, at: Shape, octave: float) -> float:
        """0: not known."""
        place = (at, octave)
        if (variant, place) not in self.known:
            self.evaluate(variant, [place])
        return self.known[variant, place]

    def residual(self, variant: Variant, one: Site, octave: float) -> float | None:
        """The logarithm of a variant's time on a measured layout over the model's; None if not known."""
        key = (variant, one.shape, octave)
        if key not in self.residuals:
            known = at_size(one.curves.get(variant, ()), octave)
            native = native_seconds(one, octave)
            model = self.seconds(variant, one.shape, octave) if known and native else 0.0
            self.residuals[key] = math.log(native / model) - known[0] if known and model else None
        return self.residuals[key]


def fit(sources: Sources, collectives: Iterable[str] = ()) -> Model:
    """Fits the constants of each collective, then finds how well gains follow from smaller layouts."""
    model = Model(sources)
    for collective in collectives or sources.sites:
        sites = sources.sites.get(collective, [])
        # The times of a nonblocking form hold a computation, of which no model knows.
        is_form = sources.made.collective(collective).blocking
        constants = None if is_form else _constants(model, sites)
        if constants is None:
            continue
        model.constants[collective] = constants
        model.learn(collective, {site.shape for site in sites})
        for one in {kind(site.shape) for site in sites}:
            alike = [site for site in sites if kind(site.shape) == one]
            model.doubt[collective, one] = _doubt(model, alike)
    return model


def _constants(model: Model, sites: Sequence[Site]) -> tuple[float, ...] | None:
    import numpy as np
    from scipy.optimize import nnls

    tables, times = [], []
    for site in sites:
        for variant, curve in site.curves.items():
            rows = [known for known in curve if known.octave in site.native]
            counts = model.counts(variant, [(site.shape, known.octave) for known in rows])
            if counts is not None:
                tables.append(np.array(counts.values).T)
                times += [site.native[known.octave] * math.exp(-known.mean) for known in rows]
    if not times:
        return None
    relative = np.concatenate(tables) / np.array(times)[:, None]
    scale = np.where(relative.max(axis=0) > 0, relative.max(axis=0), 1.0)
    still = [STILL * math.sqrt(len(times)) * (one.name in STAY) for one in fields(Counts)]
    table = np.concatenate([relative / scale, np.diag(still)])
    found, _ = nnls(table, np.concatenate([np.ones(len(times)), 0 * scale]), maxiter=1000)
    return tuple((found / scale).tolist())


def _doubt(model: Model, sites: Sequence[Site]) -> float:
    """The root of the mean square error of gains that follow from smaller layouts, at a doubling."""
    errors = []
    for site in sites:
        others = [one for one in sites if one.layout.size < site.layout.size]
        near = nearest(others, *site.shape)
        for octave in site.octaves if others else ():
            growth = Growth.of(model, others, octave, site.shape)
            for variant, curve in site.curves.items():
                known = [one for one in curve if one.octave == octave]
                found = gain(model, near, growth, variant, (site.shape, octave))
                if known and found:
                    errors.append(
                        (found[0] - known[0].mean) / max(1.0, math.sqrt(near[0].distance))
                    )
    if not errors:
        return UNTESTED
    return max(DOUBT, math.sqrt(math.fsum(error**2 for error in errors) / len(errors)))


# ---- native ----

Laws = Sequence[tuple[float, float]]
"""The logarithm of native's seconds by each law of growth, and the law's weight."""


def _growths(at: Shape) -> tuple[float, ...]:
    nodes, ranks = at
    return 0.0, math.log2(nodes * ranks), float(nodes), float(nodes * ranks)


def native_growth(sites: Sequence[Site], octave: float, at: Shape) -> Laws:
    """By a + b x for each x of `_growths`; those that grow alike are one. ``sites``: of the kind of ``at``."""
    import numpy as np
    from scipy.optimize import nnls

    known = [(one.shape, time) for one in sites if (time := native_seconds(one, octave))]
    found: dict[tuple[float, ...], tuple[float, float]] = {}
    for law, there in enumerate(_growths(at)) if known else ():
        x = [_growths(shape)[law] for shape, _ in known]
        alike = tuple(round(one / (there or 1.0), 9) if set(x) != {there} else 0.0 for one in x)
        if alike in found:
            continue
        basis = np.array([[float(law == 0 or max(x) > min(x)), one] for one in x])
        times = np.array([time for _, time in known])
        (a, b), _ = nnls(basis / times[:, None], np.ones(len(known)))
        errors = np.log(np.maximum(1e-12, basis @ (a, b)) / times)
        found[alike] = math.log(a + b * there), 0.5 * float(np.sum((errors / NOISE) ** 2))
    # Against the law that fits best: where none fits well, their exponentials alone would all be 0.
    best = min((misfit for _, misfit in found.values()), default=0.0)
    weights = [math.exp(best - misfit) for _, misfit in found.values()]
    return [(law[0], one / math.fsum(weights)) for law, one in zip(found.values(), weights)]


def expected(laws: Laws) -> tuple[float, float]:
    """The mean of the logarithm of native's seconds, and its standard deviation over the laws."""
    mean = math.fsum(value * weight for value, weight in laws)
    return mean, math.sqrt(math.fsum(weight * (value - mean) ** 2 for value, weight in laws))


def native_seconds(site: Site, octave: float) -> float:
    """0: not known near this size."""
    curve = [Known(one, math.log(time), 0.0) for one, time in sorted(site.native.items())]
    found = at_size(curve, octave)
    return math.exp(found[0]) if found else 0.0


# ---- a point ----


def doublings(one: Site, at: Shape) -> float:
    """Of the ranks, from a measured layout to a point; negative if that has fewer."""
    return math.log2(at[0] * at[1] / one.layout.size)


def drift(model: Model, sites: Sequence[Site], octave: float) -> float:
    """By how much variants' times outgrow the model at a doubling of the ranks, as a logarithm, typically.

    The laws of native have it in them, so the times of variants must: ranks that share cores, for example,
    make every round longer. Least squares over pairs of measured layouts; 0 where one was measured. Never
    negative: where times seem to grow less, the model errs, which does not go on.
    """
    rise, run = 0.0, STEADY
    for one, other in itertools.combinations(sites, 2):
        pairs = [
            (model.residual(variant, one, octave), model.residual(variant, other, octave))
            for variant in one.curves.keys() & other.curves.keys()
        ]
        known = [b - a for a, b in pairs if a is not None and b is not None]
        if known:
            far = doublings(one, other.shape)
            rise += far * statistics.median(known)
            run += far**2
    return max(0.0, rise / run)


@dataclass(frozen=True)
class Growth:
    """From measured layouts to a point, at a size."""

    native: Laws
    drift: float

    @classmethod
    def of(cls, model: Model, sites: Sequence[Site], octave: float, at: Shape) -> Growth:
        """``sites``: of the kind of ``at``."""
        return cls(native_growth(sites, octave, at), drift(model, sites, octave))


def gain(
    model: Model, near: Sequence[Near], growth: Growth, variant: Variant, place: At
) -> tuple[float, float] | None:
    """A variant's expected gain over native at a place, as a logarithm, and that less a standard error.

    None if nothing is known of it. One standard error, which 84 % exceed: a job tries it before it uses it.
    """
    modelled = model.seconds(variant, *place) if growth.native else 0.0
    found = [(one, model.residual(variant, one.site, place[1])) for one in near]
    seen = [
        (one.weight, residual + growth.drift * doublings(one.site, place[0]))
        for one, residual in found
        if residual is not None
    ]
    if not modelled or not seen:
        return None
    total = math.fsum(weight for weight, _ in seen)
    unseen = UNSEEN * (1 - total)
    own = math.log(modelled) + math.fsum(weight * residual for weight, residual in seen) / total
    mean, spread = expected(growth.native)
    each = model.doubt.get((variant.collective, kind(place[0])), UNTESTED)
    doubt = math.hypot(each * math.sqrt(near[0].distance), spread)
    return mean - own - unseen, mean - own - unseen - doubt


@lru_cache(maxsize=4)
def _facts(at: Shape) -> dict[str, int]:
    return from_name(f"{at[0]}x{at[1]}").facts()


def at_point(model: Model, collective: str, at: Shape) -> list[MapPoint]:
    """A collective's rows at a point, one for each size; none if native is expected to win at all of them."""
    made, margin = model.sources.made, math.log1p(model.sources.margin)
    entry, facts = made.collective(collective), _facts(at)
    sites = [one for one in model.sources.sites[collective] if kind(one.shape) == kind(at)]
    near = nearest(sites, *at)
    variants = sorted({v for one in near for v in one.site.curves})
    rows: dict[int, MapPoint] = {}
    for octave in sizes(near):
        nbytes = block_bytes(entry, at, octave)
        total = entry.total_bytes(at[0] * at[1], nbytes)
        if total > 2 ** (octave + 0.5):
            continue  # a block would have less than a byte
        call = {**facts, "bytes": nbytes, "total_bytes": total, "commutative": 1}
        applicable = {v.fingerprint for v in made.variants_of(collective) if v.applies(call)}
        growth = Growth.of(model, sites, octave, at)
        best = (Variant(collective), 0.0, 0.0)
        for variant in variants if growth.native else ():
            known = variant.fingerprint in applicable
            found = gain(model, near, growth, variant, (at, octave)) if known else None
            if found and found[1] > margin and found[0] > best[1]:
                best = (variant, *found)
        ratios = math.exp(best[1]), math.exp(best[2])
        names = tuple(one.site.layout.name for one in near)
        rows[nbytes] = MapPoint(*at, nbytes, best[0], *ratios, EXTRAPOLATED, names)
    won = any(not row.variant.is_native for row in rows.values())
    return [rows[nbytes] for nbytes in sorted(rows)] if won else []


def points(sources: Sources) -> list[MapPoint]:
    """The whole map: what follows from the layouts around each point, then what is extrapolated.

    Where the first knows of any collective, nothing is extrapolated: a point is one or the other.
    """
    found = points_around(sources)
    around = {at for sites in sources.spread for at in grid_around(sites)}
    far = sorted({at for sites in sources.spread for at in grid(sites)} - around)
    model = fit(sources)
    for collective in model.constants:
        model.learn(collective, far)
    rows = 0
    for at in sorted(far, key=lambda one: (one[0] * one[1], one)):
        more = [
            row for collective in sorted(model.constants) for row in at_point(model, collective, at)
        ]
        rows += len(more)
        if rows > MOST_ROWS:
            break
        found += more
    return found


def grid(sites: Sequence[Site]) -> list[Shape]:
    """The points beyond these layouts, a factor of 2 apart: a runtime takes the nearest up to 1.5."""
    found: set[Shape] = set()
    for one in {kind(site.shape) for site in sites}:
        alike = [site.shape for site in sites if kind(site.shape) == one]
        nodes, ranks = (
            [2**n for n in range(20) if min(measured) <= 2**n <= reach * max(measured)]
            for measured, reach in zip(zip(*alike), (FARTHEST, FARTHEST_RANKS))
        )
        found |= {
            (n, r) for n in nodes for r in ranks if kind((n, r)) == one and n * r <= MOST_RANKS
        }
    return sorted(at for at in found if not is_around(sites, at))
