"""A check that compares variants with native and reports findings by case string."""

from __future__ import annotations

from pathlib import Path

from reframe.core.builtins import run_before, variable
from reframe.core.logging import getlogger

from collforge.case import Case, parse
from collforge.reframe_checks import results
from collforge.reframe_checks.driver_check import DriverCheck
from collforge.reframe_checks.results import Range
from collforge.variant import split_name

FINDINGS = "findings.txt"


class RatioCheck(DriverCheck):
    """Times cases in several launches; the findings go to ReFrame's output and to findings.txt.

    Only one parameter point of each family is judged for a problem: the one whose worst launch is best.
    If the test failed, the file is in the stage directory. A derived check overrides `is_finding`.
    """

    launches = 3
    samples = 15

    margin = variable(float, value=0.05)
    """The least deviation of a ratio from 1 that counts."""

    def is_finding(self, case: Case, ratio: Range) -> bool:
        """Whether a case with these ratios to native is a finding."""
        raise NotImplementedError

    @run_before("performance")
    def report_findings(self) -> None:
        best: dict[tuple[str, str], tuple[Range, str]] = {}
        for text, ratio in results.ratio_ranges(self.outputs).items():
            case = parse(text)
            entry = case.problem, split_name(case.variant)[0]
            best[entry] = max(best.get(entry, (ratio, text)), (ratio, text))
        self.findings = [
            f"{text}: {ratio}"
            for ratio, text in best.values()
            if self.is_finding(parse(text), ratio)
        ]
        lines = "".join(f"{finding}\n" for finding in self.findings)
        Path(self.stagedir, FINDINGS).write_text(lines, encoding="utf-8")
        for finding in self.findings:
            getlogger().info(f"{self.current_partition.fullname}: {finding}")
