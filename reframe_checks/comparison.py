"""A check that compares variants with native and reports what it finds, by case string."""

from __future__ import annotations

from pathlib import Path

from reframe.core.builtins import run_before, variable
from reframe.core.logging import getlogger

from collforge.reframe_checks import results
from collforge.reframe_checks.driver_check import DriverCheck

FINDINGS = "findings.txt"


class Comparison(DriverCheck):
    """Times cases in several launches; the findings go to ReFrame's output and to findings.txt.

    That file is in the stage directory of a failed test. A check derived from this one overrides `judge`.
    """

    launches = 3
    samples = 15

    margin = variable(float, value=0.05)
    """Ratios count when they are this far from 1."""

    def judge(self, case: str, low: float, high: float) -> str:
        """What is wrong with a case whose ratio to native was between low and high; '' if nothing is."""
        raise NotImplementedError

    @run_before("performance")
    def report_findings(self) -> None:
        self.findings = [
            f"{case}: {fault}"
            for case, (low, high) in results.worst_ratios(self.launched).items()
            if (fault := self.judge(case, low, high))
        ]
        text = "".join(f"{finding}\n" for finding in self.findings)
        Path(self.stagedir, FINDINGS).write_text(text, encoding="utf-8")
        for finding in self.findings:
            getlogger().info(f"{self.current_partition.fullname}: {finding}")
