"""The main loop: plan, run, ingest, store, decide, until all problems are settled or the budget is spent."""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from collforge import records
from collforge.case import Case
from collforge.db import Result, RunRecord, Store, StoreError
from collforge.generator.manifest import Manifest
from collforge.home import new_folder
from collforge.place import Place
from collforge.tuner.decide import extrapolation, layout_map, neighbours, plan
from collforge.tuner.decide.decisions import Standing, judge, read_standing
from collforge.tuner.decide.plan import Goal, Task, Turn
from collforge.tuner.run import ingest, interruptions, leftovers
from collforge.tuner.run.budget import DOUBT, MINUTE, START, Budget, cases_seconds
from collforge.tuner.run.interruptions import Cuts
from collforge.tuner.run.jobs import GRACE, Job, JobError, Site, run_job
from collforge.variant import NATIVE, Variant, split_name

# A job is one launch of many problems. Starting it costs some seconds.
MOST_JOB_SECONDS = 120.0
LEAST_JOB_SECONDS = 50.0
# Limits of a problem in a launch: rounds, and seconds (but at least two rounds). More rounds are cheaper than
# more launches, but slow problems must leave time for the others.
SAMPLES = 40
PROBLEM_SECONDS = 0.8
# A job with few problems may have up to this many times as many rounds of each, to use the cost of its start.
MOST_STRETCH = 6.0
# Of a case in a simulation, for each rank: a call that is verified and one that is timed.
SIMULATED_SECONDS = 0.01
# Calls of a problem that are not samples: warm-up and verification.
OVERHEAD_CALLS = 2
# The runtime selects the system's winners by host name (emulated nodes are called node0, node1, ...).
HOST_PATTERNS = {"emulated": "node[0-9]+", "local": socket.gethostname().replace(".", "[.]")}


@dataclass(frozen=True)
class Progress:
    """The progress of a tuning."""

    settled: int
    problems: int
    wins: int
    """Problems won by a variant."""
    launches: int
    """Launches of this run."""
    doing: str
    seconds_left: float


@dataclass
class Spent:
    """The seconds that a tuning spent, by purpose."""

    measuring: float = 0.0
    """Verifying and timing in the driver."""
    launching: float = 0.0
    """The rest of a job: ReFrame, the cluster, and starting and ending MPI."""
    building: float = 0.0
    thinking: float = 0.0
    """Planning, deciding and storing."""


@dataclass(frozen=True)
class Session:
    """One tuning of one MPI library on one system."""

    manifest: Manifest
    goal: Goal
    site: Site
    place: Place
    database: Path
    folder: Path
    """Receives a folder for each job."""
    spent: Spent = field(default_factory=Spent)
    budget: Budget = field(default_factory=Budget)
    """What this tuning may use of a queue."""
    cuts: Cuts = field(default_factory=Cuts)
    anew: bool = False
    """What was decided before is measured again (`begin_epoch`); the winners stay until it was."""


def tune(session: Session, budget: float, show: Callable[[Progress], None]) -> Standing:
    """Measures until every problem is settled or ``budget`` seconds are spent; stores winners after each job.

    Returns the state of the tuning. If it is interrupted, the running job's results are stored at once or at
    the next start.
    """
    deadline = time.monotonic() + budget
    leftovers.take_in(session.folder, session.database)
    record_sources(session)
    try:
        standing = measure(session, deadline, show)
    except BaseException:
        with suppress(StoreError):  # the next tuning publishes it
            publish_map(session)
        raise
    publish_map(session)
    return standing


def measure(session: Session, deadline: float, show: Callable[[Progress], None]) -> Standing:
    """Runs jobs until every problem is settled or the deadline, in seconds of time.monotonic(), is there."""
    launches = 0
    while True:
        begin = time.monotonic()
        standing = decide_all(session)
        progress = report_progress(standing, launches, deadline - time.monotonic())
        show(progress)
        job = next_job(session, standing, deadline - time.monotonic())
        session.spent.thinking += time.monotonic() - begin
        if job is None:
            return standing
        try:
            run_one(session, job, progress, deadline, show)
        except KeyboardInterrupt:
            leftovers.take_in(session.folder, session.database, quiet=0.0)
            decide_all(session)
            raise
        launches += 1


def record_sources(session: Session) -> None:
    """Stores the file hashes of each variant that this tuning may verify."""
    with Store(session.database) as store, store.transaction():
        for collective in session.goal.collectives:
            for entry in session.manifest.variants_of(collective):
                store.record_sources(entry.fingerprint, entry.parts)


def report_progress(standing: Standing, launches: int, seconds_left: float) -> Progress:
    asked = standing.asked()
    return Progress(
        settled=sum(map(standing.is_settled, asked)),
        problems=len(asked),
        wins=sum(
            not standing.decisions[one.problem].winner.variant.is_native
            for one in asked
            if standing.is_settled(one)
        ),
        launches=launches,
        doing="",
        seconds_left=seconds_left,
    )


