"""Evaluates the timing driver's records: whether a launch is valid, and the ratios of variants to native."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from collforge.case import parse
from collforge.records import Output
from collforge.variant import NATIVE


def fault(output: Output, ranks: int, layout: str) -> str:
    """Why the output of a launch cannot be trusted; '' if it can.

    The process count is checked first: with a wrong launcher, each rank is a program of its own, and
    all its verifications pass.
    """
    return _placement_fault(output, ranks, layout) or _outcome_fault(output)


def _placement_fault(output: Output, ranks: int, layout: str) -> str:
    job = output.job
    if not job:
        return output.damage or "the driver left no results"
    if job.ranks != ranks:
        return f"{ranks} processes were asked for, but the driver saw {job.ranks}"
    if job.layout != layout:
        return f"layout {layout} was asked for, but the ranks lie as in {job.layout}"
    return ""


def _outcome_fault(output: Output) -> str:
    end, found = output.end, output.results
    wrong = [one for one in found if one.applicable and not one.verified]
    if wrong:
        others = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        return f"{wrong[0].case}: {wrong[0].detail or 'not verified'}{others}"
    if not end:
        last = f", the last of {found[-1].case}" if found else ""
        return f"the driver ended after {len(found)} results{last}"
    if end.failed:
        return f"{end.failed} of {end.cases} cases failed"
    return "" if end.cases else "the driver was given no case"


def ratios(output: Output) -> dict[str, float]:
    """Case string -> speed-up over native, the median over rounds.

    Only cases that were verified and timed, without native.
    """
    timed = [(parse(one.case), one) for one in output.results if one.samples]
    native = {case.problem: one.samples for case, one in timed if case.variant == NATIVE}
    return {
        one.case: statistics.median(n / s for n, s in zip(native[case.problem], one.samples))
        for case, one in timed
        if case.variant != NATIVE and one.verified and case.problem in native
    }


def medians(output: Output) -> dict[str, float]:
    """Case string -> seconds of a call, the median over rounds, of the cases that were verified and timed."""
    return {
        one.case: statistics.median(one.samples)
        for one in output.results
        if one.samples and one.verified
    }


@dataclass(frozen=True, order=True)
class Range:
    """The least and the greatest speed-up of a case over native in several launches."""

    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.low:.2f} to {self.high:.2f} times as fast as native"


def ratio_ranges(outputs: Sequence[Output]) -> dict[str, Range]:
    """The range of each case that was timed in all launches; ``outputs`` has one item per launch."""
    each = [ratios(output) for output in outputs]
    common = set.intersection(*(set(found) for found in each)) if each else set()
    return {
        case: Range(min(found[case] for found in each), max(found[case] for found in each))
        for case in sorted(common)
    }


def best_ratio(output: Output) -> float:
    """The greatest ratio of all cases; 1 if there is only native."""
    return max([value for value in ratios(output).values() if math.isfinite(value)], default=1.0)
