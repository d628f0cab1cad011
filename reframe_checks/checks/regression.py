"""Checks whether stored winners are still faster than native."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Optional

import msgspec
import reframe as rfm
from reframe.core.builtins import performance_function, run_after, variable
from reframe.core.exceptions import PipelineError
from reframe.core.logging import getlogger

from collforge.cases import timing_cases
from collforge.decision import DECIDED
from collforge.records import Output
from collforge.reference import References, Rise
from collforge.reframe_checks import results
from collforge.reframe_checks.driver_check import mpi_name
from collforge.reframe_checks.manifest import MANIFEST
from collforge.reframe_checks.ratio_check import RatioCheck
from collforge.reframe_checks.systems.emulated import ClusterSpec
from collforge.serving import serving_layout
from collforge.variant import NATIVE


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


@rfm.simple_test
class Regression(RatioCheck):
    """Times the winners of this system, MPI library and layout, and compares with the launches that chose them.

    A finding is a winner that is slower than then, or not as much faster than native, by more than launches of
    this place differ. The first says that the machine changed, the second that one should tune again.
    """

    winners = variable(str, value=os.environ.get("COLLFORGE_WINNERS", ""))
    """Path of the output of `collforge winners --format json`. If empty, the check is skipped."""

    false_alarms = variable(float, value=0.001)
    """The chance of a finding in a run though nothing has changed."""

    reference: ClassVar = {
        "*": {"slower_winners": (0, None, 0, "count"), "smaller_gains": (0, None, 0, "count")}
    }

    @run_after("setup")
    def need_winners(self) -> None:
        self.skip_if(
            not self.winners,
            "no winners given: collforge winners --format json > FILE, then COLLFORGE_WINNERS=FILE",
        )

    def case_strings(self) -> list[str]:
        """The case strings of the winners that the runtime would load here, of every version of the library."""
        here = self._system(), mpi_name(self.current_environ)
        rows = [row for row in self._read() if (row.system, row.mpi) == here]
        layouts = {row.layout for row in rows if row.variant}
        serves = serving_layout(layouts, self.rank_layout.key, self.rank_layout.threads)
        is_own = serves == self.rank_layout.name  # else its times are those of other threads
        self.expected: dict[str, dict[str, References | None]] = {}
        for row in rows:
            if (row.layout, row.evidence) != (serves, DECIDED) or row.variant == NATIVE:
                continue
            for native in timing_cases(MANIFEST, row.collective, self.rank_layout, [row.bytes]):
                versions = self.expected.setdefault(str(native.by(row.variant)), {})
                versions[row.mpi_version] = row.references if is_own else None
        return list(self.expected)

    def _system(self) -> str:
        """The system's name in the database."""
        extras = self.current_partition.extras
        shape = {name: extras[name] for name in ("rails", "rate", "rail_model") if name in extras}
        return ClusterSpec(**shape).system if shape else str(self.current_system.name)

    def _read(self) -> list[Row]:
        try:
            return msgspec.json.decode(Path(self.winners).read_bytes(), type=list[Row])
        except (OSError, ValueError) as error:
            raise PipelineError(
                f"{self.winners}: {error}; write it by `collforge winners --format json`"
            ) from error

    def fault(self, output: Output) -> str:
        job = output.job
        tuned = {version for versions in self.expected.values() for version in versions}
        if job and job.library_version not in tuned:
            return f"the winners are of {', '.join(sorted(tuned))}, not {job.library_version}: tune again"
        return super().fault(output)

    def find(self) -> Iterator[str]:
        self.slower, self.smaller = 0, 0
        outputs = self.outputs
        ratios = [results.ratios(output) for output in outputs]
        seconds = [results.medians(output) for output in outputs]
        (version,) = {output.job.library_version for output in outputs if output.job}
        judged = dict(self._judged(version, set.intersection(*map(set, ratios))))
        chance = self.false_alarms / max(1, 2 * len(judged))
        for case, expected in judged.items():
            time = expected.seconds.rise([one[case] for one in seconds], chance)
            if time.is_finding:
                self.slower += 1
                yield f"{case}: {time.now:.3g} s, when tuned {time.then:.3g} s ({_told(time)})"
            gain = expected.speed_up.inverse.rise([1 / one[case] for one in ratios], chance)
            if gain.is_finding:
                self.smaller += 1
                now, then = 1 / gain.now, 1 / gain.then
                yield f"{case}: {now:.2f}x native, when tuned {then:.2f}x native ({_told(gain)})"

    def _judged(self, version: str, timed: Collection[str]) -> Iterator[tuple[str, References]]:
        """The timed cases with what this version of the library is compared with; says which have none."""
        for case, versions in self.expected.items():
            expected = versions.get(version)
            if expected is not None and case in timed:
                yield case, expected
            else:
                why = "it was not timed" if expected else "no such launches are stored"
                getlogger().info(f"{case} is not judged: {why}")

    @performance_function("count")
    def slower_winners(self) -> int:
        return self.slower

    @performance_function("count")
    def smaller_gains(self) -> int:
        return self.smaller


def _told(rise: Rise) -> str:
    return f"{rise.factor:.2f} times; up to {rise.limit:.2f} is chance"
