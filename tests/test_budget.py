"""Tuning within limits: several layouts, the budgets of a queue, and jobs that others end."""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
from support import execute

from collforge import launch_log
from collforge.case import parse
from collforge.db import Store
from collforge.errors import CollforgeError
from collforge.launch_log import LaunchLog
from collforge.layout import LayoutError
from collforge.tuner.cli import queue_options
from collforge.tuner.cli.commands import tune
from collforge.tuner.decide.plan import Task
from collforge.tuner.run import interruptions
from collforge.tuner.run.budget import SHORTEST, SHORTEST_PAID, Allowance, Budget, cases_seconds
from collforge.tuner.run.ingest import JobEnd
from collforge.tuner.run.jobs import GRACE, Job


def asked(layout: str | None, cover: str | None = None) -> list[str | None]:
    return tune.asked_layouts(argparse.Namespace(layout=layout, cover=cover, profile=None))


def test_layouts_in_a_list() -> None:
    assert asked("2x32, 4x32,2x32") == ["2x32", "4x32"]
    assert asked(None) == asked("4x2", cover="8x2") == [None], "the default is the system's"
    for text in ("2x2,", "2x2,,4x2", "2x2;4x2"):
        with pytest.raises(LayoutError):
            asked(text)


def options(*words: str) -> Allowance:
    parser = argparse.ArgumentParser()
    queue_options.add_options(parser)
    return queue_options.allowance(parser.parse_args(words))


def test_options() -> None:
    assert options() == Allowance() and not options().is_bounded
    assert options("--time-limit", "30m", "--max-jobs", "3") == Allowance(1800.0, 3, math.inf)
    assert options("--node-hours", "0.5").node_seconds == 1800.0
    assert options("--time-limit", "30m").is_bounded, "then the usual budget would cut jobs short"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--max-jobs", "0"], "1 job or more"),
        (["--time-limit", "62s"], "63s or more"),
        (["--time-limit", "soon"], "no"),
        (["--node-hours", "0"], "more than 0"),
        (["--node-hours", "nan"], "more than 0"),
    ],
)
def test_limits_that_allow_nothing(words: list[str], said: str) -> None:
    with pytest.raises(CollforgeError, match=said) as raised:
        options(*words)
    assert "\n" not in str(raised.value)


def test_no_job_may_exceed_what_is_left() -> None:
    budget = Budget(Allowance(time_limit=600.0, jobs=3, node_seconds=4 * 730.0))
    assert budget.job_limit(nodes=4) == 600.0
    budget.spend(1, 4 * 200.0)
    assert budget.job_limit(nodes=4) == 480.0, (
        "the scheduler ends it at its limit, in whole minutes"
    )
    assert budget.job_limit(nodes=2) == 600.0
    budget.spend(1, 4 * 411.0)
    assert budget.job_limit(nodes=4) == 0.0, "119 s are no two minutes"
    assert budget.job_limit(nodes=2) == 180.0
    budget.spend(1, 0.0)
    assert budget.job_limit(nodes=2) == 0.0, "it was the last job"
    assert str(budget) == "3 of 3 jobs, 0.679 of 0.811 node-hours"
    assert str(Budget(jobs=1)) == "1 job, 0 node-hours"
    assert cases_seconds(SHORTEST) > 0 == cases_seconds(10.0)


def test_parts_add_up() -> None:
    whole = Allowance(jobs=4, node_seconds=1000.0)
    assert whole.part(0.25, nodes=2) == Allowance(math.inf, 1, 250.0)
    assert whole.part(0.01, nodes=2) == Allowance(math.inf, 1, 2 * SHORTEST_PAID), (
        "enough for a job"
    )
    assert whole.part(0.01, nodes=100).node_seconds == 1000.0, "never more than there is"
    assert whole.part(1.0, nodes=2) == whole
    assert Allowance().part(0.3, 2) == Allowance()


