"""The pages of the service: what they show, that nothing in a name acts, and the form of findings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest
from asgi import Answer, Server, add_token
from invented_tunings import PLACE, Tuning

from collforge.db import Finding
from collforge.generator.manifest import Manifest
from collforge.service import pages
from collforge.service.store import ServiceStore

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>'\"&"


def night(days: int) -> str:
    then = datetime.now(timezone.utc) - timedelta(days=days)
    return then.strftime("%Y-%m-%dT03:00:00Z")


def fill(path: Path, made: Manifest, system: str) -> None:
    """A system with winners that changed, findings, a queue, an agent."""
    Tuning(made, replace(PLACE, system=system)).store(path)
    tasks = (
        "system, mpi, mpi_version, layout, problems, reason, why, since, gain, created, state, agent,"
        " lease_until, result"
    )
    with ServiceStore(path) as store, store.transaction():
        one = Finding(
            *(
                system,
                "openmpi",
                "openmpi",
                night(3),
                "12",
                f"Winner {system}",
                "",
                "time",
                20.0,
                "us",
            ),
            *(10.0, 9.0, 11.0, False),
        )
        store.record_findings(
            [one, replace(one, found=night(1)), replace(one, found=night(2), passed=True)]
        )
        row = (
            system,
            system,
            system,
            "4x2",
            '[["bcast", 1024]]',
            "refuted",
            system,
            "",
            1.5,
            night(1),
            "leased",
            system,
        )
        store._rows(
            f"INSERT INTO service_task ({tasks}) VALUES ({', '.join('?' * 14)})",
            *(*row, night(0), system),
        )
        store._rows(
            "INSERT INTO service_agent VALUES (?, ?, ?, ?)", system, system, night(0), system
        )
        store.note(system, "runs", system, system)
        store.mark_pending(replace(PLACE, system=system, mpi=system))
        store.note_failure(replace(PLACE, system=system, mpi=system), system)


@pytest.fixture(scope="module")
def evil(made: Manifest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """All names are HTML."""
    path = tmp_path_factory.mktemp("evil") / "db"
    fill(path, made, EVIL)
    yield Server(path, made)


class Elements(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@pytest.mark.parametrize("url", [path for path, _ in pages.PAGES] + ["/audit"])
def test_names_are_text(url: str, evil: Server) -> None:
    found = evil("GET", url, token=evil.token("admin"))
    assert found.status == 200
    seen = Elements(found.body.decode())
    assert not {"script", "img", "iframe"} & {*seen.tags}
    assert not [name for name, _ in seen.attributes if name.startswith("on")]
    assert EVIL in " ".join(seen.text)
    assert "script-src" not in found.headers["content-security-policy"]
    assert "default-src 'none'" in found.headers["content-security-policy"]


def test_the_page_of_a_system(evil: Server) -> None:
    """Its policy has the hash of each of its scripts, and allows no others."""
    found = evil("GET", f"/systems/{quote(EVIL, safe='')}")
    assert found.status == 200
    text = found.body.decode()
    assert Elements(text).tags.count("script") == 4
    policy = found.headers["content-security-policy"]
    assert policy.count("'sha256-") == 2
    assert "unsafe-inline" not in policy.partition("script-src")[2]
    assert "unsafe-eval" not in policy
    assert evil("GET", "/systems/nobody").status == 404
    made: list[object] = []
    evil.service.pages.put = lambda *words: made.append(words)  # type: ignore[method-assign,assignment]
    assert evil("GET", f"/systems/{quote(EVIL, safe='')}").body == found.body
    assert not made


def test_what_the_pages_say(made: Manifest, tmp_path: Path) -> None:
    at = Server(tmp_path / "db", made)
    assert b"nothing was pushed yet" in at("GET", "/").body
    fill(at.path, made, "cluster")
    at.service.pages = type(at.service.pages)(at.path, 0)
    rows = " ".join(Elements(at("GET", "/").body.decode()).text).split()
    assert {"cluster", "v5.0.7", "6", "2", "2026-01-01"} <= {*rows}
    assert b"bcast of 1 KiB" in at("GET", "/queue").body
    assert b"full_lane[" in at("GET", "/changes").body
    assert at("GET", "/audit").status == 401
    assert at("GET", "/audit").headers["www-authenticate"].startswith("Basic")
    push = add_token(at.path, "push")
    at.service._tokens.drop(())
    assert at("GET", "/audit", token=push).status == 403


def form(at: Server, group: pages.Group, origin: str = "http://service", **fields: str) -> Answer:
    values = {"problem": f"0:{group.digest}", "until": "", "why": "new cables", **fields}
    return at("POST", "/findings/mark", body=urlencode(values).encode(), headers={"Origin": origin})


def test_findings_are_acknowledged_and_muted(made: Manifest, tmp_path: Path) -> None:
    at = Server(tmp_path / "db", made)
    fill(at.path, made, "cluster")
    admin, push = add_token(at.path, "admin"), add_token(at.path, "push", "cluster")
    other = add_token(at.path, "admin", "elsewhere")

    def only() -> pages.Group:
        with at.service.reader() as store:
            (one,) = pages.groups(store)
        return one

    one = only()
    assert (one.nights, one.first, one.last.found, one.state) == (2, night(3), night(1), "open")
    for token, status in (("", 401), ("cf_x", 401), (push, 403), (other, 403)):
        assert form(at, one, token=token).status == status
    assert form(at, one, "https://evil.example", token=admin).status == 403
    assert form(at, one, "null", token=admin).status == 403
    assert form(at, one, token=admin, why="").status == 400
    assert form(at, one, token=admin, until="soon").status == 400
    assert form(at, replace(one, problem="?"), token=admin).status == 400
    assert only().state == "open"
    assert b"open" in at("GET", "/findings").body
    done = form(at, one, token=admin)
    assert (done.status, done.headers["location"]) == (303, "/findings")
    assert only().state == "acknowledged"
    assert b"acknowledged (admin" in at("GET", "/findings").body
    with at.service.writer() as store:
        later = (datetime.now(timezone.utc) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
        store.record_findings([replace(one.last, found=later)])
    assert only().state == "open"
    with at.service.writer() as store:
        store.record_findings([replace(one.last, found=later, environment="mpich")])
        assert [each.state for each in pages.groups(store)] == ["open", "open"], "of each library"
        store.record_findings(
            [replace(one.last, found=later[:-1] + "Z", variable="x", passed=True)]
        )
        store._rows("DELETE FROM finding WHERE environment = 'mpich'")
    assert form(at, one, token=admin, until="2999-01-01").status == 303
    assert only().state == "muted until 2999-01-01"
    assert form(at, one, token=admin, until="2020-01-01").status == 400
    assert form(at, one, "http://[", token=admin).status == 403
    with at.service.writer() as store:
        later = (datetime.now(timezone.utc) + timedelta(hours=2)).strftime("%Y-%m-%dT%H:%M:%SZ")
        store.record_findings([replace(one.last, found=later, passed=True)])
    assert only().state == "passed since"
    with at.service.reader() as store:
        assert [one.action for one in store.audits(2)] == ["mute", "acknowledge"]
