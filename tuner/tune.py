"""The main job: plan, run, ingest, store, decide, until everything is settled or the budget is spent."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from collforge.db import Choice, Place, Result, RunRecord, Store, Variant
from collforge.generator import case
from collforge.generator.case import Case
from collforge.generator.manifest import Manifest
from collforge.tuner import between, ingest, plan
from collforge.tuner.between import Halfway
from collforge.tuner.plan import Contest, Goal, History, Task
from collforge.tuner.request import new_folder
from collforge.tuner.run import Job, JobError, Site, run_job
from collforge.tuner.select import Decision, Launch, by_problem, decide_together

# A job is one launch. Long enough that starting it costs little, short enough that losing one does too.
JOB_SECONDS = 75.0
SAMPLES = 10
# Sampling of one problem stops here (after at least two samples): slow ones must not starve the rest.
PROBLEM_SECONDS = 1.5
# Calls per sample round that are not samples: warm-up and verification.
OVERHEAD_CALLS = 2
# By host name the runtime tells whose winners apply (the emulated nodes are called node0, node1, ...).
HOST_PATTERNS = {"emulated": "node[0-9]+"}


@dataclass(frozen=True)
class Progress:
    """What the progress display shows."""

    settled: int
    problems: int
    wins: int
    doing: str
    seconds_left: float


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


def tune(session: Session, budget: float, show: Callable[[Progress], None]) -> dict[str, Decision]:
    """Measures until every problem is settled or ``budget`` seconds are spent; stores winners all along.

    Returns the decision of each problem. Interrupted at any moment, it has lost the running job at most:
    the next call goes on from the database.
    """
    deadline = time.monotonic() + budget
    problems = plan.problems(session.manifest, session.goal)
    while True:
        standing = decide_all(session)
        unsettled = plan.unsettled_contests(session.manifest, session.goal, standing.history)
        halves = [] if unsettled else find_halves(session, standing)
        left = deadline - time.monotonic()
        open_problems = sum(len(contest.open) for contest in unsettled)
        progress = Progress(
            settled=len(problems) - open_problems + sum(not one.open for one in halves),
            problems=len(problems) + len(halves),
            wins=sum(not d.winner.variant.is_native for d in standing.decisions.values()),
            doing="",
            seconds_left=left,
        )
        show(progress)
        tasks = (
            next_searches(session, standing, unsettled)
            if unsettled
            else between.tasks(session.manifest, session.goal, halves, standing.history)
        )
        job = next_job(session, tasks, left)
        if job is None:
            return standing.decisions
        run_one(session, job, progress, deadline, show)


def find_halves(session: Session, standing: Standing) -> list[Halfway]:
    return between.halfway(
        session.manifest, session.goal, standing.decisions, standing.history, standing.failed
    )


def next_searches(
    session: Session, standing: Standing, unsettled: Sequence[Contest]
) -> Iterator[Task]:
    return plan.next_tasks(
        session.manifest,
        session.goal,
        unsettled,
        standing.history,
        standing.failed,
        standing.elsewhere,
    )


def next_job(session: Session, tasks: Iterable[Task], left: float) -> Job | None:
    """The next launch: the first of the tasks, and only what the budget still allows."""
    sized = (Task(t.problem, t.cases, task_seconds(t)) for t in tasks)
    fitting = (task for task in sized if task.seconds <= left)
    chosen = plan.chunk(fitting, min(JOB_SECONDS, left)) if left > 0 else []
    if not chosen:
        return None
    return Job(
        cases=[one for task in chosen for one in task.cases],
        layout=session.goal.layout.name,
        samples=SAMPLES,
        max_seconds=PROBLEM_SECONDS,
        seed=session.goal.seed,
        time_limit=sum(task.seconds for task in chosen) * 3 + 60,
    )


def task_seconds(task: Task) -> float:
    """About how long a task takes in a job: its samples, within the limits, and the calls around them."""
    rounds = max(2.0, min(SAMPLES, PROBLEM_SECONDS / task.seconds))
    return task.seconds * (rounds + OVERHEAD_CALLS) + 0.05


def run_one(
    session: Session,
    job: Job,
    progress: Progress,
    deadline: float,
    show: Callable[[Progress], None],
) -> None:
    """Runs a job and stores what it found."""

    def watch(folder: Path) -> None:
        latest = last_case(folder) or str(job.cases[0])
        left = deadline - time.monotonic()
        show(Progress(progress.settled, progress.problems, progress.wins, latest, left))

    folder = new_folder(session.folder, "tune")
    report = ingest.read_report(run_job(session.site, job, folder, watch), session.place)
    with Store(session.database) as store:
        for record in finish_runs(session, job, report):
            store.record_run(record)


def finish_runs(session: Session, job: Job, report: ingest.Report) -> Iterator[RunRecord]:
    """The runs of a report; where the job died in a case, that case counts as failed.

    So a variant that hangs or crashes is not tried again. Raises JobError when native itself did, or
    when there is nothing to learn from the job.
    """
    troubles = "; ".join(map(str, report.troubles))
    if not report.runs:
        raise JobError(f"the job measured nothing: {troubles or 'no results'}")
    for record in report.runs:
        done = {f"{result.problem} {result.variant.name}" for result in record.results}
        rest = [one for one in job.cases if f"{one.problem} {one.variant}" not in done]
        refused = [one for one in rest if one.variant != case.NATIVE]
        if not report.troubles or not rest:
            yield record
        elif rest[0] not in refused:
            raise JobError(f"native did not finish: {rest[0]}: {troubles}")
        else:
            yield replace(record, results=(*record.results, died_in(session, rest[0], troubles)))


def died_in(session: Session, one: Case, detail: str) -> Result:
    """The record of a case in which a job ended."""
    family, _ = case.split_variant(one.variant)
    (entry,) = [v for v in session.manifest.variants_of(one.collective) if v.family == family]
    variant = Variant.from_name(one.collective, one.variant, entry.fingerprint)
    return Result(variant, one.problem, one.bytes, False, f"the job ended in this case: {detail}")


def last_case(folder: Path) -> str | None:
    """The case that a running job finished last."""
    for path in folder.glob("stage/**/results.jsonl"):
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        for line in reversed(lines):
            if '"case":"' in line:
                return line.split('"case":"', 1)[1].split('"', 1)[0]
    return None


@dataclass(frozen=True)
class Standing:
    """What the database says of a session's problems."""

    history: dict[str, list[Launch]]
    """The launches of each problem so far, but for failed variants: a wrong result is often a fast one."""
    elsewhere: dict[str, list[Launch]]
    """Those of other layouts of the same system and MPI library."""
    decisions: dict[str, Decision]
    failed: frozenset[Variant]
    """Variants with a failed verification; they are not measured again."""


