"""The queue of the service: what gets into it, who gets it out, and what becomes of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from asgi import add_token, call
from invented_tunings import PLACE, SIZES, Tuning

from collforge.db import Store
from collforge.generator.manifest import Manifest
from collforge.service import agent, site
from collforge.service.agent import Agent
from collforge.service.client import Client
from collforge.service.queue import ATTEMPTS, NEW, Library, Queue, Request
from collforge.service.service import Service
from collforge.service.store import ServiceStore
from collforge.tuner.site import proposals
from collforge.tuner.site.rebuild import Rules

LIBRARY = Library(PLACE.mpi, PLACE.mpi_version)
ASKED = Request("node1", PLACE.system, (LIBRARY,), "4x2", seconds=600)
PAST = "2026-01-01T00:00:00Z"


@pytest.fixture
def queue(made: Manifest, tmp_path: Path) -> Queue:
    """Of a system with undecided sizes."""
    Tuning(made).store(tmp_path / "db", launches=1)
    return ServiceStore(tmp_path / "db")


def states(queue: Queue) -> list[tuple[str, str]]:
    return queue._rows("SELECT reason, state FROM service_task ORDER BY id")


def expire(queue: Queue) -> None:
    queue._rows("UPDATE service_task SET lease_until = ? WHERE state = 'leased'", PAST)


def test_a_library_of_which_nothing_is_known(made: Manifest, tmp_path: Path) -> None:
    """First on the agent's layout; a new version on the layouts of the old one."""
    with ServiceStore(tmp_path / "db") as queue:
        assert queue.lease(ASKED) is None
        queue.fill(queue.proposed(made, ASKED), ASKED)
        found = queue.lease(ASKED)
        assert found and found.proposal.kind == NEW and found.proposal.place == PLACE
        assert found.proposal.problems == frozenset() and found.proposal.choice == []
        queue.fill(queue.proposed(made, ASKED), ASKED)
        assert states(queue) == [(NEW, "leased")]
        assert queue.lease(ASKED) is None, "nobody else gets it"
    for day, layout in enumerate(("2x2", "8x2"), start=1):
        Tuning(made, replace(PLACE, layout=layout), day).store(tmp_path / "db")
    newer = msgspec.structs.replace(LIBRARY, version="Open MPI v6.0.0")
    with ServiceStore(tmp_path / "db") as queue:
        asked = msgspec.structs.replace(ASKED, libraries=(newer,))
        queue.fill(queue.proposed(made, asked), asked)
        rows = queue._rows(
            "SELECT layout, mpi_version FROM service_task WHERE state = 'open' AND reason = 'new'"
        )
        assert sorted(rows) == [("2x2", newer.version), ("8x2", newer.version)]


def test_what_is_proposed_comes_and_goes(queue: Queue, made: Manifest) -> None:
    queue.fill(queue.proposed(made, ASKED), ASKED)
    kinds = [kind for kind, _ in states(queue)]
    assert kinds == [proposals.OPEN, proposals.LAYOUT]
    queue.fill(queue.proposed(made, ASKED), ASKED)
    assert len(states(queue)) == 2
    queue._rows("DELETE FROM undecided")
    queue.fill(queue.proposed(made, ASKED), ASKED)
    assert states(queue) == [(proposals.LAYOUT, "open")]


@pytest.mark.parametrize("good", [True, False])
def test_what_was_measured_rests(queue: Queue, made: Manifest, good: bool) -> None:
    """It may be as undecided as before, but not asked for again within a day. A failure is tried again."""
    queue.fill(queue.proposed(made, ASKED), ASKED)
    for turn in range(1 if good else ATTEMPTS):
        found = queue.lease(ASKED)
        assert found and found.proposal.kind == proposals.OPEN, turn
        assert found.proposal.problems == {("bcast", size) for size in SIZES}
        assert queue.finish(found.id, found.attempt, good, "words")
        assert not queue.finish(found.id, found.attempt, good, "others")
    queue.fill(queue.proposed(made, ASKED), ASKED)
    assert (proposals.OPEN, "done" if good else "failed") in states(queue)
    assert (proposals.OPEN, "open") not in states(queue)
    queue._rows("UPDATE service_task SET ended = ?", PAST)
    queue.fill(queue.proposed(made, ASKED), ASKED)
    assert (proposals.OPEN, "open") in states(queue)


def test_a_part_that_was_measured_rests(queue: Queue, made: Manifest) -> None:
    """One of two sizes was decided: the other one was tried as well. A new one is asked for."""
    queue.fill(queue.proposed(made, ASKED), ASKED)
    found = queue.lease(ASKED)
    assert found and queue.finish(found.id, found.attempt, True, "")
    queue._rows("DELETE FROM undecided WHERE bytes = ?", SIZES[0])
    queue.fill(queue.proposed(made, ASKED), ASKED)
    assert (proposals.OPEN, "open") not in states(queue)
    queue._rows("UPDATE undecided SET bytes = 3 * bytes")
    queue.fill(queue.proposed(made, ASKED), ASKED)
    assert (proposals.OPEN, "open") in states(queue)


