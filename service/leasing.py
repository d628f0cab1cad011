"""What agents ask for: entries of the queue. And what jobs have learnt, which the queue goes by, too."""

from __future__ import annotations

from typing import Annotated, Literal, TypeVar

import msgspec
from starlette.responses import Response

from collforge.service.app import JSON, Call, Endpoint, check_system, json_of
from collforge.service.queue import LONGEST, SHORTEST, Lease, Request
from collforge.service.refusal import Refused
from collforge.service.service import Service
from collforge.service.worker import MOST_FAILURES
from collforge.tuner.decide import learning
from collforge.tuner.run import learnt

T = TypeVar("T")


class Report(msgspec.Struct, frozen=True):
    """What an agent says of an entry that it has."""

    attempt: Annotated[int, msgspec.Meta(ge=1, le=2**31)]
    """Of its lease."""
    state: Literal["leased", "done", "failed"]
    seconds: Annotated[int, msgspec.Meta(ge=SHORTEST, le=LONGEST)] = 3600
    """Of the lease from now on, where it goes on."""
    result: Annotated[str, msgspec.Meta(max_length=1000)] = ""


def lease(service: Service, call: Call) -> Response:
    """Fills the queue first, so that it is of now."""
    request = _decoded(call.body, Request)
    check_system(call, request.system)
    with service.reader() as store:
        proposed = store.proposed(service.rules().made, request)
    with service.writer() as store, store.transaction():
        store.fill(proposed, request)
        found = store.lease(request)
        if found:
            store.note(call.who.name, "lease", request.system, f"{request.agent}: {found.id}")
        store.note_use(call.who)
    return json_of({"task": found and _written(found)})


def _written(one: Lease) -> dict[str, object]:
    place = one.proposal.place
    return {
        "id": one.id,
        "attempt": one.attempt,
        "until": one.until,
        "system": place.system,
        "mpi": place.mpi,
        "mpi_version": place.mpi_version,
        "layout": place.layout,
        "reason": one.proposal.kind,
        "why": one.proposal.why,
        "gain": one.proposal.gain,
        "since": one.proposal.since,
        "problems": sorted(one.proposal.problems),
    }


def report(service: Service, call: Call) -> Response:
    what = _decoded(call.body, Report)
    number = call.path["number"]
    task = int(number) if number.isdecimal() and len(number) < 19 else 0
    with service.writer() as store, store.transaction():
        system = store.system_of(task)
        if system is None:
            raise Refused(404, "there is no such entry")
        check_system(call, system)
        if what.state == "leased":
            held = store.renew(task, what.attempt, what.seconds)
        else:
            held = store.finish(task, what.attempt, what.state == "done", what.result)
            store.note(call.who.name, what.state, system, f"entry {task}")
        if not held:
            raise Refused(409, "the lease has expired: another agent may have the entry")
        store.note_use(call.who)
    return json_of({"state": what.state})


def pending(service: Service, call: Call) -> Response:
    with service.reader() as store:
        pending = [one for one in store.pending() if one.failures < MOST_FAILURES]
    return json_of({"pending": sum(one.place.system == call.path["system"] for one in pending)})


def push_learnt(service: Service, call: Call) -> Response:
    """A file of COLLFORGE_LEARN. Who pushes says whose it was."""
    owner = call.headers.get("x-owner", f"token {call.who.name}"[:64])
    if len(owner) > 64 or not owner.isprintable():
        raise Refused(400, "X-Owner: a name of at most 64 characters, or nothing for root")
    with service.writer() as store, store.transaction():
        try:
            job, new = learnt.take(store, call.body, owner)
        except learnt.NotLearnt as error:
            raise Refused(400, str(error)) from error
        check_system(call, job.place.system)  # what was stored is undone
        if new:
            learning.renew(store, job.place)
            store.note(call.who.name, "learnt", job.place.system, f"{len(job.verdicts)} verdicts")
        store.note_use(call.who)
    service.worker.wake()
    return json_of({"new": int(new)})


def _decoded(data: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(data, type=kind)
    except (ValueError, RecursionError) as error:
        raise Refused(400, f"this is not what is expected here: {error}") from error


ENDPOINTS = [
    Endpoint("POST", "/api/v1/lease", "take an entry of the queue", lease, "push", takes=JSON),
    Endpoint(
        "POST", "/api/v1/tasks/{number}", "renew a lease, or end it", report, "push", takes=JSON
    ),
    Endpoint(
        *("GET", "/api/v1/pending/{system:path}", "how many of its places are to be decided anew"),
        pending,
    ),
    Endpoint(
        "POST",
        "/api/v1/learnt",
        "take in a file of COLLFORGE_LEARN",
        push_learnt,
        "push",
        takes=JSON,
    ),
]
