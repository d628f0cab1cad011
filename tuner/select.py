"""Decides from measurements which variant serves a problem. Pure functions, no database, no clock.

The unit of statistics is the *launch*, not the sample. Identical launches of one benchmark can
settle in different modes (medians of 4.1 and 22.6 us for the same 4-byte broadcast, each with a
tight spread inside its launch), so a thousand samples of one launch are one observation of what
the next launch will do, and an interval computed inside a launch is far too narrow. Therefore:

* inside a launch the samples of a variant and of native were taken in interleaved rounds, and are
  reduced to one paired ratio, median(native) / median(variant), in which the drift and the mode of
  the launch cancel; medians, because a preempted rank makes samples with a heavy tail to one side
  (papers/nonblocking-overlap-methodology, section 4);
* across launches the logarithms of these ratios get a mean and a t-interval. Logarithms, because
  twice as fast and half as fast are equally far from equal.

A ratio above 1 means that the variant is faster.

Where a choice cannot follow the size of a call, because the ranks do not know it alike, the problems
of all sizes have one decision together: a variant has to win at one size or more, and at none may
its ratio show it slower than native beyond the margin.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from collforge.db import Measurement, Variant

CONFIDENCE = 0.95

Launch = Mapping[Variant, Sequence[float]]
"""The samples (seconds) of each variant on one problem in one launch."""


@dataclass(frozen=True)
class Comparison:
    """How much faster than native a variant is: geometric mean over launches, and interval."""

    variant: Variant
    ratio: float
    low: float
    high: float
    launches: int

    def __str__(self) -> str:
        return (
            f"{self.variant.name} {self.ratio:.2f}x native "
            f"({self.low:.2f} to {self.high:.2f}, {self.launches} launches)"
        )


@dataclass(frozen=True)
class Decision:
    """The winner of a problem and why; native, compared with itself, if nothing beats it."""

    winner: Comparison
    reason: str
    others: tuple[Comparison, ...]
    """Every other variant that was measured, fastest first."""


@dataclass(frozen=True)
class Interval:
    """A median and its nonparametric confidence interval."""

    median: float
    low: float
    high: float


def by_problem(measurements: Iterable[Measurement]) -> dict[str, list[Launch]]:
    """Groups measurements into the launches of each problem, in their order."""
    problems: dict[str, dict[str, dict[Variant, Sequence[float]]]] = {}
    for one in measurements:
        launches = problems.setdefault(one.problem, {})
        launches.setdefault(one.run, {})[one.variant] = one.samples
    return {problem: list(launches.values()) for problem, launches in problems.items()}


def decide(
    collective: str,
    launches: Sequence[Launch],
    eligible: Collection[Variant],
    *,
    min_launches: int = 3,
    margin: float = 0.03,
) -> Decision:
    """Chooses the variant of a collective that serves one problem.

    `eligible` are the variants that are verified and still exist. One of them wins if it was
    measured beside native in `min_launches` launches and the low end of its ratio's interval is
    above 1 + margin. Of several the fastest one is taken (`advantages`), or a simpler one that is as
    good within noise.
    """
    return decide_together(
        collective, [launches], eligible, min_launches=min_launches, margin=margin
    )


def decide_together(
    collective: str,
    series: Sequence[Sequence[Launch]],
    eligible: Collection[Variant],
    *,
    min_launches: int = 3,
    margin: float = 0.03,
    native_serves: bool = True,
) -> Decision:
    """Chooses the variant that serves several problems; `series` has the launches of each.

    Where native cannot serve, because it has a copy per rank where the call has one per node, the best
    measured variant wins, be it slower. Else the winner must win one of them or more as in `decide`, have
    been measured in `min_launches` launches of each, and have a ratio below 1 / (1 + margin) in none.
    Problems in which no eligible variant was measured are left out: they are older than the variants.
    """
    native = Variant(collective)
    current = [one for one in series if any(v in eligible for launch in one for v in launch)]
    series = current or series
    compared = _compare_all(series, native)
    obstacles = {
        one.variant: _obstacle(
            [compare(one.variant, native, launches) for launches in series],
            min_launches,
            margin if native_serves else None,
        )
        if one.variant in eligible
        else "failed a verification, has none, or is no longer generated"
        for one in compared
    }
    faster = advantages(series, native)
    winning = [one for one in compared if not obstacles[one.variant]]
    winning.sort(key=lambda one: -faster[one.variant])
    if winning:
        winner = _simplest_of_the_best(winning, series, margin)
        reason = f"{winner}: the low end clears {1 + margin:.2f}"
        if not native_serves:
            reason = f"{winner}: the best that has one copy per node"
        elif len(series) > 1:
            reason += ", and it is slower than native at no size"
    else:
        measured = min(sum(native in launch for launch in launches) for launches in series)
        winner = Comparison(native, 1.0, 1.0, 1.0, measured)
        reason = "native stays: " + (
            f"{compared[0]} {obstacles[compared[0].variant]}"
            if compared
            else "nothing else measured"
        )
    return Decision(winner, reason, tuple(one for one in compared if one != winner))


def compare(variant: Variant, base: Variant, launches: Iterable[Launch]) -> Comparison:
    """The ratio time of base / time of variant, over the launches with samples of both.

    The interval is infinitely wide with fewer than two of them, and the ratio NaN with none.
    """
    logs = [
        math.log(statistics.median(launch[base]) / statistics.median(launch[variant]))
        for launch in launches
        if launch.get(base) and launch.get(variant)
    ]
    if len(logs) < 2:
        ratio = math.exp(logs[0]) if logs else math.nan
        return Comparison(variant, ratio, 0.0, math.inf, len(logs))
    # Late, because scipy takes longer to import than most commands take to run.
    from scipy import stats

    mean = statistics.fmean(logs)
    quantile = float(stats.t.ppf((1 + CONFIDENCE) / 2, len(logs) - 1))
    half = quantile * statistics.stdev(logs) / math.sqrt(len(logs))
    return Comparison(
        variant, math.exp(mean), math.exp(mean - half), math.exp(mean + half), len(logs)
    )


def compare_together(
    variant: Variant, base: Variant, series: Iterable[Sequence[Launch]]
) -> Comparison:
    """The geometric mean of the ratios in several problems, of those that have one.

    The interval's ends are the geometric means of the problems' ends: wider than it need be.
    `launches` are those of the problem that has fewest.
    """
    each = [compare(variant, base, launches) for launches in series]
    known = [one for one in each if one.launches]
    if not known:
        return Comparison(variant, math.nan, 0.0, math.inf, 0)
    ratio, low, high = (
        math.prod(ends) ** (1 / len(known))
        for ends in zip(*((one.ratio, one.low, one.high) for one in known))
    )
    return Comparison(variant, ratio, low, high, min(one.launches for one in each))


def advantages(series: Iterable[Sequence[Launch]], base: Variant) -> dict[Variant, float]:
    """log(time of base / time of a variant) of each, by all that ran beside it; in several problems the mean.

    Least squares of log(median time) = variant + launch. What befell base in one launch so says less for the
    variants that were in this one, and against those that were in others, the more of them were in both.
    """
    import numpy as np

    found: dict[Variant, list[float]] = {}
    for launches in series:
        runs = [launch for launch in launches if launch.get(base)]
        columns = {v: n for n, v in enumerate({v: None for run in runs for v in run if run[v]})}
        rows = [(v, number) for number, run in enumerate(runs) for v in run if run[v]]
        terms = np.zeros((len(rows), len(columns) + len(runs)))
        for row, (variant, number) in enumerate(rows):
            terms[row, [columns[variant], len(columns) + number]] = 1
        logs = [math.log(statistics.median(runs[number][variant])) for variant, number in rows]
        fit = np.linalg.lstsq(terms, np.array(logs), rcond=None)[0]
        for variant, column in columns.items():
            found.setdefault(variant, []).append(float(fit[columns[base]] - fit[column]))
    return {variant: statistics.fmean(each) for variant, each in found.items()}


def standard_error(variant: Variant, launches: Iterable[Launch]) -> float:
    """Of the mean logarithm of a variant's medians, by the quartiles of the samples inside the launches.

    Launches differ by more than their samples tell, so it is a lower bound; 0 with fewer than four in each.
    """
    squares = []
    for samples in (launch[variant] for launch in launches if launch.get(variant)):
        low, median, high = statistics.quantiles(samples, n=4) if len(samples) > 3 else (0, 1, 0)
        # Of a normal distribution: deviation by quartiles, and its median's error.
        squares.append(((high - low) / 1.349 * 1.253 / median) ** 2 / len(samples))
    return math.sqrt(sum(squares)) / len(squares) if squares else 0.0


def median_interval(samples: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """The median with an interval of order statistics, which assumes no distribution.

    How many samples lie below the true median is binomial(n, 1/2); the interval leaves at most (1
    - confidence) / 2 of it on either side. Fewer than six samples cannot reach 95 %: then it is
    their whole range. Raises ValueError without samples.
    """
    if not samples:
        raise ValueError("the median of no samples")
    from scipy import stats

    ordered = sorted(samples)
    cut = max(int(stats.binom.ppf((1 - confidence) / 2, len(ordered), 0.5)) - 1, 0)
    return Interval(statistics.median(ordered), ordered[cut], ordered[-1 - cut])


def _compare_all(series: Sequence[Sequence[Launch]], native: Variant) -> list[Comparison]:
    """Every variant that ran beside native, fastest first, ties by name."""
    variants = {v for launches in series for launch in launches for v in launch} - {native}
    compared = (compare_together(variant, native, series) for variant in sorted(variants))
    known = (one for one in compared if not math.isnan(one.ratio))
    return sorted(known, key=lambda one: -one.ratio)


def _obstacle(each: Sequence[Comparison], min_launches: int, margin: float | None) -> str:
    """Why a verified variant, compared with native in each problem, cannot win; '' if it can.

    Without a margin it need not be faster.
    """
    min_launches = max(min_launches, 2)  # an interval needs two
    if any(one.launches < min_launches for one in each):
        return f"was measured in fewer than {min_launches} launches"
    if margin is None:
        return ""
    if all(one.low <= 1 + margin for one in each):
        return f"does not clear {1 + margin:.2f} with its low end"
    slowest = min(one.ratio for one in each)
    if slowest < 1 / (1 + margin):
        return f"is slower than native at some size ({slowest:.2f}x)"
    return ""


def _simplest_of_the_best(
    winning: Sequence[Comparison], series: Sequence[Sequence[Launch]], margin: float
) -> Comparison:
    """The fastest, or a simpler one whose launches cannot tell it from the fastest.

    The two are compared in their common launches and not by their intervals against native, which
    contain the noise of native too. The margin bounds what a wide interval may cost.
    """

    def as_good(one: Comparison) -> bool:
        lead = compare_together(winning[0].variant, one.variant, series)
        return one is winning[0] or (lead.low <= 1 and lead.ratio <= 1 + margin)

    return min(filter(as_good, winning), key=_complexity)


def _complexity(one: Comparison) -> tuple[int, Variant]:
    return (one.variant.parameters.count("="), one.variant)
