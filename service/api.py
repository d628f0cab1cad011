"""What programs ask: pushes in, winners and numbers out. The table is at the end."""

from __future__ import annotations

import csv
import io
from dataclasses import asdict

from starlette.responses import Response

import collforge
from collforge.db import StoreError, Winner
from collforge.errors import CollforgeError
from collforge.mpi_library import short_version
from collforge.service import documents, intake
from collforge.service.app import CSV, FORM, JSON, TEXT, Call, Endpoint, check_system, json_of
from collforge.service.refusal import Refused
from collforge.service.service import BUCKETS, Published, Service

OPENAPI = "3.1.0"
_ERROR = {"type": "object", "properties": {"error": {"type": "string"}}}


def push_runs(service: Service, call: Call) -> Response:
    push = documents.read(call.body)
    check_system(call, push.system.name)
    with service.writer() as store, store.transaction():
        new = intake.store_push(store, push, call.who)
        store.note_use(call.who)
    service.numbers.pushed += new
    service.worker.wake()
    return json_of({"new": new, "known": len(push.runs) - new})


def known_runs(service: Service, call: Call) -> Response:
    with service.reader() as store:
        return json_of({"uuids": store.uuids(call.path["system"])})


def push_findings(service: Service, call: Call) -> Response:
    found = intake.read_findings(call.body)
    for one in found:
        check_system(call, one.system)
    with service.writer() as store, store.transaction():
        new = store.record_findings(found)
        if new:
            store.note(call.who.name, "findings", found[0].system, found[0].test)
        store.note_use(call.who)
    return json_of({"new": new})


def push_profile(service: Service, call: Call) -> Response:
    system = call.query.get("system", "")
    check_system(call, system)
    profile = intake.read_profile(call.body, system, call.path["name"])
    with service.writer() as store, store.transaction():
        store.record_profile(profile)
        store.note(call.who.name, "profile", system, profile.name)
        store.note_use(call.who)
    return json_of({"stored": profile.name})


# ---- out -----------------------------------------------------------------------------------------


def winners(service: Service, call: Call) -> Response:
    try:
        found = service.published.get(call.path["system"], call.query.get("mpi", ""))
    except StoreError:
        raise
    except CollforgeError as error:
        raise Refused(404, str(error).replace(str(service.path), "the service")) from error
    return _published(found, call)


def kept_winners(service: Service, call: Call) -> Response | None:
    found = service.published.kept(call.path["system"], call.query.get("mpi", ""))
    return _published(found, call) if found else None


def _published(found: Published, call: Call) -> Response:
    tag = f'"{found.digest}"'
    headers = {"ETag": tag, "X-Collforge-SHA256": found.digest}
    asked = {
        one.strip().removeprefix("W/") for one in call.headers.get("if-none-match", "").split(",")
    }
    if tag in asked or "*" in asked:
        return Response(status_code=304, headers=headers)
    return Response(found.data, headers=headers, media_type="text/plain; charset=utf-8")


def _rows(service: Service, call: Call) -> list[Winner]:
    with service.reader() as store:
        return store.winners(call.query.get("system", ""), call.query.get("mpi", ""))


def winners_json(service: Service, call: Call) -> Response:
    rows = [
        {
            **asdict(one.place),
            "collective": one.choice.variant.collective,
            "variant": one.choice.variant.name,
            **{name: value for name, value in asdict(one.choice).items() if name != "variant"},
            "decided": one.decided,
        }
        for one in _rows(service, call)
    ]
    return json_of({"collforge": collforge.__version__, "winners": [_finite(row) for row in rows]})


def winners_csv(service: Service, call: Call) -> Response:
    columns = (
        "system",
        "mpi",
        "mpi_version",
        "layout",
        "collective",
        "bytes",
        "variant",
        "evidence",
    )
    out = io.StringIO()
    table = csv.writer(out)
    table.writerow([*columns, "ratio", "low", "high", "launches", "seconds", "decided"])
    for one in _rows(service, call):
        place, choice = one.place, one.choice
        names = (place.system, place.mpi, place.mpi_version, place.layout)
        what = (choice.variant.collective, choice.bytes, choice.variant.name, choice.evidence)
        ends = (choice.ratio, choice.low, choice.high, choice.launches, choice.seconds)
        table.writerow(map(_cell, (*names, *what, *ends, one.decided)))
    return Response(out.getvalue(), media_type="text/csv; charset=utf-8")


def _cell(value: object) -> object:
    """A spreadsheet takes what begins so for a formula."""
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@") else value


def _finite(row: dict[str, object]) -> dict[str, object]:
    """JSON has no infinity, which the interval of two launches may end with."""
    return {
        name: None if isinstance(value, float) and not abs(value) < 1e300 else value
        for name, value in row.items()
    }


def bencher(service: Service, call: Call) -> Response:
    """Nanoseconds, as Bencher's measure `latency` has them."""
    with service.reader() as store:
        rows = store.newest_medians(call.path["system"])
    return json_of(
        {
            f"{problem} {mpi} {short_version(version)}": {"latency": {"value": seconds * 1e9}}
            for mpi, version, problem, seconds in rows
        }
    )


def health(service: Service, call: Call) -> Response:
    """503 where the database cannot be read."""
    with service.reader():
        pass
    return json_of({"collforge": collforge.__version__})


def metrics(service: Service, call: Call) -> Response:
    text, _ = service.pages.get(("metrics",), lambda: (_counts(service), ""))
    return Response(
        text + _requests(service), media_type="text/plain; version=0.0.4; charset=utf-8"
    )


