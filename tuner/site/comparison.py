"""Two databases, days or MPI libraries compared, problem by problem."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from collforge.case import parse
from collforge.db import Store
from collforge.errors import CollforgeError, unknown
from collforge.tuner.site import side_by_side

CONFIDENCE = 0.95
SAME = 0.9, 1.1
"""An interval of the ratio within these shows that there is no difference that matters."""
DAY = r"\d{4}-\d{2}-\d{2}"
NATIVE, TUNED = "native", "tuned"
Key = tuple[str, str, int, str, str]
"""System, MPI library ('' if libraries are compared), bytes, problem, and NATIVE or TUNED."""


@dataclass(frozen=True)
class Side:
    """What one side is made of: launches of a database, of some days or of one library."""

    name: str
    database: Path
    first: str = ""
    last: str = ""
    """Days in ISO 8601, both included; '': all."""
    mpi: str = ""


@dataclass(frozen=True)
class Compared:
    """Times of a call on both sides, in seconds: geometric means over launches."""

    system: str
    mpi: str
    problem: str
    bytes: int
    what: str
    first: float
    second: float
    ratio: float
    """first / second."""
    low: float
    """Of the ratio, with 95 % confidence; NaN, as high, if a side has one launch only."""
    high: float

    @property
    def verdict(self) -> str:
        if self.low > 1 or self.high < 1:
            return "faster" if self.low > 1 else "slower"
        return "same" if SAME[0] < self.low and self.high < SAME[1] else "cannot tell"


def side(text: str, database: Path) -> Side:
    """A file, ``DATE``, ``DATE..DATE`` or the name of a library of the database."""
    days = re.fullmatch(rf"({DAY})(\.\.({DAY}))?", text)
    if days:
        return Side(text, database, days[1], days[3] or days[1])
    if Path(text).expanduser().is_file():
        return Side(text, Path(text).expanduser())
    with Store(database, create=False) as store:
        names = {place.mpi for place in store.places()}
    if text not in names:
        raise unknown(
            "database, date (2026-01-31 or 2026-01-31..2026-02-28) or MPI library", text, names
        )
    return Side(text, database, mpi=text)


def compare(first: Side, second: Side) -> list[Compared]:
    """What both sides have. Raises CollforgeError if that is nothing."""
    between_libraries = bool(first.mpi and second.mpi)
    one, other = (_times(each, between_libraries) for each in (first, second))
    rows = [
        _compared(key, one[key].seconds, other[key].seconds)
        for key in sorted({*one} & {*other})
        if key[-1] == NATIVE or not (one[key].is_native and other[key].is_native)
    ]
    rows.sort(key=lambda one: (one.system, one.mpi, parse(one.problem).layout, one.bytes))
    if not rows:
        raise CollforgeError(
            f"{first.name} and {second.name} have no measured call of the same system and layout"
        )
    return rows


class _Served(NamedTuple):
    """The medians of launches, and whether native serves the call."""

    seconds: Sequence[float]
    is_native: bool


def _times(one: Side, between_libraries: bool) -> dict[Key, _Served]:
    """Of several versions of a library on a layout, of the one that ran last."""
    found: dict[Key, _Served] = {}
    with Store(one.database, create=False) as store:
        runs = [
            run
            for run in store.runs()
            if not one.first or one.first <= run.started[:10] <= one.last
        ]
        wanted = {run.uuid for run in runs}
        last = {replace(run.place, mpi_version=""): run.place for run in runs}
        for place in last.values():
            if one.mpi not in ("", place.mpi):
                continue
            mpi = "" if between_libraries else place.mpi
            for (system, _, size, problem), times in side_by_side.times(
                store, place, wanted
            ).items():
                at = system, mpi, size, problem
                tuned = _Served(times.tuned, times.tuned is times.native)
                found.update({(*at, NATIVE): _Served(times.native, True), (*at, TUNED): tuned})
    return found


def _compared(key: Key, first: Sequence[float], second: Sequence[float]) -> Compared:
    from scipy import stats  # takes longer to import than most commands

    system, mpi, size, problem, what = key
    logs = [[math.log(value) for value in values] for values in (first, second)]
    means = [statistics.fmean(each) for each in logs]
    low = high = math.nan
    if min(map(len, logs)) > 1:
        # Welch's: two days, or two libraries, need not spread alike.
        ends = stats.ttest_ind(*logs, equal_var=False).confidence_interval(CONFIDENCE)
        low, high = math.exp(ends.low), math.exp(ends.high)
    ratio = math.exp(means[0] - means[1])
    first_mean, second_mean = map(math.exp, means)
    return Compared(system, mpi, problem, size, what, first_mean, second_mean, ratio, low, high)
