"""The ReFrame checks, run by ReFrame on this machine, and their components."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from conftest import some

from collforge import layout, records, reframe_checks
from collforge.generator import manifest
from collforge.records import CaseResult, End, Job, Output
from collforge.reframe_checks import launchers, results
from collforge.reframe_checks.results import Range
from collforge.toolchain import libraries
from collforge.tuner.run.jobs import STRICT

REFRAME = Path(sys.executable).with_name("reframe")
SLURM = reframe_checks.SETTINGS.with_name("slurm_example.py")
LIBRARIES = ("openmpi", "mpich")
SECONDS = 300

SITE = """
site_configuration = {{
    "systems": [{{
        "name": "site", "hostnames": [".*"], "prefix": "{prefix}",
        "partitions": [{{
            "name": "nodes", "scheduler": "local", "launcher": "local",
            "environs": ["openmpi", "gnu"], "extras": {extras},
        }}],
    }}],
    "environments": [{{"name": "openmpi"}}, {{"name": "gnu"}}],
    "logging": [{{"handlers": [], "handlers_perflog": []}}],
}}
"""


@dataclass(frozen=True)
class Session:
    """The result of a ReFrame run: exit code, output, and the test cases without fixtures."""

    code: int
    said: str
    tests: list[dict[str, Any]]

    @property
    def test(self) -> dict[str, Any]:
        (only,) = self.tests
        return only

    @property
    def perfvalues(self) -> dict[str, Any]:
        return {key.split(":")[-1]: value[0] for key, value in self.test["perfvalues"].items()}


def reframe(
    arguments: Sequence[str], env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(REFRAME), *arguments],
        env={**os.environ, "RFM_COLORIZE": "0", **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def run_checks(
    folder: Path,
    system: str,
    pattern: str,
    config: Path = reframe_checks.SETTINGS,
    checks: Path = reframe_checks.CHECKS,
    **settings: Any,
) -> Session:
    check = pattern.strip("^").split(".")[0]
    report = folder / "report.json"
    command = ["-C", str(config), "-c", str(checks), "-R", "--system", system]
    command += ["-n", pattern, "--prefix", str(folder), "--report-file", str(report)]
    command += ["--exec-policy", "serial", *STRICT, "-r"]
    for name, value in settings.items():
        command += ["-S", f"{check}.{name}={value}"]
    done = reframe(command)
    tests = []
    if report.exists():
        (run,) = json.loads(report.read_text())["runs"]
        tests = [test for test in run["testcases"] if not test["fixture"]]
    return Session(done.returncode, done.stdout + done.stderr, tests)


def write_lines(path: Path, lines: Sequence[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


# ---- ReFrame runs ------------------------------------------------------------------------------


@pytest.mark.either
def test_a_variant_is_verified(tmp_path: Path, mpi: str) -> None:
    session = run_checks(tmp_path, f"local:{mpi}", "^Correctness.*=allreduce:hierarchical$")
    assert session.code == 0, session.said
    given = Path(session.test["outputdir"], "cases.txt").read_text().splitlines()
    assert len(given) > 20
    assert session.perfvalues["cases_verified"] >= len(given)


@pytest.mark.either
def test_given_cases_are_measured(tmp_path: Path, mpi: str) -> None:
    given = ["bcast:hierarchical[lane_algorithm=native,segment_bytes=0]@3+1,bytes=64"]
    path = write_lines(tmp_path / "given", [*given, "allgather:native@3+1,bytes=64"])
    session = run_checks(
        tmp_path,
        f"local:{mpi}",
        "^MeasureCases",
        cases=path,
        layout="3+1",
        samples=3,
        verify_only=False,
    )
    assert session.code == 0, session.said
    output = records.read(Path(session.test["outputdir"], records.FILE))
    assert output.job
    assert (output.job.ranks, output.job.layout) == (4, "3+1")
    assert set(given) < {one.case for one in output.results}
    assert all(len(one.samples) == 3 for one in output.results)
    assert session.perfvalues["cases_run"] == len(output.results)
    assert session.perfvalues["best_over_native"] > 0


@pytest.mark.wide
def test_verifying_takes_no_time(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "given", ["bcast:native@2x2,bytes=64"])
    session = run_checks(tmp_path, "local:openmpi", "^MeasureCases", cases=path, verify_only=True)
    (result,) = records.read(Path(session.test["outputdir"], records.FILE)).results
    assert (result.samples, result.verified) == ((), True)


def test_singletons_are_no_pass(tmp_path: Path) -> None:
    """A launcher that starts separate programs of one rank, as with a wrong PMI, must fail the check."""
    config = tmp_path / "site.py"
    config.write_text(SITE.format(prefix=tmp_path, extras={"layout": "2x2"}))
    path = write_lines(tmp_path / "given", ["bcast:native@1x1,bytes=64"])
    session = run_checks(tmp_path, "site", "^MeasureCases", config, cases=path)
    assert session.code == 1
    assert session.test["environ"] == "openmpi"
    assert session.test["fail_phase"] == "sanity"
    assert "4 processes were asked for, but the driver saw 1" in session.test["fail_reason"]


def test_the_drivers_complaint_is_the_reason(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "given", ["bcast:nonesuch@2x2,bytes=64"])
    session = run_checks(tmp_path, "local:openmpi", "^MeasureCases", cases=path)
    assert session.code == 1
    reason = session.test["fail_reason"]
    assert "the driver left no results.jsonl (No such file or directory) (collforge-d" in reason
    assert "nonesuch" in reason


def test_nothing_runs_without_cases(tmp_path: Path) -> None:
    """ReFrame counts that as a success, even with --warn-as-error, and writes no report."""
    session = run_checks(tmp_path, "local:openmpi", "^MeasureCases")
    assert session.code == 0
    assert "Ran 0/0 test case(s)" in session.said
    assert not session.tests
    assert not (tmp_path / "report.json").exists()


@pytest.mark.wide
def test_hybrid_collectives_against_drop_in_ones(tmp_path: Path) -> None:
    """The driver gets the database. If it cannot be read, the driver says so and uses native."""
    path = write_lines(tmp_path / "given", ["hybrid_bcast:native@2x2,bytes=64"])
    missing = tmp_path / "missing.db"
    session = run_checks(
        tmp_path, "local:openmpi", "^MeasureCases", cases=path, samples=1, drop_in_by=missing
    )
    assert session.code == 0, session.said
    ran = Path(session.test["outputdir"])
    assert "--drop-in" in (ran / "rfm_job.sh").read_text()
    assert str(missing) in (ran / "rfm_job.err").read_text()


@pytest.mark.parametrize(
    ("name", "phase", "fix"),
    [("map:0.1.1.0", "run", "--system local"), ("4by2", "setup", "NODESxRANKS (4x2)")],
)
def test_a_layout_that_cannot_be_had_names_the_fix(
    tmp_path: Path, name: str, phase: str, fix: str
) -> None:
    path = write_lines(tmp_path / "given", [f"bcast:native@{name},bytes=64"])
    session = run_checks(tmp_path, "emulated:openmpi", "^MeasureCases", cases=path, layout=name)
    assert session.code == 1
    assert session.test["fail_phase"] == phase
    assert fix in session.test["fail_reason"]


@pytest.mark.parametrize(("margin", "passes"), some([(-1e9, False), (1e9, True)]))
def test_guideline_counts_violations(tmp_path: Path, margin: float, passes: bool) -> None:
    session = run_checks(
        tmp_path,
        "local:openmpi",
        "^Guideline.*=bcast$",
        sizes="64,4096",
        samples=1,
        launches=2,
        margin=margin,
    )
    assert (session.code == 0) == passes, session.said
    # Three families at two sizes.
    assert session.perfvalues == {"violations": 0 if passes else 6}
    found = session.said.count("times as fast as native")
    assert found == session.perfvalues["violations"]
    folder = Path(session.test["outputdir" if passes else "stagedir"])
    assert len(list(folder.glob("results.*.jsonl"))) == 2


def expected(seconds: float, speed_up: float) -> dict[str, Any]:
    spread = {"spread": 0.05, "launches": 3, "df": 8}
    return {"seconds": {"mean": seconds, **spread}, "speed_up": {"mean": speed_up, **spread}}


@pytest.mark.parametrize(("seconds", "speed_up"), some([(1e3, 1e9), (1e-9, 1e-9), (None, None)]))
def test_regression_times_the_winners_of_this_place(
    tmp_path: Path, seconds: float | None, speed_up: float | None
) -> None:
    given = seconds and speed_up and expected(seconds, speed_up)
    slower, smaller = int(seconds == 1e-9), int(speed_up == 1e9)
    here = {"system": "local", "mpi": "openmpi", "layout": "2x2", "collective": "allreduce"}
    here["mpi_version"] = libraries.find("openmpi").first_line
    rows = [
        {**here, "bytes": 64, "variant": "hierarchical", "references": given},
        {**here, "bytes": 128, "variant": "native"},
        {**here, "bytes": 64, "variant": "other", "mpi": "mpich"},
        {**here, "bytes": 64, "variant": "other", "layout": "4x2"},
        {**here, "bytes": 64, "variant": "other", "system": "emulated"},
        {**here, "bytes": 256, "variant": "", "evidence": "undecided"},
        {**here, "bytes": 64, "variant": "other", "layout": "2x2x4"},
    ]
    # Another version's times say nothing of this one.
    rows.append({**rows[0], "mpi_version": "Open MPI v0", "references": expected(1e-9, 1e9)})
    path = write_lines(tmp_path / "winners.json", [json.dumps(rows)])
    session = run_checks(tmp_path, "local:openmpi", "^Regression", winners=path, samples=1)
    assert session.perfvalues == {"slower_winners": slower, "smaller_gains": smaller}, session.said
    assert (session.code == 0) == (slower + smaller == 0)
    folder = Path(session.test["stagedir" if slower + smaller else "outputdir"])
    case = "allreduce:hierarchical@2x2,bytes=64,type=double,op=sum"
    assert (folder / "cases.txt").read_text().splitlines() == [case]
    for line in (folder / "findings.txt").read_text().splitlines() if slower + smaller else ():
        assert line.startswith(f"{case}: ") and line in session.said
    assert ("not judged" in session.said) == (given is None)


@pytest.mark.wide
def test_regression_times_a_collective_without_data(tmp_path: Path) -> None:
    here: dict[str, Any] = {"system": "local", "mpi": "openmpi", "layout": "2x2", "bytes": 1}
    here["mpi_version"] = libraries.find("openmpi").first_line
    row = {**here, "collective": "barrier", "variant": "hierarchical"}
    path = write_lines(tmp_path / "winners.json", [json.dumps([row])])
    session = run_checks(tmp_path, "local:openmpi", "^Regression", winners=path, samples=1)
    assert session.code == 0, session.said
    given = Path(session.test["outputdir"], "cases.txt").read_text().splitlines()
    assert given == ["barrier:hierarchical@2x2,bytes=1"]


def test_regression_refuses_winners_of_another_version(tmp_path: Path) -> None:
    row = {"system": "local", "mpi": "openmpi", "mpi_version": "Open MPI v0", "layout": "2x2"}
    row |= {"collective": "barrier", "variant": "hierarchical"}
    path = write_lines(tmp_path / "winners.json", [json.dumps([{**row, "bytes": 1}])])
    session = run_checks(tmp_path, "local:openmpi", "^Regression", winners=path, samples=1)
    assert session.code == 1
    assert "the winners are of Open MPI v0, not " in session.test["fail_reason"]


def test_regression_without_winners_is_skipped_with_a_message(tmp_path: Path) -> None:
    session = run_checks(tmp_path, "local:openmpi", "^Regression")
    assert session.test["result"] == "skip"
    assert "collforge winners --format json" in session.said


def test_a_plain_run_selects_correctness_and_guidelines(made: manifest.Manifest) -> None:
    command = ["-C", str(reframe_checks.SETTINGS), "-c", str(reframe_checks.CHECKS), "-R", "-l"]
    done = reframe([*command, *STRICT, "--system", "local"])
    for variant in made.variants:
        assert f"Correctness %variant={variant.collective}:{variant.family} " in done.stdout
    for entry in (one for one in made.collectives if not one.hybrid):
        assert f"Guideline %collective={entry.name} " in done.stdout
    assert "MeasureCases" not in done.stdout
    assert done.stdout.count("~local:mpich+mpich 'driver") == done.stdout.count(
        "~local:openmpi+openmpi 'driver"
    )


# ---- settings and launchers --------------------------------------------------------------------


def show_config(config: Path, system: str, **env: str) -> dict[str, Any]:
    done = reframe(["-C", str(config), "--system", system, "--show-config"], env)
    assert done.returncode == 0, done.stdout + done.stderr
    shown: dict[str, Any] = json.loads(done.stdout)
    return shown


@pytest.mark.parametrize(
    ("config", "system"),
    [
        (reframe_checks.SETTINGS, "local"),
        (reframe_checks.SETTINGS, "emulated"),
        (SLURM, "cluster"),
    ],
)
def test_settings_have_a_partition_for_each_library(config: Path, system: str) -> None:
    (described,) = show_config(config, system)["systems"]
    partitions = {part["name"]: part for part in described["partitions"]}
    assert set(partitions) >= set(LIBRARIES)
    for mpi in LIBRARIES:
        assert partitions[mpi]["environs"] == [mpi]
        layout.from_name(partitions[mpi]["extras"]["layout"])


def test_reframe_writes_below_home(tmp_path: Path) -> None:
    shown = show_config(reframe_checks.SETTINGS, "local", COLLFORGE_HOME=str(tmp_path))
    folder = str(tmp_path / "reframe")
    assert shown["systems"][0]["prefix"] == folder
    assert shown["general"][0]["report_file"].startswith(folder)
    assert shown["storage"][0]["sqlite_db_file"].startswith(folder)
    assert shown["logging"][0]["handlers"][0]["name"].startswith(folder)
    assert (tmp_path / "reframe" / "reframe.log").exists()


def test_the_environment_sets_the_rails() -> None:
    env = {"COLLFORGE_RAILS": "3", "COLLFORGE_RATE": "1gbit", "COLLFORGE_RAIL_MODEL": "hashed"}
    (system,) = show_config(reframe_checks.SETTINGS, "emulated", **env)["systems"]
    extras = system["partitions"][0]["extras"]
    rails = {"rails": 3, "rate": "1gbit", "rail_model": "hashed"}
    assert extras == {"layout": "4x2", "places_ranks": True, **rails}


@dataclass(frozen=True)
class FakeJob:
    num_tasks: int
    num_tasks_per_node: int | None = None
    num_cpus_per_task: int | None = None


def launcher_command(name: str, job: FakeJob) -> str:
    made: str = launchers.backends.getlauncher(name)().run_command(job)
    return made


def test_the_emulated_launcher_makes_the_cluster_of_the_job() -> None:
    name = launchers.emulated("openmpi", 3, "1gbit", "hashed")
    command = launcher_command(name, FakeJob(6, 2))
    assert command.endswith(
        "-m collforge cluster run --mpi openmpi --layout 3x2 "
        "--rails 3 --rate 1gbit --rail-model hashed --"
    )


def test_a_check_tells_the_emulated_launcher_its_layout() -> None:
    launcher = launchers.backends.getlauncher(launchers.emulated("mpich", 2, "100mbit", "tied"))()
    launcher.layout = "3+1+2"
    assert "--mpi mpich --layout 3+1+2 --rails 2" in launcher.run_command(FakeJob(6, 2))


def test_a_launcher_is_registered_once() -> None:
    assert launchers.local("openmpi") == launchers.local("openmpi")


def test_a_launcher_without_its_library_fails_the_check() -> None:
    name = launchers.local("nonesuch")
    with pytest.raises(launchers.JobError, match="unknown MPI library 'nonesuch'"):
        launcher_command(name, FakeJob(4))


# ---- judging launches --------------------------------------------------------------------------

JOB = Job("0.1.0", "Open MPI v4.1.4", 4, "2x2", ("here", "there"), 7)
END = End(2, 0)


def record(variant: str, *samples: float, **other: Any) -> CaseResult:
    case = f"bcast:{variant}@2x2,bytes=64"
    return replace(CaseResult(case, "", True, True, "", samples, 0), **other)


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (Output(JOB, (record("native"),), END), ""),
        (Output(JOB, (record("a", applicable=False, verified=False),), END), ""),
        (Output(), "left no results"),
        (Output(damage="line 1: a rumour"), "line 1: a rumour"),
        (Output(replace(JOB, ranks=1), (), END), "4 processes were asked for"),
        (Output(replace(JOB, layout="1x4"), (), END), "lie as in 1x4"),
        (Output(JOB, (record("a"),)), "ended after 1 results, the last of bcast:a@2x2"),
        (Output(JOB, (), End(0, 0)), "no case"),
        (Output(JOB, (), End(2, 1)), "1 of 2 cases failed"),
        (
            Output(JOB, (record("a", verified=False, detail="byte 3"),), END),
            "bcast:a@2x2,bytes=64: byte 3",
        ),
    ],
)
def test_a_fault_says_why(output: Output, reason: str) -> None:
    fault = results.fault(output, 4, "2x2")
    assert bool(fault) == bool(reason)
    assert reason in fault


def test_ratios_are_paired_by_round() -> None:
    native = record("native", 2.0, 20.0, 2.0)
    one = Output(JOB, (native, record("a", 1.0, 10.0, 4.0), record("b", 1.0, 1.0, 1.0)), END)
    two = Output(JOB, (native, record("a", 4.0, 40.0, 4.0), record("c", 1.0)), END)
    assert results.ratios(one) == {"bcast:a@2x2,bytes=64": 2.0, "bcast:b@2x2,bytes=64": 2.0}
    assert results.ratio_ranges([one, two]) == {"bcast:a@2x2,bytes=64": Range(0.5, 2.0)}
    assert results.best_ratio(two) == 2.0
    assert results.best_ratio(Output(JOB, (native,), END)) == 1.0
