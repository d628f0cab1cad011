"""The timing driver's JSON lines: reading them, and judging whether a launch can be trusted."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from collforge.generator.case import NATIVE, parse

Record = dict[str, Any]


@dataclass(frozen=True)
class Launch:
    """The records of one launch of the driver; ``job`` and ``end`` empty if it got not so far."""

    job: Record
    results: tuple[Record, ...]
    end: Record


def read_launch(path: Path) -> Launch:
    """The records in a file, up to a line that is cut off. A file that is missing has none."""
    job: Record = {}
    end: Record = {}
    results: list[Record] = []
    for record in _records(path):
        if record["record"] == "job":
            job = record
        elif record["record"] == "end":
            end = record
        else:
            results.append(record)
    return Launch(job, tuple(results), end)


def _records(path: Path) -> Iterator[Record]:
    if not path.exists():
        return
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            return


def fault(launch: Launch, ranks: int, layout: str) -> str:
    """Why the launch cannot be trusted, in words; '' when it can.

    The process count comes first: ranks that do not find each other are so many programs of one
    rank each, and what they verify is right.
    """
    return _placement_fault(launch.job, ranks, layout) or _outcome_fault(launch)


def _placement_fault(job: Record, ranks: int, layout: str) -> str:
    if not job:
        return "the driver left no results"
    if job["ranks"] != ranks:
        return f"{ranks} processes were asked for, but the driver saw {job['ranks']}"
    if job["layout"] != layout:
        return f"layout {layout} was asked for, but the ranks lie as in {job['layout']}"
    return ""


def _outcome_fault(launch: Launch) -> str:
    end = launch.end
    wrong = [r for r in launch.results if r["applicable"] and not r["verified"]]
    if wrong:
        others = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        return f"{wrong[0]['case']}: {wrong[0]['detail'] or 'not verified'}{others}"
    if not end:
        return f"the driver ended after {len(launch.results)} results{_last(launch)}"
    if end["failed"]:
        return f"{end['failed']} of {end['cases']} cases failed"
    return "" if end["cases"] else "the driver was given no case"


def _last(launch: Launch) -> str:
    return f", the last of {launch.results[-1]['case']}" if launch.results else ""


def ratios(launch: Launch) -> dict[str, float]:
    """How many times as fast as native each case was, by case string: the median over rounds.

    Only verified cases that were timed, and without native itself.
    """
    native = {
        parse(r["case"]).problem: r["samples"] for r in launch.results if r["variant"] == NATIVE
    }
    found = {}
    for r in launch.results:
        base = native.get(parse(r["case"]).problem, [])
        if r["variant"] != NATIVE and r["verified"] and r["samples"] and base:
            found[r["case"]] = statistics.median(n / s for n, s in zip(base, r["samples"]))
    return found


@dataclass(frozen=True, order=True)
class Range:
    """The least and the greatest ratio of a case to native, over launches."""

    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.low:.2f} to {self.high:.2f} times as fast as native"


def ratio_ranges(launches: Sequence[Launch]) -> dict[str, Range]:
    """The range of each case that was timed in all launches."""
    each = [ratios(launch) for launch in launches]
    common = set.intersection(*(set(found) for found in each)) if each else set()
    return {
        case: Range(min(found[case] for found in each), max(found[case] for found in each))
        for case in sorted(common)
    }


def best_ratio(launch: Launch) -> float:
    """The greatest ratio of all cases; 1 when there is none but native."""
    return max([value for value in ratios(launch).values() if math.isfinite(value)], default=1.0)