NATIVE, OTHER = parse("bcast@2x2,bytes=8"), parse("bcast:hierarchical@2x2,bytes=8")
JOB = Job([NATIVE, OTHER], "2x2", 7, 1.0, 7, time_limit=100.0)
LIMITED = Job([NATIVE, OTHER], "2x2", 7, 1.0, 7, time_limit=100.0, most_seconds=90.0)


@pytest.mark.parametrize(
    ("scheduler", "log", "errors", "said"),
    [
        ("squeue", None, "", "before it began"),
        ("squeue", LaunchLog(1), "", "its script was ended"),
        ("squeue", LaunchLog(1), "*** JOB 5 ON n1 CANCELLED AT 1 DUE TO PREEMPTION ***", "PREEMPT"),
        ("squeue", LaunchLog(1, status=1, seconds=9), "srun: error: Node failure on n2", "n2"),
        ("pbs", LaunchLog(1, status=143, seconds=400), "", "time limit of 400 s"),
        # The program's own fault: also if srun then ends the other ranks.
        ("squeue", LaunchLog(1, status=139, seconds=9), "*** STEP 5.0 ON n1 CANCELLED ***", ""),
        ("squeue", LaunchLog(1, status=139, seconds=400), "", ""),
        ("squeue", LaunchLog(1, status=0, seconds=9), "", ""),
        ("local", LaunchLog(1), "", ""),
        ("local", None, "", ""),
    ],
)
def test_who_ended_a_job(scheduler: str, log: LaunchLog | None, errors: str, said: str) -> None:
    why = interruptions.reason(JobEnd(scheduler, log, errors, "job timed out (3s > 2s)"), JOB)
    assert (said in why) if said else why == ""


def test_a_local_job_may_reach_the_limit_of_the_user_only() -> None:
    end = JobEnd("local", LaunchLog(1), reason="JobError: job timed out (3s > 2s)")
    assert JOB.scheduler_limit == 100 + GRACE and not interruptions.reason(end, JOB), "it hung"
    assert LIMITED.scheduler_limit == 90 and "time limit of 90 s" in interruptions.reason(
        end, LIMITED
    )
    assert not interruptions.reason(JobEnd("local", LaunchLog(1), reason="it crashed"), LIMITED)


def test_nodes_are_held_from_begin_to_end(tmp_path: Path) -> None:
    assert interruptions.held(tmp_path, 1000.0) == 0.0, "it only waited"
    (tmp_path / "stage" / "job").mkdir(parents=True)
    log = tmp_path / "stage" / "job" / launch_log.FILE
    log.write_text('{"began":900}\n')
    assert interruptions.held(tmp_path, 1000.0) == 100.0, "until it was gone"
    log.write_text('{"began":900}\n{"status":0,"seconds":30}\n')
    assert interruptions.held(tmp_path, 1000.0) == 30.0


def test_a_refused_job_is_an_error_and_no_cut() -> None:
    end = JobEnd("squeue", None, reason="sbatch: invalid partition", was_submitted=False)
    assert interruptions.reason(end, JOB) == ""


def test_a_case_is_not_asked_for_ever() -> None:
    cuts, task = interruptions.Cuts(), Task(NATIVE, (NATIVE, OTHER, NATIVE.by("full_lane")), 1.0)
    cuts.note("preempted", OTHER, results=1)
    assert cuts.without(task) == task, "once says nothing"
    for _ in range(interruptions.MOST_CUTS - 1):
        cuts.note("preempted", OTHER, results=0)
    kept = cuts.without(task)
    assert kept is not None and kept.cases == (NATIVE, NATIVE.by("full_lane"))
    assert cuts.without(Task(NATIVE, (NATIVE, OTHER), 1.0)) is None, "nothing left to compare"
    assert cuts.left_out() == ["bcast@2x2,bytes=8 hierarchical"]
    assert cuts.in_a_row == interruptions.MOST_CUTS - 1


