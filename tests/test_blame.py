"""Which case is blamed when a job ends early."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from support import execute

from collforge.case import parse
from collforge.db import Result, RunRecord, Store
from collforge.generator.manifest import Manifest
from collforge.launch_log import LaunchLog
from collforge.place import Place
from collforge.tuner.run.ingest import JobEnd, Report, Trouble
from collforge.tuner.run.interruptions import MOST_IN_A_ROW, Cuts
from collforge.tuner.run.jobs import Job, JobError
from collforge.tuner.run.tune import Session, died, finished
from collforge.variant import Variant

TOP = Path(__file__).resolve().parent.parent
GROUP = [parse(f"bcast:{name}@2x2,bytes=8") for name in ("native", "hierarchical", "full_lane")]
NEXT = parse("bcast:native@2x2,bytes=16")
JOB = Job([*GROUP, NEXT], "2x2", 7, 1.0, 7, time_limit=100.0)
CRASH = "\n".join(
    [
        "[node1:07] *** Process received signal ***",
        f"collforge-driver: rank 3: bad memory access in {GROUP[2]}",
        f"collforge-driver: rank 1: abort in {GROUP[1]}",
    ]
)


def record(*cases: object) -> RunRecord:
    """A run with results of these cases."""
    ones = [parse(str(one)) for one in cases]
    results = tuple(
        Result(Variant.from_name(one.collective, one.variant, "f"), one.problem, one.bytes, True)
        for one in ones
    )
    place = Place("local", "openmpi", "Open MPI 4", "2x2")
    return RunRecord("u", place, 2, 4, "2026-01-01T00:00:00Z", "0", "4", ("h",), 7, results)


def test_the_case_that_the_driver_names_is_blamed() -> None:
    # A group's results come at its end, so the first case without one is native.
    assert died(JOB, record(), [JobEnd("local", None, CRASH)]) == GROUP[2]
    hang = CRASH.replace("bad memory access in", "no end, within the time limit, of")
    assert died(JOB, record(), [JobEnd("local", None, hang)]) == GROUP[2]


def test_without_a_name_the_first_case_without_a_result_is_blamed() -> None:
    assert died(JOB, record(*GROUP), [JobEnd("local", None, "Killed")]) == NEXT
    setting_up = "collforge-driver: rank 0: abort in setting up"
    assert died(JOB, record(), [JobEnd("local", None, setting_up)]) == GROUP[0]
    unknown = CRASH.replace("2x2", "4x2")
    assert died(JOB, record(*GROUP), [JobEnd("local", None, unknown)]) == NEXT


def test_nothing_is_blamed_for_what_another_case_did_wrong() -> None:
    # The driver came to its end; a variant without a result declined.
    end = JobEnd("local", None, "", "wrong results", is_complete=True)
    assert died(JOB, record(GROUP[0], GROUP[1], NEXT), [end]) is None
    assert died(JOB, record(*JOB.cases), [replace(end, is_complete=False)]) is None


def a_session(made: Manifest) -> Session:
    """What `finished` reads of one."""
    return cast(Session, SimpleNamespace(manifest=made, cuts=Cuts()))


def a_report(run: RunRecord, end: JobEnd) -> Report:
    return Report((run,), (Trouble("MeasureCases", "it ended"),), {}, ends=(end,))


def faults(run: RunRecord | None) -> list[str]:
    return [one.variant.name for one in run.results if not one.verified] if run else []


TIME_LIMIT = "slurmstepd: error: *** JOB 7 ON node0 CANCELLED AT 2026-01-01 DUE TO TIME LIMIT ***"


def test_a_crash_is_blamed_though_the_scheduler_ended_the_job(made: Manifest) -> None:
    session = a_session(made)
    end = JobEnd("squeue", LaunchLog(1, status=143, seconds=99), f"{CRASH}\n{TIME_LIMIT}")
    assert faults(finished(session, JOB, a_report(record(), end))) == ["full_lane"]
    assert not session.cuts.of_case
    # Ranks may abort because others are gone; the problem is asked again, without this variant in the end.
    later = replace(end, errors="\n".join(reversed(end.errors.splitlines())))
    assert faults(finished(session, JOB, a_report(record(), later))) == ["full_lane"]
    aborted = replace(end, errors=end.errors.replace("bad memory access", "abort"))
    for _ in range(2):
        assert finished(session, JOB, a_report(record(), aborted)) is None
    assert session.cuts.left_out() == [f"{GROUP[1].problem} full_lane"]


def test_a_node_that_fails_makes_ranks_crash(made: Manifest) -> None:
    session = a_session(made)
    words = f"{CRASH}\nsrun: error: Node failure on n2"
    end = JobEnd("squeue", LaunchLog(1, status=135, seconds=9), words)
    assert finished(session, JOB, a_report(record(), end)) is None
    assert session.cuts.of_case == {f"{GROUP[2].problem} full_lane": 1}
    assert (session.cuts.ended, session.cuts.last[:12]) == (1, "Node failure")


def test_a_variant_that_declined_is_not_blamed(made: Manifest) -> None:
    session = a_session(made)
    job = replace(JOB, cases=[*JOB.cases, NEXT.by("full_lane")])
    silent = JobEnd("local", LaunchLog(1, status=137), "Killed")
    for declined in (1, 2):
        measured = [one for number, one in enumerate(GROUP) if number != declined]
        run = finished(session, job, a_report(record(*measured), silent))
        assert run is not None and not faults(run)
    assert session.cuts.left_out() == [f"{NEXT.problem} native"]


def test_what_was_wrong_in_a_whole_job_is_kept_for_the_user(made: Manifest) -> None:
    """As where no rank has room for a shared window: all variants decline, and nothing is blamed."""
    session = a_session(made)
    end = JobEnd("local", LaunchLog(1), "", "declined", is_complete=True)
    assert finished(session, JOB, a_report(record(GROUP[0]), end)) is not None
    assert session.cuts.trouble.endswith("it ended")


def test_a_case_has_one_result(made: Manifest) -> None:
    run = finished(
        a_session(made), JOB, a_report(record(*GROUP), JobEnd("local", LaunchLog(1), CRASH))
    )
    assert faults(run) == ["full_lane"]
    assert run is not None and len(run.results) == len(GROUP)


def test_native_is_asked_again_unless_it_is_named(made: Manifest) -> None:
    session = a_session(made)
    silent = a_report(record(), JobEnd("local", LaunchLog(1, status=137), "Killed"))
    for _ in range(MOST_IN_A_ROW - 1):
        assert finished(session, JOB, silent) is None
    assert session.cuts.left_out() == [f"{GROUP[0].problem} native"]
    with pytest.raises(JobError, match="in a row"):
        finished(session, JOB, silent)
    own = replace(silent.ends[0], errors="collforge-driver: no memory for 7 bytes")
    with pytest.raises(JobError, match="native did not finish"):
        finished(session, JOB, a_report(record(), own))
    crash = CRASH.replace(str(GROUP[2]), str(GROUP[0]))
    with pytest.raises(JobError, match="native did not finish"):
        finished(session, JOB, a_report(record(), JobEnd("local", LaunchLog(1), crash)))


@pytest.mark.slow
def test_a_tuning_goes_on_after_a_variant_that_crashes(tmp_path: Path) -> None:
    package = Path(shutil.copytree(TOP / "collforge", tmp_path / "collforge"))
    for folder in (
        "db",
        "generator",
        "reframe_checks",
        "runtime",
        "templates",
        "toolchain",
        "tuner",
    ):
        shutil.copytree(TOP / folder, package / folder, dirs_exist_ok=True)
    chain = package / "runtime/src/lane/algorithms/chain.c"
    begin = "int cf_chain_bcast(const struct cf_lane_call *call) {\n"
    assert begin in chain.read_text()
    chain.write_text(
        "#include <stdlib.h>\n" + chain.read_text().replace(begin, begin + "    abort();\n")
    )
    database = tmp_path / "t.db"
    command = [sys.executable, "-m", "collforge", "tune", "--system", "local", "--mpi", "openmpi"]
    command += ["--layout", "2x1", "--collective", "bcast", "--sizes", "1KiB", "--budget", "40s"]
    env = ["env", f"PYTHONPATH={tmp_path}", f"COLLFORGE_HOME={tmp_path / 'home'}"]
    done = execute([*env, *command, "--db", str(database)], cwd=tmp_path, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    with Store(database) as store:
        (place,) = store.places()
        failed = store.failures(place.mpi, place.mpi_version)
        measured = store.measurements(place)
    assert failed, "the search tried no chain"
    assert all("lane_algorithm=chain" in one.variant.parameters for one in failed)
    assert all(one.detail.startswith("the job ended in this case") for one in failed)
    assert any(not one.variant.is_native for one in measured)