def test_a_lease_that_expires(queue: Queue, made: Manifest) -> None:
    """Another agent gets the entry; the first one cannot end it any more."""
    queue.fill(queue.proposed(made, ASKED), ASKED)
    once = msgspec.structs.replace(ASKED, nonce="x")
    first = queue.lease(once)
    assert first and queue.lease(once) == first, "the first answer was lost"
    assert first and queue.renew(first.id, 1, 600)
    assert not queue.renew(first.id, 2, 600)
    expire(queue)
    assert not queue.renew(first.id, 1, 600) and not queue.finish(first.id, 1, True, "")
    second = queue.lease(msgspec.structs.replace(ASKED, agent="node2", nonce="y"))
    assert second and second.id == first.id
    assert not queue.finish(first.id, first.attempt, True, "")
    assert queue.finish(second.id, second.attempt, True, "")
    assert not queue.renew(999, 1, 600)


@pytest.mark.parametrize(
    "other",
    [
        {"system": "elsewhere"},
        {"libraries": (msgspec.structs.replace(LIBRARY, mpi="mpich"),)},
        {"libraries": (msgspec.structs.replace(LIBRARY, version="Open MPI v6"),)},
        {"nodes": 1},
    ],
)
def test_an_entry_that_does_not_fit(queue: Queue, made: Manifest, other: dict[str, Any]) -> None:
    queue.fill(queue.proposed(made, ASKED), ASKED)
    assert queue.lease(msgspec.structs.replace(ASKED, **other)) is None


def test_the_order(queue: Queue, made: Manifest) -> None:
    """What is wrong, then what is new, then by what profiles spend in it."""
    rows = [("open", 9.0), ("profile", 1.0), ("profile", 2.0), ("new", 0.0), ("regression", 0.0)]
    for number, (kind, gain) in enumerate(rows):
        one = proposals.Proposal(
            replace(PLACE, layout=f"2x{number + 1}"), kind, frozenset(), "", gain
        )
        queue._add(one, "[]")
    found = [lease.proposal for lease in iter(lambda: queue.lease(ASKED), None) if lease]
    assert [(one.kind, one.gain) for one in found] == [
        ("regression", 0.0), ("new", 0.0), ("profile", 2.0), ("profile", 1.0), ("open", 9.0),
    ]  # fmt: skip


# ---- over HTTP -----------------------------------------------------------------------------------


@pytest.fixture
def ask(made: Manifest, tmp_path: Path, queue: Queue) -> Callable[..., tuple[int, Any]]:
    """POST of a document by a token for the system, or of bytes."""
    app = site.make(Service(tmp_path / "db", lambda: Rules(made)))
    token = add_token(tmp_path / "db", "push", PLACE.system)

    def post(path: str, document: Any, **headers: str) -> tuple[int, Any]:
        body = document if isinstance(document, bytes) else msgspec.json.encode(document)
        found = call(app, "POST", f"/api/v1/{path}", body, headers=headers, token=token)
        return found.status, found.json

    return post


def test_an_agent_over_http(ask: Callable[..., tuple[int, Any]]) -> None:
    status, found = ask("lease", ASKED)
    assert (status, found["task"]["reason"]) == (200, proposals.OPEN)
    assert sorted(found["task"]["problems"]) == [["bcast", size] for size in SIZES]
    where = f"tasks/{found['task']['id']}"
    assert ask(where, {"attempt": 1, "state": "leased"})[0] == 200
    assert ask(where, {"attempt": 2, "state": "leased"})[0] == 409
    assert ask(where, {"attempt": 1, "state": "done"})[0] == 200
    assert ask(where, {"attempt": 1, "state": "done"})[0] == 200, "the first answer was lost"
    assert ask(where, {"attempt": 1, "state": "done", "result": "x"})[0] == 409
    assert ask("lease", ASKED)[1]["task"]["reason"] == proposals.LAYOUT
    assert ask("lease", ASKED) == (200, {"task": None})


@pytest.mark.parametrize(
    ("path", "document", "status"),
    [
        ("lease", msgspec.structs.replace(ASKED, system="elsewhere"), 403),
        ("lease", b"[" * 100000, 400),
        ("lease", {}, 400),
        ("lease", {**msgspec.to_builtins(ASKED), "seconds": -1}, 400),
        ("lease", {**msgspec.to_builtins(ASKED), "libraries": []}, 400),
        ("lease", {**msgspec.to_builtins(ASKED), "layout": "99999x99999"}, 200),
        ("tasks/1e9", {"attempt": 1, "state": "done"}, 404),
        ("tasks/99999999999999999999999", {"attempt": 1, "state": "done"}, 404),
        ("tasks/1", {"attempt": 1, "state": "open"}, 400),
        ("learnt", b"{}", 400),
        ("learnt", {"collforge": 1}, 400),
    ],
)
def test_what_is_refused(
    ask: Callable[..., tuple[int, Any]], path: str, document: Any, status: int
) -> None:
    assert ask(path, document)[0] == status


