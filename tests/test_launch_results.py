"""Whether a launch is valid, and the ratios to native, from the driver's records."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from collforge.records import CaseResult, End, Job, Output
from collforge.reframe_checks import results
from collforge.reframe_checks.results import Range

JOB = Job("0.1.0", "Open MPI v4.1.4", 4, "2x2", ("here", "there"), 7)
END = End(2, 0)


def record(variant: str, *samples: float, **other: Any) -> CaseResult:
    case = f"bcast:{variant}@2x2,bytes=64"
    return replace(CaseResult(case, "", True, True, "", samples, 0), **other)


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (Output(JOB, (record("native"),), END), ""),
        (Output(JOB, (record("a", applicable=False, verified=False),), END), ""),
        (Output(), "left no results"),
        (Output(damage="line 1: a rumour"), "line 1: a rumour"),
        (Output(replace(JOB, ranks=1), (), END), "4 processes were asked for"),
        (Output(replace(JOB, layout="1x4"), (), END), "lie as in 1x4"),
        (Output(JOB, (record("a"),)), "ended after 1 results, the last of bcast:a@2x2"),
        (Output(JOB, (), End(0, 0)), "no case"),
        (Output(JOB, (), End(2, 1)), "1 of 2 cases failed"),
        (
            Output(JOB, (record("a", verified=False, detail="byte 3"),), END),
            "bcast:a@2x2,bytes=64: byte 3",
        ),
    ],
)
def test_a_fault_says_why(output: Output, reason: str) -> None:
    fault = results.fault(output, 4, "2x2")
    assert bool(fault) == bool(reason)
    assert reason in fault


def test_ratios_are_paired_by_round() -> None:
    native = record("native", 2.0, 20.0, 2.0)
    one = Output(JOB, (native, record("a", 1.0, 10.0, 4.0), record("b", 1.0, 1.0, 1.0)), END)
    two = Output(JOB, (native, record("a", 4.0, 40.0, 4.0), record("c", 1.0)), END)
    assert results.ratios(one) == {"bcast:a@2x2,bytes=64": 2.0, "bcast:b@2x2,bytes=64": 2.0}
    assert results.ratio_ranges([one, two]) == {"bcast:a@2x2,bytes=64": Range(0.5, 2.0)}
    assert results.best_ratio(two) == 2.0
    assert results.best_ratio(Output(JOB, (native,), END)) == 1.0
