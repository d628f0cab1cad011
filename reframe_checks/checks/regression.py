"""Checks whether stored winners are still faster than native."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import msgspec
import reframe as rfm
from reframe.core.builtins import performance_function, run_after, variable
from reframe.core.exceptions import PipelineError

from collforge.case import Case
from collforge.decision import DECIDED
from collforge.reframe_checks.cases import timing_cases
from collforge.reframe_checks.driver_check import mpi_name
from collforge.reframe_checks.manifest import MANIFEST
from collforge.reframe_checks.ratio_check import RatioCheck
from collforge.reframe_checks.results import Range
from collforge.reframe_checks.systems.emulated import ClusterSpec
from collforge.serving import serving_layout
from collforge.variant import NATIVE


@dataclass(frozen=True)
class Row:
    """A row of the file. A row without a variant is undecided; nothing is stored for it."""

    system: str
    mpi: str
    layout: str
    collective: str
    bytes: int
    variant: str
    evidence: str = DECIDED


@rfm.simple_test
class Regression(RatioCheck):
    """Times the winners of this system, MPI library and layout against native.

    A winner that is slower than native in every launch is a finding: tune again.
    """

    winners = variable(str, value=os.environ.get("COLLFORGE_WINNERS", ""))
    """Path of the output of `collforge winners --format json`. If empty, the check is skipped."""

    margin = 0.0
    reference: ClassVar = {"*": {"lost_winners": (0, None, 0, "count")}}

    @run_after("setup")
    def need_winners(self) -> None:
        self.skip_if(
            not self.winners,
            "no winners given: collforge winners --format json > FILE, then COLLFORGE_WINNERS=FILE",
        )

    def case_strings(self) -> list[str]:
        """The case strings of the winners that the runtime would load here."""
        here = self._system(), mpi_name(self.current_environ)
        rows = [row for row in self._read() if (row.system, row.mpi) == here]
        layouts = {row.layout for row in rows if row.variant}
        serves = serving_layout(layouts, self.rank_layout.key, self.rank_layout.threads)
        found = [
            str(native.by(row.variant))
            for row in rows
            if (row.layout, row.evidence) == (serves, DECIDED) and row.variant != NATIVE
            for native in timing_cases(MANIFEST, row.collective, self.rank_layout, [row.bytes])
        ]
        return list(dict.fromkeys(found))

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

    def is_finding(self, _: Case, ratio: Range) -> bool:
        return bool(ratio.high < 1 - self.margin)

    @performance_function("count")
    def lost_winners(self) -> int:
        return len(self.findings)