def test_a_script_says_how_its_launch_ended(tmp_path: Path) -> None:
    lines = [*launch_log.first_line("squeue", "srun"), "(exit 3)", *launch_log.last_line()]
    env = {"SLURM_JOB_ID": "7", "SLURM_MPI_TYPE": 'p"m\\i2', "SLURM_JOB_NODELIST": "n[1-2],m"}
    words = ["env", "--chdir", str(tmp_path), *(f"{k}={v}" for k, v in env.items())]
    done = execute([*words, "bash", "-c", "\n".join(lines)], timeout=20)
    assert done.returncode == 3, "the launcher's"
    log = launch_log.read(tmp_path)
    assert log is not None and (log.status, log.scheduler, log.launcher) == (3, "squeue", "srun")
    assert (log.job, log.pmi, log.nodes) == ("7", "pmi2", "n[1-2],m")
    execute([*words, "bash", "-c", lines[0]], timeout=20)
    begun = launch_log.read(tmp_path)
    assert begun is not None and begun.status is None and begun.began > 0
    assert launch_log.read(tmp_path / "none") is None


def command(database: Path, *words: str) -> list[str]:
    asked = ["--system", "local", "--mpi", "openmpi", "--collective", "bcast", "--sizes", "1KiB"]
    return [sys.executable, "-m", "collforge", "tune", *asked, "--db", str(database), *words]


def runs(database: Path) -> Counter[str]:
    """The stored launches of each layout."""
    with Store(database) as store:
        found = {(p.layout, one.run) for p in store.places() for one in store.measurements(p)}
    return Counter(layout for layout, _ in found)


@pytest.mark.wide
def test_a_tuning_keeps_its_number_of_jobs(tmp_path: Path) -> None:
    database = tmp_path / "t.db"
    words = command(database, "--layout", "2x1,1x2", "--max-jobs", "2")
    done = execute(words, timeout=280)
    assert done.returncode == 0, done.stderr
    assert "used 2 of 2 jobs, 0.0" in done.stdout
    assert runs(database) == {"2x1": 1, "1x2": 1}, "the layouts share the jobs"
    for layout in ("2x1", "1x2"):
        assert f"openmpi {layout}: 0 of 1 problems decided (0%); open: bcast 1 KiB" in done.stdout
    assert "to continue" in done.stdout


@pytest.mark.slow
def test_a_dry_run_submits_nothing(tmp_path: Path) -> None:
    database = tmp_path / "t.db"
    words = command(database, "--layout", "2x1,1x2", "--max-jobs", "2", "--dry-run")
    done = execute(words, timeout=280)
    assert "in total 2 jobs" in done.stdout and "nothing was submitted" in done.stdout
    assert not database.exists()


@pytest.mark.slow
def test_a_tuning_keeps_its_node_hours(tmp_path: Path) -> None:
    # Enough for the shortest job and 2 s more; too many launches for a decision.
    hours = 2 * (SHORTEST_PAID + 2.0) / 3600
    database = tmp_path / "t.db"
    done = execute(
        command(database, "--layout", "2x1", "--launches", "90", "--node-hours", f"{hours:.5f}"),
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    ((jobs, used),) = re.findall(r"used (\d+) jobs?, ([\d.]+) of", done.stdout)
    assert runs(database) == {"2x1": int(jobs)} and 1 <= int(jobs) <= 12
    assert 0 < float(used) < hours
    assert "open: bcast 1 KiB" in done.stdout


def test_what_does_not_fit_into_a_job_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A case has options, so it is no key."""
    one = parse("bcast@4x2,bytes=1048576,type=double")
    tasks = [(None, Task(one, (one,), 1000.0)), (None, Task(one, (one,), 1e-6))]
    monkeypatch.setattr(queue_options, "tasks_in_turn", lambda _: tasks)
    session = SimpleNamespace(budget=Budget(Allowance(time_limit=120.0)))
    ((case, limit),) = queue_options.too_long(session, None)  # type: ignore[arg-type]
    assert (case, limit > 1000) == (one, True)
