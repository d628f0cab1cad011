"""A check that compares variants with native and reports findings by case string."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from reframe.core.builtins import run_before
from reframe.core.logging import getlogger

from collforge.reframe_checks.driver_check import DriverCheck

FINDINGS = "findings.txt"


class RatioCheck(DriverCheck):
    """Times cases in several launches; the findings go to ReFrame's output and to findings.txt.

    If the test failed, the file is in the stage directory. A derived check overrides `find`.
    """

    launches = 3
    samples = 15

    def find(self) -> Iterator[str]:
        """A line for each finding in the outputs of the launches, beginning with the case string."""
        raise NotImplementedError

    @run_before("performance")
    def report_findings(self) -> None:
        self.findings = list(self.find())
        lines = "".join(f"{finding}\n" for finding in self.findings)
        Path(self.stagedir, FINDINGS).write_text(lines, encoding="utf-8")
        for finding in self.findings:
            getlogger().info(f"{self.current_partition.fullname}: {finding}")
