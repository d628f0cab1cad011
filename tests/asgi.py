"""Calls of the service's application without a network, and a real server in a process of its own."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from collforge.generator.manifest import Manifest
from collforge.service import documents, site, tokens
from collforge.service.documents import Push, PushedSystem
from collforge.service.queue import now
from collforge.service.service import Service
from collforge.service.store import ServiceStore
from collforge.service.tokens import ALL, Token
from collforge.tuner.site.rebuild import Rules


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        return str(self.json["error"])


def call(
    app: Any,
    method: str,
    url: str,
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
    token: str = "",
) -> Answer:
    """One request, as uvicorn hands it over."""
    path, _, query = url.partition("?")
    given = {"host": "service", **({"authorization": f"Bearer {token}"} if token else {})}
    given.update({name.lower(): value for name, value in (headers or {}).items()})
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method,
        "scheme": "http", "path": unquote(path), "raw_path": path.encode(), "root_path": "",
        "query_string": query.encode(), "client": ("127.0.0.1", 1), "server": ("service", 80),
        "headers": [(k.encode(), v.encode("latin-1", "replace")) for k, v in given.items()],
    }  # fmt: skip
    sent: list[dict[str, Any]] = []
    chunks = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        return chunks.pop() if chunks else {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    head, *rest = sent
    return Answer(
        head["status"],
        {k.decode().lower(): v.decode() for k, v in head["headers"]},
        b"".join(one.get("body", b"") for one in rest),
    )


class Server:
    """A service in this process. It runs no worker: tests call it."""

    def __init__(self, path: Path, made: Manifest, private: bool = False) -> None:
        self.path, self.service = path, Service(path, lambda: Rules(made), private)
        self.app = site.make(self.service)

    def __call__(self, method: str, url: str, body: bytes = b"", **more: Any) -> Answer:
        return call(self.app, method, url, body, **more)

    def token(self, role: str, *systems: str) -> str:
        secret = add_token(self.path, role, *systems)
        self.service._tokens.drop(())
        return secret


def add_token(path: Path, role: str, *systems: str, name: str = "") -> str:
    """A token in the database of a service; returns the secret."""
    secret = tokens.new_token()
    made = Token(
        *(name or f"{role}{len(secret)}{secret[3:8]}", tokens.digest(secret), role),
        *(systems or (ALL,), now(), "", ""),
    )
    with ServiceStore(path) as store:
        assert store.add_token(made)
    return secret


def pushed(path: Path, system: str, pattern: str = "") -> bytes:
    """The document with all launches of a system of a database."""
    with ServiceStore(path) as store:
        runs = [run for run in map(store.run, store.uuids(system)) if run]
    return documents.encode(Push(documents.FORMAT, PushedSystem(system, pattern), runs))


@contextmanager
def server(path: Path, *words: str, port: int = 0) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """`collforge serve` on a database: its address and its process, which may be killed."""
    command = [sys.executable, "-m", "collforge", "serve", "--db", str(path), "--port", str(port)]
    with subprocess.Popen([*command, *words], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            found = re.search(r"(http://\S+)/", process.stdout.readline())
            assert found, "the server did not start"
            wait_for_port(found[1])
            yield found[1], process
        finally:
            process.kill()


def wait_for_port(address: str, seconds: float = 20) -> None:
    import urllib.request

    end = time.monotonic() + seconds
    while True:
        try:
            with urllib.request.urlopen(f"{address}/healthz", timeout=5) as found:
                assert found.status == 200
                return
        except OSError:
            assert time.monotonic() < end, f"{address} does not answer"
            time.sleep(0.05)
