"""The service under load, killed at random; and with a large database. Times are printed, not judged."""

from __future__ import annotations

import json
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from asgi import add_token, call, server, wait_for_port
from invented_tunings import PLACE, Tuning
from support import TOP

from collforge.db import RunRecord, Store
from collforge.db.inspection import Inspection
from collforge.generator.manifest import Manifest
from collforge.service import client, documents, site
from collforge.service.client import Client
from collforge.service.documents import Push, PushedSystem
from collforge.service.service import Service
from collforge.service.store import ServiceStore
from collforge.tuner.site.rebuild import Rules

pytestmark = pytest.mark.wide
PIPELINES, RUNS, READERS, KILLS = 50, 200, 20, 10
AT_ONCE = 10
"""Launches of a push."""
SYSTEMS = 25
LAYOUTS = [f"{nodes}x{ranks}" for nodes in (2, 3, 4, 5) for ranks in (1, 2, 3, 4, 5)]
MOST_MB = 300


def launches(made: Manifest, pipeline: int) -> list[RunRecord]:
    """Those of a pipeline, which alone has their uuids: 20 on each of its ten layouts."""
    system = replace(PLACE, system=f"cluster{pipeline % SYSTEMS}")
    names = LAYOUTS[pipeline // SYSTEMS % 2 :: 2]
    tunings = [Tuning(made, replace(system, layout=name)) for name in names]
    found = []
    for number in range(RUNS):
        run = tunings[number % len(tunings)].launch(number // len(tunings))
        results = run.results[:3]  # native and two variants at one size
        uuid = f"pipeline{pipeline}-{number}"
        found.append(replace(run, uuid=uuid, seed=number, results=results))
    return found


def push(at: Client, runs: list[RunRecord]) -> None:
    about = PushedSystem(runs[0].place.system)
    for begin in range(0, len(runs), AT_ONCE):
        chunk = runs[begin : begin + AT_ONCE]
        at.post("/api/v1/runs", documents.encode(Push(documents.FORMAT, about, chunk)))


def free_port() -> int:
    with closing(socket.socket()) as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Killed:
    """A server that is killed at random and started again, on the same port."""

    def __init__(self, path: Path, port: int, seed: int) -> None:
        self._path, self._port, self._draw = path, port, random.Random(seed)
        self.kills, self.peaks = 0, [0.0]
        self.done = threading.Event()
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self.done.is_set():
            with server(self._path, port=self._port) as (_, process):
                last = self.kills >= KILLS
                self.done.wait(3600 if last else self._draw.uniform(1, 5))
                self.peaks.append(peak(process.pid))
                if not last and not self.done.is_set():
                    process.send_signal(signal.SIGKILL)
                    process.wait()
                    self.kills += 1


def peak(pid: int) -> float:
    """MB that a process had at most."""
    (line,) = [
        one for one in Path(f"/proc/{pid}/status").read_text().splitlines() if "VmHWM" in one
    ]
    return int(line.split()[1]) / 1e3


def test_pipelines_readers_and_kills(
    made: Manifest, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is lost or doubled; readers wait for nobody."""
    monkeypatch.setattr(client, "TRIES", 100)
    monkeypatch.setattr(client, "MOST_WAIT", 1.0)
    path, port, stop = tmp_path / "fleet.db", free_port(), tmp_path / "stop"
    tokens = [add_token(path, "push", name=f"pipeline{n}") for n in range(PIPELINES)]
    killed = Killed(path, port, seed)
    killed.thread.start()
    address = f"http://127.0.0.1:{port}"
    wait_for_port(address)
    script = [sys.executable, str(TOP / "tests" / "service_readers.py"), "127.0.0.1", str(port)]
    script += ["/api/v1/winners/cluster0", str(READERS), str(stop)]
    begin = time.monotonic()
    failed: list[BaseException] = []

    def pipeline(number: int) -> None:
        try:
            push(Client(address, tokens[number]), runs[number])
        except BaseException as error:
            failed.append(error)
            raise

    runs = [launches(made, number) for number in range(PIPELINES)]
    pipelines = [threading.Thread(target=pipeline, args=(n,)) for n in range(PIPELINES)]
    with subprocess.Popen(script, stdout=subprocess.PIPE, text=True) as readers:
        try:
            for one in pipelines:
                one.start()
            for one in pipelines:
                one.join()
            took = time.monotonic() - begin
            while killed.kills < KILLS and time.monotonic() - begin < 300:
                time.sleep(0.1)
            wait_for_port(address)
            wait_until_decided(path)
            pages = [Client(address).get(url).status for url in ("/", "/changes", "/metrics")]
        finally:
            stop.touch()
            killed.done.set()
            said, _ = readers.communicate()
            killed.thread.join()
    assert not failed
    assert pages == [200] * 3
    seconds = sorted(json.loads(said))
    p99 = seconds[int(0.99 * len(seconds))]
    print(
        f"{PIPELINES * RUNS} launches in {took:.0f} s, {killed.kills} kills; {len(seconds)} pulls,"
        f" p50 {seconds[len(seconds) // 2] * 1e3:.1f} ms, p99 {p99 * 1e3:.1f} ms;"
        f" memory at most {max(killed.peaks):.0f} MB"
    )
    check_whole(path, runs, made)
    assert killed.kills == KILLS
    assert len(seconds) > 1000
    assert max(killed.peaks) < MOST_MB


def wait_until_decided(path: Path) -> None:
    end = time.monotonic() + 300
    while time.monotonic() < end:
        with ServiceStore(path, create=False) as store:
            if not store.pending():
                return
        time.sleep(0.5)
    raise AssertionError("places are still pending")


def check_whole(path: Path, runs: list[list[RunRecord]], made: Manifest) -> None:
    """The database has each launch once, as it was sent, and the winners follow from them."""
    from collforge.tuner.cli.commands.db import wrong_winners

    sent = {one.uuid: one for each in runs for one in each}
    with ServiceStore(path, create=False) as store:
        stored = [one.uuid for one in store.runs()]
        assert len(stored) == len(sent)
        assert {*stored} == {*sent}
        for uuid in random.Random(0).sample(stored, 200):
            assert store.run(uuid) == sent[uuid]
    with Inspection(path) as inspection:
        assert not [*inspection.damage(), *inspection.faults()]
        assert not [*wrong_winners(inspection, Rules(made))]


LARGE = (
    "CREATE TEMP TABLE n AS WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 999)"
    " SELECT i FROM n",
    "INSERT INTO variant (collective, family, parameters, fingerprint)"
    " SELECT 'bcast', 'full_lane', 'lanes=' || i, 'aa' FROM n WHERE i < 50",
    "INSERT INTO layout (name, nodes, ranks) SELECT i || 'x1', i, i FROM n WHERE i BETWEEN 10 AND 209",
    "INSERT INTO run (uuid, system, mpi_library, layout, started, tool_version, reframe_version, hosts, seed)"
    " SELECT 'large' || i, 1 + i % (SELECT count(*) FROM system), 1,"
    " (SELECT id FROM layout WHERE name = (10 + i % 200) || 'x1'),"
    " '2026-02-01T00:00:00Z', '', '', '[\"node1\"]', 0 FROM n",
    "INSERT INTO verification (run, variant, problem, passed) SELECT run.id, variant.id,"
    " 'bcast@4x2,bytes=' || n.i, 1 FROM run, variant, n"
    " WHERE uuid LIKE 'large%' AND parameters LIKE 'lanes=%' AND n.i BETWEEN 1 AND 20",
    "INSERT INTO measurement (run, variant, problem, collective, bytes, samples, median, late)"
    " SELECT run, variant, problem, 'bcast', 8, '[0.001,0.001,0.001,0.001]', 0.001, 0 FROM verification"
    " JOIN run ON run.id = run WHERE uuid LIKE 'large%'",
    "INSERT INTO winner (system, mpi_library, layout, collective, bytes, variant, ratio, ratio_low,"
    " ratio_high, launches, verification, decided)"
    " SELECT system, mpi_library, layout, 'bcast', n.i, variant, 2.0, 1.5, 2.5, 5, first,"
    " '2026-02-02T00:00:00Z' FROM (SELECT run, variant, min(id) AS first FROM verification"
    " WHERE problem = 'bcast@4x2,bytes=1' GROUP BY run)"
    " JOIN run ON run.id = run JOIN n ON n.i < 50 WHERE uuid LIKE 'large%' AND run.id <= 1 + 200 * 5"
    " GROUP BY 1, 2, 3, 5",
    "INSERT INTO finding SELECT NULL, 1 + i % (SELECT count(*) FROM system), 'p', 'e',"
    " strftime('%Y-%m-%dT03:00:00Z', 'now', '-' || (i % 60) || ' days'), '', 'test' || (i / 60), '', 'time',"
    " 2.0, 'us', 1.0, 0.9, 1.1, i % 7 > 0 FROM n",
)


@pytest.fixture
def large(made: Manifest, tmp_path: Path) -> Iterator[Path]:
    """A million measurements of five systems."""
    path = tmp_path / "large.db"
    for number in range(5):
        Tuning(made, replace(PLACE, system=f"cluster{number}")).store(path, launches=3)
    with ServiceStore(path) as store, store.transaction():
        for sql in LARGE:
            store._rows(sql)
        ((count,),) = store._rows("SELECT count(*) FROM measurement")
    assert count > 1_000_000
    yield path
    path.unlink()


def test_a_million_measurements(large: Path, made: Manifest) -> None:
    service = Service(large, lambda: Rules(made))
    app: Any = site.make(service)
    took = {}
    for url in (
        "/",
        "/findings",
        "/changes",
        "/metrics",
        "/api/v1/winners/cluster0",
        "/systems/cluster0",
    ):
        begin = time.monotonic()
        assert call(app, "GET", url).status == 200
        took[url] = time.monotonic() - begin
    with Store(large, create=False) as store:
        winners = len(store.winners())
    print(
        f"{large.stat().st_size / 1e6:.0f} MB, {winners} winners:",
        *(f"{u} {s:.2f} s" for u, s in took.items()),
    )
    assert winners > 1000
