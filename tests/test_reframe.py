"""The ReFrame checks, run by ReFrame on this machine, and their components."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from conftest import some

from collforge import layout, records, reframe_checks
from collforge.generator import manifest
from collforge.reframe_checks import launchers
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
    done = reframe(command, {"RFM_ENABLE_RESULTS_STORAGE": "no"})
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
    assert len(session.test["findings"]) == found
    folder = Path(session.test["outputdir" if passes else "stagedir"])
    assert len(list(folder.glob("results.*.jsonl"))) == 2


def expected(seconds: float, speed_up: float) -> dict[str, Any]:
    spread = {"spread": 0.05, "launches": 3, "df": 8}
    return {"seconds": {"mean": seconds, **spread}, "speed_up": {"mean": speed_up, **spread}}


def run_winners(folder: Path, rows: Sequence[Mapping[str, Any]]) -> Session:
    """Each row of the file is a winner of this place, unless it says otherwise."""
    here = {"system": "local", "mpi": "openmpi", "layout": "2x2", "variant": "hierarchical"}
    here["mpi_version"] = libraries.find("openmpi").first_line
    text = json.dumps({"rows": [{**here, **row} for row in rows]})
    path = write_lines(folder / "winners.json", [text])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLLFORGE_WINNERS", str(path) if rows else "")
        return run_checks(folder, "local:openmpi", "^Winner", **{"timed.samples": 1})


@pytest.mark.parametrize(
    ("given", "wrong"),
    some([(expected(1e3, 1e9), {"speed_up"}), (expected(1e-9, 1e-9), {"time"}), (None, set())]),
)
def test_each_winner_of_this_place_is_a_test_with_references(
    tmp_path: Path, given: dict[str, Any] | None, wrong: set[str]
) -> None:
    row: dict[str, Any] = {"collective": "allreduce", "bytes": 64}
    rows = [
        {**row, "references": given},
        {**row, "bytes": 128, "variant": "native"},
        {**row, "variant": "other", "mpi": "mpich"},
        {**row, "variant": "other", "layout": "4x2"},
        {**row, "variant": "other", "system": "emulated"},
        {**row, "bytes": 256, "variant": "", "evidence": "undecided"},
        {**row, "variant": "other", "layout": "2x2x4"},
    ]
    # Another version's times say nothing of this one.
    rows.append({**rows[0], "mpi_version": "Open MPI v0", "references": expected(1e-9, 1e9)})
    session = run_winners(tmp_path, rows)
    test = session.test
    name, case = test["display_name"], "allreduce:hierarchical@2x2,bytes=64,type=double,op=sum"
    assert (name, test["case"]) == ("Winner %collective=allreduce %bytes=64 %layout=2x2", case)
    found = {key.split(":")[-1]: value for key, value in test["perfvalues"].items()}
    assert min(value[0] for value in found.values()) > 0
    then = (given["seconds"]["mean"] * 1e6, given["speed_up"]["mean"]) if given else (0, 0)
    assert (found["time"][1], found["speed_up"][1]) == pytest.approx(then)
    assert {name for name, value in found.items() if value[-1] == "fail"} == wrong
    assert (session.code == 0) == (not wrong), session.said
    assert (f"{case} is not judged" in session.said) == (given is None)


@pytest.mark.wide
def test_a_winner_without_data_is_timed(tmp_path: Path) -> None:
    session = run_winners(tmp_path, [{"collective": "barrier", "bytes": 1}])
    assert session.code == 0, session.said
    assert session.test["case"] == "barrier:hierarchical@2x2,bytes=1"


@pytest.mark.parametrize(
    ("rows", "code", "said"),
    some(
        [
            ([], 0, "collforge winners --json FILE"),
            (
                [{"collective": "barrier", "bytes": 1, "layout": "4x2"}],
                1,
                "no winners on layout 2x2, but on 4x2: -S Winner.timed.layout=4x2",
            ),
            ([{"collective": "barrier"}], 1, "missing required field `bytes`"),
            (
                [{"collective": "barrier", "bytes": 1, "mpi_version": "Open MPI v0"}],
                1,
                "the winners are of Open MPI v0, not ",
            ),
        ],
        fast=2,
    ),
)
def test_why_no_winner_is_judged(
    tmp_path: Path, rows: list[dict[str, Any]], code: int, said: str
) -> None:
    session = run_winners(tmp_path, rows)
    assert session.code == code, session.said
    assert said in session.said
    assert "SKIP" in session.said and not session.test["perfvalues"]


@pytest.mark.wide
def test_tags_select_checks() -> None:
    """-t is a pattern; given twice, both must match."""
    command = ["-C", str(reframe_checks.SETTINGS), "-c", str(reframe_checks.CHECKS), "-R", "-l"]
    command += [*STRICT, "--system", "emulated"]
    for tags, wanted in (
        (["nightly", "4_nodes"], {"Winner"}),
        (["acceptance"], {"Correctness", "Guideline"}),
    ):
        done = reframe([*command, *(word for tag in tags for word in ("-t", tag))])
        found = {line.split()[1] for line in done.stdout.splitlines() if line.startswith("- ")}
        assert found == wanted, done.stdout


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
    """Also its database of results, and its perflog, in which the example of a site has the same columns."""
    shown = show_config(reframe_checks.SETTINGS, "local", COLLFORGE_HOME=str(tmp_path))
    example = show_config(SLURM, "cluster")
    folder = str(tmp_path / "reframe")
    assert shown["systems"][0]["prefix"] == folder
    assert shown["general"][0]["report_file"].startswith(folder)
    assert shown["storage"][0]["sqlite_db_file"].startswith(folder)
    assert shown["storage"][0]["enable"] and example["storage"][0]["enable"]
    assert shown["logging"][0]["handlers"][0]["name"].startswith(folder)
    logs = [one["logging"][0]["handlers_perflog"] for one in (shown, example)]
    assert logs[0] == logs[1] and "check_perf_ref" in logs[0][0]["format"]
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
