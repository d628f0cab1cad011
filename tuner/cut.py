"""Jobs that were ended by others than their program: the scheduler, an admin, a node that died.

They say nothing against the variant that ran. Their problem is asked again, but not for ever: it may be too
long for the time limit, or a variant may hang, which a job cannot tell from a slow network.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field, replace

from collforge.case import Case
from collforge.tuner.ingest import JobEnd
from collforge.tuner.plan import Task
from collforge.tuner.run import Job

MOST_CUTS = 2
"""So many jobs may be cut short in a case before this tuning leaves it out."""
MOST_IN_A_ROW = 3
"""So many jobs may be cut short one after the other without any result."""

_SAID = re.compile(
    r"\*\*\* JOB \S+ ON .*|DUE TO (?:TIME LIMIT|NODE FAILURE|PREEMPTION)|[Nn]ode failure on \S+"
    r"|lost communication with a remote daemon"
)
# The clock of a script starts somewhat later than that of its scheduler.
_NEAR = 5.0


def reason(end: JobEnd, job: Job) -> str:
    """Why a job was cut short by others than its program; '' if it was not.

    A local job that took too long was cut only by a limit of the user; the usual one is for programs that hang.
    """
    log = end.log
    limit = f"its time limit of {job.scheduler_limit} s"
    if end.scheduler == "local":
        return limit if job.is_limited and "timed out" in end.reason else ""
    if not end.was_submitted:
        return ""
    said = _SAID.search(end.errors)
    if log is None:
        return "cancelled before it began"
    if log.status is None or (said and log.status):
        return said[0].strip("* ") if said else "its script was ended"
    if log.status and log.seconds >= job.scheduler_limit - _NEAR:
        return limit
    return ""


def held(end: JobEnd, gone: float) -> float:
    """The seconds for which a job held its nodes; ``gone``: the Unix time at which it was seen to be gone."""
    if end.log is None:
        return 0.0
    whole = end.log.status is not None
    return float(end.log.seconds) if whole else max(0.0, gone - end.log.began)


@dataclass
class Cuts:
    """The jobs of a tuning that were cut short."""

    of_case: Counter[str] = field(default_factory=Counter)
    """Problem and variant -> jobs that were cut short in it."""
    in_a_row: int = 0
    last: str = ""
    """The last reason."""

    def note(self, why: str, one: Case | None, results: int) -> None:
        """Records a job that was cut short in a case (None: before the first)."""
        self.last = why
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
