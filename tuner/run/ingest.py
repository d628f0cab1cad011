"""Reads a ReFrame run report and the results of its jobs.

One job of the timing driver is one launch and gives one run record. Its uuid is that of ReFrame's
test case (session:run:case), so that reading a report twice stores its records once.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from collforge import case, launch_log, records
from collforge.db import Result, RunRecord, Start
from collforge.errors import CollforgeError
from collforge.launch_log import LaunchLog
from collforge.layout import from_name
from collforge.place import Place
from collforge.records import CaseResult, Job
from collforge.toolchain.libraries import PREFIX_VARIABLE
from collforge.variant import Variant

Json = Mapping[str, Any]

EARLY_PHASES = ("setup", "compile", "compile_complete", "compile_wait", "run")
"""ReFrame's phases until a job is submitted."""
ERRORS_KEPT = 20000
"""Bytes of a job's standard error that are read."""

_NAMED = r"collforge-driver: rank \d+: (?:{}) (\S+:\S+)"
_CRASHES = "bad memory access in|floating point exception in"
_CRASHED = re.compile(_NAMED.format(_CRASHES))
_SAID = re.compile(_NAMED.format(f"{_CRASHES}|abort in|no end, within the time limit, of"))


class BadReport(CollforgeError):
    """The report was not written by a ReFrame version that Collforge knows."""


class NothingRan(CollforgeError):
    """ReFrame ran no test. It counts that as a success and writes no report."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(
            f"ReFrame ran nothing ({path}: {why}); check that --system and --mpi name a partition "
            "of the ReFrame configuration and that `collforge doctor` finds nothing missing"
        )


class Incomplete(CollforgeError):
    """Jobs ran, but some of the requested cases were not measured."""

    def __init__(self, report: Report) -> None:
        listed = "".join(f"\n  {trouble}" for trouble in report.troubles)
        super().__init__(f"not everything was measured; mend this and run it again:{listed}")


@dataclass(frozen=True)
class Trouble:
    """A failure in a test case, as a message for the user."""

    test: str
    what: str

    def __str__(self) -> str:
        return f"{self.test}: {self.what}"


@dataclass(frozen=True)
class Cost:
    """The costs of a call other than its time; not stored."""

    cpu: float
    """Seconds of processor time, summed over all ranks."""
    memory: int
    """Bytes of temporaries on the rank that has most."""


Costs = Mapping[tuple[str, Variant], Sequence[Cost]]
"""(problem, variant) -> one cost for each launch that measured it."""


@dataclass(frozen=True)
class JobEnd:
    """How a job ended."""

    scheduler: str
    log: LaunchLog | None
    """None: it did not begin."""
    errors: str = ""
    """The end of its standard error, with that of the scheduler."""
    reason: str = ""
    """ReFrame's reason for the test's failure."""
    was_submitted: bool = True
    """False: ReFrame failed before, for example because the scheduler refused the job."""
    is_complete: bool = False
    """Whether the driver wrote its last record."""

    @property
    def case(self) -> str | None:
        """The case in which a rank crashed or hung, if the driver could say so (runtime/bench/report.c)."""
        said = _SAID.search(self.errors)
        return said[1] if said else None

    @property
    def crash(self) -> str | None:
        """The case in which a rank crashed as none does because others stop: those make it end, or abort."""
        said = _CRASHED.search(self.errors)
        return said[1] if said else None

    @property
    def is_silent(self) -> bool:
        """Whether neither the driver nor a time limit tells why it ended; memory may have run out."""
        return "collforge-driver:" not in self.errors and "timed out" not in self.reason


@dataclass(frozen=True)
class Report:
    """All measurements and failures of a ReFrame session."""

    runs: tuple[RunRecord, ...]
    troubles: tuple[Trouble, ...]
    costs: Costs
    measuring: float = 0.0
    """Seconds that the driver spent verifying and timing, in the jobs that finished."""
    ends: tuple[JobEnd, ...] = ()


@dataclass(frozen=True)
class _Measured:
    """The contents of one job's records, up to the first invalid one."""

    job: Job | None
    results: tuple[Result, ...] = ()
    costs: tuple[Cost, ...] = ()
    """One for each result, or empty."""
    trouble: str = ""
    measuring: float = 0.0
    """Seconds; 0 for a job that did not finish."""
    is_complete: bool = False
    """Whether the driver wrote its last record."""


