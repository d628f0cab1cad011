"""Statistics of measurements: ratios to native with intervals. Pure functions, no database, no clock.

The unit of statistics is the *launch*, not the sample. Identical launches of one benchmark can have different
modes: for the same 4-byte broadcast, medians of 4.1 and 22.6 us, each with a small spread inside its launch.
So a thousand samples of one launch are a single observation, and an interval inside a launch is far too
narrow. Therefore:

* Inside a launch, samples of a variant and of native are taken in interleaved rounds. They are reduced to one
  paired ratio, median(native) / median(variant) over the rounds that have both. Drift and mode of the launch
  cancel in it. Medians are used because a preempted rank causes a heavy one-sided tail (Denis, Jaeger,
  Jeannot, Reynier: A methodology for assessing computation/communication overlap, section 4).
* Across launches, the logarithms of these ratios get a mean and a t-interval. With logarithms, twice as fast
  and half as fast are equally far from equal.

`compare` gives the plain t-interval of a few launches. `estimate`, which decides, gives a moderated
t-statistic: each launch is weighted by the precision of its own rounds. The spread between launches, of which
three launches tell little, is estimated from other problems of the same library and duration (`Noise`), with
the weight of `PRIOR_DF` degrees of freedom.

A ratio above 1 means that the variant is faster.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache

from collforge.case import Case, parse
from collforge.db import Measurement
from collforge.variant import Variant

CONFIDENCE = 0.95
PRIOR_DF = 6
"""Degrees of freedom of the pooled noise."""

REFUTED = 4.0
"""Pooled noise is not used if the launches' variance is this many times the variance that it predicts."""

MOST_KEPT = 1 << 15
"""Pairs of sample series of which results are kept."""
MEDIAN_ERROR = 1.2533
"""Standard error of a median / that of a mean, for a normal distribution."""

Launch = Mapping[Variant, Sequence[float]]
"""The samples (seconds) of each variant on one problem in one launch, in the order of the rounds."""


History = Mapping[str, Sequence[Launch]]
"""The launches of each problem so far (`by_problem`)."""


class Samples(tuple[float, ...]):
    """The samples (seconds) of a variant in a launch, and how late each started (seconds)."""

    errors: tuple[float, ...] = ()
    """How late each sample started (seconds); empty if not known."""


@dataclass(frozen=True)
class Comparison:
    """A variant's speed-up over native: geometric mean over launches, with interval."""

    variant: Variant
    ratio: float
    low: float
    high: float
    launches: int

    def __str__(self) -> str:
        return (
            f"{self.variant.name} {self.ratio:.2f}x native "
            f"({self.low:.3g} to {self.high:.3g}, {self.launches} launches)"
        )


@dataclass(frozen=True)
class Interval:
    """A median and its nonparametric confidence interval."""

    median: float
    low: float
    high: float


@dataclass(frozen=True)
class Estimate:
    """log(time of base / time of a variant), its standard error, and the degrees of freedom and launches."""

    mean: float
    error: float
    df: float
    launches: int

    def ends(self, confidence: float) -> tuple[float, float]:
        half = quantile(round(confidence, 6), round(self.df)) * self.error
        return self.mean - half, self.mean + half

    def comparison(self, variant: Variant) -> Comparison:
        """The estimate as ratios, with the usual interval."""
        low, high = self.ends(CONFIDENCE)
        return Comparison(
            variant, math.exp(self.mean), math.exp(low), math.exp(high), self.launches
        )

    def beyond(self, threshold: float) -> float:
        """The true value for which this mean is expected if only means above the threshold are reported.

        This corrects selection bias: reported means are too high, most so just above the threshold. The mean
        of a truncated normal distribution is inverted by bisection.
        """
        if self.error == 0 or self.mean <= threshold:
            return self.mean
        normal = statistics.NormalDist()
        low, high = self.mean - 3 * self.error, self.mean
        for _ in range(30):
            value = (low + high) / 2
            z = (threshold - value) / self.error
            expected = value + self.error * normal.pdf(z) / max(1e-12, 1 - normal.cdf(z))
            low, high = (low, value) if expected > self.mean else (value, high)
        return (low + high) / 2

    @property
    def gain(self) -> float:
        """The expected saving if the variant is used where it is faster: E[max(0, true value)]."""
        if self.error == 0:
            return max(0.0, self.mean)
        normal = statistics.NormalDist()
        z = self.mean / self.error
        return self.error * normal.pdf(z) + self.mean * normal.cdf(z)


@dataclass(frozen=True)
class Noise:
    """Standard deviations of logarithms of ratios, by the duration of native's calls (`duration_class`)."""

    between: Mapping[int, float] = field(default_factory=dict)
    """Duration class -> spread of a ratio between launches, beyond the spread of its rounds."""
    within: Mapping[int, float] = field(default_factory=dict)
    """Duration class -> spread of a single round's ratio."""

    # Defaults for calls below 1 ms, below 10 ms, and longer ones (from the emulated cluster).
    USUAL_BETWEEN = (0.06, 0.05, 0.03)
    USUAL_WITHIN = (0.3, 0.15, 0.05)

    def of(self, seconds: float) -> tuple[float, float]:
        """The spread between launches and within them, for calls of this duration."""
        of_class = duration_class(seconds)
        between = self.between.get(of_class, self.USUAL_BETWEEN[of_class])
        return between, self.within.get(of_class, self.USUAL_WITHIN[of_class])


