"""Checks whether stored winners are as fast as when they were tuned."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from statistics import geometric_mean
from typing import Any, Optional

import msgspec
import reframe as rfm
from reframe.core.builtins import (
    fixture,
    parameter,
    performance_function,
    run_after,
    run_before,
    sanity_function,
    variable,
)
from reframe.core.exceptions import PipelineError
from reframe.core.logging import getlogger
from reframe.core.runtime import runtime

from collforge.cases import timing_cases
from collforge.decision import DECIDED
from collforge.errors import CollforgeError
from collforge.layout import Layout
from collforge.records import Output
from collforge.reference import References
from collforge.reframe_checks import results
from collforge.reframe_checks.driver_check import DriverCheck, layout_on, mpi_name, scale_tags
from collforge.reframe_checks.manifest import MANIFEST
from collforge.reframe_checks.systems.emulated import ClusterSpec
from collforge.serving import serving_layouts
from collforge.variant import NATIVE

_NAMED = os.environ.get("COLLFORGE_WINNERS", "")
# ReFrame changes its folder while it loads checks.
FILE = str(Path(os.environ.get("PWD", ""), _NAMED)) if _NAMED else ""
"""Path of the output of `collforge winners --json FILE`."""

Problem = tuple[str, int, str]
"""A collective, bytes, and the layout for which it is stored."""

NONE: Problem = ("none", 0, "none")
"""The test of a place that has no winners; its fixture says why."""


@dataclass(frozen=True)
class Row:
    """A row of the file. A row without a variant is undecided; nothing is stored for it."""

    system: str
    mpi: str
    mpi_version: str
    layout: str
    collective: str
    bytes: int
    variant: str
    evidence: str = DECIDED
    references: Optional[References] = None  # noqa: UP045 (msgspec evaluates it, on Python 3.9, too)

    @property
    def problem(self) -> Problem:
        return self.collective, self.bytes, self.layout


@dataclass(frozen=True)
class Document:
    rows: list[Row]


def _read(path: str) -> tuple[list[Row], str]:
    """The rows of a file, and why it cannot be read."""
    try:
        text = Path(path).read_bytes() if path else b'{"rows": []}'
        return msgspec.json.decode(text, type=Document).rows, ""
    except (OSError, ValueError) as error:
        return [], f"{path}: {error}; write it by `collforge winners --json`"


ROWS, FAULT = _read(FILE)


def _rows_at(partition: Any, environment: Any) -> list[Row]:
    """The rows of its system and library that are winners on any layout."""
    shape = {
        name: v for name, v in partition.extras.items() if name in ("rails", "rate", "rail_model")
    }
    system = ClusterSpec(**shape).system if shape else str(runtime().system.name)
    return [
        row
        for row in ROWS
        if (row.system, row.mpi) == (system, mpi_name(environment)) and row.variant
    ]


def _rows_on(partition: Any, environment: Any, layout: Layout) -> list[Row]:
    """The winners that the runtime would load there, of every version of the library."""
    rows = _rows_at(partition, environment)
    served: dict[str, list[Row]] = {}
    for name in serving_layouts({row.layout for row in rows}, layout):
        of: dict[str, list[Row]] = {}
        for row in rows:
            if (row.layout, row.evidence) == (name, DECIDED):
                of.setdefault(row.collective, []).append(row)
        served = {**of, **served}
    return [
        # The times of other threads, or of other sockets, are no references.
        row if row.layout == layout.name else replace(row, references=None)
        for mine in served.values()
        for row in mine
        if row.variant != NATIVE
    ]


@cache
def _places(layout: str) -> list[tuple[Any, Any, set[Problem]]]:
    """The partitions and environments with the winners of each, or NONE."""
    found = []
    for partition in runtime().system.partitions:
        for environment in filter(mpi_name, partition.environs):
            try:
                rows = _rows_on(partition, environment, layout_on(partition, layout))
            except CollforgeError:  # a layout that cannot be had: the fixture says so
                rows = []
            found.append((partition, environment, {row.problem for row in rows} or {NONE}))
    return found


@dataclass(frozen=True)
class Timing:
    """A winner now, and ReFrame's references: when it was tuned, with what is chance."""

    case: str
    microseconds: float
    speed_up: float
    """Over native."""
    references: dict[str, tuple[float, float | None, float | None, str]]
    """Of the performance variables; empty if nothing is stored that this can be compared with."""