def read_report(path: Path, place: Place) -> Report:
    """The runs and failures in a report that ReFrame's --report-file wrote; `place` is their database key.

    The place has the names that the site requested. What a job records about itself is compared with them.

    The results of a passing test case are in its output directory, others in its stage directory. Of a job
    that was killed, the complete results are kept. Raises NothingRan and BadReport.
    """
    report = _load(path)
    session = report["session_info"]
    runs: list[RunRecord] = []
    troubles: list[Trouble] = []
    costs: dict[tuple[str, Variant], list[Cost]] = {}
    ends: list[JobEnd] = []
    measuring = 0.0
    for test in _tests(report):
        directory = test["outputdir" if test["result"] == "pass" else "stagedir"]
        if test["result"] != "pass":
            troubles.append(Trouble(test["display_name"], _failure(test, directory)))
        if test["fixture"] or test["result"] == "skip" or not directory:
            continue
        found = _read_records(Path(directory) / records.FILE, place)
        end = _job_end(test, Path(directory), found.is_complete)
        ends.append(end)
        if found.trouble:
            troubles.append(Trouble(test["display_name"], found.trouble))
        measuring += found.measuring
        if found.job:
            started = float(test["job_submit_time"] or session["time_start_unix"])
            record = _run_record(found.job, found.results, place, test["uuid"], started)
            record = replace(record, reframe_version=session["version"])
            runs.append(_launched_by(record, end.log))
        for result, cost in zip(found.results, found.costs):
            costs.setdefault((result.problem, result.variant), []).append(cost)
    return Report(tuple(runs), tuple(troubles), costs, measuring, tuple(ends))


def _job_end(test: Json, directory: Path, is_complete: bool) -> JobEnd:
    log = launch_log.read(directory)
    errors = b""
    with suppress(OSError):
        errors = (directory / str(test.get("job_stderr"))).read_bytes()[-ERRORS_KEPT:]
    words = errors.decode(errors="replace")
    reason = str(test["fail_reason"] or "")
    was_submitted = test["fail_phase"] not in EARLY_PHASES
    # The report names that of the partition, which a job inside an allocation does not need.
    scheduler = (log and log.scheduler) or str(test.get("scheduler") or "local")
    return JobEnd(scheduler, log, words, reason, was_submitted, is_complete)


def read_leftovers(folder: Path, place: Place, started: float) -> RunRecord | None:
    """The results that a killed job wrote below its folder; None if there are none. ``started``: Unix time."""
    for path in sorted(folder.glob(f"**/{records.FILE}")):
        found = _read_records(path, place)
        if found.job and found.results:
            record = _run_record(found.job, found.results, place, folder.name, started)
            return _launched_by(record, launch_log.read(path.parent))
    return None


def _launched_by(record: RunRecord, log: LaunchLog | None) -> RunRecord:
    if log is None:
        return record
    start = replace(record.start, launcher=log.launcher)
    return replace(record, start=start, scheduler_job=log.job, seconds=log.seconds)


def require_complete(report: Report) -> None:
    """Raises Incomplete if anything went wrong."""
    if report.troubles:
        raise Incomplete(report)


def _load(path: Path) -> Json:
    try:
        report: Json = json.loads(path.read_text(encoding="utf-8"))
        version = str(report["session_info"]["data_version"])
    except FileNotFoundError:
        raise NothingRan(path, "no report was written") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadReport(
            f"{path} is no ReFrame report ({error!r}); see that the disk is not full, and run again"
        ) from error
    if not version.startswith("4."):
        raise BadReport(
            f"{path} is a report of format {version}, Collforge reads 4; install ReFrame 4.10"
        )
    if all(test["fixture"] or test["result"] == "skip" for test in _tests(report)):
        raise NothingRan(path, "every test was skipped, or none selected")
    return report


