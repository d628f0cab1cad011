"""Jobs that were ended by others than their program: the scheduler, an admin, a node that died.

The variant that ran is not blamed. Its problem is measured again, but not for ever: it may be too long for the
time limit, or a variant may hang, which a job cannot tell from a slow network.
"""

from __future__ import annotations

import re
import signal
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from pathlib import Path

from collforge import launch_log
from collforge.case import Case
from collforge.reframe_checks import allocation
from collforge.tuner.decide.plan import Task
from collforge.tuner.run.ingest import JobEnd
from collforge.tuner.run.jobs import Job

MOST_CUTS = 2
"""After so many jobs that were cut short in a case, this tuning leaves it out."""
MOST_IN_A_ROW = 3
"""The most jobs in a row that may be cut short without any result."""

_SAID = re.compile(
    r"\*\*\* JOB \S+ ON .*|DUE TO (?:TIME LIMIT|NODE FAILURE|PREEMPTION)|[Nn]ode failure on \S+"
    r"|lost communication with a remote daemon|PBS: job killed: .*"
)
_KILLED = (128 + signal.SIGTERM, 128 + signal.SIGKILL)
"""Exit codes of a launcher that a scheduler ended. A program that crashes has others."""
# The clock of a script starts somewhat later than that of its scheduler.
_NEAR = 5.0


def reason(end: JobEnd, job: Job) -> str:
    """Why a job was cut short by others than its program; '' if it was not.

    A local job that took too long was cut only by a limit of the user; the usual one is for programs that hang.
    """
    log = end.log
    limit = f"its time limit of {job.scheduler_limit} s"
    said = _SAID.search(end.errors)
    if end.scheduler == "local":
        if job.is_limited and "timed out" in end.reason:
            return limit
        # In an allocation, the scheduler ends the ranks and not the script.
        in_allocation = log is not None and log.job and log.status
        return said[0].strip("* ") if said and in_allocation else ""
    if not end.was_submitted:
        return ""
    if log is None:
        return "" if allocation.nodes() else "cancelled before it began"
    if log.status is None or (said and log.status):
        return said[0].strip("* ") if said else "its script was ended"
    if log.status in _KILLED and log.seconds >= job.scheduler_limit - _NEAR:
        return limit
    return ""


def is_of_node(why: str) -> bool:
    """Whether a node failed, by the reason of a cut."""
    return re.search("node failure|lost communication", why, re.IGNORECASE) is not None


def held(folder: Path, gone: float) -> float:
    """The seconds for which the job in a folder held its nodes, however it ended.

    ``gone``: the Unix time at which it was seen to be gone.
    """
    logs = [launch_log.read(path.parent) for path in folder.glob(f"*/**/{launch_log.FILE}")]
    return sum(
        float(log.seconds) if log.status is not None else max(0.0, gone - log.began)
        for log in logs
        if log
    )


@dataclass
class Cuts:
    """The jobs of a tuning that were cut short."""

    of_case: Counter[str] = field(default_factory=Counter)
    """Problem and variant -> jobs that were cut short in it."""
    in_a_row: int = 0
    ended: int = 0
    """All of them."""
    last: str = ""
    """The last reason."""
    trouble: str = ""
    """What was wrong in the last job that came to its end, if anything was."""

    def note(self, why: str, one: Case | None, results: int) -> None:
        """Records a job that was cut short in a case (None: before the first)."""
        self.last = why
        self.ended += 1
        self.in_a_row = 0 if results else self.in_a_row + 1
        if one is not None:
            self.of_case[_key(one)] += 1

    def left_out(self) -> list[str]:
        """The problems and variants that are not asked again."""
        return sorted(key for key, count in self.of_case.items() if count >= MOST_CUTS)

    def without(self, task: Task) -> Task | None:
        """The task without what is left out; None if nothing is left to be compared."""
        out: Collection[str] = self.left_out()
        if not out:
            return task
        cases = tuple(one for one in task.cases if _key(one) not in out)
        is_whole = len(cases) > 1 and cases[0] == task.cases[0]
        return replace(task, cases=cases) if is_whole else None


def _key(one: Case) -> str:
    return f"{one.problem} {one.variant}"
