"""Reads a ReFrame run report and the results its jobs left.

One job of the timing driver is one launch, hence one run record. Its uuid is that of ReFrame's
test case (session:run:case), so reading a report twice yields the same records and stores them
once.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from collforge.db import Place, Result, RunRecord, Variant
from collforge.errors import CollforgeError
from collforge.generator import case, layout
from collforge.runtime.libraries import PREFIX_VARIABLE, flavor_of

RESULTS = "results.jsonl"
"""The file of the driver's JSON lines in the directory of a test case."""

DRIVER = 1
"""The format of the driver's lines that is read here."""

Json = Mapping[str, Any]


class BadReport(CollforgeError):
    """The report is not one of a ReFrame that Collforge knows."""


class NothingRan(CollforgeError):
    """ReFrame ran no test, which it counts as a success and writes no report of."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(
            f"ReFrame ran nothing ({path}: {why}); check that --system and --mpi name a partition "
            "of the ReFrame configuration and that `collforge doctor` finds nothing missing"
        )


class Incomplete(CollforgeError):
    """Jobs ran, but not all that was asked for was measured."""

    def __init__(self, report: Report) -> None:
        listed = "".join(f"\n  {trouble}" for trouble in report.troubles)
        super().__init__(f"not everything was measured; mend this and run it again:{listed}")


@dataclass(frozen=True)
class Trouble:
    """What went wrong in a test case, for the user to read."""

    test: str
    what: str

    def __str__(self) -> str:
        return f"{self.test}: {self.what}"


@dataclass(frozen=True)
class Cost:
    """What a call costs beside its time; not stored."""

    cpu: float
    """Seconds of processor time, of all ranks together."""
    memory: int
    """Bytes of temporaries on the rank that has most."""


Costs = Mapping[tuple[str, Variant], Sequence[Cost]]
"""By problem and variant, one for each launch that measured them."""


@dataclass(frozen=True)
class Report:
    """Everything that was measured in a ReFrame session, and what went wrong."""

    runs: tuple[RunRecord, ...]
    troubles: tuple[Trouble, ...]
    costs: Costs
    measuring: float = 0.0
    """Seconds that the driver verified and timed, of the jobs that ended."""


@dataclass
class _Job:
    """What could be read of one job's lines, up to the first that makes no sense."""

    header: Json = field(default_factory=dict)
    results: list[Result] = field(default_factory=list)
    costs: list[Cost] = field(default_factory=list)
    """Of each result, or none at all."""
    trouble: str = ""
    measuring: float = 0.0
    """Seconds; 0 of a job that did not end."""


def read_report(path: Path, place: Place) -> Report:
    """The runs, at `place`, and troubles of the report that ReFrame's --report-file wrote.

    A place bears the names that the site asked for; what a job says of itself is only held against them.

    The results of a passing test case are in its output directory, those of any other in its stage
    directory; of a job that was killed, the complete results are kept.
    Raises NothingRan and BadReport.
    """
    report = _load(path)
    session = report["session_info"]
    runs: list[RunRecord] = []
    troubles: list[Trouble] = []
    costs: dict[tuple[str, Variant], list[Cost]] = {}
    measuring = 0.0
    for test in _tests(report):
        directory = test["outputdir" if test["result"] == "pass" else "stagedir"]
        if test["result"] != "pass":
            troubles.append(Trouble(test["display_name"], _failure(test, directory)))
        if test["fixture"] or test["result"] == "skip" or not directory:
            continue
        job = _read_job(Path(directory) / RESULTS, place)
        if job.trouble:
            troubles.append(Trouble(test["display_name"], job.trouble))
        measuring += job.measuring
        if job.results:
            started = float(test["job_submit_time"] or session["time_start_unix"])
            runs.append(_run_record(job, place, test["uuid"], started, session["version"]))
        for result, cost in zip(job.results, job.costs):
            costs.setdefault((result.problem, result.variant), []).append(cost)
    return Report(tuple(runs), tuple(troubles), costs, measuring)


def read_leftovers(folder: Path, place: Place, started: float) -> RunRecord | None:
    """What a job that was killed had written below its folder; None: nothing. ``started``: Unix time."""
    for path in sorted(folder.glob(f"**/{RESULTS}")):
        job = _read_job(path, place)
        if job.results:
            return _run_record(job, place, folder.name, started, "")
    return None


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
    """The test cases of all runs: ReFrame counts every retry and rerun in a session as one more."""
    for run in report["runs"]:
        yield from run["testcases"]


