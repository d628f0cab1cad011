"""The values that pictures show and claims judge: a quantity of each row, or its ratio to another row's.

With the interval of its mean over launches, by Student's t: of logarithms where all are positive, as times,
rates and ratios are. Launches of a figure differ alike, so values share their spread; one that differs by more
than chance has its own.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

from collforge.errors import CollforgeError
from collforge.papers.figures.rows import Row, Wanted
from collforge.tuner.decide.evidence import CONFIDENCE, Interval, quantile

LEAST_LAUNCHES = 3
"""With fewer, an interval says little."""
ANY_SIGN = frozenset({"values", "ends"})
"""Quantities that may be 0 or less: the ratios of overlap, and whether a launch ended.

Never averaged as logarithms, because the scale must not depend on the sign of one launch.
"""
MEDIAN_EFFICIENCY = 0.4
"""What a median of variances knows, of what their mean would."""


@dataclass(frozen=True)
class Value:
    row: Row
    samples: Sequence[float]
    """One a launch."""
    is_log: bool = False
    """Whether logarithms are averaged."""
    doubt: str = ""

    @property
    def scale(self) -> Sequence[float]:
        """The samples, on the scale on which they are averaged."""
        return [math.log(one) for one in self.samples] if self.is_log else self.samples

    @property
    def mean(self) -> float:
        mean = statistics.fmean(self.scale)
        return math.exp(mean) if self.is_log else mean


def value(row: Row, quantity: str) -> Value:
    return total(row, [quantity])


def total(row: Row, quantities: Sequence[str]) -> Value:
    """Of the parts of a whole, launch by launch."""
    launches = zip(*(row.quantities.get(name, ()) for name in quantities))
    samples = [one for one in map(sum, launches) if not math.isnan(one)]
    return Value(row, samples, doubt=row.doubt or ("" if samples else "nothing was measured"))


def ratio(row: Row, base: Row, quantity: str) -> Value:
    """Launch by launch."""
    above, below = value(row, quantity), value(base, quantity)
    pairs = [
        (a, b)
        for a, b in zip(row.quantities.get(quantity, ()), base.quantities.get(quantity, ()))
        if not math.isnan(a + b)
    ]
    doubt = above.doubt or below.doubt
    if any(a <= 0 or b <= 0 for a, b in pairs):
        return Value(row, [], True, doubt or f"a {quantity} of 0 or less")
    samples = [a / b for a, b in pairs]
    return Value(row, samples, True, doubt if samples else doubt or "nothing was measured")


def over(rows: Sequence[Row], row: Row, base: Wanted, names: Sequence[str]) -> Row | None:
    """The row by which a row is divided: it matches ``base``, and has the same values of these other keys.

    None if there is none. Raises CollforgeError if there are several.
    """
    same = [name for name in names if name not in base]
    found = [one for one in rows if one.matches(base) and one.at(same) == row.at(same)]
    if len(found) > 1:
        places = dict(zip(same, row.at(same)))
        raise CollforgeError(f"{len(found)} rows match {dict(base)} at {places}; one must")
    return found[0] if found else None


def alike(found: Sequence[Value], quantity: str) -> list[Value]:
    """The same values, averaged as logarithms if all are positive and the quantity cannot be 0 or less."""
    positive = quantity not in ANY_SIGN and all(s > 0 for one in found for s in one.samples)
    return [replace(one, is_log=positive) for one in found]


def spread(values: Sequence[Value]) -> tuple[float, int]:
    """The standard deviation of launches that most values share, and its degrees of freedom.

    It comes from the median of the variances, which a few noisy values do not move.
    """
    many = [one.scale for one in values if len(one.samples) > 1]
    if not many:
        return 0.0, 0
    each = round(statistics.fmean(len(one) - 1 for one in many))
    middle = statistics.median(map(statistics.variance, many)) / _median_of_variances(each)
    return math.sqrt(middle), max(each, round(MEDIAN_EFFICIENCY * each * len(many)))


def interval(one: Value, shared: tuple[float, int], confidence: float = CONFIDENCE) -> Interval:
    """The mean and its interval; without end if there are fewer than two launches that may differ."""
    common, df = shared
    count = len(one.samples)
    if one.row.exact:
        return Interval(one.mean, one.mean, one.mean)
    if count < 2 or not df:
        return Interval(one.mean, -math.inf, math.inf)
    own = statistics.stdev(one.scale)
    if own > common * math.sqrt(_variance_ratio(count - 1, df)):
        common, df = own, count - 1
    half = quantile(round(confidence, 6), df) * common / math.sqrt(count)
    middle = statistics.fmean(one.scale)
    if not one.is_log:
        return Interval(middle, middle - half, middle + half)
    return Interval(*(math.exp(min(part, 700)) for part in (middle, middle - half, middle + half)))


def shown(one: Interval) -> str:
    """``1.99 (1.98 to 2.01)``."""
    ends = f" ({text(one.low)} to {text(one.high)})" if one.low < one.high else ""
    return text(one.median) + ends


def text(number: float) -> str:
    return f"{number:.0f}" if 1000 <= abs(number) < 1e6 else f"{number:.3g}"


@cache
def _median_of_variances(df: int) -> float:
    """Of normal samples with a variance of 1."""
    from scipy import stats

    return float(stats.chi2.ppf(0.5, df)) / df


@cache
def _variance_ratio(own: int, shared: int) -> float:
    """How much greater the variance of one value may be than that of all by chance, at 95 %."""
    from scipy import stats

    return float(stats.f.ppf(CONFIDENCE, own, shared))
