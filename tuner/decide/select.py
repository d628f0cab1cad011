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
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from collforge.decision import DECIDED, MARGIN, TIE, UNDECIDED
from collforge.tuner.decide.evidence import (
    CONFIDENCE,
    Comparison,
    Launch,
    Noise,
    advantages,
    estimate,
    has,
)
from collforge.variant import Variant

LAG = 0.07
"""A variant significantly slower than the best one (or native) by this is not nominated."""
FINALISTS = 3
"""How many of the fastest variants are nominated before a launch."""
SIMPLER = "is not faster than the winner beyond doubt"


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
    obstacles: Mapping[Variant, str] = field(default_factory=dict)
    """Why each nominated variant did not win."""

    @property
    def settled(self) -> bool:
        return self.evidence != UNDECIDED


def decide(
    collective: str,
    launches: Sequence[Launch],
    eligible: Collection[Variant],
    rule: Rule,
    nominated: Collection[Variant] = (),
) -> Decision:
    """Chooses the variant of a collective that serves a problem, from its launches.

    `eligible`: the verified variants that still exist. `nominated`: the variants that other problems nominate,
    so that all launches of this one count for their claims.
    """
    native = Variant(collective)
    faster = advantages(launches, native)
    found = claims(launches, native, eligible, rule, nominated)
    compared = _compare_all(launches, native, rule)
    judged = {variant: _judge(variant, native, found, rule) for variant in found}
    winning = [variant for variant, one in judged.items() if not one.obstacle]
    # Variants out of the race are significantly slower, so native is compared only with the others.
    racing = {*finalists(launches, native, eligible, rule), *nominated}
    rivals = {variant: one for variant, one in judged.items() if variant in racing}
    if winning:
        winner = _simplest_of_the_best(winning, faster, launches, rule)
        choice = judged[winner].comparison
        evidence, reason = DECIDED, _why(choice, rule)
        gains = [_gain(other, winner, launches, rule) for other in rivals if other != winner]
    else:
        choice = Comparison(native, 1.0, 1.0, 1.0, _launches_for_native(rivals, launches, native))
        evidence, reason = _without_winner(rivals, compared, eligible, rule)
        gains = [one.gain for one in rivals.values()]
    rest = tuple(one for one in compared if one.variant != choice.variant)
    obstacles = {variant: one.obstacle or SIMPLER for variant, one in judged.items()}
    return Decision(choice, evidence, reason, rest, max([0.0, *gains]), obstacles)


# ---- nominations ---------------------------------------------------------------------------------


def finalists(
    launches: Sequence[Launch],
    native: Variant,
    eligible: Collection[Variant],
    rule: Rule,
    most: int = FINALISTS,
) -> list[Variant]:
    """The fastest variants in these launches, up to ``most``, none significantly slower than the best."""
    faster = advantages(launches, native)
    ranking = sorted((v for v in faster if v in eligible), key=lambda v: (-faster[v], v))
    best = max([0.0, *(faster[v] for v in ranking[:1])]) + math.log(1 - LAG)

    def is_near(variant: Variant) -> bool:
        known = estimate(variant, native, launches, rule.noise)
        doubt = 2 * known.error if known and variant is not ranking[0] else math.inf
        return faster[variant] + doubt >= best

    return list(itertools.islice(filter(is_near, ranking), most))


