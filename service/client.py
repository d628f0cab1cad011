"""Talks to a service over HTTP, with the standard library alone: cluster nodes have no more."""

from __future__ import annotations

import gzip
import http.client
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
from urllib.parse import quote, urlsplit

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
        _check_server(self.server)
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
                wait = max(wait, min(MOST_WAIT, _seconds(error.headers.get("Retry-After"))))
            # OSError is urllib's URLError, too; HTTPException is an answer that broke off, or none of HTTP.
            except (OSError, http.client.HTTPException) as error:
                words = f"{url}: {getattr(error, 'reason', error)}"
            if turn < TRIES - 1:
                time.sleep(wait)
        raise CollforgeError(f"{words}; is the service running, and --server right?")


def _check_server(server: str) -> None:
    """Raises CollforgeError for what is no address of a service."""
    try:
        parts = urlsplit(server)
        known = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # a port that is no number, half an IPv6 address
        known = None
    if not known or not server.isascii() or " " in server:
        raise CollforgeError(f"--server {server}: give http://HOST:PORT or https://HOST")


def _seconds(retry_after: str | None) -> float:
    """Of the header Retry-After; 0 where there is none, or a date."""
    return float(retry_after) if retry_after and retry_after.isdecimal() else 0.0


def _lower(headers: Message) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _words(body: bytes) -> str:
    try:
        return str(json.loads(body)["error"])
    except (ValueError, KeyError, TypeError):
        return body[:200].decode(errors="replace").strip()


def read_token(file: Path | None) -> str:
    """Of --token-file, else of COLLFORGE_TOKEN; '': none.

    Raises CollforgeError, which never tells the token, if others can read the file, or if it has no token.
    """
    if file is None:
        where, token = f"${TOKEN_VARIABLE}", os.environ.get(TOKEN_VARIABLE, "").strip()
    else:
        if file.stat().st_mode & 0o077:
            raise CollforgeError(f"{file} can be read by others: chmod 600 {file}")
        where, token = str(file), file.read_bytes().decode(errors="replace").strip()
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise CollforgeError(
            f"{where} has no token: it is one line, as `serve token add` prints it"
        )
    return token


def quoted(name: str) -> str:
    """A name as a part of a path."""
    return quote(name, safe="")
