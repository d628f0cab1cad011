"""Commands on a service and its file: push, pull, db."""

from __future__ import annotations

import hashlib
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from asgi import Server, pushed, server
from invented_tunings import PLACE
from support import execute

from collforge.db.published import counts
from collforge.service import client
from collforge.service.store import ServiceStore
from collforge.tuner.cli import main
from collforge.tuner.run import learnt

SYSTEM = PLACE.system


RUNS = "/api/v1/runs"


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


WRONG = {
    "another content": "X-Collforge-SHA256: " + 64 * "0" + "\r\nContent-Length: 3\r\n\r\nabc",
    "no winners": f"X-Collforge-SHA256: {hashlib.sha256(b'abc').hexdigest()}\r\n"
    "Content-Length: 3\r\n\r\nabc",
    "elsewhere": "Content-Length: 0\r\n\r\n",
}
ODD = {
    **{name: f"HTTP/1.1 200 OK\r\n{text}".encode() for name, text in WRONG.items()},
    "elsewhere": b"HTTP/1.1 302 Found\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n",
    "half an answer": b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nabc",
    "no HTTP": b"hello\r\n\r\n",
    "nothing": b"",
    "a date": b"HTTP/1.1 503 Busy\r\nRetry-After: Fri, 27 Nov 2026 08:00:00 GMT\r\n"
    b"Content-Length: 0\r\n\r\n",
}


@pytest.mark.parametrize("case", ODD)
def test_odd_answers(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are asked again, and end in words; what came whole, but is not what was asked for, is not kept."""
    monkeypatch.setattr(client, "TRIES", 2)
    monkeypatch.setattr(client.time, "sleep", lambda _: None)
    asked = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            for _ in range(1 if case in WRONG else 2):
                connection, _ = listening.accept()
                with connection:
                    asked.append(connection.recv(4096))
                    connection.sendall(ODD[case])

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        port = listening.getsockname()[1]
        words = ["pull", "--server", f"http://127.0.0.1:{port}", "--system", "x", "--output"]
        assert main.main([*words, str(tmp_path / "out")]) == 2
        thread.join(20)
    assert len(asked) == (1 if case in WRONG else 2)
    assert ("is the service running" in capsys.readouterr().err) == (case not in WRONG)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "server", ["http://[::1", "http://a b", "http://h:x", "ftp://h", "http://"]
)
def test_wrong_addresses_and_tokens(
    server: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["pull", "--server", server, "--system", "x", "--output", str(tmp_path / "out")]
    assert main.main(words) == 2
    assert "give http://" in capsys.readouterr().err
    monkeypatch.setenv(client.TOKEN_VARIABLE, "cf_secret\nline")
    assert main.main(words) == 2
    said = capsys.readouterr().err
    assert "has no token" in said and "secret" not in said
    for action in (["list"], ["revoke", "x"]):
        assert main.main(["serve", "token", "--db", str(tmp_path / "typo.db"), *action]) == 2
    assert not (tmp_path / "typo.db").exists()


def test_learnt_files_without_a_database(tmp_path: Path) -> None:
    """Of a login node that only sends them: root is believed alone, nobody else."""
    found = learnt.Found(tmp_path / "x", b"", 1001)
    assert learnt.owner_of(found, tmp_path / "none") == "1001"
    assert learnt.owner_of(replace(found, owner=0), tmp_path / "none") == ""


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
