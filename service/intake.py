"""Stores what is pushed: launches, findings, profiles. Each push is one transaction."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import msgspec

from collforge.db import Finding, Lanes, RunRecord, StoredProfile
from collforge.db.merging import Contradiction, SystemFacts, contradictions, unnumbered
from collforge.errors import CollforgeError
from collforge.place import Place
from collforge.service import documents
from collforge.service.documents import Push, PushedEpoch
from collforge.service.queue import now
from collforge.service.refusal import Refused
from collforge.service.store import ServiceStore
from collforge.service.tokens import Token
from collforge.tuner.decide import profile

MOST_PROFILE = 1 << 20


def store_push(store: ServiceStore, push: Push, by: Token) -> int:
    """Returns how many launches were new; they make their places pending.

    Raises Refused where the system is another one than that of the database, or a launch is another one than
    that with its uuid; nothing is stored then. Who has the role admin may say that it is the same.
    """
    system = push.system.name
    with store.transaction():
        is_admin = by.may("admin", system)
        if not is_admin:
            _compare(store, push)
        new = [run for run in push.runs if _record(store, run)]
        done = [f"{len(new)} new of {len(push.runs)}"] if new else []
        pattern = store.host_pattern(system)
        if push.system.host_pattern not in ("", pattern) and (is_admin or not pattern):
            store.describe_system(system, push.system.host_pattern)
            done.append(f"host pattern {push.system.host_pattern}")
        known = store.system_lanes(system)
        for one in push.lanes:
            of, lanes = (one.mpi, one.mpi_version), (one.number, one.rate)
            if of not in known or (is_admin and known[of] != lanes):
                store.record_lanes(Place(system, *of, ""), Lanes(*lanes))
                done.append(f"lanes of {one.mpi}")
        begun = [one for one in push.epochs if _begin(store, system, one)]
        done += [f"{len(begun)} epochs"] if begun else []
        for fingerprint, files in push.sources.items():
            store.record_sources(fingerprint, files)
        for place in _changed(store, new) | {_place(system, one) for one in begun}:
            store.mark_pending(place)
        if done:
            store.note(by.name, "runs", system, ", ".join(done))
    return len(new)


def _place(system: str, one: PushedEpoch) -> Place:
    return Place(system, one.mpi, one.mpi_version, one.layout)


def _begin(store: ServiceStore, system: str, one: PushedEpoch) -> bool:
    return store.begin_epoch(_place(system, one), one.collective, one.bytes, one.begins)


def _changed(store: ServiceStore, new: Sequence[RunRecord]) -> set[Place]:
    """A variant that failed is out on all layouts and systems of its MPI library."""
    failed = {
        (run.place.mpi, run.place.mpi_version)
        for run in new
        if not all(one.verified for one in run.results)
    }
    others = store.places() if failed else []
    also = {place for place in others if (place.mpi, place.mpi_version) in failed}
    return {run.place for run in new} | also


def _record(store: ServiceStore, run: RunRecord) -> bool:
    if store.record_run(run):
        return True
    if _sorted(store.run(run.uuid)) != _sorted(run):
        raise Contradiction(
            f"launch {run.uuid} was stored with another content: one of the two was changed; leave it out"
        )
    return False


def _sorted(run: RunRecord | None) -> RunRecord | None:
    if run is None:
        return None
    # What was only verified has no samples, and then nothing about them is stored.
    kept = [one if one.samples else replace(one, late=0, start_errors=()) for one in run.results]
    return replace(run, results=tuple(sorted(kept, key=lambda one: (one.problem, one.variant))))


def _compare(store: ServiceStore, push: Push) -> None:
    """Whether a system of this name is the same: by what `collforge db merge` compares."""
    system = push.system.name
    pattern, lanes = store.host_pattern(system), store.system_lanes(system)
    first = SystemFacts(store.path, pattern, lanes, unnumbered(store.hosts(system)))
    other = SystemFacts(
        store.path,
        push.system.host_pattern,
        {(one.mpi, one.mpi_version): (one.number, one.rate) for one in push.lanes},
        unnumbered({host for run in push.runs for host in run.hosts}),
    )
    found = "; ".join(contradictions(first, other))
    if found:
        raise Refused(
            409,
            f"system {system} is not the one that is stored here: {found}; if it is, after a change, "
            "push once with a token of the role admin",
        )


# ---- findings of ReFrame -------------------------------------------------------------------------


def read_findings(data: bytes) -> list[Finding]:
    """A record of ReFrame's handler `httpjson`: of one performance variable, or of all of a check (flattened).

    A check that failed before it had a value gives one finding of the variable ``result``. Raises Refused.
    """
    try:
        record = msgspec.json.decode(data, type=dict[str, Any])
    except (ValueError, RecursionError) as error:
        raise Refused(400, f"this is no record of ReFrame: {error}") from error
    variables = [record] if record.get("check_perf_var") else list(_flattened(record))
    passed = _text(record, "check_result") in ("pass", "xpass")
    if not variables and not passed:
        variables = [{"check_perf_var": "result", "check_perf_value": 0.0}]
    return [_finding({**record, **one}, passed) for one in variables]


def _flattened(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    names = [re.fullmatch(r"check_perf_(\w+)_value", key) for key in record]
    parts = ("value", "ref", "lower_thres", "upper_thres", "unit", "result")
    return [
        {
            "check_perf_var": one[1],
            **{f"check_perf_{part}": record.get(f"check_perf_{one[1]}_{part}") for part in parts},
        }
        for one in names
        if one
    ]


def _finding(record: Mapping[str, Any], passed: bool) -> Finding:
    value = _number(record, "check_perf_value")
    reference = _number(record, "check_perf_ref") or None  # ReFrame's 0 is: none
    low, high = (_number(record, f"check_perf_{end}_thres") for end in ("lower", "upper"))
    result = record.get("check_perf_result")
    return Finding(
        documents.name(_text(record, "check_system"), "check_system"),
        *(_text(record, "check_partition"), _text(record, "check_environ"), _found(record)),
        _text(record, "check_jobid"),
        documents.name(_text(record, "check_display_name"), "check_display_name"),
        _text(record, "check_case"),
        documents.name(_text(record, "check_perf_var"), "check_perf_var", 100),
        0.0 if value is None else value,
        _text(record, "check_perf_unit"),
        reference,
        None if reference is None or low is None else reference * (1 + low),
        None if reference is None or high is None else reference * (1 + high),
        result in ("pass", "xpass") if isinstance(result, str) else passed,
    )


def _found(record: Mapping[str, Any]) -> str:
    """The date at which the job ended; that of now where ReFrame knows none."""
    seconds = _number(record, "check_job_completion_time_unix")
    if seconds is None:
        return now()
    if not 0 <= seconds < 1e11:
        raise Refused(400, "check_job_completion_time_unix is no time")
    stamp = datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    return documents.date(stamp, "check_job_completion_time_unix")


def _text(record: Mapping[str, Any], key: str) -> str:
    value = record.get(key)
    if value is None:
        return ""
    if not isinstance(value, (str, int)) or len(str(value)) > documents.MOST_TEXT:
        raise Refused(400, f"{key}: no text, or too long")
    return "".join(c if c.isprintable() else " " for c in str(value))


def _number(record: Mapping[str, Any], key: str) -> float | None:
    value = record.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 1e300:
        raise Refused(400, f"{key}: no number")
    return float(value)


# ---- profiles ------------------------------------------------------------------------------------


def read_profile(data: bytes, system: str, called: str) -> StoredProfile:
    """A CSV of COLLFORGE_PROFILE. Raises Refused for anything else."""
    documents.name(system, "system")
    documents.name(called, "the profile's name", 200)
    if len(data) > MOST_PROFILE:
        raise Refused(413, f"a profile has at most {MOST_PROFILE} bytes")
    try:
        text = data.decode()
        profile.parse([text])
    except (CollforgeError, ValueError) as error:
        raise Refused(400, f"this is no profile: {error}") from error
    return StoredProfile(system, called, now(), text)
