"""The references of stored winners, from the launches behind them (collforge.reference)."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence

from collforge.case import parse
from collforge.db import Store, Winner
from collforge.place import Place
from collforge.reference import Reference, References
from collforge.tuner.evidence import PRIOR_DF, Launch, by_problem, has, log_ratio
from collforge.variant import Variant

Key = tuple[Place, str, int]
"""Place (database key), collective and bytes of a winner."""

USUAL_SPREAD = 0.05
"""Of launches, where no winner of a place has two."""

Logarithm = Callable[[Variant, Launch], float]


def read(store: Store, winners: Sequence[Winner]) -> dict[Key, References]:
    """Of every winner that is a variant and was measured beside native."""
    found: dict[Key, References] = {}
    for place in sorted({one.place for one in winners}):
        launches = _launches(store, place, [one for one in winners if one.place == place])
        seconds = _references(launches, _log_seconds)
        speed_ups = _references(launches, _log_speed_up)
        for key in launches:
            variant, nbytes = key
            found[place, variant.collective, nbytes] = References(seconds[key], speed_ups[key])
    return found


def _launches(
    store: Store, place: Place, winners: Sequence[Winner]
) -> dict[tuple[Variant, int], list[Launch]]:
    """For each winner the launches of the problem that has most of them."""
    choices = [one.choice for one in winners if not one.choice.variant.is_native]
    measurements = store.measurements(place) if choices else []
    sizes = {one.problem: one.bytes for one in measurements}
    best: dict[tuple[Variant, int], list[Launch]] = {}
    for problem, launches in by_problem(measurements).items():
        for choice in choices:
            variant = choice.variant
            if (variant.collective, choice.bytes) != (
                parse(problem).collective,
                sizes[problem],
            ):
                continue
            both = [one for one in launches if has(one, variant, Variant(variant.collective))]
            if len(both) > len(best.get((variant, choice.bytes), ())):
                best[variant, choice.bytes] = both
    return best


def _references(
    launches: Mapping[tuple[Variant, int], Sequence[Launch]], logarithm: Logarithm
) -> dict[tuple[Variant, int], Reference]:
    """The spread of few launches says little: that of all winners has the weight of `PRIOR_DF` launches."""
    logs = {key: [logarithm(key[0], one) for one in found] for key, found in launches.items()}
    variances = [statistics.variance(found) for found in logs.values() if len(found) > 1]
    pooled = statistics.fmean(variances) if variances else USUAL_SPREAD**2
    made = {}
    for key, found in logs.items():
        own = statistics.variance(found) * (len(found) - 1) if len(found) > 1 else 0.0
        df = PRIOR_DF + len(found) - 1
        spread = math.sqrt((PRIOR_DF * pooled + own) / df)
        made[key] = Reference(math.exp(statistics.fmean(found)), spread, len(found), df)
    return made


def _log_seconds(variant: Variant, launch: Launch) -> float:
    return math.log(statistics.median(launch[variant]))


def _log_speed_up(variant: Variant, launch: Launch) -> float:
    return log_ratio(variant, Variant(variant.collective), launch)
