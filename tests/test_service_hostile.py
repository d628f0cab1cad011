"""Ten thousand pushes that were changed at random, and other hostile input: no 500, nothing stored or run."""

from __future__ import annotations

import copy
import gzip
import json
import random
import resource
import socket
import time
import zlib
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from asgi import Answer, Server, add_token, pushed, server
from invented_tunings import PLACE, Tuning

from collforge.db.inspection import Inspection
from collforge.generator.manifest import Manifest
from collforge.service import limits
from collforge.service.client import Client
from collforge.service.limits import Rate
from collforge.service.store import ServiceStore

pytestmark = pytest.mark.wide
MUTANTS = 10_000
RUNS = "/api/v1/runs"
TEXTS = (
    "", " ", "x" * 5000, "a\nb", "a\tb", "\x00", "\x1b[2J", "../../etc/passwd", "/etc/passwd", "%2e%2e%2f",
    "'", '"', "'; DROP TABLE run; --", "x' OR '1'='1", "<script>alert(1)</script>", "{{ 7 * 7 }}", "${7*7}",
    "$(touch pwned)", "`touch pwned`", "4x2", "99999x99999", "1x1048577", "map:" + "0." * 100 + "0", "4x2/4x1",
    "cyclic:2x2", "4x2-packed", "٤x٢", "bcast@4x2,bytes=1024", "bcast@4x2,bytes=" + "9" * 400, "native",
    "allreduce@4x2,bytes=8,type=int,op=sum", "é", "\u202e", "\ud800", "2026-01-01T00:00:00Z", "full_lane",
    "0000-00-00T00:00:00Z", "9999-12-31T23:59:59Z",
)  # fmt: skip
NUMBERS = (
    *(
        0,
        -1,
        1,
        2**31,
        2**53 + 1,
        2**63 - 1,
        2**63,
        2**64,
        -(2**63) - 1,
        10**400,
        1e308,
        1e-320,
        -1e308,
        0.5,
        -0.0,
    ),
    *(True, False),
)
OTHERS: tuple[Any, ...] = (None, [], {}, [[]], {"a": 1}, "1", [None], [1, "x"])


class Mutator:
    """Changes values, keys and bytes of a document; each number gives the same change in every run."""

    def __init__(self, seed: int, document: Any) -> None:
        self._seed, self._document = seed, document

    def __call__(self, number: int) -> bytes:
        draw = random.Random(f"{self._seed} {number}")
        document = copy.deepcopy(self._document)
        for _ in range(draw.choice((1, 1, 1, 2, 5))):
            self._change(draw, document)
        data = json.dumps(document).encode()
        if draw.random() < 0.2:
            data = self._bytes(draw, data)
        return data

    def _change(self, draw: random.Random, document: Any) -> None:
        holder, key = draw.choice(list(places(document)))
        kind = draw.randrange(6)
        if kind == 0:
            holder[key] = draw.choice(TEXTS)
        elif kind == 1:
            holder[key] = draw.choice(NUMBERS)
        elif kind == 2:
            holder[key] = copy.deepcopy(draw.choice(OTHERS))
        elif kind == 3:
            del holder[key]
        elif kind == 4 and isinstance(holder, dict):
            holder[draw.choice(TEXTS)] = holder.pop(key)
        elif isinstance(holder, list):
            holder[key : key + 1] = [holder[key]] * draw.choice((2, 3, 50))

    def _bytes(self, draw: random.Random, data: bytes) -> bytes:
        found = bytearray(data)
        for _ in range(draw.choice((1, 2, 10))):
            at = draw.randrange(len(found))
            found[at : at + draw.randrange(3)] = draw.randbytes(draw.randrange(3))
        return bytes(found[: draw.choice((len(found), draw.randrange(1, len(found) + 1)))])


