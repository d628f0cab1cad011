"""The timing driver's records, a JSON object a line (runtime/bench/record.c), and the one reader of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

import msgspec

FILE = "results.jsonl"
"""Their file in the directory of a ReFrame test."""

FORMAT = 1
"""The format that is read here (FORMAT in record.c)."""


@dataclass(frozen=True)
class Job:
    """The first record of a launch."""

    version: str
    """Of Collforge."""
    library_version: str
    """The first line of MPI_Get_library_version."""
    ranks: int
    layout: str
    """The layout's name."""
    hosts: tuple[str, ...]
    """The processor name of each node's lowest rank."""
    seed: int


@dataclass(frozen=True)
class CaseResult:
    """What became of one case."""

    case: str
    fingerprint: str
    """Of the variant; '' of native."""
    applicable: bool
    """Whether the variant serves such a call, and has not declined this one."""
    verified: bool
    detail: str
    """What was wrong, or why the variant declined; '' if nothing."""
    samples: tuple[float, ...]
    """Seconds, in the order of the rounds; empty if the case was only verified."""
    late: int
    """Samples discarded because a rank started late."""
    start_errors: tuple[float, ...] = ()
    """Of each sample: seconds by which the last rank started late."""
    cpu: Optional[float] = None  # noqa: UP045 (msgspec evaluates it, on Python 3.9, too)
    """Seconds of processor time of a call, of all ranks together; None if not asked for, as `memory`."""
    memory: int = 0
    """Bytes of temporaries on the rank that has most."""


@dataclass(frozen=True)
class End:
    """The last record of a launch that came to its end."""

    cases: int
    failed: int
    seconds: Mapping[str, float] = field(default_factory=dict)
    """That the driver spent, by purpose (verifying, timing)."""


@dataclass(frozen=True)
class Output:
    """What a launch has written; of one that was killed, the whole lines."""

    job: Job | None = None
    results: tuple[CaseResult, ...] = ()
    end: End | None = None
    damage: str = ""
    """Which line is no record, and why; nothing behind it is read. '' without one."""


def read(path: Path) -> Output:
    """The records of a file. One that cannot be read has none, but damage."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        return Output(damage=f"the driver left no {path.name} ({error.strerror})")
    job, end, damage = None, None, ""
    results: list[CaseResult] = []
    for number, line in enumerate(lines, 1):
        try:
            record = _record(line)
        except ValueError as error:
            damage = f"{path}, line {number}: {error}"
            break
        if isinstance(record, Job):
            job = record
        elif isinstance(record, End):
            end = record
        else:
            results.append(record)
    return Output(job, tuple(results), end, damage)


_KINDS = {"job": Job, "result": CaseResult, "end": End}


def _record(line: bytes) -> Job | CaseResult | End:
    fields = msgspec.json.decode(line, type=dict[str, Any])
    kind = fields.get("record")
    if kind not in _KINDS:
        raise ValueError(f"unknown record {kind!r}")
    if kind == "job" and fields.get("driver") != FORMAT:
        raise ValueError(
            f"the driver writes format {fields.get('driver')}, not {FORMAT}: rebuild it"
        )
    record: Job | CaseResult | End = msgspec.convert(fields, _KINDS[kind])
    return record
