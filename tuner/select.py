"""Decides from measurements which variant serves a problem. Pure functions, no database, no clock.

A variant picked as the fastest of many looks faster than it is (selection bias). Testing after each launch
makes false wins more likely, too. Therefore the launches that nominate a variant do not count for its claim.
A variant is *nominated* before a launch, because it is among the fastest in earlier launches or wins a
neighbouring size; only launches after its nomination count. The claim's interval is widened for the number of
nominated variants and of tests (Bonferroni). The stored ratio is corrected for selection bias.

The outcome of a problem is one of three:

* *decided* for a variant: the low end of its claim is above 1 + margin. Or decided for native: no nominated
  variant can be faster by the margin;
* *tie*: the expected cost of staying native is less than the margin;
* *undecided*: too few launches, or inconclusive ones. Nothing is stored.

If the ranks cannot agree on the size of a call, the problems of all sizes share one decision: a variant must
win at one size or more, and at no size may it be slower than native by more than the margin.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from collforge.decision import DECIDED, MARGIN, TIE, UNDECIDED
from collforge.tuner.evidence import (
    CONFIDENCE,
    Comparison,
    Estimate,
    Launch,
    Noise,
    advantages,
    estimate,
    estimate_together,
    has,
)
from collforge.variant import Variant

LAG = 0.07
"""A variant significantly slower than the best one (or native) by this is not nominated."""
FINALISTS = 3
"""How many of the fastest variants are nominated before a launch."""

Series = Sequence[Sequence[Launch]]
"""One sequence of launches for each problem that shares the decision; usually there is one problem."""


@dataclass(frozen=True)
class Rule:
    """The required confidence of a decision."""

    min_launches: int = 3
    """The launches that a claim needs."""
    margin: float = MARGIN
    noise: Noise = field(default_factory=Noise)
    native_serves: bool = True
    """False for hybrid collectives, which native cannot serve: the best variant wins, even if slower."""


@dataclass(frozen=True)
class Decision:
    """The winner of a problem and the reason. If native wins, `winner` compares native with itself.

    ``winner.launches``: the number of launches of the claim.
    """

    winner: Comparison
    evidence: str
    """`DECIDED`, `TIE` or `UNDECIDED`."""
    reason: str
    others: tuple[Comparison, ...]
    """Every other variant that was measured, fastest first, by all its launches."""
    regret: float = 0.0
    """The expected saving of another variant over this winner, as a logarithm of times."""

    @property
    def settled(self) -> bool:
        return self.evidence != UNDECIDED


def decide(
    collective: str,
    series: Series,
    eligible: Collection[Variant],
    rule: Rule,
    nominated: Collection[Variant] = (),
) -> Decision:
    """Chooses the variant of a collective that serves one problem, or several together.

    `eligible`: the verified variants that still exist. `nominated`: the variants that other problems nominate,
    so that all launches of this one count for their claims. Problems without measurements of an eligible
    variant are ignored, because they are older than the variants.
    """
    native = Variant(collective)
    current = [one for one in series if any(v in eligible for launch in one for v in launch)]
    series = current or series
    faster = advantages(series, native)
    found = claims(series, native, eligible, rule, nominated)
    compared = _compare_all(series, native, rule)
    judged = {variant: _judge(variant, native, found, rule) for variant in found}
    winning = [variant for variant, one in judged.items() if not one.obstacle]
    # Variants out of the race are significantly slower, so native is compared only with the others.
    racing = {*finalists(series, native, eligible, rule), *nominated}
    rivals = {variant: one for variant, one in judged.items() if variant in racing}
    if winning:
        winner = _simplest_of_the_best(winning, faster, series, rule)
        choice = judged[winner].comparison
        evidence, reason = DECIDED, _why(choice, len(series), rule)
        gains = [_gain(other, winner, series, rule) for other in rivals if other != winner]
    else:
        choice = Comparison(native, 1.0, 1.0, 1.0, _launches_for_native(rivals, series, native))
        evidence, reason = _without_winner(rivals, compared, eligible, rule)
        gains = [one.gain for one in rivals.values()]
    rest = tuple(one for one in compared if one.variant != choice.variant)
    return Decision(choice, evidence, reason, rest, max([0.0, *gains]))


# ---- nominations ---------------------------------------------------------------------------------


def finalists(
    series: Series,
    native: Variant,
    eligible: Collection[Variant],
    rule: Rule,
    most: int = FINALISTS,
) -> list[Variant]:
    """The fastest variants in these launches that are not significantly slower than the best; ``most`` at most.

    With several problems, the best variant may be slower than native in some and so cannot win. Up to ``most``
    of the variants that are slower in none are then added.
    """
    faster = advantages(series, native)
    # With several problems, only variants measured in all of them: means over other problems do not compare.
    each = [{v for launch in launches for v in launch} for launches in series if launches]
    common = set(eligible).intersection(*each) or set(eligible)
    ranking = sorted((v for v in faster if v in common), key=lambda v: (-faster[v], v))
    chosen = list(itertools.islice(_near_the_best(ranking, native, series, faster, rule), most))
    if len(series) > 1:
        nowhere_slower = [
            v
            for v in ranking
            if all(
                one is None or one.mean >= -math.log1p(rule.margin)
                for one in (estimate(v, native, launches, rule.noise) for launches in series)
            )
        ]
        near = _near_the_best(nowhere_slower, native, series, faster, rule)
        chosen += itertools.islice(near, most)
    return list(dict.fromkeys(chosen))


def _near_the_best(
    ranking: Sequence[Variant],
    native: Variant,
    series: Series,
    faster: Mapping[Variant, float],
    rule: Rule,
) -> Iterator[Variant]:
    best = max([0.0, *(faster[v] for v in ranking[:1])]) + math.log(1 - LAG)
    for variant in ranking:
        known = estimate_together(variant, native, series, rule.noise)
        doubt = 2 * known.error if known and variant is not ranking[0] else math.inf
        if faster[variant] + doubt >= best:
            yield variant


def claims(
    series: Series,
    native: Variant,
    eligible: Collection[Variant],
    rule: Rule,
    nominated: Collection[Variant] = (),
) -> dict[Variant, list[list[Launch]]]:
    """For each variant that was ever nominated, the launches of each problem after its nomination.

    With several problems, `nominated` only applies to the one with the fewest launches.
    """
    found: dict[Variant, list[list[Launch]]] = {}
    youngest = min(range(len(series)), key=lambda at: len(series[at]), default=0)
    welcome = [v for v in nominated if v in eligible]
    for number in range(max(map(len, series), default=0)):
        before = [launches[:number] for launches in series]
        chosen = finalists(before, native, eligible, rule) if number else []
        for at, launches in enumerate(series):
            for variant in dict.fromkeys([*chosen, *(welcome if at == youngest else [])]):
                if number < len(launches) and has(launches[number], variant, native):
                    each = found.setdefault(variant, [[] for _ in series])
                    each[at].append(launches[number])
    return found


# ---- judging -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Judged:
    comparison: Comparison
    """The speed-up by the launches of its claim."""
    obstacle: str
    """Why the variant cannot win; '' if it can."""
    gain: float
    """The expected saving over native."""
    beaten: bool
    """Whether it cannot be faster than native by the margin, or is slower in one of several problems."""


def _judge(
    variant: Variant, native: Variant, found: Mapping[Variant, Series], rule: Rule
) -> _Judged:
    each = found[variant]
    known = [estimate(variant, native, launches, rule.noise) for launches in each]
    launches = min(len(one) for one in each)
    confidence = _corrected(each, found, rule)
    whole = estimate_together(variant, native, each, rule.noise)
    assert whole is not None, "a nominated variant has a launch"
    low, high = whole.ends(confidence)
    # The variant wins if its low end is above the margin, which is if its mean is above this.
    bar = math.log1p(rule.margin) + whole.mean - low if rule.native_serves else -math.inf
    ratio = math.exp(max(whole.beyond(bar), low))
    comparison = Comparison(variant, ratio, math.exp(low), math.exp(high), launches)
    least = max(rule.min_launches, 2)
    of_problem = [one for one in known if one]
    obstacle = ""
    if launches < least:
        obstacle = f"was measured in fewer than {least} launches after its nomination"
    elif rule.native_serves:
        obstacle = _shortfall(of_problem, confidence, rule.margin)
    margin = math.log1p(rule.margin)
    tops = [one.ends(confidence)[1] for one in of_problem]
    hopeless = len(tops) > 1 and min(tops) < -margin
    beaten = hopeless or max(tops) < margin
    gain = 0.0 if hopeless else max(one.gain for one in of_problem)
    return _Judged(comparison, obstacle, gain, beaten)


def _corrected(each: Series, found: Mapping[Variant, Series], rule: Rule) -> float:
    """The confidence for which several tests of several variants together err about as often as one test.

    Tests after successive launches see almost the same data, so doubling the launches counts as one more test.
    """
    looks = 1 + max(0.0, math.log2(max(1, min(map(len, each))) / rule.min_launches))
    rivals = sum(min(map(len, other)) >= rule.min_launches for other in found.values())
    return 1 - (1 - CONFIDENCE) / (looks * max(1, rivals))


def _shortfall(each: Sequence[Estimate], confidence: float, margin: float) -> str:
    if all(one.ends(confidence)[0] <= math.log1p(margin) for one in each):
        return f"does not clear {1 + margin:.2f} with the low end of its interval"
    slowest = math.exp(min(one.mean for one in each))
    if slowest < 1 / (1 + margin):
        return f"is slower than native at some size ({slowest:.2f}x)"
    return ""


def _why(choice: Comparison, problems: int, rule: Rule) -> str:
    if not rule.native_serves:
        return f"{choice}: the best that has one copy per node"
    together = ", and it is slower than native at no size" if problems > 1 else ""
    return f"{choice}: the low end is above {1 + rule.margin:.2f}{together}"


def _without_winner(
    rivals: Mapping[Variant, _Judged],
    compared: Sequence[Comparison],
    eligible: Collection[Variant],
    rule: Rule,
) -> tuple[str, str]:
    """The outcome of a problem if no variant wins, and the reason."""
    if not rivals:
        if compared and all(one.variant not in eligible for one in compared):
            what = "failed a verification, has none, or is no longer generated"
            return UNDECIDED, f"undecided: {compared[0]} {what}"
        return UNDECIDED, "undecided: measured in fewer than 2 launches"
    best = max(rivals.values(), key=lambda one: (one.comparison.ratio, one.comparison.variant))
    because = f"{best.comparison} {best.obstacle}"
    few = max(one.comparison.launches for one in rivals.values()) < rule.min_launches
    if few or not rule.native_serves:
        return UNDECIDED, f"undecided: {because}"
    if all(one.beaten for one in rivals.values()):
        return DECIDED, f"native stays: {because}"
    if max(one.gain for one in rivals.values()) <= math.log1p(rule.margin):
        return TIE, f"native stays, a tie: {because}"
    return UNDECIDED, f"undecided: {because}"


def _launches_for_native(rivals: Mapping[Variant, _Judged], series: Series, native: Variant) -> int:
    """The launches behind a decision for native: the most of any rival; without rivals, native's own."""
    own = min((sum(native in launch for launch in one) for one in series), default=0)
    return max((one.comparison.launches for one in rivals.values()), default=own)


