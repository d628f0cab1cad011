"""The timing driver's records, one JSON object per line (runtime/bench/record.c), and their only reader."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

import msgspec

FILE = "results.jsonl"
"""The name of the records' file in the directory of a ReFrame test."""

FORMAT = 1
"""The version of the records' format (FORMAT in record.c)."""


@dataclass(frozen=True)
class Job:
    """The first record of a launch."""

    version: str
    """The version of Collforge."""
    library_version: str
    """The first line of MPI_Get_library_version."""
    ranks: int
    layout: str
    """The layout's name."""
    hosts: tuple[str, ...]
    """The processor name of each node's lowest rank."""
    seed: int
    switches: tuple[str, ...] = ()
    """The switches between the network's root and each of these nodes; '' where Slurm does not tell."""
    pmi: str = ""
    """By what the ranks were started: ``pmix``, ``pmi``, or '' if their environment does not tell."""


@dataclass(frozen=True)
class CaseResult:
    """The result of one case."""

    case: str
    fingerprint: str
    """The variant's fingerprint; '' for native."""
    applicable: bool
    """Whether the variant serves such calls and did not decline this one."""
    verified: bool
    detail: str
    """What was wrong, or why the variant declined; '' if nothing."""
    samples: tuple[float, ...]
    """Seconds, in the order of the rounds; empty if the case was only verified."""
    late: int
    """Samples discarded because a rank started late."""
    start_errors: tuple[float, ...] = ()
    """For each sample, how late the last rank started, in seconds."""
    cpu: Optional[float] = None  # noqa: UP045 (msgspec evaluates it, on Python 3.9, too)
    """Seconds of processor time of one call, summed over all ranks; None if not requested."""
    memory: int = 0
    """Bytes of temporaries on the rank that has most; only measured if `cpu` is."""


@dataclass(frozen=True)
class End:
    """The last record of a launch that finished."""

    cases: int
    failed: int
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Seconds that the driver spent, by purpose (verifying, timing)."""


@dataclass(frozen=True)
class Output:
    """The records that a launch has written; if it was killed, those of the complete lines."""

    job: Job | None = None
    results: tuple[CaseResult, ...] = ()
    end: End | None = None
    damage: str = ""
    """The first line that is not a record, and why; reading stops there. '' if there is none."""


def read(path: Path) -> Output:
    """The records of a file. For a file that cannot be read, `damage` says why."""
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
