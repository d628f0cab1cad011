"""The ASGI application: a table of endpoints, who may use them, limits, headers and errors."""

from __future__ import annotations

import asyncio
import base64
import binascii
import sys
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from collforge.db import DiskFull, Locked, ReadOnly, StoreError
from collforge.db.merging import Conflict, Contradiction
from collforge.errors import CollforgeError
from collforge.service import limits
from collforge.service.refusal import Refused
from collforge.service.service import Service
from collforge.service.tokens import Token

BODIES = 12
"""Large bodies that are held at once; others wait."""
BODIES_EACH = 4
"""Of these the ones of a token: one that sends slowly holds up itself only."""
WORKERS = 2
"""Bodies that are worked on at once: only one can write, and readers need the processor, too."""
CONTENT_POLICY = (
    "default-src 'none'; style-src 'self'; img-src data:; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": CONTENT_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # by `no-referrer` forms would come from the origin null
    "Cache-Control": "no-cache",
}


@dataclass(frozen=True)
class Call:
    """A request, with its body read and unpacked."""

    path: Mapping[str, str]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    token: Token | None
    """Who asks; None: nobody has said."""

    @property
    def who(self) -> Token:
        """For endpoints that need a token."""
        if self.token is None:
            raise Refused(401, "this needs a token")
        return self.token


Run = Callable[[Service, Call], Response]


@dataclass(frozen=True)
class Endpoint:
    """A row of the table, of which routes and the OpenAPI document are made."""

    method: str
    path: str
    """``{name:path}``: the rest of the path, in which names may have slashes."""
    summary: str
    run: Run
    """In a thread: it may read and write the database."""
    role: str = ""
    """The least that is needed; '': nobody asks, but of a private service ``read``."""
    query: Mapping[str, str] = field(default_factory=dict)
    """Parameter -> what it says."""
    takes: str = ""
    """The Content-Type of a body; '': there is none."""
    gives: str = "application/json"
    """The Content-Type of an answer. HTML and CSS are for people: errors are text, and a browser may ask for
    the token."""
    large: bool = False
    """Bodies up to MOST_BODY; else up to MOST_SMALL."""
    quick: Callable[[Service, Call], Response | None] | None = None
    """Answers from memory, on the event loop; None where that is not possible."""
    always_public: bool = False

    @property
    def is_page(self) -> bool:
        return self.gives in (HTML, CSS)


HTML, CSS, TEXT, CSV, JSON, FORM = (
    *("text/html", "text/css", "text/plain", "text/csv", "application/json"),
    "application/x-www-form-urlencoded",
)


def make(service: Service, endpoints: list[Endpoint]) -> Starlette:
    """The application; the worker runs while it does."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        service.worker.start()
        yield
        await run_in_threadpool(service.worker.stop)

    bodies = _Bodies()
    routes = [
        Route(one.path, _asgi(service, one, bodies), methods=[one.method]) for one in endpoints
    ]
    return Starlette(
        routes=routes,
        lifespan=lifespan,
        exception_handlers={HTTPException: _no_route, Exception: _defect},
    )


class _Bodies:
    """Semaphores of the loop that runs, which is another one in each test."""

    def __init__(self) -> None:
        self._loop: object = None

    def slots(self, token: str) -> tuple[asyncio.Semaphore, asyncio.Semaphore, asyncio.Semaphore]:
        """To hold a large body, of this token and of all, and to work on a body."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._each = loop, dict[str, asyncio.Semaphore]()
            self._all, self._working = asyncio.Semaphore(BODIES), asyncio.Semaphore(WORKERS)
        each = self._each.setdefault(token, asyncio.Semaphore(BODIES_EACH))
        return each, self._all, self._working


Handler = Callable[[Request], Awaitable[Response]]


def _asgi(service: Service, endpoint: Endpoint, bodies: _Bodies) -> Handler:
    async def handle(request: Request) -> Response:
        begin = time.monotonic()
        try:
            response = await _answer(service, endpoint, bodies, request)
        except CollforgeError as error:
            response = refusal(error, endpoint.is_page)
        except ClientDisconnect:
            response = refusal(Refused(400, "the connection ended"), False)
        except Exception:  # a defect; the client must not see its words
            traceback.print_exc()
            response = JSONResponse({"error": "a defect of the service"}, 500)
        service.numbers.add(request.method, response.status_code, time.monotonic() - begin)
        return with_headers(response)

    return handle