def _counts(service: Service) -> str:
    with service.reader() as store:
        fleet, tasks = store.fleet(), store.count("service_task.state")
        pending = len(store.pending())
        agents, failed = len(store.agents()), store.failed_findings()
    lines = []
    for name, what in (
        ("launches", "Launches that are stored."),
        ("layouts", "Layouts with launches."),
        ("winners", "Sizes with a winner."),
        ("undecided", "Measured sizes without one."),
    ):
        lines += _family(f"collforge_{name}", "gauge", what)
        for one in fleet:
            labels = _labels(system=one.system, mpi=one.mpi, version=short_version(one.mpi_version))
            lines.append(f"collforge_{name}{labels} {getattr(one, name)}")
    lines += _family("collforge_places_pending", "gauge", "Places whose winners are to be decided.")
    lines.append(f"collforge_places_pending {pending}")
    lines += _family("collforge_queue", "gauge", "Entries of the queue.")
    for state in ("open", "leased", "done", "failed"):
        lines.append(f"collforge_queue{_labels(state=state)} {tasks.get(state, 0)}")
    lines += _family("collforge_agents", "gauge", "Agents that asked for work once.")
    lines.append(f"collforge_agents {agents}")
    lines += _family("collforge_findings_failed", "gauge", "Values that failed in the last night.")
    for system in sorted({one.system for one in fleet} | failed.keys()):
        labels = _labels(system=system)
        lines.append(f"collforge_findings_failed{labels} {failed.get(system, 0)}")
    return "\n".join([*lines, ""])


def _requests(service: Service) -> str:
    numbers = service.numbers
    lines = _family("collforge_launches_pushed_total", "counter", "New launches since the start.")
    lines.append(f"collforge_launches_pushed_total {numbers.pushed}")
    lines += _family("collforge_requests_total", "counter", "Requests since the start.")
    for (method, status), count in sorted(numbers.requests.items()):
        labels = _labels(method=method, status=str(status))
        lines.append(f"collforge_requests_total{labels} {count}")
    name, sum_ = "collforge_request_seconds", 0
    lines += _family(name, "histogram", "Seconds of requests.")
    for end, count in zip((*BUCKETS, "+Inf"), numbers.seconds):
        sum_ += count
        lines.append(f"{name}_bucket{_labels(le=str(end))} {sum_}")
    lines += [f"{name}_sum {numbers.total:.6f}", f"{name}_count {sum_}", ""]
    return "\n".join(lines)


def _family(name: str, kind: str, what: str) -> list[str]:
    return [f"# HELP {name} {what}", f"# TYPE {name} {kind}"]


def _labels(**values: str) -> str:
    escaped = {
        name: value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        for name, value in values.items()
    }
    return "{" + ",".join(f'{name}="{value}"' for name, value in escaped.items()) + "}"


def openapi(endpoints: list[Endpoint]) -> dict[str, object]:
    """The OpenAPI document of a table of endpoints."""
    paths: dict[str, dict[str, object]] = {}
    for one in endpoints:
        path = one.path.replace(":path}", "}")
        names = [part[1:-1] for part in path.split("/") if part.startswith("{")]
        parameters = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in names
        ] + [
            {"name": name, "in": "query", "description": what, "schema": {"type": "string"}}
            for name, what in one.query.items()
        ]
        takes: dict[str, object] = (
            {"requestBody": {"content": {one.takes: {}}}} if one.takes else {}
        )
        found = "303" if one.takes == FORM else "200"
        error = {TEXT: {}} if one.is_page else {JSON: {"schema": _ERROR}}
        paths.setdefault(path, {})[one.method.lower()] = {
            "summary": one.summary,
            "parameters": parameters,
            "security": [{"token": [one.role]}] if one.role else [{}, {"token": ["read"]}],
            **takes,
            "responses": {
                found: {"description": "done", "content": {one.gives: {}}},
                **({"304": {"description": "it is the one of If-None-Match"}} if one.quick else {}),
                "4XX": {"description": "refused", "content": error},
                "503": {"description": "busy: see Retry-After", "content": error},
            },
        }
    return {
        "openapi": OPENAPI,
        "info": {"title": "Collforge", "version": collforge.__version__},
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "paths": paths,
    }


SYSTEM = {"system": "of this system (default: of all)"}
MPI = {"mpi": "of this MPI library (default: of all)"}

ENDPOINTS = [
    Endpoint(
        *("POST", "/api/v1/runs", "take in launches", push_runs, "push"), takes=JSON, large=True
    ),
    Endpoint("GET", "/api/v1/runs/{system:path}", "the uuids of a system's launches", known_runs),
    Endpoint(
        *("POST", "/api/v1/findings", "take in a record of ReFrame's httpjson handler"),
        *(push_findings, "push"),
        takes=JSON,
    ),
    Endpoint(
        *("POST", "/api/v1/profiles/{name:path}", "take in a CSV of COLLFORGE_PROFILE"),
        *(push_profile, "push", SYSTEM),
        takes=CSV,
        large=True,
    ),
    Endpoint("GET", "/api/v1/winners.json", "the winners", winners_json, "", {**SYSTEM, **MPI}),
    Endpoint(
        *("GET", "/api/v1/winners.csv", "the winners", winners_csv, "", {**SYSTEM, **MPI}),
        gives=CSV,
    ),
    Endpoint(
        *("GET", "/api/v1/winners/{system:path}", "the published file of a system, with ETag"),
        *(winners, "", MPI),
        gives=TEXT,
        quick=kept_winners,
    ),
    Endpoint(
        *(
            "GET",
            "/api/v1/bencher/{system:path}",
            "the newest launches, in Bencher's metric format",
        ),
        bencher,
    ),
    Endpoint("GET", "/metrics", "numbers for Prometheus", metrics, gives=TEXT),
    Endpoint("GET", "/healthz", "whether the service answers", health, always_public=True),
]