class TimeWinners(DriverCheck):
    """Times all winners of a system, MPI library and layout, and compares with the launches that chose them.

    The thresholds follow from by how much launches of this place differ.
    """

    launches = 3
    samples = 15

    false_alarms = variable(float, value=0.001)
    """The chance that any winner fails though nothing has changed."""

    @run_after("setup")
    def need_winners(self) -> None:
        if FAULT:
            raise PipelineError(FAULT)
        self.skip_if(
            not FILE,
            "no winners given: collforge winners --json FILE, then COLLFORGE_WINNERS=FILE",
        )

    def case_strings(self) -> list[str]:
        self.rows: dict[str, list[Row]] = {}
        for row in _rows_on(self.current_partition, self.current_environ, self.rank_layout):
            for native in timing_cases(MANIFEST, row.collective, self.rank_layout, [row.bytes]):
                self.rows.setdefault(str(native.by(row.variant)), []).append(row)
        if not self.rows:
            self.fail_for_another_layout()
        return list(self.rows)

    def fail_for_another_layout(self) -> None:
        """A pipeline must not pass because nothing was timed."""
        here = {row.layout for row in _rows_at(self.current_partition, self.current_environ)}
        if here:
            raise PipelineError(
                f"{FILE} has no winners on layout {self.rank_layout.name}, but on "
                f"{', '.join(sorted(here))}: -S Winner.timed.layout={min(here)}"
            )

    def fault(self, output: Output) -> str:
        job = output.job
        tuned = {row.mpi_version for rows in self.rows.values() for row in rows}
        if job and job.library_version not in tuned:
            return f"the winners are of {', '.join(sorted(tuned))}, not {job.library_version}: tune again"
        return super().fault(output)

    @run_after("sanity")
    def compare(self) -> None:
        outputs = self.outputs
        ratios = [results.ratios(output) for output in outputs]
        seconds = [results.medians(output) for output in outputs]
        (version,) = {output.job.library_version for output in outputs if output.job}
        timed = [
            (case, row)
            for case in self.rows
            if all(case in one for one in ratios)
            for row in self.rows[case]
            if row.mpi_version == version
        ]
        judged = sum(row.references is not None for _, row in timed)
        chance = self.false_alarms / max(1, 2 * judged)
        self.timings: dict[Problem, Timing] = {}
        for case, row in timed:
            times, gains = [one[case] for one in seconds], [one[case] for one in ratios]
            references: dict[str, Any] = {}
            if row.references:
                time = row.references.seconds.rise(times, chance)
                loss = row.references.speed_up.inverse.rise([1 / gain for gain in gains], chance)
                references["time"] = (time.then * 1e6, None, time.limit - 1, "us")
                references["speed_up"] = (1 / loss.then, 1 / loss.limit - 1, None, "x")
            now = geometric_mean(times) * 1e6, geometric_mean(gains)
            self.timings[row.problem] = Timing(case, *now, references)


@rfm.simple_test
class Winner(rfm.RunOnlyRegressionTest):
    """A winner of the file. It runs nothing: its fixture has timed all winners of the place.

    If ``time`` fails, the machine has changed; if ``speed_up`` fails, tune again.
    """

    collective = parameter(sorted({row.collective for row in ROWS} | {NONE[0]}), loggable=True)
    bytes = parameter(sorted({row.bytes for row in ROWS} | {NONE[1]}), loggable=True)
    layout = parameter(sorted({row.layout for row in ROWS} | {NONE[2]}), loggable=True)

    case = variable(str, value="", loggable=True)
    """The case string."""

    timed: Any = fixture(TimeWinners, scope="environment")
    tags: set[str] = {"nightly"}  # noqa: RUF012 (ReFrame copies it)
    executable = "true"
    local = True
    sourcesdir = None

    @run_after("init")
    def select_places(self) -> None:
        layout = TimeWinners.layout.default_value  # as set by -S Winner.timed.layout=4x2
        here = [
            (partition.fullname, environment.name)
            for partition, environment, problems in _places(layout)
            if self._problem in problems
        ]
        self.valid_systems = [partition for partition, _ in here]
        self.valid_prog_environs = [environment for _, environment in here]
        self.tags = self.tags | scale_tags(layout)

    @property
    def _problem(self) -> Problem:
        return self.collective, self.bytes, self.layout

    @run_after("setup")
    def find_timing(self) -> None:
        timing = self.timed.timings.get(self._problem)
        self.skip_if(timing is None, "this version of the MPI library has no such winner")
        self.timing: Timing = timing
        self.case = self.descr = timing.case
        self.num_tasks = self.timed.num_tasks

    @sanity_function
    def is_verified(self) -> bool:
        """The fixture would have failed."""
        return True

    @run_before("performance")
    def set_reference(self) -> None:
        if self.timing.references:
            self.reference = {"*": self.timing.references}
        else:
            getlogger().info(f"{self.case} is not judged: no such launches are stored")

    @performance_function("us")
    def time(self) -> float:
        return self.timing.microseconds

    @performance_function("x")
    def speed_up(self) -> float:
        return self.timing.speed_up
