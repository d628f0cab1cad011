"""What the service takes in: wrong launches and documents, findings, profiles."""

from __future__ import annotations

import gzip
import json
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from asgi import Server, add_token, pushed, server
from conftest import some
from invented_tunings import PLACE, Tuning
from support import TOP, execute

from collforge.generator.manifest import Manifest
from collforge.service import documents, limits
from collforge.service.store import ServiceStore
from collforge.variant import Variant

SYSTEM = PLACE.system


RUNS = "/api/v1/runs"


def changed(run: Any, **fields: Any) -> list[Any]:
    return [replace(run, **fields)]


def result(run: Any, **fields: Any) -> list[Any]:
    return changed(run, results=(replace(run.results[-1], **fields),))


WRONG: dict[str, Callable[[Any], list[Any]]] = {
    "another system": lambda run: changed(run, place=replace(run.place, system="x")),
    "no uuid": lambda run: changed(run, uuid=""),
    "a line in a name": lambda run: changed(run, place=replace(run.place, mpi="a\nb")),
    "a layout of 10 G ranks": lambda run: changed(
        run, place=replace(run.place, layout="99999x99999"), nodes=99999, ranks=99999 * 99999
    ),
    "a long sum": lambda run: changed(
        run, place=replace(run.place, layout="+".join(["99999"] * 900))
    ),
    "no layout": lambda run: changed(run, place=replace(run.place, layout="map#0011223344556677")),
    "another size": lambda run: changed(run, ranks=9),
    "no date": lambda run: changed(run, started="2026-13-01T00:00:00Z"),
    "the future": lambda run: changed(run, started="2999-01-01T00:00:00Z"),
    "a big seed": lambda run: changed(run, seed=2**63),
    "twice": lambda run: changed(run, results=run.results[:1] * 2),
    "no case": lambda run: result(run, problem="bcast"),
    "a case of many digits": lambda run: result(run, problem=f"bcast@4x2,bytes={'9' * 5000}"),
    "another layout's case": lambda run: result(run, problem="bcast@3x2,bytes=65536"),
    "other bytes": lambda run: result(run, bytes=1),
    "no time": lambda run: result(run, samples=(0.0,)),
    "a time of no clock": lambda run: result(run, samples=(5e-324, 1.0)),
    "a negative time": lambda run: result(run, samples=(-1.0, 1.0)),
    "SQL": lambda run: result(run, variant=Variant("bcast", "'; DROP TABLE run; --", "", "a")),
    "native with code": lambda run: result(run, variant=Variant("bcast", "native", "", "a")),
    "a variant without code": lambda run: result(run, variant=Variant("bcast", "full_lane")),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_launches(case: str, make: Callable[..., Server], site_database: Path) -> None:
    at = make()
    push = documents.read(pushed(site_database, SYSTEM))
    good = push.runs[0]
    push.runs[:] = [good, *WRONG[case](replace(good, uuid="two"))]
    refused = at("POST", RUNS, documents.encode(push), token=at.token("push"))
    assert refused.status == 400
    assert refused.error.startswith("runs[1]")
    with ServiceStore(at.path) as store:
        assert not store.runs()


def test_wrong_documents(make: Callable[..., Server], site_database: Path) -> None:
    at = make()
    token = at.token("push")
    good = json.loads(pushed(site_database, SYSTEM))
    for body, status in (
        (b"", 400),
        (b"\xff", 400),
        (b"[" * 100_000, 400),
        (json.dumps({**good, "collforge": 2}).encode(), 400),
        (json.dumps({**good, "more": 1}).encode(), 400),
        (json.dumps({**good, "runs": [good["runs"][0]] * 501}).encode(), 413),
        (b" " * (limits.MOST_BODY + 1), 413),
    ):
        assert at("POST", RUNS, body, token=token).status == status
    for body, coding, status in (
        (gzip.compress(b" " * (limits.MOST_DOCUMENT + 1)), "gzip", 413),
        (gzip.compress(json.dumps(good).encode())[:-9], "gzip", 400),
        (b"abc", "gzip", 400),
        (b"abc", "br", 415),
    ):
        refused = at("POST", RUNS, body, token=token, headers={"Content-Encoding": coding})
        assert refused.status == status
    assert at("POST", RUNS, headers={"Content-Length": "9" * 20}, token=token).status == 413
    assert at("PUT", RUNS, token=token).status == 405
    assert at("GET", "/../../etc/passwd").status == 404
    assert at("GET", "/api/v1/winners/..%2f..%2fetc%2fpasswd").status == 404


def test_another_system_of_the_same_name(
    make: Callable[..., Server], made: Manifest, site_database: Path, tmp_path: Path
) -> None:
    at = make()
    token = at.token("push")
    assert at("POST", RUNS, pushed(site_database, SYSTEM, "node.*"), token=token).status == 200
    elsewhere = Tuning(made, day=3, hosts=("alpha1", "alpha2")).store(tmp_path / "other")
    refused = at("POST", RUNS, pushed(elsewhere, SYSTEM), token=token)
    assert refused.status == 409
    assert "it ran on hosts named alpha#" in refused.error
    ours = Tuning(made, day=3).store(tmp_path / "ours")
    refused = at("POST", RUNS, pushed(ours, SYSTEM, "other.*"), token=token)
    assert (refused.status, "host pattern" in refused.error) == (409, True)
    assert at("POST", RUNS, pushed(ours, SYSTEM, "node.*"), token=token).status == 200


def test_what_comes_with_launches(make: Callable[..., Server], site_database: Path) -> None:
    """Lanes, hashes of sources and epochs. An admin may say that the system has changed."""
    at = make()
    push = documents.read(pushed(site_database, SYSTEM, "node.*"))
    library = PLACE.mpi, PLACE.mpi_version
    problem = PLACE.layout, "bcast", 1024, push.runs[-1].started
    push.lanes.append(documents.PushedLanes(*library, 2, 1e9))
    push.sources["ab"] = {"x.c": "cd"}
    push.epochs.append(documents.PushedEpoch(*library, *problem))
    token = at.token("push", SYSTEM)
    assert at("POST", RUNS, documents.encode(push), token=token).json["new"] == 6
    with ServiceStore(at.path) as store:
        assert store.system_lanes(SYSTEM) == {library: (2, 1e9)}
        assert store.sources("ab") == {"x.c": "cd"}
        assert [(one.bytes, one.begins) for one in store.epochs()] == [problem[2:]]
        store.forget_pending(PLACE)
    push.runs.clear()
    push.epochs.append(documents.PushedEpoch(*library, *problem[:3], "2026-01-01T00:00:00Z"))
    assert at("POST", RUNS, documents.encode(push), token=token).json["new"] == 0
    with ServiceStore(at.path) as store:
        assert [one.place for one in store.pending()] == [PLACE]
        assert [one.detail for one in store.audits(1)] == ["1 epochs"]
    push.lanes[0].rate = 2e9
    push.system.host_pattern = "gpu.*"
    assert at("POST", RUNS, documents.encode(push), token=token).status == 409
    stamp = at.service._winners_stamp()
    assert at("POST", RUNS, documents.encode(push), token=at.token("admin", SYSTEM)).status == 200
    assert at.service._winners_stamp() != stamp, "the host pattern is published, too"
    assert at("POST", RUNS, documents.encode(push), token=token).status == 200
    push.system.host_pattern = "("
    assert at("POST", RUNS, documents.encode(push), token=token).status == 400


def test_the_same_launch_with_another_content(
    make: Callable[..., Server], site_database: Path
) -> None:
    at = make()
    token = at.token("push")
    body = pushed(site_database, SYSTEM)
    push = documents.read(body)
    assert at("POST", RUNS, body, token=token).status == 200
    last = push.runs[-1]
    results = (replace(last.results[0], samples=(1.0,)), *last.results[1:])
    new = replace(push.runs[0], uuid="new")
    push.runs[:] = [new, replace(last, results=results)]
    refused = at("POST", RUNS, documents.encode(push), token=token)
    assert refused.status == 409
    assert last.uuid in refused.error
    push.runs[:] = [new, replace(last, seed=8)]
    assert at("POST", RUNS, documents.encode(push), token=token).status == 409
    with ServiceStore(at.path) as store:
        assert len(store.runs()) == 6  # all of a push or nothing


def test_findings_of_reframe(make: Callable[..., Server]) -> None:
    at = make()
    token = at.token("push", SYSTEM)
    record = {
        "check_system": SYSTEM, "check_partition": "openmpi", "check_environ": "openmpi",
        "check_display_name": "Winner %bytes=1024", "check_case": "bcast:native@4x2,bytes=1024",
        "check_jobid": 12, "check_job_completion_time_unix": 1764230400.5, "check_result": "pass",
        "check_perf_time_value": 12.5, "check_perf_time_ref": 10.0, "check_perf_time_unit": "us",
        "check_perf_time_lower_thres": None, "check_perf_time_upper_thres": 0.1,
        "check_perf_time_result": "fail", "anything": {"else": [1]},
    }  # fmt: skip
    url = "/api/v1/findings"
    for expected in (1, 0):
        assert at("POST", url, json.dumps(record).encode(), token=token).json == {"new": expected}
    single = {
        **{key: value for key, value in record.items() if "_time_" not in key},
        "check_job_completion_time_unix": 1764230400, "check_perf_var": "speed_up",
        "check_perf_value": 2, "check_perf_ref": 0, "check_perf_unit": "x",
        "check_perf_result": "pass",
    }  # fmt: skip
    assert at("POST", url, json.dumps(single).encode(), token=token).json == {"new": 1}
    broken = {
        key: value for key, value in single.items() if "perf" not in key
    } | {"check_result": "fail"}  # fmt: skip
    assert at("POST", url, json.dumps(broken).encode(), token=token).json == {"new": 1}
    with at.service.reader() as store:
        assert [one.action for one in store.audits(9)] == ["findings"] * 3
        found = {one.variable: one for one in store.findings()}
    assert set(found) == {"time", "speed_up", "result"}
    time = found["time"]
    assert (time.value, time.reference, time.low, time.passed) == (12.5, 10.0, None, False)
    assert time.high == pytest.approx(11.0)
    assert (time.scheduler_job, time.found) == ("12", "2025-11-27T08:00:00Z")
    assert (found["speed_up"].passed, found["speed_up"].reference) == (True, None)
    assert not found["result"].passed
    for wrong in (
        {"check_system": "other"}, {"check_system": None}, {"check_perf_value": "fast"},
        {"check_perf_value": True}, {"check_job_completion_time_unix": 1e300},
        {"check_job_completion_time_unix": -1}, {"check_display_name": "x" * 5000},
        {"check_perf_var": "a\nb" * 200},
    ):  # fmt: skip
        answer = at("POST", url, json.dumps({**single, **wrong}).encode(), token=token)
        assert answer.status in (400, 403), wrong
    assert at("POST", url, b"[]", token=token).status == 400


CHECK = """
import reframe as rfm
import reframe.utility.sanity as sn

@rfm.simple_test
class Answer(rfm.RunOnlyRegressionTest):
    valid_systems = valid_prog_environs = ["*"]
    executable = "echo"
    executable_opts = ["42"]
    reference = {"*": {"answer": (40, -0.01, 0.01, "s")}}

    @sanity_function
    def right(self):
        return True

    @performance_function("s")
    def answer(self):
        return sn.extractsingle(r"(42)", self.stdout, 1, float)
"""


SETTINGS = """
site_configuration = {
    "systems": [{"name": "cluster", "hostnames": [".*"], "partitions": [
        {"name": "p", "scheduler": "local", "launcher": "local", "environs": ["builtin"]}]}],
    "environments": [{"name": "builtin"}],
    "logging": [{"perflog_multiline": MULTILINE, "handlers_perflog": []}],
}
"""


@pytest.mark.parametrize("multiline", some([False, True]))
def test_reframe_sends_findings(multiline: bool, made: Manifest, tmp_path: Path) -> None:
    """By the lines of docs/service.md, to a real server."""
    docs = (TOP / "docs" / "service.md").read_text()
    (lines,) = re.findall(r"^```python\n(.*?)^```$", docs, re.S | re.M)
    fleet = tmp_path / "fleet.db"
    token = add_token(fleet, "push", SYSTEM)
    with server(fleet) as (address, _):
        settings = SETTINGS.replace("MULTILINE", str(multiline)) + lines
        (tmp_path / "settings.py").write_text(settings.replace("https://tuning.example", address))
        (tmp_path / "check.py").write_text(CHECK)
        words = ["reframe", "-C", "settings.py", "-c", "check.py", "-r", "--prefix", str(tmp_path)]
        reframe = str(Path(sys.executable).with_name("reframe"))
        done = execute(
            ["env", f"COLLFORGE_TOKEN={token}", f"HOME={tmp_path}", reframe, *words[1:]],
            cwd=tmp_path,
        )
    assert "LoggingError" not in done.stdout + done.stderr, done.stdout
    with ServiceStore(fleet) as store:
        (one,) = store.findings()
    assert (one.system, one.partition, one.environment) == (SYSTEM, "p", "builtin")
    assert (one.test, one.variable, one.value, one.unit) == ("Answer", "answer", 42, "s")
    assert (one.reference, one.passed) == (40, False)
    assert (one.low, one.high) == pytest.approx((39.6, 40.4))
    assert one.found > "2026"


def test_profiles(make: Callable[..., Server]) -> None:
    from test_page import PROFILE

    at = make()
    token = at.token("push", SYSTEM)
    url = f"/api/v1/profiles/my%20app?system={SYSTEM}"
    assert at("POST", url, PROFILE.encode(), token=token).json == {"stored": "my app"}
    with at.service.reader() as store:
        assert [(one.name, one.content) for one in store.profiles()] == [("my app", PROFILE)]
        assert [one.action for one in store.audits(9)] == ["profile"]
    for body in (b"", b"\xff\xfe", b"a,b\n1,2\n", PROFILE.replace("64", "x").encode()):
        refused = at("POST", url, body, token=token)
        assert refused.status == 400
        assert "/tmp" not in refused.error
    assert at("POST", "/api/v1/profiles/app?system=x", PROFILE.encode(), token=token).status == 403
    assert at("POST", "/api/v1/profiles/app", PROFILE.encode(), token=token).status == 403