def learnt_file(tmp_path: Path, made: Manifest, **more: object) -> dict[str, Any]:
    variant = next(one for one in Tuning(made).variants("bcast") if not one.is_native)
    verdict = {
        "layout": "3x2", "collective": "bcast", "variant": variant.name, "fingerprint": variant.fingerprint,
        "bytes": 1024, "native_ns": 10, "variant_ns": 20, "pairs": 6, "again": False, "kept": False,
    }  # fmt: skip
    return {
        "collforge": 1, "version": "0", "system": PLACE.system, "mpi": PLACE.mpi_version,
        "ended": "2026-11-11T00:00:00Z", "verdicts": [verdict], **more,
    }  # fmt: skip


def test_what_jobs_learnt_is_next(
    ask: Callable[..., tuple[int, Any]], made: Manifest, tmp_path: Path
) -> None:
    """Two owners refute a variant of the map, and the queue wants it measured first."""
    for owner in ("1", "2"):
        document = learnt_file(tmp_path, made, nonce=owner)
        assert ask("learnt", document, **{"X-Owner": owner}) == (200, {"new": 1})
    assert ask("learnt", document, **{"X-Owner": "3"}) == (200, {"new": 0})
    with Store(tmp_path / "db") as store:
        assert [one.confirmed for one in store.learnt(PLACE)] == [False]
    _, found = ask("lease", ASKED)
    assert (found["task"]["reason"], found["task"]["layout"]) == (proposals.REFUTED, "3x2")
    assert found["task"]["problems"] == [["bcast", 1024]]
    assert ask("learnt", learnt_file(tmp_path, made, system="elsewhere"))[0] == 400
    assert ask("tasks/1", {"attempt": 1, "state": "leased"})[0] == 200
    with ServiceStore(tmp_path / "db") as store:
        assert [one.action for one in store.audits(9)] == ["lease", "learnt", "learnt"]


def test_another_system(made: Manifest, tmp_path: Path, queue: Queue) -> None:
    """Its token neither renews or ends leases, nor brings what was learnt."""
    app = site.make(Service(tmp_path / "db", lambda: Rules(made)))
    own, other = (add_token(tmp_path / "db", "push", one) for one in (PLACE.system, "elsewhere"))
    asked = msgspec.json.encode(ASKED)
    task = call(app, "POST", "/api/v1/lease", asked, token=own).json["task"]
    said = json.dumps({"attempt": task["attempt"], "state": "done"}).encode()
    learnt = json.dumps(learnt_file(tmp_path, made)).encode()
    for url, body in ((f"tasks/{task['id']}", said), ("learnt", learnt), ("lease", asked)):
        assert call(app, "POST", f"/api/v1/{url}", body, token=other).status == 403, url
    with ServiceStore(tmp_path / "db") as store:
        assert store.job_places() == [] and states(store)[0][1] == "leased"


def test_the_agent_tunes_what_it_leased(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command, and that the lease is renewed while it runs."""
    said: list[tuple[str, Any]] = []
    task = {
        "id": 7, "attempt": 2, "system": "cluster", "mpi": "mpich", "mpi_version": "MPICH 5", "layout": "3x2",
        "reason": "refuted", "why": "words", "gain": 0.0, "problems": [["bcast", 1024]],
        "since": "2026-01-01T00:00:00Z",
    }  # fmt: skip

    def post(self: Client, path: str, data: bytes, *_: object) -> dict[str, Any]:
        said.append((path, json.loads(data)))
        return {"task": task}

    monkeypatch.setattr(Client, "post", post)
    asked = msgspec.structs.replace(ASKED, seconds=60)
    one = Agent(Client("http://x"), asked, ["--db", "own.db"], ["--collective", "reduce"])
    leased = one.lease()
    assert leased
    words = ["tune", "--mpi", "mpich", "--layout", "3x2", "--db", "own.db"]
    assert one.words(leased.proposal) == [
        *words,
        "--collective",
        "bcast",
        "--sizes",
        "1024",
        "--since",
        task["since"],
    ]
    whole = replace(leased.proposal, problems=frozenset())
    assert one.words(whole) == [*words, "--collective", "reduce"]
    monkeypatch.setattr(agent, "RENEWALS", 600)
    monkeypatch.setattr(one.__class__, "words", lambda *_: ["mpi", "list"])
    assert one.tune(leased) == 0
    assert {json.dumps(what) for path, what in said[1:]} == {
        json.dumps({"attempt": 2, "seconds": 60, "state": "leased"})
    }
    one.finish(leased, False, "it failed")
    assert said[-1] == (
        "/api/v1/tasks/7",
        {"attempt": 2, "seconds": 60, "state": "failed", "result": "it failed"},
    )
