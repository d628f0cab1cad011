"""Measures given cases, for `collforge tune`, `bench` and `verify`."""

from __future__ import annotations

import shlex
from pathlib import Path

import reframe as rfm
from reframe.core.builtins import performance_function, run_after, run_before, variable
from reframe.core.exceptions import PipelineError

from collforge import launch_log, records
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

    @run_before("run")
    def log_launch(self) -> None:
        """Lets the job's script say how it began and ended, and end at once if nobody waits for it.

        A scheduler may start a job again (requeue), or start it after its tuner has gone.
        """
        partition = self.current_partition
        scheduler = self.job.scheduler.registered_name
        gone = Path(self.cases).parent
        ends = (launch_log.CANCELLED, launch_log.STORED)
        unwanted = [records.FILE, *(str(gone / name) for name in ends)]
        guards = [f"[ ! -e {shlex.quote(name)} ] || exit 0" for name in unwanted]
        began = launch_log.first_line(scheduler, partition.launcher_type.registered_name)
        self.prerun_cmds = [*guards, *began, *self.prerun_cmds]
        self.postrun_cmds = [*launch_log.last_line(), *self.postrun_cmds]
        self.keep_files = [*self.keep_files, launch_log.FILE]
        if scheduler in ("slurm", "squeue"):
            self.job.options += ["--no-requeue"]

    @performance_function("count")
    def cases_run(self) -> int:
        return len(self.outputs[0].results)

    @performance_function("x")
    def best_over_native(self) -> float:
        return results.best_ratio(self.outputs[0])
