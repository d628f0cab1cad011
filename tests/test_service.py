"""The service: who may do what, what it decides, what it gives out."""

from __future__ import annotations

import base64
import csv
import gzip
import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from asgi import Server, pushed
from invented_tunings import PLACE, Tuning

from collforge.db import Result, Store
from collforge.db.inspection import Inspection
from collforge.db.published import counts
from collforge.generator.manifest import Manifest
from collforge.service import documents, site
from collforge.service.limits import Rate
from collforge.service.refusal import Refused
from collforge.service.store import ServiceStore
from collforge.tuner.cli import main
from collforge.tuner.site.rebuild import Rules

SYSTEM = PLACE.system


RUNS = "/api/v1/runs"


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
    assert at("GET", f"/api/v1/winners/{SYSTEM}", headers={"If-None-Match": "*"}).status == 304
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
    at.service.published.renew()
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
        if "{" in url or url == RUNS:
            continue
        refused = at("GET", url)
        assert (refused.status == 401) == (url not in ("/healthz", "/style.css")), url
        assert at("GET", url, token=token).status in (200, 403, 404), url
    basic = {"Authorization": "Basic " + base64.b64encode(f"me:{token}".encode()).decode()}
    assert at("GET", "/metrics", headers=basic).status == 200
    assert at("GET", "/metrics", headers={"Authorization": "Basic !"}).status == 401


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
    make: Callable[..., Server],
    made: Manifest,
    site_database: Path,
    monkeypatch: pytest.MonkeyPatch,
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
    assert at("GET", f"/api/v1/pending/{SYSTEM}").json == {"pending": 1}
    assert [at.service.worker.work() for _ in range(5)] == [0] * 5
    with at.service.reader() as store:
        (pending,) = [one for one in store.pending() if one.place.layout]
    assert (pending.failures, pending.error) == (3, "RuntimeError: no luck")
    assert at("GET", f"/api/v1/pending/{SYSTEM}").json == {"pending": 0}
    monkeypatch.setattr(rebuild, "prepare", prepare)
    again = Server(at.path, made).service.worker
    again.start()
    again.stop()
    with at.service.reader() as store:
        assert [one.failures for one in store.pending() if one.place.layout] in ([0], [])
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
    for path, methods in described.items():
        about = methods.get("get", {}).get("responses", {}).get("200")
        if about and "{" not in path and path != "/audit":
            kind = at("GET", path).headers["content-type"].partition(";")[0]
            assert [kind] == list(about["content"]), path


def test_headers(make: Callable[..., Server]) -> None:
    at = make()
    for url in ("/healthz", "/nothing", "/api/v1/winners/nobody", "/metrics"):
        headers = at("GET", url).headers
        assert "frame-ancestors 'none'" in headers["content-security-policy"], url
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"
