"""What people look at: pages made here, without JavaScript but for the charts of a system's page."""

from __future__ import annotations

import base64
import hashlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import HTMLResponse, RedirectResponse, Response

import collforge
from collforge.db import Finding
from collforge.mpi_library import short_version
from collforge.service import documents
from collforge.service.app import CONTENT_POLICY, CSS, FORM, HTML, Call, Endpoint
from collforge.service.client import quoted
from collforge.service.queue import now
from collforge.service.refusal import Refused
from collforge.service.service import Service
from collforge.service.store import Mark, ServiceStore
from collforge.units import format_seconds, format_size

DAYS = 90
"""Of findings that are shown."""
WORST = 5
MOST_ROWS = 300
PAGE_LIMIT = 120.0
"""Seconds in which the page of a system is made, or not."""
PAGES = (
    ("/", "Fleet"),
    ("/queue", "Queue"),
    ("/agents", "Agents"),
    ("/findings", "Findings"),
    ("/changes", "Changes"),
)


def _environment() -> Environment:
    found = Environment(
        loader=PackageLoader(__package__),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters.update(
        size=format_size,
        seconds=format_seconds,
        short=short_version,
        quoted=quoted,
        day=lambda text: text[:10],
        minute=lambda text: text[:16].replace("T", " "),
        number=lambda value: "" if value is None else f"{value:.4g}",
    )
    return found


_TEMPLATES = _environment()


def _render(name: str, title: str, **values: Any) -> str:
    return _TEMPLATES.get_template(f"{name}.html.j2").render(
        title=title,
        pages=PAGES,
        version=collforge.__version__,
        made=datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        **values,
    )


def _page(key: str, make: Callable[[ServiceStore], str]) -> Callable[[Service, Call], Response]:
    """An endpoint whose page is made once for each state of the database."""

    def run(service: Service, call: Call) -> Response:
        def read() -> tuple[str, str]:
            with service.reader() as store:
                return make(store), CONTENT_POLICY

        return _answer(*service.pages.get((key,), read))

    return run


def _answer(text: str, policy: str) -> Response:
    return HTMLResponse(text, headers={"Content-Security-Policy": policy})


def _fleet(store: ServiceStore) -> str:
    rows = store.fleet()
    failed = {one.system: 0 for one in rows}
    failed.update(store.failed_findings())
    open_ = [one for one in groups(store) if one.state == OPEN]
    worst = sorted(open_, key=lambda one: -one.factor)[:WORST]
    return _render(
        "fleet", "Fleet", fleet=rows, failed=failed, pending=store.pending(), worst=worst
    )


def _queue(store: ServiceStore) -> str:
    return _render("queue", "Queue", tasks=store.tasks(MOST_ROWS))


def _agents(store: ServiceStore) -> str:
    return _render("agents", "Agents", agents=store.agents())


def _changes(store: ServiceStore) -> str:
    found = [one for each in store.decisions().values() for one in each]
    found.sort(key=lambda one: one.decided, reverse=True)
    left = max(0, len(found) - MOST_ROWS)
    return _render("changes", "Changes", changes=found[:MOST_ROWS], left=left)


def _audit(service: Service, call: Call) -> Response:
    with service.reader() as store:
        return _answer(_render("audit", "Audit", audits=store.audits(MOST_ROWS)), CONTENT_POLICY)


def style(service: Service, call: Call) -> Response:
    shared = resources.files("collforge.tuner.page") / "page.css"
    own = resources.files("collforge.service") / "service.css"
    text = shared.read_text(encoding="utf-8") + own.read_text(encoding="utf-8")
    return Response(text, media_type="text/css; charset=utf-8")


# ---- a system ------------------------------------------------------------------------------------


def system(service: Service, call: Call) -> Response:
    """The page of `collforge report --html`."""
    return _answer(
        *service.pages.get(
            ("/systems", call.path["system"]), partial(_system, service, call.path["system"])
        )
    )


def _system(service: Service, name: str) -> tuple[str, str]:
    """Made by `collforge report`, as a process: it takes hundreds of megabytes for a while, and a processor."""
    with service.reader() as store:
        if name not in {place.system for place in store.places()}:
            raise Refused(404, "there is no such system")
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        words = ["report", "--db", str(service.path), "--system", name, "--html", str(page)]
        try:
            subprocess.run(
                [sys.executable, "-m", "collforge", *words],
                check=True,
                timeout=PAGE_LIMIT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
        except subprocess.SubprocessError as error:  # its words are in the log
            raise Refused(503, "the page cannot be made now", 60) from error
        text = page.read_text(encoding="utf-8")
    text = text.replace("<header>", '<header>\n<p><a href="/">All systems</a></p>', 1)
    return text, _policy(text)


def _policy(text: str) -> str:
    """Its own scripts, by their hashes, and nothing else; the charts need styles of their own."""
    scripts = re.findall(r'<script type="module">(.*?)</script>', text, re.DOTALL)
    hashes = [base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in scripts]
    allowed = " ".join(f"'sha256-{one}'" for one in hashes)
    return (
        CONTENT_POLICY.replace("style-src 'self'", "style-src 'unsafe-inline'")
        + f"; script-src {allowed}"
    )


# ---- findings ------------------------------------------------------------------------------------

OPEN, ACKNOWLEDGED, MUTED, PASSED = "open", "acknowledged", "muted", "passed since"


@dataclass(frozen=True)
class Group:
    """What failed in nights, of one problem with one MPI library."""

    system: str
    problem: str
    """The case string, or the check's name where it has none."""
    environment: str
    nights: int
    first: str
    last: Finding
    mark: Mark | None
    state: str

    @property
    def digest(self) -> str:
        """Names it in a form, whatever its name has in it."""
        return hashlib.sha256(
            repr((self.system, self.problem, self.environment)).encode()
        ).hexdigest()

    @property
    def factor(self) -> float:
        """By how much the last value differs from what was expected."""
        value, reference = self.last.value, self.last.reference
        return abs(value / reference - 1) if reference else 0.0


def groups(store: ServiceStore) -> list[Group]:
    """Those that are open first, the newest first."""
    since = (datetime.now(timezone.utc) - timedelta(days=DAYS)).strftime("%Y-%m-%d")
    found: dict[tuple[str, str, str], list[Finding]] = {}
    for one in store.findings(since=since, failed=True):
        found.setdefault((one.system, one.problem or one.test, one.environment), []).append(one)
    marks = {(one.system, one.problem, one.environment): one for one in store.marks()}
    failing = {(one.system, one.problem or one.test, one.environment) for one in store.failing()}
    rows = [_group(key, each, marks.get(key), key in failing) for key, each in found.items()]
    return sorted(rows, key=lambda one: one.state != OPEN)


def _group(
    key: tuple[str, str, str],
    found: Sequence[Finding],
    mark: Mark | None,
    fails: bool,
) -> Group:
    """``found``: the newest first."""
    nights = len({one.found[:10] for one in found})
    state = OPEN
    if not fails:
        state = PASSED
    elif mark and mark.until >= now()[:10]:
        state = f"{MUTED} until {mark.until}"
    elif mark and not mark.until and mark.at >= found[0].found:
        state = ACKNOWLEDGED
    return Group(*key, nights, found[-1].found, found[0], mark, state)


def _findings(store: ServiceStore) -> str:
    return _render("findings", "Findings", groups=groups(store), days=DAYS)


def mark(service: Service, call: Call) -> Response:
    """The form of /findings. It carries its token, so that no browser sends one for a page of others."""
    origin = call.headers.get("origin", "")
    if origin and origin.partition("://")[2] != call.headers.get("host"):
        raise Refused(403, "this form was not sent by a page of the service")
    form = {name: values[-1] for name, values in _form(call.body).items()}
    token = service.identify(form.get("token", ""))
    if token is None:
        service.failing.take("form")
        raise Refused(401, "this needs a valid token with the role admin")
    digest = form.get("problem", "").partition(":")[2]
    with service.writer() as store, store.transaction():
        chosen = next((one for one in groups(store) if one.digest == digest), None)
        if chosen is None:
            raise Refused(400, "there is no such problem any more")
        if not token.may("admin", chosen.system):
            raise Refused(403, f"token {token.name} may not do this for {chosen.system}")
        until = _until(form.get("until", ""))
        why = documents.name(form.get("why", "").strip(), "why", 500)
        store.mark(
            Mark(chosen.system, chosen.problem, chosen.environment, until, now(), token.name, why)
        )
        store.note(token.name, "mute" if until else "acknowledge", chosen.system, chosen.problem)
    for page in ("/findings", "/"):
        service.pages.drop((page,))
    return RedirectResponse("/findings", 303)


def _form(body: bytes) -> dict[str, list[str]]:
    try:
        return parse_qs(body.decode(), max_num_fields=20)
    except ValueError as error:
        raise Refused(400, "this is no form") from error


def _until(text: str) -> str:
    try:
        until = date.fromisoformat(text).isoformat() if text else ""
    except ValueError:
        raise Refused(400, "until: give a date, as 2026-12-31") from None
    if until and until < now()[:10]:
        raise Refused(400, f"until: {until} is over")
    return until


ENDPOINTS = [
    Endpoint("GET", "/", "the fleet", _page("/", _fleet), gives=HTML),
    Endpoint("GET", "/systems/{system:path}", "the report of a system", system, gives=HTML),
    Endpoint("GET", "/queue", "what to measure next", _page("/queue", _queue), gives=HTML),
    Endpoint("GET", "/agents", "who measures", _page("/agents", _agents), gives=HTML),
    Endpoint("GET", "/findings", "what failed at night", _page("/findings", _findings), gives=HTML),
    Endpoint(
        *("POST", "/findings/mark", "acknowledge or mute a problem: the form of /findings"),
        mark,
        takes=FORM,
        gives=HTML,
    ),
    Endpoint("GET", "/changes", "how winners changed", _page("/changes", _changes), gives=HTML),
    Endpoint("GET", "/audit", "who wrote what", _audit, "admin", gives=HTML),
    Endpoint("GET", "/style.css", "how pages look", style, gives=CSS, always_public=True),
]