def _compare_all(series: Series, native: Variant, rule: Rule) -> list[Comparison]:
    """Every variant measured together with native, fastest first; equally fast ones by name."""
    variants = {v for launches in series for launch in launches for v in launch} - {native}
    found = []
    for variant in sorted(variants):
        known = estimate_together(variant, native, series, rule.noise)
        if known:
            found.append(known.comparison(variant))
    return sorted(found, key=lambda one: -one.ratio)


def _gain(variant: Variant, over: Variant, series: Series, rule: Rule) -> float:
    """The expected saving of a variant over another, by their common launches."""
    known = estimate_together(variant, over, series, rule.noise)
    return known.gain if known else 0.0


def _simplest_of_the_best(
    winning: Sequence[Variant], faster: Mapping[Variant, float], series: Series, rule: Rule
) -> Variant:
    """The fastest variant by all launches, or a simpler one that is not significantly slower.

    The two are compared in their common launches, because their intervals against native include native's
    noise. The margin limits the cost if the interval is wide.
    """
    first = max(winning, key=lambda v: (faster[v], v))

    def as_good(one: Variant) -> bool:
        lead = estimate_together(first, one, series, rule.noise)
        if one == first or lead is None:
            return one == first
        return lead.ends(CONFIDENCE)[0] <= 0 and lead.mean <= math.log1p(rule.margin)

    return min(filter(as_good, winning), key=lambda v: (v.parameters.count("="), v))
