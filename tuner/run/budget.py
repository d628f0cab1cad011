"""What a tuning may use of a queue: the time of a job, the number of jobs, and node-hours."""

from __future__ import annotations

import math
from dataclasses import dataclass

START = 60.0
"""Seconds of a job that are kept for its start and for starting MPI."""
DOUBT = 3.0
"""A job's time limit allows for so many times the estimate for its cases."""
SHORTEST = START + DOUBT
"""The shortest time limit, in seconds: that of a job with a second of cases."""
MINUTE = 60.0
"""Slurm rounds time limits up to whole minutes."""
SHORTEST_PAID = math.ceil(SHORTEST / MINUTE) * MINUTE
"""The seconds that must be left in the node-hours for one more job."""


@dataclass(frozen=True)
class Allowance:
    """The limits that a user set; math.inf where there is none."""

    time_limit: float = math.inf
    """Seconds of each job."""
    jobs: float = math.inf
    node_seconds: float = math.inf

    @property
    def is_bounded(self) -> bool:
        """Whether the user limited jobs. Then only --budget limits the time of the whole tuning."""
        return min(self.time_limit, self.jobs, self.node_seconds) < math.inf

    def part(self, share: float, nodes: int) -> Allowance:
        """The part of this for one of several tunings; ``share``: in (0, 1].

        At least the shortest job on its nodes, if there is as much left.
        """
        jobs = self.jobs if math.isinf(self.jobs) else math.ceil(self.jobs * share)
        least = min(self.node_seconds, nodes * SHORTEST_PAID)
        return Allowance(self.time_limit, jobs, max(least, self.node_seconds * share))


@dataclass
class Budget:
    """The use of an allowance while a tuning runs."""

    allowance: Allowance = Allowance()
    jobs: int = 0
    node_seconds: float = 0.0

    def left(self) -> Allowance:
        had = self.allowance
        return Allowance(
            had.time_limit, had.jobs - self.jobs, max(0.0, had.node_seconds - self.node_seconds)
        )

    def job_limit(self, nodes: int) -> float:
        """The longest time limit, in seconds, of one more job on these nodes; 0: there can be no more job.

        The scheduler ends a job at its time limit, so node-hours are exceeded by its delay at most.
        """
        left = self.left()
        paid = left.node_seconds / nodes
        # Hours are decimal fractions: 0.7 h are a little less than 42 minutes.
        minutes = paid if math.isinf(paid) else math.floor(paid / MINUTE + 1e-6) * MINUTE
        limit = min(left.time_limit, minutes)
        return limit if left.jobs >= 1 and limit >= SHORTEST else 0.0

    def spend(self, jobs: int, node_seconds: float) -> None:
        self.jobs += jobs
        self.node_seconds += node_seconds

    def __str__(self) -> str:
        """``3 of 8 jobs, 0.41 of 2 node-hours``."""
        had = self.allowance
        jobs = f"{self.jobs}" + ("" if math.isinf(had.jobs) else f" of {had.jobs:.0f}")
        hours = f"{self.node_seconds / 3600:.3g}"
        hours += "" if math.isinf(had.node_seconds) else f" of {had.node_seconds / 3600:.3g}"
        return f"{jobs} job{'' if jobs == '1' else 's'}, {hours} node-hours"


def cases_seconds(limit: float) -> float:
    """The estimated seconds of cases that fit into a job with this time limit."""
    return max(0.0, (limit - START) / DOUBT)


def limit_of(seconds: float) -> float:
    """The shortest time limit of a job in whole minutes, for cases of these estimated seconds."""
    return MINUTE * math.ceil((seconds * DOUBT + START) / MINUTE)