async def _answer(
    service: Service, endpoint: Endpoint, bodies: _Bodies, request: Request
) -> Response:
    address = request.client.host if request.client else ""
    call = Call(request.path_params, request.query_params, request.headers, b"", None)
    is_open = endpoint.always_public or not (endpoint.role or service.private)
    if endpoint.quick and is_open:
        if (response := endpoint.quick(service, call)) is not None:
            return response
    elif not is_open or request.headers.get("authorization"):
        token = await run_in_threadpool(_authorize, service, endpoint, request.headers, address)
        call = Call(call.path, call.query, call.headers, b"", token)
    rate = service.reading if endpoint.method == "GET" else service.pushing
    rate.take(f"token {call.token.name}" if call.token else address)
    if endpoint.method == "GET":
        return await run_in_threadpool(endpoint.run, service, call)
    each, all_, working = bodies.slots(call.token.name if call.token else "")
    async with AsyncExitStack() as held:
        if endpoint.large:
            await held.enter_async_context(each)
            await held.enter_async_context(all_)
        body = await _body(request, limits.MOST_BODY if endpoint.large else limits.MOST_SMALL)
        await held.enter_async_context(working)
        return await run_in_threadpool(_with_body, service, endpoint, call, body)


async def _body(request: Request, most: int) -> bytes:
    length = request.headers.get("content-length", "0")
    if not length.isdecimal() or len(length) > 12 or int(length) > most:
        raise Refused(413, f"a body has at most {most} bytes: push less at a time")
    try:
        return await asyncio.wait_for(limits.read_body(request.stream(), most), limits.BODY_SECONDS)
    except asyncio.TimeoutError:
        raise Refused(408, f"the body did not come in {limits.BODY_SECONDS} s") from None


def _with_body(service: Service, endpoint: Endpoint, call: Call, body: bytes) -> Response:
    most = limits.MOST_DOCUMENT if endpoint.large else limits.MOST_SMALL
    data = limits.unpack(body, call.headers.get("content-encoding", ""), most)
    return endpoint.run(service, Call(call.path, call.query, call.headers, data, call.token))


def _authorize(
    service: Service, endpoint: Endpoint, headers: Mapping[str, str], address: str
) -> Token | None:
    """Who asks. Raises Refused if they may not."""
    given = given_token(headers.get("authorization", ""))
    token = service.identify(given) if given else None
    if token is None:
        if given:
            service.failing.take(address)
        elif not (endpoint.role or service.private):
            return None
        raise Refused(401, "this needs a valid token: Authorization: Bearer TOKEN")
    if not token.may(endpoint.role or "read"):
        raise Refused(403, f"token {token.name} may {token.role}, this needs {endpoint.role}")
    return token


def given_token(header: str) -> str:
    """Of a bearer, or the password of a browser; '' if there is none."""
    kind, _, value = header.partition(" ")
    if kind.lower() == "bearer":
        return value.strip()
    if kind.lower() == "basic":
        try:
            return base64.b64decode(value, validate=True).decode().partition(":")[2]
        except (binascii.Error, ValueError):
            return ""
    return ""


def refusal(error: CollforgeError, is_page: bool) -> Response:
    """What a client is told of an error. Only words of ours, and no path of this machine."""
    status, words, wait = 400, str(error), 0
    if isinstance(error, Refused):
        status, wait = error.status, error.retry_after
    elif isinstance(error, (Conflict, Contradiction)):
        status = 409
    elif isinstance(error, StoreError):
        print(f"collforge serve: {error}", file=sys.stderr)
        status, words, wait = 503, f"the database cannot be used now: {type(error).__name__}", 5
        if isinstance(error, (DiskFull, ReadOnly)):
            wait = 60
        elif isinstance(error, Locked):
            wait = 1
    response: Response = JSONResponse({"error": words}, status)
    if is_page:
        response = Response(f"{words}\n", status, media_type="text/plain; charset=utf-8")
    if wait:
        response.headers["Retry-After"] = str(wait)
    if status == 401:
        kind = "Basic" if is_page else "Bearer"
        response.headers["WWW-Authenticate"] = f'{kind} realm="Collforge", charset="UTF-8"'
    return response


def with_headers(response: Response) -> Response:
    for header, value in HEADERS.items():
        response.headers.setdefault(header, value)
    return response


async def _no_route(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 404
    words = {404: "there is no such page", 405: "it is not for this method"}.get(status, "no")
    headers: MutableMapping[str, str] = dict(getattr(error, "headers", None) or {})
    return with_headers(JSONResponse({"error": words}, status, dict(headers)))


async def _defect(request: Request, error: Exception) -> Response:
    return with_headers(JSONResponse({"error": "a defect of the service"}, 500))


def check_system(call: Call, system: str) -> None:
    """Raises Refused if the token may not push for the system."""
    if not call.who.may("push", system or "?"):
        raise Refused(403, f"token {call.who.name} is not for the system {system[:100]!r}")


def json_of(document: Any, status: int = 200) -> Response:
    return JSONResponse(document, status)
