"""Talks to a service over HTTP, with the standard library alone: cluster nodes have no more."""

from __future__ import annotations

import gzip
import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import Message
from pathlib import Path
from typing import Any
from urllib.parse import quote

from collforge.errors import CollforgeError

SECONDS = 60
"""For an answer."""
TRIES = 8
MOST_WAIT = 30.0
TOKEN_VARIABLE = "COLLFORGE_TOKEN"
_AGAIN = (429, 502, 503, 504)


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    """With names in lower case."""
    body: bytes


class _Stay(urllib.request.HTTPRedirectHandler):
    """A token must not follow a redirection to another host."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


@dataclass(frozen=True)
class Client:
    server: str
    """E.g. ``https://tuning.example``."""
    token: str = ""

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> Answer:
        return self._ask("GET", path, None, headers or {})

    def post(
        self,
        path: str,
        data: bytes,
        kind: str = "application/json",
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Sends it compressed; returns the JSON of the answer."""
        own = {"Content-Type": kind, "Content-Encoding": "gzip", **(headers or {})}
        found = self._ask("POST", path, gzip.compress(data, 6), own)
        document: dict[str, Any] = json.loads(found.body)
        return document

    def _ask(
        self, method: str, path: str, data: bytes | None, headers: Mapping[str, str]
    ) -> Answer:
        """Tries again while the service is busy or starts. Raises CollforgeError with what it says."""
        if not self.server.startswith(("http://", "https://")):
            raise CollforgeError(f"--server {self.server}: give http://… or https://…")
        own = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        url = self.server.rstrip("/") + path
        words, opener = "", urllib.request.build_opener(_Stay)
        for turn in range(TRIES):
            request = urllib.request.Request(url, data, {**own, **headers}, method=method)
            wait = min(MOST_WAIT, 0.5 * 2**turn)
            try:
                with opener.open(request, timeout=SECONDS) as found:
                    return Answer(found.status, _lower(found.headers), found.read())
            except urllib.error.HTTPError as error:
                body = error.read()
                if error.code == 304:
                    return Answer(304, _lower(error.headers), b"")
                words = f"{url}: {error.code}: {_words(body)}"
                if error.code not in _AGAIN:
                    raise CollforgeError(words) from error
                wait = max(wait, min(MOST_WAIT, float(error.headers.get("Retry-After") or 0)))
            except OSError as error:  # also urllib's URLError, and an answer that broke off
                words = f"{url}: {getattr(error, 'reason', error)}"
            if turn < TRIES - 1:
                time.sleep(wait)
        raise CollforgeError(f"{words}; is the service running, and --server right?")


def _lower(headers: Message) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _words(body: bytes) -> str:
    try:
        return str(json.loads(body)["error"])
    except (ValueError, KeyError, TypeError):
        return body[:200].decode(errors="replace").strip()


def read_token(file: Path | None) -> str:
    """Of --token-file, else of COLLFORGE_TOKEN; '': none. Raises CollforgeError if others can read the file."""
    if file is None:
        return os.environ.get(TOKEN_VARIABLE, "").strip()
    if file.stat().st_mode & 0o077:
        raise CollforgeError(f"{file} can be read by others: chmod 600 {file}")
    return file.read_text(encoding="utf-8").strip()


def quoted(name: str) -> str:
    """A name as a part of a path."""
    return quote(name, safe="")