def claims(
    launches: Sequence[Launch],
    native: Variant,
    eligible: Collection[Variant],
    rule: Rule,
    nominated: Collection[Variant] = (),
) -> dict[Variant, list[Launch]]:
    """For each variant that was ever nominated, the launches after its nomination.

    After each launch there are new nominations; after many launches, which change little, after each sixteenth
    part of them, so that the work does not grow with the square of their number.
    """
    found: dict[Variant, list[Launch]] = {}
    welcome = [v for v in nominated if v in eligible]
    chosen: list[Variant] = []
    known = 0
    for number, launch in enumerate(launches):
        if number >= known + max(1, known // 16):
            chosen, known = finalists(launches[:number], native, eligible, rule), number
        for variant in dict.fromkeys([*chosen, *welcome]):
            if has(launch, variant, native):
                found.setdefault(variant, []).append(launch)
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
    """Whether it cannot be faster than native by the margin."""


def _judge(
    variant: Variant, native: Variant, found: Mapping[Variant, Sequence[Launch]], rule: Rule
) -> _Judged:
    launches = found[variant]
    known = estimate(variant, native, launches, rule.noise)
    assert known is not None, "a nominated variant has a launch"
    low, high = known.ends(_corrected(launches, found, rule))
    margin = math.log1p(rule.margin)
    # The variant wins if its low end is above the margin, which is if its mean is above this.
    bar = margin + known.mean - low if rule.native_serves else -math.inf
    ratio = math.exp(max(known.beyond(bar), low))
    comparison = Comparison(variant, ratio, math.exp(low), math.exp(high), len(launches))
    least = max(rule.min_launches, 2)
    obstacle = ""
    if len(launches) < least:
        obstacle = f"was measured in fewer than {least} launches after its nomination"
    elif rule.native_serves and low <= margin:
        obstacle = f"does not clear {1 + rule.margin:.2f} with the low end of its interval"
    return _Judged(comparison, obstacle, known.gain, high < margin)


def _corrected(
    launches: Sequence[Launch], found: Mapping[Variant, Sequence[Launch]], rule: Rule
) -> float:
    """The confidence for which several tests of several variants together err about as often as one test.

    Tests after successive launches see almost the same data, so doubling the launches counts as one more test.
    """
    looks = 1 + max(0.0, math.log2(max(1, len(launches)) / rule.min_launches))
    rivals = sum(len(other) >= rule.min_launches for other in found.values())
    return 1 - (1 - CONFIDENCE) / (looks * max(1, rivals))


def _why(choice: Comparison, rule: Rule) -> str:
    if not rule.native_serves:
        return f"{choice}: the best that has one copy per node"
    return f"{choice}: the low end is above {1 + rule.margin:.2f}"


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


def _launches_for_native(
    rivals: Mapping[Variant, _Judged], launches: Sequence[Launch], native: Variant
) -> int:
    """The launches behind a decision for native: the most of any rival; without rivals, native's own."""
    own = sum(native in launch for launch in launches)
    return max((one.comparison.launches for one in rivals.values()), default=own)


def _compare_all(launches: Sequence[Launch], native: Variant, rule: Rule) -> list[Comparison]:
    """Every variant measured together with native, fastest first; equally fast ones by name."""
    variants = {v for launch in launches for v in launch} - {native}
    found = []
    for variant in sorted(variants):
        known = estimate(variant, native, launches, rule.noise)
        if known:
            found.append(known.comparison(variant))
    return sorted(found, key=lambda one: -one.ratio)


def _gain(variant: Variant, over: Variant, launches: Sequence[Launch], rule: Rule) -> float:
    """The expected saving of a variant over another, by their common launches."""
    known = estimate(variant, over, launches, rule.noise)
    return known.gain if known else 0.0


def _simplest_of_the_best(
    winning: Sequence[Variant],
    faster: Mapping[Variant, float],
    launches: Sequence[Launch],
    rule: Rule,
) -> Variant:
    """The fastest variant by all launches, or a simpler one that is not significantly slower.

    The two are compared in their common launches, because their intervals against native include native's
    noise. The margin limits the cost if the interval is wide.
    """
    first = max(winning, key=lambda v: (faster[v], v))

    def as_good(one: Variant) -> bool:
        lead = estimate(first, one, launches, rule.noise)
        if one == first or lead is None:
            return one == first
        return lead.ends(CONFIDENCE)[0] <= 0 and lead.mean <= math.log1p(rule.margin)

    return min(filter(as_good, winning), key=lambda v: (v.parameters.count("="), v))
