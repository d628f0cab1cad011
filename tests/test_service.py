"""The service: who may do what, what it takes in, what it gives out."""

from __future__ import annotations

import base64
import csv
import gzip
import io
import json
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from asgi import Answer, add_token, call, pushed, server
from conftest import some
from invented_tunings import PLACE, Tuning
from support import TOP, execute

from collforge.db import Result, Store
from collforge.db.inspection import Inspection
from collforge.db.published import counts
from collforge.generator.manifest import Manifest
from collforge.service import documents, limits, site
from collforge.service.limits import Rate
from collforge.service.refusal import Refused
from collforge.service.service import Service
from collforge.service.store import ServiceStore
from collforge.tuner.cli import main
from collforge.tuner.site.rebuild import Rules
from collforge.variant import Variant

SYSTEM = PLACE.system
RUNS = "/api/v1/runs"


@pytest.fixture(scope="module")
def site_database(made: Manifest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a site has measured."""
    return Tuning(made).store(tmp_path_factory.mktemp("site") / "db", pattern="node.*")


@dataclass
class Server:
    """A service that runs no worker: tests call it."""

    path: Path
    service: Service
    app: Any

    def __call__(self, method: str, url: str, body: bytes = b"", **more: Any) -> Answer:
        return call(self.app, method, url, body, **more)

    def token(self, role: str, *systems: str) -> str:
        secret = add_token(self.path, role, *systems)
        self.service._tokens.drop(())
        return secret


@pytest.fixture
def make(made: Manifest, tmp_path: Path) -> Callable[..., Server]:
    def start(private: bool = False) -> Server:
        path = tmp_path / "fleet.db"
        service = Service(path, lambda: Rules(made), private)
        return Server(path, service, site.make(service))

    return start


def test_a_push_is_decided_and_published(
    make: Callable[..., Server], site_database: Path, tmp_path: Path
) -> None:
    """The winners of the service are those of the site, from the same launches."""
    at = make()
    token = at.token("push", SYSTEM)
    body = pushed(site_database, SYSTEM, "node.*")
    first = at("POST", RUNS, body, token=token)
    assert (first.status, first.json) == (200, {"new": 6, "known": 0})
    assert at("GET", f"/api/v1/winners/{SYSTEM}").status == 404
    packed = gzip.compress(body)
    again = at("POST", RUNS, packed, headers={"Content-Encoding": "gzip"}, token=token)
    assert again.json == {"new": 0, "known": 6}
    assert at.service.worker.work() == 2  # the place and the map
    assert at.service.worker.work() == 0
    with ServiceStore(at.path) as store, Store(site_database) as own:
        assert [one.choice for one in store.winners()] == [one.choice for one in own.winners()]
        assert store.map(PLACE) == own.map(PLACE)
        assert store.measurements(PLACE) == own.measurements(PLACE)
        assert store.host_pattern(SYSTEM) == "node.*"
        assert [(one.action, one.system) for one in store.audits(10)] == [("runs", SYSTEM)]
    found = at("GET", f"/api/v1/winners/{SYSTEM}")
    output = tmp_path / "published"
    assert main.main(["publish", "--db", str(site_database), "--output", str(output)]) == 0
    assert found.body == output.read_bytes()
    tag = found.headers["etag"]
    assert tag == f'"{found.headers["x-collforge-sha256"]}"'
    same = at("GET", f"/api/v1/winners/{SYSTEM}", headers={"If-None-Match": tag})
    assert (same.status, same.body) == (304, b"")
    assert at("GET", f"/api/v1/winners/{SYSTEM}", headers={"If-None-Match": '"x"'}).status == 200
    assert at("GET", f"/api/v1/winners/{SYSTEM}?mpi=mpich").status == 404
    with Inspection(at.path) as store:
        assert not [*store.damage(), *store.faults()]


def test_readers_find_new_winners_at_once(
    make: Callable[..., Server], made: Manifest, site_database: Path, tmp_path: Path
) -> None:
    at = make()
    token = at.token("push")
    at("POST", RUNS, pushed(site_database, SYSTEM), token=token)
    at.service.worker.work()
    old = at("GET", f"/api/v1/winners/{SYSTEM}")
    more = Tuning(made, replace(PLACE, layout="2x2"), 2).store(tmp_path / "more")
    at("POST", RUNS, pushed(more, SYSTEM), token=token)
    assert at("GET", f"/api/v1/winners/{SYSTEM}").body == old.body
    at.service.worker.work()
    new = at("GET", f"/api/v1/winners/{SYSTEM}")
    assert sum(map(sum, counts(new.body.decode()).values())) > sum(
        map(sum, counts(old.body.decode()).values())
    )


def test_who_may_do_what(make: Callable[..., Server], site_database: Path) -> None:
    at = make()
    body = pushed(site_database, SYSTEM)
    tokens = {role: at.token(role) for role in ("read", "push", "admin")}
    for token, status in (("", 401), ("cf_wrong", 401), (tokens["read"], 403)):
        refused = at("POST", RUNS, body, token=token)
        assert refused.status == status
        assert refused.error
    other = at.token("push", "another")
    assert at("POST", RUNS, body, token=other).status == 403
    with ServiceStore(at.path) as store:
        assert not store.runs()
        assert not store.audits(10)
    assert at("POST", RUNS, body, token=tokens["push"]).status == 200
    assert at("POST", RUNS, body, token=tokens["admin"]).status == 200
    with ServiceStore(at.path) as store:
        (name,) = (one.name for one in store.tokens() if one.used and one.role == "push")
        assert store.revoke_token(name)
    at.service._tokens.drop(())
    assert at("POST", RUNS, body, token=tokens["push"]).status == 401


def test_a_private_service(make: Callable[..., Server]) -> None:
    at = make(private=True)
    token = at.token("read")
    for url in [
        one.path.replace("{system:path}", "x") for one in site.endpoints() if one.method == "GET"
    ]:
        if "{" in url or url == RUNS or "findings" in url:
            continue
        refused = at("GET", url)
        assert (refused.status == 401) == (url not in ("/healthz", "/style.css")), url
        assert at("GET", url, token=token).status in (200, 403, 404), url
    basic = {"Authorization": "Basic " + base64.b64encode(f"me:{token}".encode()).decode()}
    assert at("GET", "/metrics", headers=basic).status == 200
    assert at("GET", "/metrics", headers={"Authorization": "Basic !"}).status == 401


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


def test_a_rate() -> None:
    clock = [0.0]
    rate = Rate(most=2, each=0.5, clock=lambda: clock[0])
    for _ in range(2):
        rate.take("a")
    with pytest.raises(Refused) as refused:
        rate.take("a")
    assert (refused.value.status, refused.value.retry_after) == (429, 3)
    rate.take("b")
    clock[0] = 2.0
    rate.take("a")
    with pytest.raises(Refused):
        rate.take("a")


def test_too_many_requests(make: Callable[..., Server]) -> None:
    at = make()
    token = at.token("push")
    at.service.pushing = Rate(most=3, each=0.001)
    found = [at("POST", RUNS, token=token) for _ in range(5)]
    assert [one.status for one in found] == [400] * 3 + [429] * 2
    assert int(found[-1].headers["retry-after"]) > 1
    wrong = [at("POST", RUNS, token="cf_guess") for _ in range(25)]
    assert {one.status for one in wrong} == {401, 429}


def test_a_failed_verification_dethrones_everywhere(
    make: Callable[..., Server], made: Manifest, site_database: Path
) -> None:
    at = make()
    token = at.token("push")
    push = documents.read(pushed(site_database, SYSTEM))
    assert at("POST", RUNS, documents.encode(push), token=token).status == 200
    at.service.worker.work()
    with ServiceStore(at.path) as store:
        won = {one.choice.variant for one in store.winners()}
    fast = next(one for one in won if not one.is_native)
    bad = Result(fast, "bcast@2x2,bytes=1024", 1024, False, "rank 3 is wrong")
    place = replace(PLACE, layout="2x2")
    run = replace(push.runs[0], uuid="bad", place=place, nodes=2, ranks=4, results=(bad,))
    push.runs[:] = [run]
    assert at("POST", RUNS, documents.encode(push), token=token).status == 200
    assert at.service.worker.work() == 3  # both layouts and the map
    with ServiceStore(at.path) as store:
        assert fast not in {one.choice.variant for one in store.winners()}
        assert not store.pending()
    with Inspection(at.path) as store:
        from collforge.tuner.cli.commands.db import wrong_winners

        assert not [*store.faults(), *wrong_winners(store, Rules(made))]


def test_the_worker_survives_and_loses_nothing(
    make: Callable[..., Server], site_database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from collforge.tuner.site import rebuild

    at = make()
    token = at.token("push")
    body = pushed(site_database, SYSTEM)
    at("POST", RUNS, body, token=token)
    prepare = rebuild.prepare

    def fail(*_: Any) -> Any:
        raise RuntimeError("no luck")

    monkeypatch.setattr(rebuild, "prepare", fail)
    assert [at.service.worker.work() for _ in range(5)] == [0] * 5
    with at.service.reader() as store:
        (pending,) = [one for one in store.pending() if one.place.layout]
    assert (pending.failures, pending.error) == (3, "RuntimeError: no luck")
    monkeypatch.setattr(rebuild, "prepare", prepare)
    push = documents.read(body)
    push.runs[:] = [replace(push.runs[0], uuid="seventh")]
    pushed_meanwhile = [documents.encode(push)]

    def interrupted(*words: Any) -> Any:
        found = prepare(*words)
        if pushed_meanwhile:
            assert at("POST", RUNS, pushed_meanwhile.pop(), token=token).status == 200
        return found

    monkeypatch.setattr(rebuild, "prepare", interrupted)
    with at.service.writer() as store:
        store.mark_pending(PLACE)
    assert at.service.worker.work() == 2
    with at.service.reader() as store:
        assert not store.pending()
        assert {one.choice.launches for one in store.winners()} == {7}


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


def test_profiles(make: Callable[..., Server]) -> None:
    from test_page import PROFILE

    at = make()
    token = at.token("push", SYSTEM)
    url = f"/api/v1/profiles/my%20app?system={SYSTEM}"
    assert at("POST", url, PROFILE.encode(), token=token).json == {"stored": "my app"}
    with at.service.reader() as store:
        assert [(one.name, one.content) for one in store.profiles()] == [("my app", PROFILE)]
    for body in (b"", b"\xff\xfe", b"a,b\n1,2\n", PROFILE.replace("64", "x").encode()):
        refused = at("POST", url, body, token=token)
        assert refused.status == 400
        assert "/tmp" not in refused.error
    assert at("POST", "/api/v1/profiles/app?system=x", PROFILE.encode(), token=token).status == 403
    assert at("POST", "/api/v1/profiles/app", PROFILE.encode(), token=token).status == 403


def test_what_programs_read(make: Callable[..., Server], site_database: Path) -> None:
    at = make()
    at("POST", RUNS, pushed(site_database, SYSTEM), token=at.token("push"))
    at.service.worker.work()
    rows = at("GET", "/api/v1/winners.json").json["winners"]
    table = list(csv.DictReader(io.StringIO(at("GET", "/api/v1/winners.csv").body.decode())))
    assert [row["variant"] for row in rows] == [row["variant"] for row in table]
    assert [row["bytes"] for row in rows] == [1024, 65536]
    assert at("GET", "/api/v1/winners.json?system=other").json["winners"] == []
    found = at("GET", f"/api/v1/bencher/{SYSTEM}").json
    assert len(found) == 2
    assert all(0.9e6 < one["latency"]["value"] < 1.1e6 for one in found.values())
    assert len(at("GET", f"{RUNS}/{SYSTEM}").json["uuids"]) == 6
    text = at("GET", "/metrics").body.decode()
    assert 'collforge_launches{system="cluster",mpi="openmpi",version="Open MPI v5.0.7"} 6' in text
    assert 'collforge_winners{system="cluster",mpi="openmpi",version="Open MPI v5.0.7"} 2' in text
    assert "collforge_launches_pushed_total 6" in text
    assert 'collforge_requests_total{method="POST",status="200"} 1' in text
    assert at("GET", "/healthz").json["collforge"]
    described = at("GET", "/openapi.json").json["paths"]
    told = {(method.upper(), path) for path, methods in described.items() for method in methods}
    routes = {
        (next(iter(route.methods - {"HEAD"})), route.path.replace(":path}", "}"))
        for route in at.app.routes
    }
    assert told == routes


def test_headers(make: Callable[..., Server]) -> None:
    at = make()
    for url in ("/healthz", "/nothing", "/api/v1/winners/nobody", "/metrics"):
        headers = at("GET", url).headers
        assert "frame-ancestors 'none'" in headers["content-security-policy"], url
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"


def test_push_and_pull_by_the_commands(
    site_database: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a real server and worker."""
    from test_page import PROFILE

    fleet, key, output = tmp_path / "fleet.db", tmp_path / "key", tmp_path / "winners.txt"
    words = ["--role", "push", "--system", SYSTEM]
    assert main.main(["serve", "--db", str(fleet), "token", "add", "site", *words]) == 0
    assert main.main(["serve", "token", "add", "site", *words, "--db", str(fleet)]) == 2
    secret = capsys.readouterr().out.strip()
    assert secret.startswith("cf_")
    assert secret.encode() not in fleet.read_bytes()
    key.write_text(secret)
    (tmp_path / "calls.csv").write_text(PROFILE)
    with server(fleet) as (address, process):
        push = ["push", "--server", address, "--db", str(site_database), "--system", SYSTEM]
        assert main.main([*push, "--token-file", str(key)]) == 2  # others can read it
        key.chmod(0o600)
        push += ["--token-file", str(key), "--profile", f"app={tmp_path / 'calls.csv'}"]
        assert main.main(push) == 0
        assert "6 new launches" in capsys.readouterr().out
        assert main.main(push) == 0
        assert "0 new launches" in capsys.readouterr().out
        pull = ["pull", "--server", address, "--system", SYSTEM, "--output", str(output)]
        for _ in range(100):
            with ServiceStore(fleet, create=False) as store:
                if not store.pending():  # the winners, then the map
                    break
            time.sleep(0.2)
        assert main.main(pull) == 0
        capsys.readouterr()
        stamp = output.stat().st_ino
        assert main.main(pull) == 0
        assert "unchanged" in capsys.readouterr().out
        assert output.stat().st_ino == stamp
        sums = execute(["sha256sum", "--check", f"{output.name}.sha256"], cwd=tmp_path)
        assert sums.returncode == 0
        output.chmod(0o644)
        output.write_bytes(b"something else")
        assert main.main(pull) == 0
        assert sum(map(sum, counts(output.read_text()).values())) > 2
        process.terminate()
        assert process.wait(20) in (0, -15)
    assert main.main(["serve", "token", "revoke", "site", "--db", str(fleet)]) == 0
    assert main.main(["serve", "token", "list", "--db", str(fleet)]) == 0
    assert "revoked" in capsys.readouterr().out


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


def test_database_commands_leave_the_tables_of_the_service_alone(
    make: Callable[..., Server],
    site_database: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    at = make()
    at("POST", RUNS, pushed(site_database, SYSTEM), token=at.token("push"))
    at.service.worker.work()
    for words in (
        ["check", "--db", str(at.path)],
        ["merge", str(at.path), str(site_database), "--output", str(tmp_path / "both.db")],
        ["check", "--db", str(tmp_path / "both.db")],
        ["prune", "--older-than", "2027-01-01", "--db", str(at.path)],
        ["check", "--db", str(at.path)],
    ):
        assert main.main(["db", *words]) == 0, capsys.readouterr().out
    with ServiceStore(at.path) as store:
        assert len(store.tokens()) == len(store.audits(10)) == 1
    with ServiceStore(tmp_path / "both.db") as store:
        assert not store.tokens()
