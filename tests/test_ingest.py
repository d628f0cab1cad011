"""Reading the reports of ReFrame and the records of the timing driver, also of failed jobs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from collforge import launch_log
from collforge.db import Start, Store
from collforge.place import Place
from collforge.tuner.run.ingest import (
    BadReport,
    Incomplete,
    NothingRan,
    Report,
    read_report,
    require_complete,
)
from collforge.variant import Variant

RECORDED = Path(__file__).parent / "data" / "reframe-4.10.4-report.json"
"""A real report, shortened: tests a passed, b timed out, c left no results; a build failed, a test was
skipped."""

SESSION = "dad7d12e-ab5a-4971-9ed4-2dde47deb5fa"
LIBRARY = "Open MPI v4.1.4, package: Debian OpenMPI"
PLACE = Place("emulated", "ours", LIBRARY, "4x2")
PROBLEM = "allreduce@4x2,bytes=1024,type=double,op=sum"
RING = Variant("allreduce", "full_lane", "lane_algorithm=ring,segment_bytes=65536", "ab12")

JOB = {
    "record": "job",
    "driver": 1,
    "version": "0.1.0",
    "library_version": LIBRARY,
    "fingerprint": "0f0f",
    "ranks": 8,
    "layout": "4x2",
    "hosts": ["node0", "node1", "node2", "node3"],
    "switches": ["s0.s1", "s0.s1", "s0.s2", ""],
    "pmi": "pmix",
    "seed": 7,
}
END = {"record": "end", "cases": 3, "failed": 0}

Line = dict[str, Any]


def case(variant: str, fingerprint: str, **changes: object) -> Line:
    """A result line of the driver."""
    return {
        "record": "result",
        "case": PROBLEM.replace("@", f":{variant}@"),
        "collective": "allreduce",
        "variant": variant,
        "fingerprint": fingerprint,
        "applicable": True,
        "verified": True,
        "detail": "",
        "samples": [1.2e-4, 1.3e-4],
        "late": 1,
        **changes,
    }


NATIVE_LINE = case("native", "")
RING_LINE = case(RING.name, "ab12")
INAPPLICABLE = case(
    "hierarchical", "cd34", applicable=False, verified=False, detail="declined", samples=[]
)
LINES = [JOB, NATIVE_LINE, RING_LINE, INAPPLICABLE, END]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the recorded report and the results of its two jobs that ran."""
    text = RECORDED.read_text().replace("@PREFIX@", str(tmp_path))
    (tmp_path / "report.json").write_text(text)
    write(tmp_path, LINES)
    killed = tmp_path / "stage/emulated/openmpi/builtin/measure_e2087ebb/results.jsonl"
    killed.parent.mkdir(parents=True)
    killed.write_text(json.dumps(JOB) + "\n" + json.dumps(NATIVE_LINE) + '\n{"record":"result","ca')
    return tmp_path


def write(folder: Path, lines: list[Line]) -> None:
    """Replaces the results of the passed job by `lines`."""
    path = folder / "output/emulated/openmpi/builtin/measure_8d9d48c1/results.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def read(folder: Path) -> Report:
    return read_report(folder / "report.json", PLACE)


def edit(folder: Path, change: Callable[[Any], object]) -> None:
    """Changes the report in place."""
    path = folder / "report.json"
    report = json.loads(path.read_text())
    change(report)
    path.write_text(json.dumps(report))


def test_a_job_is_a_run_with_its_provenance(folder: Path) -> None:
    run = read(folder).runs[0]
    assert run.uuid == f"{SESSION}:0:1"
    assert run.place == PLACE, "under the site's name of the library"
    assert (run.nodes, run.ranks, run.seed) == (4, 8, 7)
    assert run.started == "2026-11-21T05:57:03Z"
    assert (run.tool_version, run.reframe_version) == ("0.1.0", "4.10.4")
    assert run.hosts == ("node0", "node1", "node2", "node3")
    assert run.start == Start("", "pmix", ("s0.s1", "s0.s1", "s0.s2", ""))


def test_a_run_knows_its_launcher(folder: Path) -> None:
    passed = folder / "output/emulated/openmpi/builtin/measure_8d9d48c1"
    (passed / launch_log.FILE).write_text('{"began":1,"launcher":"srun","scheduler":"local"}\n')
    report = read(folder)
    assert report.runs[0].start.launcher == "srun"
    assert report.ends[0].scheduler == "local", (
        "a job inside an allocation, whatever the report says"
    )


def test_every_applicable_case_is_a_result(folder: Path) -> None:
    native, ring = read(folder).runs[0].results
    assert (native.variant, ring.variant) == (Variant("allreduce"), RING)
    assert (ring.problem, ring.bytes) == (PROBLEM, 1024)
    assert (ring.verified, ring.samples, ring.late) == (True, (1.2e-4, 1.3e-4), 1)