def _failure(test: Json, directory: str | None) -> str:
    reasons = {"fail_deps": "a test that it needs failed", "skip": "skipped"}
    reason = str(test["fail_reason"] or reasons.get(test["result"], test["result"]))
    phase = f"failed in phase {test['fail_phase']}: " if test["fail_phase"] else ""
    return phase + reason.splitlines()[0] + (f" (see {directory})" if directory else "")


def _read_job(path: Path, place: Place) -> _Job:
    job = _Job()
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        job.trouble = f"no {RESULTS}: {error}"
        return job
    ended = False
    for number, line in enumerate(lines, 1):
        try:
            ended = _take(job, json.loads(line), place)
        except (ValueError, KeyError, TypeError, CollforgeError) as error:
            job.trouble = f"{path}, line {number}: {type(error).__name__}: {error}; "
            break
    if not ended:
        job.trouble += f"incomplete: the job ended after {len(job.results)} results"
    return job


def _take(job: _Job, record: Json, place: Place) -> bool:
    """Adds one line to a job, or raises an error and adds nothing. True for a job's last line."""
    kind = record["record"]
    if kind == "job":
        _check_header(record, place)
        job.header = record
    elif kind == "result":
        if record["applicable"]:
            job.results.append(_result(record, job))
            if "cpu" in record:
                job.costs.append(Cost(float(record["cpu"]), int(record["memory"])))
    elif kind == "end":
        job.measuring = math.fsum(record.get("seconds", {}).values())
    else:
        raise ValueError(f"unknown record {kind!r}")
    return bool(kind == "end")


def _check_header(header: Json, place: Place) -> None:
    if header["driver"] != DRIVER:
        raise ValueError(f"the driver writes format {header['driver']}, not {DRIVER}: rebuild it")
    if header["ranks"] != layout.from_name(header["layout"]).size:
        raise ValueError(
            f"{header['ranks']} ranks ran for layout {header['layout']}: the launcher and the MPI "
            "library do not fit together"
        )
    if header["layout"] != place.layout:
        raise ValueError(f"layout {header['layout']} ran, not {place.layout}: run it again")
    flavor = flavor_of(place.mpi_version)
    if header["mpi"] != flavor and flavor != "other":
        raise ValueError(
            f"a driver built for {header['mpi']} ran, but {place.mpi} is {place.mpi_version}: "
            f"build it with `collforge build --mpi {place.mpi}`"
        )
    if header["library_version"] != place.mpi_version:
        raise ValueError(
            f"the driver ran with {header['library_version']}, but {place.mpi} is "
            f"{place.mpi_version}: give jobs and this command the same modules and "
            f"{PREFIX_VARIABLE}{place.mpi.upper()}"
        )


def _result(record: Json, job: _Job) -> Result:
    one = case.parse(record["case"])
    samples = tuple(map(float, record["samples"]))
    named = (record["collective"], record["variant"], job.header["layout"])
    if (one.collective, one.variant, one.layout) != named:
        raise ValueError(f"case {one} is not of {named}")
    if not all(0 < sample < math.inf for sample in samples):
        raise ValueError(f"case {one} has a sample that is no time")
    result = Result(
        variant=Variant.from_name(one.collective, one.variant, record["fingerprint"]),
        problem=one.problem,
        bytes=one.bytes,
        verified=bool(record["verified"]),
        detail=record["detail"],
        samples=samples,
        late=int(record["late"]),
        start_errors=tuple(map(float, record.get("start_errors", ()))),
    )
    if any(
        (known.problem, known.variant) == (result.problem, result.variant) for known in job.results
    ):
        raise ValueError(f"case {one} a second time")
    return result


def _run_record(
    job: _Job, place: Place, uuid: str, started: float, reframe_version: str
) -> RunRecord:
    header = job.header
    return RunRecord(
        uuid=uuid,
        place=place,
        nodes=layout.from_name(header["layout"]).nodes,
        ranks=header["ranks"],
        started=datetime.fromtimestamp(started, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        tool_version=header["version"],
        reframe_version=reframe_version,
        hosts=tuple(header["hosts"]),
        seed=header["seed"],
        results=tuple(job.results),
    )
