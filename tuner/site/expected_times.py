"""The expected times and speed-ups of stored winners, from their launches (collforge.reference)."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence

from collforge.case import parse
from collforge.db import Choice, Store, Winner
from collforge.place import Place
from collforge.reference import Reference, References
from collforge.tuner.decide.evidence import (
    PRIOR_DF,
    REFUTED,
    History,
    Launch,
    Noise,
    by_problem,
    duration_class,
    has,
    log_ratio,
    with_class,
)
from collforge.tuner.decide.plan import SEARCHES
from collforge.variant import Variant

Key = tuple[Place, str, int]
"""Place (database key), collective and bytes of a winner."""

Logarithm = Callable[[Variant, Launch], float]
"""Of what a reference is about, in one launch."""

LIMITED = 9
"""A variance counts at most so many times the median one."""


def read(store: Store, winners: Sequence[Winner]) -> dict[Key, References]:
    """Of every winner that is a variant and was measured beside native."""
    found: dict[Key, References] = {}
    for place in sorted({one.place for one in winners}):
        choices = [one.choice for one in winners if one.place == place]
        if all(one.variant.is_native for one in choices):
            continue
        measurements = store.measurements(place)
        history = by_problem(measurements)
        sizes = {one.problem: one.bytes for one in measurements}
        pools = [pooled(history, logarithm) for logarithm in (log_seconds, log_speed_up)]
        for choice in choices:
            launches = _launches(history, sizes, choice)
            if launches:
                key = place, choice.variant.collective, choice.bytes
                found[key] = _references(choice.variant, launches, pools)
    return found


def _launches(history: History, sizes: Mapping[str, int], choice: Choice) -> list[Launch]:
    """A winner's launches, of the problem that has most of them.

    The launches of the search are left out: in these it was chosen because it was fast.
    """
    variant, best = choice.variant, list[Launch]()
    for problem, launches in history.items():
        asked = parse(problem).collective, sizes[problem]
        if variant.is_native or asked != (variant.collective, choice.bytes):
            continue
        both = list(_with_native(variant, launches))
        both = both[SEARCHES:] if len(both) > SEARCHES + 1 else both
        best = max(best, both, key=len)
    return best


def _with_native(variant: Variant, launches: Sequence[Launch]) -> Iterator[Launch]:
    return (one for one in launches if has(one, variant, Variant(variant.collective)))


def _references(
    variant: Variant, launches: Sequence[Launch], pools: Sequence[Mapping[int, float]]
) -> References:
    native = [s for one in launches for s in one[Variant(variant.collective)]]
    of_class = duration_class(statistics.median(native))
    usual = Noise.USUAL_BETWEEN[of_class] ** 2
    seconds, speed_up = (
        reference([logarithm(variant, one) for one in launches], pool.get(of_class, usual))
        for logarithm, pool in zip((log_seconds, log_speed_up), pools)
    )
    return References(seconds, speed_up)


def reference(logs: Sequence[float], pool: float) -> Reference:
    """From the logarithms of a quantity, one for each launch; ``pool``: the variance that is usual for them.

    The variance of few launches says little, so the usual one has the weight of `PRIOR_DF` degrees of freedom,
    unless theirs is far larger.
    """
    own_df = len(logs) - 1
    own = statistics.variance(logs) if own_df else 0.0
    prior_df = 0 if own > REFUTED * pool else PRIOR_DF
    df = prior_df + own_df
    spread = math.sqrt((prior_df * pool + own_df * own) / df)
    return Reference(math.exp(statistics.fmean(logs)), spread, len(logs), df)


def pooled(history: History, logarithm: Logarithm) -> dict[int, float]:
    """Duration class (evidence.py) -> mean variance between launches, over all variants of a place."""
    found: dict[int, list[float]] = {}
    for native, of_class, launches in with_class(history):
        for variant in {v for launch in launches for v in launch} - {native}:
            logs = [logarithm(variant, one) for one in _with_native(variant, launches)]
            if len(logs) > 1:
                found.setdefault(of_class, []).append(statistics.variance(logs))
    return {
        of_class: statistics.fmean(min(one, LIMITED * statistics.median(each)) for one in each)
        for of_class, each in found.items()
    }


def log_seconds(variant: Variant, launch: Launch) -> float:
    return math.log(statistics.median(launch[variant]))


def log_speed_up(variant: Variant, launch: Launch) -> float:
    return log_ratio(variant, Variant(variant.collective), launch)