def test_uneven_blocks_are_a_problem_of_their_own(folder: Path) -> None:
    names = {"collective": "alltoallv", "variant": "native"}
    line = {**NATIVE_LINE, **names, "case": "alltoallv:native@4x2,bytes=1024,uneven,seed=3"}
    write(folder, [JOB, line, END])
    (result,) = read(folder).runs[0].results
    assert (result.problem, result.bytes) == ("alltoallv@4x2,bytes=1024,uneven,seed=3", 1024)


def test_a_wrong_result_is_kept_as_such(folder: Path) -> None:
    wrong = case(RING.name, "ab12", verified=False, detail="rank 3, byte 8: 7 instead of 6")
    write(folder, [JOB, wrong, END])
    (result,) = read(folder).runs[0].results
    assert (result.verified, result.detail) == (False, wrong["detail"])


def test_troubles_say_what_happened_to_each_test(folder: Path) -> None:
    troubles = [str(trouble) for trouble in read(folder).troubles]
    stage = folder / "stage/emulated/openmpi/builtin"
    for number, expected in enumerate(
        [
            f"job timed out (3.175856s > 3.0s) (see {stage}/measure_e2087ebb)",
            "incomplete: the job ended after 1 results",
            "kind=c %b.bad=0: failed in phase sanity: sanity error",
            "the driver left no results.jsonl",
            "build %bad=1 ~emulated:openmpi+builtin: failed in phase compile_wait: build error",
            "kind=a %b.bad=1: a test that it needs failed",
            "kind=b %b.bad=1: a test that it needs failed",
            "kind=c %b.bad=1: a test that it needs failed",
            "skipper: skipped",
        ]
    ):
        assert expected in troubles[number]
    assert len(troubles) == 9


def test_a_killed_job_keeps_its_complete_results(folder: Path) -> None:
    _, killed = read(folder).runs
    assert killed.uuid == f"{SESSION}:0:2"
    assert [result.variant for result in killed.results] == [Variant("allreduce")]


def test_a_passing_test_without_an_end_is_incomplete(folder: Path) -> None:
    write(folder, LINES[:-1])
    report = read(folder)
    assert len(report.runs[0].results) == 2
    assert "incomplete: the job ended after 2 results" in str(report.troubles[0])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"record": "rumour"}, "unknown record 'rumour'"),
        ({"case": "allreduce"}, "record"),
        (case("native", ""), "a second time"),
        (case("hierarchical", "cd34", case="allreduce:hierarchical@2x4,bytes=8"), "is not of"),
        (case("hierarchical", "cd34", case="allreduce over lunch"), "no case string"),
        (case("hierarchical", "cd34", samples=[1e-4, 0.0]), "no time"),
        (case("hierarchical", "cd34", samples=[float("nan")]), "malformed"),
    ],
)
def test_nothing_after_a_senseless_line_is_trusted(folder: Path, line: Line, message: str) -> None:
    write(folder, [JOB, NATIVE_LINE, line, RING_LINE, END])
    report = read(folder)
    assert [result.variant for result in report.runs[0].results] == [Variant("allreduce")]
    assert "results.jsonl, line 3" in report.troubles[0].what
    assert message in report.troubles[0].what
    assert "incomplete" in report.troubles[0].what


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ranks": 1}, "1 ranks ran for layout 4x2"),
        ({"driver": 2}, "format 2, not 1"),
        ({"layout": "somewhere"}, "layout somewhere ran, not 4x2"),
        ({"layout": "2x4"}, "layout 2x4 ran, not 4x2"),
        ({"library_version": "Open MPI v5.0.11"}, "ran with Open MPI v5.0.11, but ours is Open"),
    ],
)
def test_a_job_that_is_not_what_it_should_be_counts_for_nothing(
    folder: Path, change: Line, message: str
) -> None:
    """For example, a wrong process manager starts separate programs of one rank without an error."""
    write(folder, [{**JOB, **change}, NATIVE_LINE, END])
    report = read(folder)
    assert [run.uuid for run in report.runs] == [f"{SESSION}:0:2"]
    assert message in report.troubles[0].what


def test_results_without_a_header_count_for_nothing(folder: Path) -> None:
    write(folder, LINES[1:])
    assert [run.uuid for run in read(folder).runs] == [f"{SESSION}:0:2"]


def test_a_failed_test_is_not_read_from_an_older_output(folder: Path) -> None:
    stale = folder / "output/emulated/openmpi/builtin/measure_e2087ebb/results.jsonl"
    stale.parent.mkdir()
    stale.write_text("".join(json.dumps(line) + "\n" for line in LINES))
    assert len(read(folder).runs[1].results) == 1