def tasks_in_turn(standing: Standing) -> Iterator[tuple[Turn, Task]]:
    """The tasks for the next launch, of the goal's sizes and of those between, in the order of their turns."""
    seen = standing.seen
    contests = plan.open_contests(seen)
    searches = plan.next_tasks(seen, contests, standing.background)
    halves = sorted(neighbours.tasks(seen, standing.decisions), key=lambda pair: pair[0])
    waiting: list[tuple[Turn, Task]] = list(halves)
    for turn, task in searches:
        while waiting and waiting[0][0] < turn:
            yield waiting.pop(0)
        yield turn, task
    yield from waiting


def next_job(session: Session, standing: Standing, left: float) -> Job | None:
    """The next job: the first tasks that fit into the remaining budget. None if there is none."""
    limit = session.budget.job_limit(session.goal.layout.nodes)
    if left <= 0 or not limit:
        return None
    possible = min(max(left, LEAST_JOB_SECONDS), cases_seconds(limit))
    most = min(left, most_seconds(session, limit))
    least = min(most, least_seconds(session, limit))
    sized = (
        (turn, replace(kept, seconds=seconds_of(session, kept)))
        for turn, task in tasks_in_turn(standing)
        if (kept := session.cuts.without(task))
    )
    fitting = ((turn, task) for turn, task in sized if task.seconds <= possible)
    chosen = plan.chunk(fitting, least, most)
    if not chosen:
        return None
    seconds = sum(task.seconds for task in chosen)
    stretch = stretch_of(seconds, least)
    return Job(
        cases=[one for task in chosen for one in task.cases],
        layout=session.goal.layout.name,
        samples=round(SAMPLES * stretch),
        max_seconds=PROBLEM_SECONDS * stretch,
        seed=session.goal.seed,
        time_limit=seconds * stretch * DOUBT + START,
        prune=True,
        most_seconds=limit,
    )


def is_long(session: Session) -> bool:
    """Whether jobs are to be as long as their limit, because each may wait in a queue."""
    return session.budget.allowance.time_limit < math.inf


def most_seconds(session: Session, limit: float) -> float:
    """The most estimated seconds of a job's cases, for a job with this time limit."""
    fitting = cases_seconds(limit)
    return fitting if is_long(session) else min(MOST_JOB_SECONDS, fitting)


def least_seconds(session: Session, limit: float) -> float:
    """The estimated seconds of cases from which a job is worth its start."""
    most = most_seconds(session, limit)
    return most if is_long(session) else min(most, LEAST_JOB_SECONDS)


def stretch_of(seconds: float, least: float) -> float:
    """By how much the samples of a job are increased to make it about ``least`` seconds long."""
    return min(MOST_STRETCH, max(1.0, least / seconds))


def time_limit(seconds: float, limit: float) -> float:
    """The time limit of a job with this estimate, which may have ``limit``, as Slurm rounds it."""
    return math.ceil(min(seconds * DOUBT + START + GRACE, limit) / MINUTE) * MINUTE


def seconds_of(session: Session, task: Task) -> float:
    """The estimated seconds of a task in a job."""
    if session.site.is_simulated:
        return SIMULATED_SECONDS * session.goal.layout.launched.size * len(task.cases)
    return task_seconds(task.seconds)


def task_seconds(calls: float) -> float:
    """Those of its samples, within the limits, and its other calls, where processors are real.

    ``calls``: the seconds of one call of each of its cases.
    """
    rounds = max(2.0, min(SAMPLES, PROBLEM_SECONDS / calls))
    return calls * (rounds + OVERHEAD_CALLS) + 0.05


def run_one(
    session: Session,
    job: Job,
    progress: Progress,
    deadline: float,
    show: Callable[[Progress], None],
) -> None:
    """Runs a job and stores its results."""

    def watch(folder: Path) -> None:
        latest = last_case(folder) or str(job.cases[0])
        show(replace(progress, doing=latest, seconds_left=deadline - time.monotonic()))

    begin = time.monotonic()
    folder = new_folder(session.folder, leftovers.LABEL)
    session.budget.spend(1, 0.0)
    with leftovers.claimed(folder, session.place, session.database):
        try:
            report = ingest.read_report(run_job(session.site, job, folder, watch), session.place)
        finally:
            held = interruptions.held(folder, time.time())
            session.budget.spend(0, session.goal.layout.nodes * held)
        waited = time.monotonic() - begin
        session.spent.measuring += report.measuring
        session.spent.launching += waited - report.measuring
        record = finished(session, job, report)
        if record:
            with Store(session.database) as store:
                store.record_run(replace(record, uuid=folder.name))