def _tests(report: Json) -> Iterator[Json]:
    """The test cases of all runs. ReFrame counts every retry and rerun in a session as a run."""
    for run in report["runs"]:
        yield from run["testcases"]


def _failure(test: Json, directory: str | None) -> str:
    reasons = {"fail_deps": "a test that it needs failed", "skip": "skipped"}
    reason = str(test["fail_reason"] or reasons.get(test["result"], test["result"]))
    phase = f"failed in phase {test['fail_phase']}: " if test["fail_phase"] else ""
    return phase + reason.splitlines()[0] + (f" (see {directory})" if directory else "")


def _read_records(path: Path, place: Place) -> _Measured:
    output = records.read(path)
    trouble = output.damage or _mismatch(output.job, place)
    results: dict[tuple[str, Variant], Result] = {}
    costs: list[Cost] = []
    # If the header does not match the place, the records were measured elsewhere and are not used.
    of_place = output.job if output.job and not _mismatch(output.job, place) else None
    for number, record in enumerate(output.results if of_place else (), 2):
        try:
            result = _result(record, place)
        except (ValueError, CollforgeError) as error:
            trouble = f"{path}, line {number}: {error}"
            break
        if (result.problem, result.variant) in results:
            trouble = f"{path}, line {number}: case {record.case} a second time"
            break
        if record.applicable:
            results[result.problem, result.variant] = result
            if record.cpu is not None:
                costs.append(Cost(record.cpu, record.memory))
    ended = output.end is not None and not trouble
    if not ended:
        incomplete = f"incomplete: the job ended after {len(results)} results"
        trouble = f"{trouble}; {incomplete}" if trouble else incomplete
    measuring = math.fsum(output.end.seconds.values()) if output.end else 0.0
    is_complete = output.end is not None
    return _Measured(
        of_place, tuple(results.values()), tuple(costs), trouble, measuring, is_complete
    )


def _mismatch(job: Job | None, place: Place) -> str:
    """Why a job's results do not belong to a place (database key); '' if they do.

    A job without a first record belongs to no place.
    """
    if job is None:
        return "no record of the job"
    if job.layout != place.layout:
        return f"layout {job.layout} ran, not {place.layout}: run it again"
    if job.ranks != from_name(job.layout).launched.size:
        return (
            f"{job.ranks} ranks ran for layout {job.layout}: the launcher and the MPI "
            "library do not fit together"
        )
    if job.library_version != place.mpi_version:
        return (
            f"the driver ran with {job.library_version}, but {place.mpi} is "
            f"{place.mpi_version}: give jobs and this command the same modules and "
            f"{PREFIX_VARIABLE}{place.mpi.upper()}"
        )
    return ""


def _result(record: CaseResult, place: Place) -> Result:
    """The result in a record. Raises ValueError if it is invalid, CollforgeError if its case string is."""
    one = case.parse(record.case)
    if one.layout != place.layout:
        raise ValueError(f"case {one} is not of layout {place.layout}")
    if not all(0 < sample < math.inf for sample in record.samples):
        raise ValueError(f"case {one} has a sample that is no time")
    return Result(
        variant=Variant.from_name(one.collective, one.variant, record.fingerprint),
        problem=one.problem,
        bytes=one.bytes,
        verified=record.verified,
        detail=record.detail,
        samples=record.samples,
        late=record.late,
        start_errors=record.start_errors,
    )


def _run_record(
    job: Job, results: tuple[Result, ...], place: Place, uuid: str, started: float
) -> RunRecord:
    """``started``: Unix time."""
    return RunRecord(
        uuid=uuid,
        place=place,
        nodes=from_name(job.layout).launched.nodes,
        ranks=job.ranks,
        started=datetime.fromtimestamp(started, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        tool_version=job.version,
        reframe_version="",
        hosts=job.hosts,
        seed=job.seed,
        results=results,
        start=Start(pmi=job.pmi, switches=job.switches),
    )
