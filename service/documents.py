"""What `collforge push` sends, read strictly.

It is a document and not a database file: SQLite reads files of strangers with the trust of its own (triggers,
views and damaged pages act while they are read), and a document has exactly the fields that are stored.
Everything here was written by somebody else, so each value is checked before anything is stored: what only a
later decision would trip over would stop the decisions of a place for good.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from functools import lru_cache

import msgspec

from collforge import case
from collforge.db import Result, RunRecord
from collforge.errors import CollforgeError
from collforge.layout import MOST_RANKS, LayoutError, check_names, from_name
from collforge.service.refusal import Refused
from collforge.variant import NATIVE

FORMAT = 1
MOST_RUNS = 500
MOST_RESULTS = 20_000
"""Of a launch."""
MOST_SAMPLES = 10_000
MOST_TEXT = 1000
MOST_PATTERN = 255
"""As the runtime reads it (runtime/src/winners/load.c)."""
MOST_LAYOUT = 600
"""Characters of its name, which the runtime keeps below 300 for a job and its parts each."""
LEAST_SECONDS, MOST_SECONDS = 1e-9, 1e6
"""Of a sample. No clock shows less, and quotients of such numbers are finite."""
CLOCKS = timedelta(minutes=10)
"""By which the clock of a cluster may be ahead."""
_WORD = re.compile(r"\w+", re.ASCII)
_PARAMETERS = re.compile(r"[\w=,.+-]*", re.ASCII)
_DATE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)


class PushedSystem(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    host_pattern: str = ""


class PushedLanes(msgspec.Struct, forbid_unknown_fields=True):
    """As `collforge.db.Lanes`, with its library."""

    mpi: str
    mpi_version: str
    number: int
    rate: float


class PushedEpoch(msgspec.Struct, forbid_unknown_fields=True):
    """As `collforge.db.Epoch`, of the system."""

    mpi: str
    mpi_version: str
    layout: str
    collective: str
    bytes: int
    begins: str


class Push(msgspec.Struct, forbid_unknown_fields=True):
    """Launches of one system."""

    collforge: int
    system: PushedSystem
    runs: list[RunRecord]
    lanes: list[PushedLanes] = []
    sources: dict[str, dict[str, str]] = {}
    """Fingerprint -> C file -> hash."""
    epochs: list[PushedEpoch] = []


_DECODER = msgspec.json.Decoder(Push)


def encode(push: Push) -> bytes:
    return msgspec.json.encode(push)


def read(data: bytes) -> Push:
    """Raises Refused, which names the first value that is wrong."""
    try:
        found = _DECODER.decode(data)
    except (ValueError, RecursionError) as error:  # msgspec's errors, and text that is no UTF-8
        raise Refused(400, f"this is no push of Collforge: {error}") from error
    if found.collforge != FORMAT:
        raise Refused(400, f"the format is {found.collforge}, not {FORMAT}: use the same Collforge")
    if len(found.runs) > MOST_RUNS:
        raise Refused(413, f"{len(found.runs)} launches: push {MOST_RUNS} at a time")
    try:
        check_names([run.place.layout for run in found.runs])
        check_names([one.layout for one in found.epochs])
    except LayoutError as error:
        raise Refused(400, str(error)) from error
    name(found.system.name, "system.name")
    _pattern(found.system.host_pattern)
    for at, run in enumerate(found.runs):
        _run(run, found.system.name, f"runs[{at}]")
    for lanes in found.lanes:
        name(lanes.mpi, "lanes.mpi")
        _version(lanes.mpi_version, "lanes.mpi_version")
        _between(lanes.number, 1, 10_000, "lanes.number")
        _check(0 < lanes.rate < 1e15, "lanes.rate", lanes.rate)
    for epoch in found.epochs:
        name(epoch.mpi, "epochs.mpi")
        _version(epoch.mpi_version, "epochs.mpi_version")
        layout(epoch.layout, "epochs.layout")
        _check(bool(_WORD.fullmatch(epoch.collective)), "epochs.collective", epoch.collective)
        _between(epoch.bytes, 0, 2**62, "epochs.bytes")
        date(epoch.begins, "epochs.begins")
    for fingerprint, files in found.sources.items():
        for text in (fingerprint, *files, *files.values()):
            name(text, "sources")
    return found


def name(text: str, what: str, most: int = MOST_TEXT) -> str:
    """A name that fits into one line. Raises Refused."""
    _check(0 < len(text) <= most and text.isprintable() and text == text.strip(), what, text)
    return text


def date(text: str, what: str) -> str:
    """A date as the database has it, not in the future. Raises Refused."""
    try:
        then = datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc)
    except ValueError:
        then = None
    limit = datetime.now(timezone.utc) + CLOCKS
    _check(then is not None and then < limit and bool(_DATE.fullmatch(text)), what, text)
    return text


def layout(text: str, what: str) -> tuple[int, int]:
    """Nodes and ranks of a layout's job. Raises Refused for what is no name, or not the canonical one."""
    try:
        return _size(text)
    except CollforgeError as error:
        raise Refused(400, f"{what}: {error}") from error