@cache
def quantile(confidence: float, df: int) -> float:
    # Imported here because importing scipy takes longer than most commands.
    from scipy import stats

    return float(stats.t.ppf((1 + confidence) / 2, df))


def duration_class(seconds: float) -> int:
    """0 below 1 ms, 1 below 10 ms, else 2. Noise is similar within a class."""
    return (seconds >= 1e-3) + (seconds >= 1e-2)


def by_problem(measurements: Iterable[Measurement]) -> dict[str, list[Launch]]:
    """Groups measurements into the launches of each problem, in their order."""
    problems: dict[str, dict[str, dict[Variant, Sequence[float]]]] = {}
    for one in measurements:
        samples = Samples(one.samples)
        samples.errors = one.start_errors
        problems.setdefault(one.problem, {}).setdefault(one.run, {})[one.variant] = samples
    return {problem: list(launches.values()) for problem, launches in problems.items()}


def measured_problems(history: Iterable[str], collective: str = "") -> Iterator[Case]:
    """The problems (of a collective) with measurements, from this goal or earlier ones."""
    for problem in history:
        read = parse(problem)
        if collective in ("", read.collective):
            yield read


# ---- the plain interval --------------------------------------------------------------------------


def compare(variant: Variant, base: Variant, launches: Iterable[Launch]) -> Comparison:
    """The ratio time of base / time of variant, over the launches with samples of both.

    With fewer than two such launches the interval is infinite; with none the ratio is NaN.
    """
    logs = [log_ratio(variant, base, launch) for launch in launches if has(launch, variant, base)]
    if len(logs) < 2:
        ratio = math.exp(logs[0]) if logs else math.nan
        return Comparison(variant, ratio, 0.0, math.inf, len(logs))
    mean = statistics.fmean(logs)
    half = quantile(CONFIDENCE, len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
    return Comparison(
        variant, math.exp(mean), math.exp(mean - half), math.exp(mean + half), len(logs)
    )


def has(launch: Launch, variant: Variant, base: Variant) -> bool:
    """Whether the launch has samples of both."""
    return bool(launch.get(base) and launch.get(variant))


def log_ratio(variant: Variant, base: Variant, launch: Launch) -> float:
    """log(median of base / median of variant) over the rounds that have both (slow variants have fewer)."""
    return _log_ratio(tuple(launch[base]), tuple(launch[variant]))


# Decisions are made anew after every launch, mostly from the launches of before.
@lru_cache(MOST_KEPT)
def _log_ratio(base: tuple[float, ...], variant: tuple[float, ...]) -> float:
    rounds = min(len(base), len(variant))
    return math.log(statistics.median(base[:rounds]) / statistics.median(variant[:rounds]))


# ---- the moderated interval ----------------------------------------------------------------------


def estimate(
    variant: Variant, base: Variant, launches: Iterable[Launch], noise: Noise
) -> Estimate | None:
    """The estimate over the launches with samples of both, weighted by precision; None if there is none.

    If the launches differ far more than the pooled noise predicts (two modes), it is not used.
    """
    both = [launch for launch in launches if has(launch, variant, base)]
    if not both:
        return None
    logs = [log_ratio(variant, base, launch) for launch in both]
    between, within = noise.of(statistics.median(s for one in both for s in one[base]))
    errors = [between**2 + _inside(variant, base, one, within) for one in both]
    weights = [1 / error for error in errors]
    mean = math.fsum(w * d for w, d in zip(weights, logs)) / math.fsum(weights)
    residual = math.fsum(w * (d - mean) ** 2 for w, d in zip(weights, logs))
    own_df = len(both) - 1
    if residual > REFUTED * own_df > 0:
        scale, df = residual / own_df, own_df
    else:
        df = PRIOR_DF + own_df
        scale = (PRIOR_DF + residual) / df
    return Estimate(mean, math.sqrt(scale / math.fsum(weights)), df, len(both))


def _inside(variant: Variant, base: Variant, launch: Launch, within: float) -> float:
    """Variance of a launch's ratio, from the spread of its rounds and the uncertainty of their starts.

    The spread is the median absolute deviation, combined with `within` at the weight of four rounds.
    """
    spread = _round_spread(variant, base, launch)
    rounds = min(len(launch[base]), len(launch[variant]))
    variance = (4 * within**2 + (rounds - 1) * spread**2) / (3 + rounds)
    # A start that is late by e adds 0 to e to a sample: a uniform error of standard deviation e / sqrt(12).
    late = statistics.fmean(_late(launch[one]) for one in (variant, base)) ** 2 / 6
    return MEDIAN_ERROR**2 * variance / rounds + late


def _late(samples: Sequence[float]) -> float:
    """The median of start error / sample; 0 if not known."""
    errors = getattr(samples, "errors", ())
    return statistics.median(e / s for e, s in zip(errors, samples)) if errors else 0.0


def pooled(history: History) -> Noise:
    """The noise of a place (database key), from all variants with two or more launches of a problem.

    Each duration class has the mean variance. Single variances are limited to about nine times the median.
    The default values have the weight of ten variances.
    """
    between: dict[int, list[float]] = {}
    within: dict[int, list[float]] = {}
    for base, of_class, launches in with_class(history):
        for variant in {v for launch in launches for v in launch} - {base}:
            both = [launch for launch in launches if has(launch, variant, base)]
            if len(both) < 2:
                continue
            inside = [
                _inside(variant, base, one, _round_spread(variant, base, one)) for one in both
            ]
            total = statistics.variance(log_ratio(variant, base, one) for one in both)
            between.setdefault(of_class, []).append(max(0.0, total - statistics.fmean(inside)))
            within.setdefault(of_class, []).append(
                statistics.fmean(_round_spread(variant, base, one) ** 2 for one in both)
            )
    return Noise(_typical(between, Noise.USUAL_BETWEEN), _typical(within, Noise.USUAL_WITHIN))


def with_class(
    history: History,
) -> Iterator[tuple[Variant, int, Sequence[Launch]]]:
    """For each problem native, the class of its duration, and the launches."""
    for problem, launches in history.items():
        native = Variant(parse(problem).collective)
        seconds = [s for launch in launches for s in launch.get(native, ())]
        if seconds:
            yield native, duration_class(statistics.median(seconds)), launches


def _round_spread(variant: Variant, base: Variant, launch: Launch) -> float:
    """The standard deviation of a round's ratio, estimated by the median absolute deviation."""
    return _spread(tuple(launch[base]), tuple(launch[variant]))


@lru_cache(MOST_KEPT)
def _spread(base: tuple[float, ...], variant: tuple[float, ...]) -> float:
    logs = [math.log(b / v) for b, v in zip(base, variant)]
    middle = statistics.median(logs)
    return 1.4826 * statistics.median(abs(one - middle) for one in logs)


def _typical(found: Mapping[int, Sequence[float]], usual: Sequence[float]) -> dict[int, float]:
    typical = {}
    for of_class, variances in found.items():
        most = 9 * max(statistics.median(variances), usual[of_class] ** 2 / 4)
        values = [*(min(one, most) for one in variances), *[usual[of_class] ** 2] * 10]
        typical[of_class] = math.sqrt(statistics.fmean(values))
    return typical


# ---- rankings ------------------------------------------------------------------------------------


def advantages(launches: Iterable[Launch], base: Variant) -> dict[Variant, float]:
    """log(time of base / time of a variant) for each variant.

    A least squares fit of log(median time) = variant + launch. It uses all variants of a launch, so that an
    outlier of base in one launch affects the variants of that launch less.
    """
    import numpy as np

    runs = [launch for launch in launches if launch.get(base)]
    columns = {v: n for n, v in enumerate({v: None for run in runs for v in run if run[v]})}
    rows = [(v, number) for number, run in enumerate(runs) for v in run if run[v]]
    if not rows:
        return {}
    terms = np.zeros((len(rows), len(columns) + len(runs)))
    for row, (variant, number) in enumerate(rows):
        terms[row, [columns[variant], len(columns) + number]] = 1
    logs = [
        math.log(statistics.median(runs[number][base])) - log_ratio(variant, base, runs[number])
        for variant, number in rows
    ]
    fit = np.linalg.lstsq(terms, np.array(logs), rcond=None)[0]
    return {variant: float(fit[columns[base]] - fit[at]) for variant, at in columns.items()}


def mean_interval(samples: Sequence[float]) -> Interval:
    """The mean, in the place of the median, with its 95 % interval by Student's t, as papers print it."""
    mean = statistics.fmean(samples)
    if len(samples) < 2:
        return Interval(mean, mean, mean)
    error = statistics.stdev(samples) / math.sqrt(len(samples))
    half = quantile(CONFIDENCE, len(samples) - 1) * error
    return Interval(mean, mean - half, mean + half)


def median_interval(samples: Sequence[float]) -> Interval:
    """The median with a nonparametric interval from order statistics.

    The number of samples below the true median is binomial(n, 1/2). The interval leaves out at most
    (1 - CONFIDENCE) / 2 of that distribution on each side. Fewer than six samples cannot reach 95 %;
    the interval is then their whole range. Raises ValueError without samples.
    """
    if not samples:
        raise ValueError("the median of no samples")
    from scipy import stats

    ordered = sorted(samples)
    cut = max(int(stats.binom.ppf((1 - CONFIDENCE) / 2, len(ordered), 0.5)) - 1, 0)
    return Interval(statistics.median(ordered), ordered[cut], ordered[-1 - cut])