def decide_all(session: Session) -> Standing:
    """Decides every measured problem and makes the decisions the stored winners.

    One transaction, so that another tuner's newer decisions are not overwritten by older ones.
    """
    place = session.place
    with Store(session.database) as store, store.transaction():
        if place.system in HOST_PATTERNS:
            store.describe_system(place.system, HOST_PATTERNS[place.system])
        history = by_problem(store.measurements(place))
        others = [p for p in store.places() if replace(p, layout=place.layout) == place != p]
        elsewhere = by_problem(one for other in others for one in store.measurements(other))
        verified = store.verified(place.mpi, place.mpi_version)
        failed = frozenset(one.variant for one in store.failures(place.mpi, place.mpi_version))
        decisions: dict[str, Decision] = {}
        for collective in session.goal.collectives:
            entry = session.manifest.collective(collective)
            choices = []
            measured = plan.measured_problems(history, collective)
            for contest in plan.contests(session.manifest, measured):
                decision = decide_contest(session, contest, history, verified)
                decisions.update((problem.problem, decision) for problem in contest)
                choices.append(as_choice(entry.choice_bytes(contest[0].bytes), decision))
            if choices:
                store.replace_winners(place, collective, choices)
    return Standing(without(history, failed), without(elsewhere, failed), decisions, failed)


def without(history: History, failed: frozenset[Variant]) -> dict[str, list[Launch]]:
    """The launches as if these variants had not been in them."""
    return {
        problem: [{v: s for v, s in launch.items() if v not in failed} for launch in launches]
        for problem, launches in history.items()
    }


def decide_contest(
    session: Session,
    contest: Sequence[Case],
    history: History,
    verified: frozenset[Variant],
) -> Decision:
    """The one decision on all problems of a contest among the variants that exist and are verified."""
    goal = session.goal
    current = {v.fingerprint for v in plan.applicable(session.manifest, goal, contest[0])}
    return decide_together(
        contest[0].collective,
        [history[problem.problem] for problem in contest],
        {variant for variant in verified if variant.fingerprint in current},
        min_launches=goal.min_launches,
        margin=goal.margin,
        native_serves=not session.manifest.collective(contest[0].collective).hybrid,
    )


def as_choice(nbytes: int, decision: Decision) -> Choice:
    won = decision.winner
    return Choice(nbytes, won.variant, won.ratio, won.low, won.high, won.launches)