@lru_cache(maxsize=4096)
def _size(text: str) -> tuple[int, int]:
    if len(text) > MOST_LAYOUT:
        raise CollforgeError(f"layout {text[:40]!r}... is too long")
    at = from_name(text)
    if at.name != text:
        raise CollforgeError(f"layout {text!r} is {at.name}")
    return at.launched.nodes, at.launched.size


def _run(run: RunRecord, system: str, where: str) -> None:
    place = run.place
    name(run.uuid, f"{where}.uuid", 200)
    _check(place.system == system, f"{where}.place.system", place.system)
    name(place.mpi, f"{where}.place.mpi")
    _version(place.mpi_version, f"{where}.place.mpi_version")
    size = layout(place.layout, f"{where}.place.layout")
    _check(size == (run.nodes, run.ranks), f"{where}.nodes and ranks", (run.nodes, run.ranks))
    date(run.started, f"{where}.started")
    texts = (run.tool_version, run.reframe_version, run.scheduler_job, run.start.launcher)
    for text in (*texts, run.start.pmi, *run.start.switches):
        _check(len(text) <= MOST_TEXT and text.isprintable(), where, text)
    _check(len(run.hosts) <= MOST_RANKS and len(run.start.switches) <= MOST_RANKS, where, "hosts")
    for host in run.hosts:
        name(host, f"{where}.hosts")
    _between(run.seed, -(2**63), 2**63 - 1, f"{where}.seed")
    _between(run.seconds, 0, 10**9, f"{where}.seconds")
    _check(len(run.results) <= MOST_RESULTS, f"{where}.results", len(run.results))
    keys = {(one.variant, one.problem) for one in run.results}
    _check(len(keys) == len(run.results), f"{where}.results", "one of them twice")
    for at, result in enumerate(run.results):
        _result(result, place.layout, f"{where}.results[{at}]")


def _result(result: Result, at: str, where: str) -> None:
    variant = result.variant
    _check(bool(_WORD.fullmatch(variant.collective)), f"{where}.collective", variant.collective)
    _check(bool(_WORD.fullmatch(variant.family)), f"{where}.family", variant.family)
    _check(bool(_PARAMETERS.fullmatch(variant.parameters)), f"{where}.parameters", variant.name)
    native = variant.family == NATIVE
    _check(native == (variant.fingerprint == ""), f"{where}.fingerprint", variant.fingerprint)
    _check(not native or not variant.parameters, f"{where}.parameters", variant.parameters)
    if not native:
        _check(bool(_WORD.fullmatch(variant.fingerprint)), f"{where}.fingerprint", variant.name)
    lengths = map(len, (variant.name, variant.fingerprint, variant.collective, result.problem))
    _check(max(lengths) <= MOST_TEXT, where, "too long")
    _problem(result, at, where)
    _check(len(result.detail) <= 10 * MOST_TEXT, f"{where}.detail", len(result.detail))
    _between(result.late, 0, 10**9, f"{where}.late")
    _seconds(result.samples, LEAST_SECONDS, f"{where}.samples")
    _seconds(result.start_errors, -MOST_SECONDS, f"{where}.start_errors")


def _problem(result: Result, at: str, where: str) -> None:
    try:
        read_ = case.parse(result.problem)
    except (CollforgeError, ValueError) as error:  # a number of too many digits
        raise Refused(400, f"{where}.problem: {error}") from error
    told = (read_.problem, read_.layout, read_.collective, read_.bytes)
    wanted = (result.problem, at, result.variant.collective, result.bytes)
    _check(told == wanted, f"{where}.problem", result.problem)
    _between(result.bytes, 0, 2**62, f"{where}.bytes")


def _seconds(values: Iterable[float], least: float, what: str) -> None:
    found = list(values)
    _check(len(found) <= MOST_SAMPLES, what, len(found))
    for one in found:
        _check(least <= one < MOST_SECONDS, what, one)


def _pattern(text: str) -> None:
    """The runtime's matcher is POSIX's; what is no pattern here is none there."""
    try:
        re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise Refused(400, f"system.host_pattern: {error}") from error
    _check(len(text) <= MOST_PATTERN and text.isprintable(), "system.host_pattern", text)


def _version(text: str, what: str) -> None:
    """The first line of a library's version; that of MPICH 4 has a tab."""
    name(text.replace("\t", " ").rstrip(), what)


def _between(value: int, least: int, most: int, what: str) -> None:
    _check(least <= value <= most, what, value)


def _check(right: bool, what: str, value: object) -> None:
    if not right:
        raise Refused(400, f"{what}: {str(value)[:100]!r} is not accepted")


class _Known(msgspec.Struct):
    uuids: list[str]


def uuids(answer: bytes) -> list[str]:
    """Of the answer to which launches a service has. Raises CollforgeError for anything else."""
    try:
        return msgspec.json.decode(answer, type=_Known).uuids
    except ValueError as error:
        raise CollforgeError(f"--server is no service of Collforge: {error}") from error