def test_a_report_is_stored_once(folder: Path) -> None:
    with Store(folder / "collforge.db") as store:
        for first in (True, False):
            stored = [store.record_run(run) for run in read(folder).runs]
            assert stored == [first, first]
        (place,) = store.places()
        assert len(store.measurements(place)) == 3


def test_a_retry_is_another_launch(folder: Path) -> None:
    def retry(report: Any) -> None:
        again = {**report["runs"][0]["testcases"][1], "uuid": f"{SESSION}:1:0"}
        report["runs"].append({"testcases": [again]})

    edit(folder, retry)
    assert read(folder).runs[-1].uuid == f"{SESSION}:1:0"


def test_troubles_can_be_required_to_be_none(folder: Path) -> None:
    report = read(folder)
    with pytest.raises(Incomplete, match="job timed out"):
        require_complete(report)
    require_complete(Report(report.runs, (), {}))


def only(*names: str) -> Callable[[Any], None]:
    def change(report: Any) -> None:
        run = report["runs"][0]
        run["testcases"] = [t for t in run["testcases"] if t["display_name"].startswith(names)]

    return change


@pytest.mark.parametrize("names", [(), ("skipper",), ("build %bad=0",)])
def test_nothing_ran(folder: Path, names: tuple[str, ...]) -> None:
    edit(folder, only(*names) if names else lambda report: report.update(runs=[]))
    with pytest.raises(NothingRan, match="check that --system and --mpi"):
        read(folder)


def test_no_report_is_a_run_of_nothing(folder: Path) -> None:
    (folder / "report.json").unlink()
    with pytest.raises(NothingRan, match="no report was written"):
        read(folder)


@pytest.mark.parametrize("text", ["", '{"session_info": {', "{}", "[]", '{"session_info": 3}'])
def test_a_damaged_report_names_the_fix(folder: Path, text: str) -> None:
    (folder / "report.json").write_text(text)
    with pytest.raises(BadReport, match="run again"):
        read(folder)


def test_a_report_of_another_format_names_the_fix(folder: Path) -> None:
    edit(folder, lambda report: report["session_info"].update(data_version="5.0"))
    with pytest.raises(BadReport, match=r"install ReFrame 4\.10"):
        read(folder)


CONFIG = """
site_configuration = {
    'systems': [{'name': 'tiny', 'hostnames': ['.*'], 'partitions': [
        {'name': 'openmpi', 'scheduler': 'local', 'launcher': 'local', 'environs': ['none']}]}],
    'environments': [{'name': 'none', 'target_systems': ['tiny']}],
}
"""

CHECK = """
import reframe as rfm
import reframe.utility.sanity as sn

@rfm.simple_test
class Measure(rfm.RunOnlyRegressionTest):
    valid_systems = ['*']
    valid_prog_environs = ['*']
    lines = parameter([5, 3])
    keep_files = ['results.jsonl']

    @run_before('run')
    def copy(self):
        self.executable = f'head -n {self.lines} LINES > results.jsonl'

    @sanity_function
    def ended(self):
        return sn.assert_found('"end"', 'results.jsonl')
"""


def reframe(folder: Path, *options: str) -> Path:
    """Runs ReFrame on the two tests of CHECK; returns where its report should be."""
    lines = folder / "lines.jsonl"
    lines.write_text("".join(json.dumps(line) + "\n" for line in LINES))
    (folder / "config.py").write_text(CONFIG)
    (folder / "check.py").write_text(CHECK.replace("LINES", str(lines)))
    report = folder / "live.json"
    command = [str(Path(sys.executable).with_name("reframe")), "-C", str(folder / "config.py")]
    command += [
        "-c",
        str(folder / "check.py"),
        "--prefix",
        str(folder),
        "--report-file",
        str(report),
    ]
    # ReFrame leaves its log in TMPDIR.
    env = {**os.environ, "TMPDIR": str(folder)}
    subprocess.run([*command, *options, "-r"], cwd=folder, env=env, timeout=120, check=False)
    return report


def test_the_installed_reframe_writes_what_is_read(tmp_path: Path) -> None:
    report = read_report(reframe(tmp_path), PLACE)
    assert sorted(len(run.results) for run in report.runs) == [2, 2]
    assert len({run.uuid for run in report.runs}) == 2
    assert {trouble.test for trouble in report.troubles} == {"Measure %lines=3"}
    assert [trouble.what[:10] for trouble in report.troubles] == ["failed in ", "incomplete"]


def test_the_installed_reframe_runs_nothing_quietly(tmp_path: Path) -> None:
    with pytest.raises(NothingRan):
        read_report(reframe(tmp_path, "-n", "NoSuchTest"), PLACE)
