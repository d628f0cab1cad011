"""The command-line options for tuning through a queue, and the jobs that a tuning would submit."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rich.table import Table

from collforge import units
from collforge.case import Case
from collforge.errors import CollforgeError
from collforge.tuner.cli import tables
from collforge.tuner.decide import plan
from collforge.tuner.decide.decisions import Standing
from collforge.tuner.run.budget import (
    SHORTEST,
    SHORTEST_PAID,
    Allowance,
    Budget,
    cases_seconds,
    limit_of,
)
from collforge.tuner.run.tune import (
    Session,
    least_seconds,
    most_seconds,
    read_state,
    stretch_of,
    task_seconds,
    tasks_in_turn,
    time_limit,
)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--time-limit",
        metavar="TIME",
        help="of each job, e.g. 30m; a job gets as many cases as fit (default: by its cases, some minutes)",
    )
    parser.add_argument("--max-jobs", type=int, metavar="N", help="submit at most N jobs")
    parser.add_argument(
        "--node-hours",
        type=float,
        metavar="H",
        help="use at most H (nodes x hours); no job is submitted whose time limit would exceed them",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="print the jobs and what they cost, and submit none"
    )


def allowance(args: argparse.Namespace) -> Allowance:
    """What the options allow. Raises CollforgeError if that is not even one job."""
    limit = units.parse_duration(args.time_limit) if args.time_limit else math.inf
    if limit < SHORTEST:
        raise CollforgeError(
            f"--time-limit {args.time_limit}: a job needs {SHORTEST:.0f}s or more, to start and to measure"
        )
    jobs = math.inf if args.max_jobs is None else args.max_jobs
    if jobs < 1:
        raise CollforgeError(f"--max-jobs {args.max_jobs}: give 1 job or more (--dry-run has none)")
    hours = math.inf if args.node_hours is None else args.node_hours
    if not hours > 0:
        raise CollforgeError(f"--node-hours {args.node_hours}: give more than 0")
    return Allowance(limit, jobs, hours * 3600)


def require_a_job(sessions: Sequence[Session], allowed: Allowance) -> None:
    """Raises CollforgeError if the node-hours are too few for any job."""
    nodes = min(one.goal.layout.nodes for one in sessions)
    if not Budget(allowed).job_limit(nodes):
        raise CollforgeError(
            f"--node-hours {allowed.node_seconds / 3600:g}: the shortest job on {nodes} nodes may take "
            f"{math.ceil(nodes * SHORTEST_PAID / 3.6) / 1000:g}"
        )


def part_of_first(sessions: Sequence[Session], used: Budget) -> Allowance:
    """What the first of these tunings may use of what is left: jobs by problems, node-hours also by nodes."""
    problems = [max(1, len(plan.problems(one.manifest, one.goal))) for one in sessions]
    nodes = [one.goal.layout.nodes for one in sessions]
    costs = [count * each for count, each in zip(problems, nodes)]
    left = used.left()
    hours = left.part(costs[0] / sum(costs), nodes[0])
    return replace(hours, jobs=left.part(problems[0] / sum(problems), nodes[0]).jobs)


@dataclass(frozen=True)
class Planned:
    """A job that would be submitted."""

    seconds: float
    """The estimate for its cases."""
    limit: float
    """Its time limit."""


def planned(session: Session) -> list[Planned]:
    """The jobs until every problem has had the launches of a usual decision, within the session's budget.

    An estimate, since the search and further launches depend on what is measured.
    """
    open_tasks = []
    standing = read_state(session)
    most = cases_seconds(session.budget.allowance.time_limit)
    for _, contest in plan.in_turn(standing.seen, plan.open_contests(standing.seen)):
        names = plan.next_variants(standing.seen, contest, standing.background)
        call = plan.estimate(session.manifest, session.goal, contest.problem, standing.seen.history)
        missing = session.goal.min_launches + 1 - len(contest.launches)
        seconds = task_seconds(call * (1 + len(names)))
        if names and not contest.spare and seconds <= most:
            open_tasks.append((seconds, max(1, missing)))
    nodes = session.goal.layout.nodes
    budget = Budget(session.budget.left())
    jobs: list[Planned] = []
    for cases in _rounds(open_tasks):
        waiting = list(cases)
        while waiting and budget.job_limit(nodes):
            limit = budget.job_limit(nodes)
            seconds = waiting.pop(0)
            while waiting and seconds + waiting[0] <= most_seconds(session, limit):
                seconds += waiting.pop(0)
            seconds *= stretch_of(seconds, least_seconds(session, limit))
            jobs.append(Planned(seconds, time_limit(seconds, limit)))
            budget.spend(1, nodes * jobs[-1].limit)
    return jobs


def too_long(session: Session, standing: Standing) -> list[tuple[Case, float]]:
    """The native cases of open problems whose next task does not fit into a job of --time-limit.

    Each with the limit in seconds into which it would fit.
    """
    most = cases_seconds(session.budget.allowance.time_limit)
    tasks = [task for _, task in tasks_in_turn(standing) if task_seconds(task.seconds) > most]
    return [(task.cases[0], limit_of(task_seconds(task.seconds))) for task in tasks]


def _rounds(tasks: Sequence[tuple[float, int]]) -> Iterator[list[float]]:
    """The tasks of each round: each problem is once in a round, until it has had its launches."""
    for number in range(max((count for _, count in tasks), default=0)):
        yield [seconds for seconds, count in tasks if count > number]


def print_planned(sessions: Sequence[Session], allowed: Allowance) -> None:
    """Prints the jobs of each tuning, and what they cost."""
    used = Budget(allowed)
    table = Table(title="jobs that would be submitted, by estimate")
    for name in (
        "MPI library",
        "layout",
        "nodes",
        "jobs",
        "time of each",
        "time limit",
        "node-hours",
    ):
        table.add_column(name)
    least = most = 0.0
    count = 0
    for number, session in enumerate(sessions):
        nodes = session.goal.layout.nodes
        session.budget.allowance = part_of_first(sessions[number:], used)
        jobs = planned(session)
        used.spend(len(jobs), nodes * sum(one.limit for one in jobs))
        hours = sum(nodes * one.seconds for one in jobs) / 3600
        least += hours
        most += sum(nodes * one.limit for one in jobs) / 3600
        count += len(jobs)
        table.add_row(
            session.place.mpi,
            session.place.layout,
            str(nodes),
            str(len(jobs)),
            _range([one.seconds for one in jobs]),
            _range([one.limit for one in jobs]),
            f"{hours:.3g}",
        )
    tables.show(table)
    for session in sessions:
        for one, _ in too_long(session, read_state(session)):
            print(f"{session.place.mpi}: --time-limit is too short for {one.problem}")
    print(
        f"in total {count} jobs, about {least:.3g} node-hours without starts, at most {most:.3g} by their time "
        "limits; nothing was submitted"
    )


def _range(seconds: Sequence[float]) -> str:
    if not seconds:
        return ""
    ends = [units.format_duration(end) for end in (min(seconds), max(seconds))]
    return ends[0] if ends[0] == ends[1] else " to ".join(ends)
