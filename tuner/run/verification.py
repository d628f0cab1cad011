"""Verification of cases in jobs, of variants and of the MPI library's own collectives.

A wrong native call may end the launch, or leave messages behind that later calls receive. So only the first
failure of a launch is certain, and the cases after it are run in a new launch.
"""

from __future__ import annotations

import itertools
import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from collforge import records
from collforge.case import Case, parse
from collforge.home import home, new_folder
from collforge.records import Output
from collforge.tuner.run import ingest, measuring
from collforge.tuner.run.jobs import Job, Site, run_job

# Failures of a collective on a layout, after which its other cases are not run. A hang takes a minute.
ENOUGH = 3
# Cases per launch: so many that the cost of launching is small.
VARIANT_CASES, NATIVE_CASES = 20000, 4000


@dataclass
class Verdict:
    """What became of cases."""

    outcome: Counter[str] = field(default_factory=Counter)
    """verified, failed, do not apply, were not run -> the number of cases."""
    failures: list[str] = field(default_factory=list)
    """``MPI CASE: what was wrong``."""
    wrong: Counter[str] = field(default_factory=Counter)
    """Native collective -> its failures."""
    again: list[str] = field(default_factory=list)
    """For each failed case, the command that repeats it alone."""

    def add(self, other: Verdict) -> None:
        self.outcome.update(other.outcome)
        self.failures += other.failures
        self.wrong.update(other.wrong)
        self.again += other.again

    def fail(self, mpi: str, case: Case, reason: str) -> None:
        self.failures.append(f"{mpi} {case}: {reason}")
        self.again.append(f"collforge verify --mpi {mpi} {shlex.quote(str(case))}")

    def __str__(self) -> str:
        """``12 verified, 0 failed, 3 do not apply``: the first two always, other counts only if not zero."""
        kinds = ("verified", "failed", *sorted(set(self.outcome) - {"verified", "failed"}))
        return ", ".join(
            f"{self.outcome[kind]} {kind}"
            for kind in kinds
            if self.outcome[kind] or kind in kinds[:2]
        )


def verify_variants(site: Site, at: str, cases: Sequence[Case], seed: int) -> Verdict:
    """Verifies cases of variants on the layout ``at``."""
    verdict = Verdict()
    for begin in range(0, len(cases), VARIANT_CASES):
        part = cases[begin : begin + VARIANT_CASES]
        output, troubles = _launch(site, at, part, seed)
        results = output.results
        applicable = [one for one in results if one.applicable]
        wrong = [one for one in applicable if not one.verified]
        for one in wrong:
            verdict.fail(site.mpi, parse(one.case), one.detail)
        if troubles and not wrong:
            verdict.failures += [f"{site.mpi} {trouble}" for trouble in troubles]
            if len(results) < len(part):
                verdict.fail(site.mpi, part[len(results)], "the job ended in this case")
        verdict.outcome["verified"] += len(applicable) - len(wrong)
        verdict.outcome["failed"] += len(wrong)
        verdict.outcome["do not apply"] += len(results) - len(applicable)
        verdict.outcome["were not run"] += len(part) - len(results)
    return verdict


def verify_native(site: Site, at: str, cases: Sequence[Case], seed: int) -> Verdict:
    """Verifies native cases, each of another problem, on the layout ``at``."""
    verdict = Verdict()
    left = list(cases)
    while left:
        part = left[:NATIVE_CASES]
        output, troubles = _launch(site, at, part, seed)
        results = output.results
        good = sum(1 for _ in itertools.takewhile(lambda one: one.verified, results))
        verdict.outcome["verified"] += good
        left = left[good:]
        reason = results[good].detail if good < len(results) else _end_of(troubles)
        if output.job is None:
            verdict.failures.append(f"{site.mpi} {at}: {reason}")
            break
        if good == len(part):
            verdict.failures += [f"{site.mpi} {at}: {reason}"] if troubles else []
            continue
        wrong = left.pop(0)
        verdict.fail(site.mpi, wrong, reason)
        verdict.outcome["failed"] += 1
        verdict.wrong[wrong.collective] += 1
        if verdict.wrong[wrong.collective] == ENOUGH:
            others = [one for one in left if one.collective != wrong.collective]
            verdict.outcome["were not run"] += len(left) - len(others)
            left = others
    verdict.outcome["were not run"] += len(left)
    return verdict


def _end_of(troubles: Sequence[str]) -> str:
    """Why a job ended early: what the driver says, in parentheses, or else ReFrame."""
    first = troubles[0] if troubles else ""
    said = first.partition(" (")[2] if "the driver ended after" in first else ""
    return f"the job ended in this case ({said}" if said else first


def _launch(site: Site, at: str, cases: Sequence[Case], seed: int) -> tuple[Output, list[str]]:
    """The output of a job that only verifies, and what went wrong with the job, as text."""
    folder = new_folder(home() / "runs", "verify")
    job = Job(cases, at, 0, 0.0, seed, time_limit=1800.0, verify_only=True)
    report = ingest.read_report(run_job(site, job, folder), measuring.place_of(site, at))
    # ReFrame moves files to the output directory if the test passed, else they stay in the stage directory.
    paths = [path for at in ("output", "stage") for path in folder.glob(f"{at}/**/{records.FILE}")]
    output = records.read(paths[0]) if paths else Output()
    return output, [str(trouble) for trouble in report.troubles]
