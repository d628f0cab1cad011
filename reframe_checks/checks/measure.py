"""Measures given cases, for `collforge tune`, `bench` and `verify`."""

from __future__ import annotations

from pathlib import Path

import reframe as rfm
from reframe.core.builtins import performance_function, run_after, variable
from reframe.core.exceptions import PipelineError

from collforge.reframe_checks import results
from collforge.reframe_checks.driver_check import DriverLaunch


@rfm.simple_test
class MeasureCases(DriverLaunch):
    """Runs the case strings of a file, one per line, in order.

    The command has built the driver before, so that not every job builds it.

    The driver's JSON lines are in results.jsonl, in the output directory if the test passed, else in
    the stage directory.
    """

    cases = variable(str, value="")
    """Path of the file with the case strings. If empty, the check is skipped."""

    @run_after("init")
    def need_cases(self) -> None:
        self.skip_if(not self.cases, "no cases given: -S MeasureCases.cases=FILE")

    def case_strings(self) -> list[str]:
        try:
            text = Path(self.cases).read_text(encoding="utf-8")
        except OSError as error:
            raise PipelineError(f"MeasureCases.cases={self.cases}: {error.strerror}") from error
        return [line for line in text.splitlines() if line.strip()]

    @performance_function("count")
    def cases_run(self) -> int:
        return len(self.outputs[0].results)

    @performance_function("x")
    def best_over_native(self) -> float:
        return results.best_ratio(self.outputs[0])