def finished(session: Session, job: Job, report: ingest.Report) -> RunRecord | None:
    """The run in a report. If the job died in a case, that case counts as failed.

    So a variant that hangs or crashes is not tried again. Of a job that was cut short by others
    (interruptions.py), or that ended in native without a word of the driver, the results count, and no case is
    blamed; None if it has none. Raises JobError if native itself hung or crashed, if the job has no results, or
    if one job after the other is cut short.
    """
    troubles = "; ".join(map(str, report.troubles))
    if report.troubles and (why := cut_short(job, report)):
        return finished_early(session, job, report, why)
    if not report.runs:
        raise JobError(f"the job measured nothing: {troubles or 'no results'}")
    (record,) = report.runs
    blamed = died(job, record, report.ends) if report.troubles else None
    if blamed and blamed.variant == NATIVE:
        if all(end.is_silent for end in report.ends):
            return finished_early(session, job, report, f"without a word of the driver: {troubles}")
        raise JobError(f"native did not finish: {blamed}: {troubles}")
    session.cuts.in_a_row = 0
    session.cuts.trouble = "" if blamed else troubles
    if blamed is None:
        return record
    failed = died_in(session, blamed, troubles)
    others = [one for one in record.results if not is_of(one, blamed)]
    return replace(record, results=(*others, failed))


def cut_short(job: Job, report: ingest.Report) -> str:
    """Why others ended the job; '' if they did not, or if a case had crashed before.

    On a node that fails, ranks may crash (SIGBUS).
    """
    why = next(filter(None, (interruptions.reason(end, job) for end in report.ends)), "")
    crashes = {end.crash for end in report.ends} & {str(one) for one in job.cases}
    return "" if crashes and report.runs and not interruptions.is_of_node(why) else why


def named(job: Job, ends: Sequence[ingest.JobEnd]) -> Case | None:
    """The case in which a rank crashed or hung, by the driver's words."""
    said = {end.crash or end.case for end in ends}
    return next((one for one in job.cases if str(one) in said), None)


def died(job: Job, record: RunRecord, ends: Sequence[ingest.JobEnd]) -> Case | None:
    """The case in which a job died: the one that the driver named, else the first without a result.

    None if the driver came to its end: cases without a result are then those that variants declined.
    """
    if any(end.is_complete for end in ends):
        return None
    return named(job, ends) or next(iter(missing(job, record.results)), None)


def is_of(result: Result, one: Case) -> bool:
    return (result.problem, result.variant.name) == (one.problem, one.variant)


def missing(job: Job, results: Sequence[Result]) -> list[Case]:
    """The cases of problems without a result, in their order: the driver writes those of a problem at its end.

    A case without a result of another problem is that of a variant that declined.
    """
    done = {result.problem for result in results}
    return [one for one in job.cases if one.problem not in done]


def finished_early(session: Session, job: Job, report: ingest.Report, why: str) -> RunRecord | None:
    """The run of a job that was cut short."""
    results = report.runs[0].results if report.runs else ()
    rest = missing(job, results)
    began = any(end.log for end in report.ends)
    first = rest[0] if rest and began else None
    session.cuts.note(why, named(job, report.ends) or first, len(results))
    if session.cuts.in_a_row >= interruptions.MOST_IN_A_ROW:
        raise JobError(
            f"{interruptions.MOST_IN_A_ROW} jobs in a row were ended before they measured anything: {why}"
        )
    return report.runs[0] if results else None


def died_in(session: Session, one: Case, detail: str) -> Result:
    """The record of a case in which a job ended."""
    family, _ = split_name(one.variant)
    (entry,) = [v for v in session.manifest.variants_of(one.collective) if v.family == family]
    variant = Variant.from_name(one.collective, one.variant, entry.fingerprint)
    return Result(variant, one.problem, one.bytes, False, f"the job ended in this case: {detail}")


def last_case(folder: Path) -> str | None:
    """The case that a running job finished last."""
    for path in folder.glob(f"stage/**/{records.FILE}"):
        for result in reversed(records.read(path).results):
            return result.case
    return None


def decide_all(session: Session) -> Standing:
    """Decides every measured problem and makes the decisions the stored winners.

    One transaction, so that another tuner's newer decisions are not overwritten by older ones.
    """
    place = session.place
    with Store(session.database) as store, store.transaction():
        if place.system in HOST_PATTERNS:
            store.describe_system(place.system, HOST_PATTERNS[place.system])
        standing = read_standing(store, session.manifest, session.goal, place)
        for collective in standing.measured():
            store.replace_winners(place, collective, *standing.stored(collective))
        if session.anew:
            return read_standing(store, session.manifest, session.goal, place, anew=True)
    return standing


def read_state(session: Session) -> Standing:
    """The state of a tuning; stores nothing."""
    if not session.database.exists():
        seen, decisions = judge(session.manifest, session.goal, {})
        return Standing(seen, decisions)
    with Store(session.database, create=False) as store:
        return read_standing(store, session.manifest, session.goal, session.place, session.anew)


def publish_map(session: Session) -> None:
    """Stores what is expected to win on layouts that were not measured, from the measurements of all."""
    with Store(session.database) as store, store.transaction():
        sources = layout_map.read_sources(
            store, session.manifest, session.place, session.goal.margin
        )
        store.replace_map(session.place, extrapolation.points(sources))