def places(value: Any) -> Any:
    """Every container of a document with each of its keys."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, one in list(items):
        yield value, key
        if isinstance(one, (dict, list)):
            yield from places(one)


class Hostile(Server):
    """Calls that name no token have one that may push."""

    def __init__(self, path: Path, made: Manifest) -> None:
        super().__init__(path, made)
        free = Rate(most=1e9, each=1e9)
        self.service.pushing = self.service.reading = self.service.failing = free
        self.right = self.token("push", PLACE.system)

    def __call__(self, method: str, url: str, body: bytes = b"", **more: Any) -> Answer:
        return super().__call__(method, url, body, **{"token": self.right, **more})

    def stored(self) -> list[object]:
        names = (
            *(
                "system",
                "mpi_library",
                "layout",
                "variant",
                "run",
                "verification",
                "measurement",
                "source",
            ),
            *("lanes", "finding", "profile", "service_audit", "service_pending", "service_mark"),
        )
        with ServiceStore(self.path, create=False) as store:
            return [store._rows(f"SELECT * FROM {name}") for name in names]


@pytest.fixture
def hostile(made: Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hostile:
    monkeypatch.chdir(tmp_path)
    return Hostile(tmp_path / "fleet.db", made)


@pytest.fixture
def document(made: Manifest, tmp_path: Path) -> Any:
    found = json.loads(pushed(Tuning(made).store(tmp_path / "site.db", launches=2), PLACE.system))
    for run in found["runs"]:
        run["results"] = run["results"][:2]
    found["lanes"] = [
        {"mpi": PLACE.mpi, "mpi_version": PLACE.mpi_version, "number": 2, "rate": 1e9}
    ]
    found["sources"] = {"a" * 16: {"x.c": "b" * 16}}
    return found


def test_changed_pushes(hostile: Hostile, document: Any, seed: int, tmp_path: Path) -> None:
    """What is refused leaves nothing; what is taken in can be decided, published and shown."""
    mutate = Mutator(seed, document)
    before, counts = hostile.stored(), {200: 0, 400: 0}
    for number in range(MUTANTS):
        data = mutate(number)
        answer = hostile("POST", RUNS, data)
        counts[answer.status] = counts.get(answer.status, 0) + 1
        assert answer.status in (200, 400, 403, 409, 413), (number, data[:300], answer.body)
        if answer.status == 200:
            before = hostile.stored()
        elif number % 20 == 0:
            assert hostile.stored() == before, number
    print(counts)
    assert hostile.stored() == before
    assert counts[400] > MUTANTS / 2
    assert counts[200] > 20  # it must not refuse everything
    hostile.service.worker.work()
    with ServiceStore(hostile.path, create=False) as store:
        assert [one for one in store.pending() if one.error] == []
        places_ = store.places()
    assert {place.system for place in places_} == {PLACE.system}
    for url in (
        "/",
        "/changes",
        f"/systems/{PLACE.system}",
        "/api/v1/winners.json",
        "/metrics",
        "/audit",
    ):
        assert hostile("GET", url).status in (200, 403), url
    with Inspection(hostile.path) as inspection:
        assert not [*inspection.damage(), *inspection.faults()]
    assert not [*tmp_path.rglob("pwned")]


RECORD = {
    "check_system": PLACE.system, "check_partition": "p", "check_environ": "e", "check_display_name": "n",
    "check_case": "", "check_jobid": "12", "check_job_completion_time_unix": 1764230400.5,
    "check_result": "pass", "check_perf_result": "fail", "check_perf_unit": "us",
    "check_perf_var": "time", "check_perf_value": 12.5, "check_perf_ref": 10.0,
    "check_perf_lower_thres": None, "check_perf_upper_thres": 0.1,
}  # fmt: skip
PROFILE = (
    "collective,layout,bytes_from,bytes_to,blocking,calls,origin,communicators,ranks,dropped,call_bytes,seconds,waited\n"
    "job,4x2,0,0,1,1,world,1,8,0,0,10.0,0.0\nbcast,4x2,64,128,1,100,world,1,8,0,6400,1.0,0.5\n"
)


def test_changed_findings_and_profiles(hostile: Hostile, seed: int) -> None:
    mutate = Mutator(seed, RECORD)
    words = PROFILE.split(",")
    for number in range(MUTANTS // 10):
        answer = hostile("POST", "/api/v1/findings", mutate(number))
        assert answer.status in (200, 400, 403), (number, mutate(number), answer.body)
        draw = random.Random(f"{seed} {number}")
        parts = list(words)
        parts[draw.randrange(len(parts))] = str(draw.choice((*TEXTS, *NUMBERS)))
        data = ",".join(parts).encode(errors="surrogatepass")
        answer = hostile("POST", f"/api/v1/profiles/x?system={PLACE.system}", data)
        assert answer.status in (200, 400), (number, data, answer.body)
    for url in ("/", "/findings", "/metrics"):
        assert hostile("GET", url).status == 200


LEARNT = {
    "collforge": 1, "version": "0", "system": PLACE.system, "mpi": PLACE.mpi_version,
    "ended": "2026-11-27T20:00:00Z", "nonce": "0011223344556677",
    "verdicts": [{
        "layout": "3x2", "collective": "bcast", "variant": "full_lane[a=b]", "fingerprint": "a" * 16,
        "bytes": 524288, "native": 0.1, "seconds": 0.03, "pairs": 6, "again": False, "kept": True,
    }],
}  # fmt: skip
ASKED = {
    "agent": "node1", "system": PLACE.system, "layout": "4x2", "nodes": 8, "seconds": 600,
    "libraries": [{"mpi": PLACE.mpi, "version": PLACE.mpi_version}],
}  # fmt: skip
SAID = {"attempt": 1, "state": "failed", "seconds": 600, "result": "no nodes"}


@pytest.mark.parametrize(
    ("url", "document", "good"),
    [("learnt", LEARNT, 2), ("lease", ASKED, 2), ("tasks/1", SAID, 1)],
)
def test_changed_documents_of_jobs_and_agents(
    url: str, document: Any, good: int, hostile: Hostile, made: Manifest, seed: int
) -> None:
    Tuning(made).store(hostile.path, launches=1)
    assert hostile("POST", "/api/v1/lease", json.dumps(ASKED).encode()).json["task"]
    mutate, taken = Mutator(seed, document), 0
    for number in range(MUTANTS // 10):
        data = mutate(number)
        answer = hostile("POST", f"/api/v1/{url}", data)
        assert answer.status in (200, 400, 403, 409), (number, data, answer.body)
        taken += answer.status == 200
    assert taken >= good
    for page in ("/", "/queue", "/agents", "/metrics", f"/systems/{PLACE.system}"):
        assert hostile("GET", page).status == 200, page
    with Inspection(hostile.path) as inspection:
        assert not [*inspection.damage(), *inspection.faults()]


def bomb(size: int) -> bytes:
    """Much more unpacked than packed."""
    packer = zlib.compressobj(9, wbits=31)
    return b"".join(packer.compress(b" " * (1 << 20)) for _ in range(size >> 20)) + packer.flush()


PACKED: dict[str, Callable[[], bytes]] = {
    "1 GiB": lambda: bomb(1 << 30),
    "a bomb in a bomb": lambda: gzip.compress(bomb(1 << 30)),
    "half": lambda: bomb(1 << 20)[:500],
    "two": lambda: gzip.compress(b"{}") * 2,
    "none": lambda: b"\x1f\x8b",
}


@pytest.mark.parametrize("case", PACKED)
def test_zip_bombs(case: str, hostile: Hostile) -> None:
    body = PACKED[case]()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    answer = hostile("POST", RUNS, body, headers={"Content-Encoding": "gzip"})
    assert answer.status in (400, 413)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 4 * limits.MOST_DOCUMENT / 1024


@pytest.mark.parametrize("one", [b"1,", b"{},", b"[],", b'"",'])
def test_documents_of_many_values(one: bytes, hostile: Hostile) -> None:
    """Two bytes may become a number of 32; what is refused is not kept."""
    body = gzip.compress(b"[" + one * (16_000_000 // len(one)) + b"0]")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(3):
        for url in (RUNS, "/api/v1/findings"):
            answer = hostile("POST", url, body, headers={"Content-Encoding": "gzip"})
            assert answer.status == 413, answer.body
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000


@pytest.mark.parametrize("path", ["/findings/mark", RUNS])
def test_connections_that_wait(path: str, hostile: Hostile, document: Any) -> None:
    """Forms of nobody, and pushes of another site, that never come whole hold up nobody else."""
    slow = add_token(hostile.path, "push", "elsewhere", name="slow")
    with server(hostile.path) as (address, _), ExitStack() as open_:
        port = int(address.rpartition(":")[2])
        for _ in range(30):
            held = open_.enter_context(socket.create_connection(("127.0.0.1", port), 10))
            head = f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {slow}\r\n"
            held.sendall(f"{head}Content-Length: 100\r\n\r\n".encode())
        time.sleep(1)
        begin = time.monotonic()
        found = Client(address, hostile.right).post(RUNS, json.dumps(document).encode())
        assert found["new"] == 2
        assert time.monotonic() - begin < 5


def test_wrong_tokens(hostile: Hostile, document: Any, seed: int) -> None:
    draw, body = random.Random(seed), json.dumps(document).encode()
    before = hostile.stored()
    right = hostile.right
    wrong = [
        right[:-1],
        right + "x",
        right.upper(),
        "",
        " ",
        right[:10],
        "null",
        "é",
        "cf_' OR 1=1 --",
    ]
    wrong += ["".join(draw.sample(right, len(right))) for _ in range(50)]
    for token in wrong:
        answer = hostile("POST", RUNS, body, token="", headers={"Authorization": f"Bearer {token}"})
        assert answer.status == 401, token
    for header in (
        right,
        f"Token {right}",
        "Basic",
        "Basic !!!",
        "Basic " + "A" * 5000,
        "Bearer",
        "\xff",
    ):
        answer = hostile("POST", RUNS, body, token="", headers={"Authorization": header})
        assert answer.status == 401, header
    assert hostile.stored() == before


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "OPTIONS", "TRACE"])
def test_paths(method: str, hostile: Hostile, seed: int) -> None:
    draw = random.Random(f"{seed} {method}")
    parts = [
        "..",
        "%2e%2e",
        "%2f",
        "etc",
        "passwd",
        "%00",
        "systems",
        "api",
        "v1",
        "winners",
        "runs",
        "%ff",
        "%0d%0a",
        "x" * 3000,
    ]
    parts += [
        "%3Cscript%3E",
        "'",
        "{}",
        "{{7*7}}",
        "bencher",
        "profiles",
        "findings",
        "mark",
        "fleet.db",
        "~",
        "\\",
    ]
    before = hostile.stored()
    for _ in range(500):
        url = "/" + "/".join(draw.choices(parts, k=draw.randrange(1, 7)))
        url += draw.choice(("", "?mpi=", "?system=%00", "?mpi='--", "?x=" + "y" * 5000))
        answer = hostile(method, url, b"x" if method != "GET" else b"")
        assert answer.status < 500, url
        assert b"SQLite" not in answer.body
        assert str(hostile.path).encode() not in answer.body, url
        assert "\n" not in "".join(answer.headers.values())
    assert hostile.stored() == before
