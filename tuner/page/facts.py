"""What the page shows, as rows of plain values: seconds, bytes, dates as ISO 8601."""

from __future__ import annotations

import math
import statistics
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from collforge.db import (
    EXTRAPOLATED,
    MEASURED,
    PREDICTED,
    Decision,
    Finding,
    JobUse,
    NativeBest,
    ServedMedian,
    Store,
    StoredRun,
    Tree,
    Winner,
)
from collforge.decision import DECIDED
from collforge.generator.manifest import Manifest
from collforge.layout import Layout
from collforge.mpi_library import short_version
from collforge.place import Place
from collforge.tuner.decide import bandwidth, learning
from collforge.tuner.decide.profile import Profile, parse
from collforge.tuner.decide.savings import savings
from collforge.tuner.site import proposals
from collforge.tuner.site.proposals import Proposal, readable
from collforge.tuner.site.side_by_side import Times, fastest
from collforge.variant import NATIVE

Row = dict[str, Any]

UNDECIDED = "undecided"
"""Beside the evidence of winners: a measured size without one."""
LEARNT = "learnt"
"""On layouts that were not measured: what jobs learnt of the map there."""
MOST_MEDIANS = 100_000
"""Of launches, on a page, which has to stay small; the newest of each problem."""
WORST = 10
"""Rows of a table of the overview."""
FINDINGS = 50
"""Of a system that are shown, the newest."""
CALLS = 20
"""Kinds of calls of a profile that are shown, those with most time."""


@dataclass(frozen=True)
class Facts:
    """The tables of a page."""

    winners: Sequence[Row]
    """A row for each winner, undecided size and predicted point. ``runs``: the launches of a winner, as indices
    in `runs`; ``tuned_us`` and ``native_us``: its median and native's in each, in microseconds."""
    runs: Sequence[Row]
    """``day`` and ``nodes`` of each launch."""
    history: Sequence[Row]
    """A row for each change of a winner, newest first."""
    places: Sequence[Row]
    """A row for each system, library and layout: how much is decided, and the gain."""
    violations: Sequence[Row]
    """Where a native library loses most time against what it could do itself."""
    todo: Sequence[Row]
    """What to do next, each with its command."""
    libraries: Sequence[Row]
    """A row for each system, layout and library that can be compared with another there, as it is tuned."""
    profiles: Sequence[Row]
    """A row for each library and kind of call of the given profiles, or else of those stored: parts of the
    jobs' time."""
    findings: Sequence[Row]
    """The values of nightly checks that failed, the newest first."""
    trees: Sequence[Tree]
    """Installed with winners of this database."""
    uses: Sequence[JobUse]
    """What jobs used, by months."""


def read(
    store: Store, made: Manifest, places: Sequence[Place], profile: Profile | None = None
) -> Facts:
    """``places``: those to show."""
    shown = {*places}
    found = [one for one in store.winners() if one.place in shown]
    open_ = [pair for pair in store.undecided() if pair[0] in shown]
    about = _About(store, made, places)
    runs: dict[str, ServedMedian] = {}
    medians = _medians(store, shown, runs)
    best = {(one.place, one.collective, one.bytes): one for one in store.native_best()}
    winners = [
        {**_winner(one, about), **medians.get(_key(one), {}), **_best(best.get(_key(one)))}
        for one in found
    ]
    winners += [
        {
            **about.at(place), "collective": one.collective, "bytes": one.bytes, "variant": "",
            "evidence": UNDECIDED, "launches": one.launches, "reason": one.reason,
        }
        for place, one in open_
    ]  # fmt: skip
    winners += _predicted(store, places, about)
    return Facts(
        winners,
        [{"day": one.started[:10], "nodes": " ".join(one.hosts)} for one in runs.values()],
        list(_history(store, shown, about)),
        _places(winners, store, places, about),
        _violations(winners),
        list(_todo(store, made, places, about)),
        list(_libraries(winners)),
        list(_profiles(store, made, places, profile, about)),
        list(_findings(store, places)),
        store.trees(),
        store.uses(),
    )


def _key(one: Winner) -> tuple[Place, str, int]:
    return one.place, one.choice.variant.collective, one.choice.bytes


class _About:
    """What several rows say of a place: its names, and the least seconds that its links allow a call."""

    def __init__(self, store: Store, made: Manifest, places: Iterable[Place]) -> None:
        self._store, self._made = store, made
        self._known = {one.name for one in made.tunable}
        self._rates: dict[Place, tuple[Layout | None, float | None]] = {}
        named: dict[tuple[str, str], set[str]] = {}
        for place in places:
            short = short_version(place.mpi_version)
            named.setdefault((place.mpi, short), set()).add(place.mpi_version)
        self._unclear = {name for name, versions in named.items() if len(versions) > 1}

    def at(self, place: Place) -> Row:
        """``tune``: what precedes --collective and --sizes in the command that measures there."""
        short = short_version(place.mpi_version)
        version = place.mpi_version if (place.mpi, short) in self._unclear else short
        return {
            "system": place.system,
            "library": f"{place.mpi}: {version}",
            "layout": place.layout,
            "tune": Proposal(place, "", frozenset(), "").command,
        }

    def limit(self, place: Place, collective: str, nbytes: int) -> float | None:
        """None where it is not known."""
        if place not in self._rates:
            self._rates[place] = readable(place.layout), bandwidth.link_rate(place, self._store)
        at, rate = self._rates[place]
        if at is None or at.nodes < 2 or not rate or collective not in self._known:
            return None
        return bandwidth.lower_bound(self._made, collective, at, nbytes, rate) or None


def _winner(one: Winner, about: _About) -> Row:
    choice, place = one.choice, one.place
    collective = choice.variant.collective
    # Of a tie or a fallback the ratio is that of the best variant, and native serves.
    native = choice.variant.is_native
    return {
        **about.at(place),
        "collective": collective,
        "bytes": choice.bytes,
        "variant": choice.variant.name,
        "evidence": choice.evidence,
        "ratio": 1.0 if native else choice.ratio,
        "low": None if native else choice.low,
        "high": None if native else choice.high,
        "launches": choice.launches,
        "decided": one.decided[:10],
        "seconds": choice.seconds,
        "limit": about.limit(place, collective, choice.bytes),
    }


def _best(one: NativeBest | None) -> Row:
    return {"best": one.seconds, "algorithm": one.algorithm} if one else {}


def _predicted(store: Store, places: Sequence[Place], about: _About) -> Iterator[Row]:
    """The points of the map, and what jobs learnt of it, on layouts without measurements."""
    for place in {(one.system, one.library): one for one in places}.values():
        for point in store.map(place):
            at = replace(place, layout=point.layout)
            if point.evidence == MEASURED or at in places:  # a layout's own winners go first
                continue
            yield {
                **about.at(at), "collective": point.variant.collective, "bytes": point.bytes,
                "variant": point.variant.name, "evidence": point.evidence,
                "ratio": 1.0 if point.variant.is_native else point.ratio, "low": point.low,
                "reason": f"from {', '.join(point.sources)}",
            }  # fmt: skip
        for one in store.learnt(place):
            at = replace(place, layout=one.layout)
            if at not in places:
                yield {
                    **about.at(at), "collective": one.variant.collective, "bytes": one.bytes,
                    "variant": one.variant.name if one.confirmed else NATIVE, "evidence": LEARNT,
                    "ratio": one.ratio if one.confirmed else 1.0,
                    "reason": f"{one.variant.name} {learning.told(one)}",
                }  # fmt: skip


def _medians(
    store: Store, shown: Container[Place], runs: dict[str, ServedMedian]
) -> dict[tuple[Place, str, int], Row]:
    """Medians of launches of each winner, and of native there. Fills ``runs``: launch -> one of its own."""
    numbers: dict[str, int] = {}
    found: dict[tuple[Place, str, int], dict[int, dict[bool, float]]] = {}
    for one in store.served_medians():
        if one.place in shown:
            runs.setdefault(one.run, one)
            run = numbers.setdefault(one.run, len(numbers))
            at = found.setdefault((one.place, one.variant.collective, one.bytes), {})
            at.setdefault(run, {})[one.variant.is_native] = one.median * 1e6
    most = max(2, MOST_MEDIANS // max(1, 2 * len(found)))
    return {
        key: {
            "runs": [*launches][-most:],
            "tuned_us": [each.get(False) for each in launches.values()][-most:],
            "native_us": [each.get(True) for each in launches.values()][-most:],
        }
        for key, launches in found.items()
    }


def _history(store: Store, shown: Container[Place], about: _About) -> Iterator[Row]:
    changes = [one for each in store.decisions().values() for one in each if one.place in shown]
    for one in sorted(changes, key=lambda change: change.decided, reverse=True):
        yield {
            **about.at(one.place), "collective": one.collective, "bytes": one.bytes,
            "day": one.decided[:10], "was": _name(one, "old"), "is": _name(one, "new"),
            "ratio": one.new.ratio if one.new else None,
            "evidence": one.new.evidence if one.new else "",
        }  # fmt: skip


def _name(change: Decision, which: str) -> str:
    choice = getattr(change, which)
    return str(choice.variant.name) if choice else ""


def _places(
    winners: Sequence[Row], store: Store, places: Sequence[Place], about: _About
) -> list[Row]:
    """The gain: the geometric mean over all decided problems, native where it won."""
    runs: dict[Place, list[StoredRun]] = {}
    for run in store.runs(counted=False):
        runs.setdefault(run.place, []).append(run)
    by_place: dict[tuple[str, ...], list[Row]] = {}
    for one in winners:
        by_place.setdefault((one["system"], one["library"], one["layout"]), []).append(one)
    rows = []
    for place in places:
        at = about.at(place)
        own = by_place.get((at["system"], at["library"], at["layout"]), [])
        decided = [one for one in own if one["evidence"] in (DECIDED, "tie")]
        measured = [one for one in own if one["evidence"] not in (PREDICTED, EXTRAPOLATED, LEARNT)]
        launches = runs.get(place, ())
        hours = sum(run.seconds * len(run.hosts) for run in launches) / 3600
        logs = [math.log(one["ratio"]) for one in decided]
        problems = {(one["collective"], one["bytes"]) for one in measured}
        rows.append(
            {
                **at,
                "problems": len(problems),
                "decided": len(decided),
                "faster": sum(one["variant"] != NATIVE for one in decided),
                "gain": math.exp(statistics.fmean(logs)) if logs else None,
                "launches": len(launches),
                "hours": hours or None,
                "last": max((run.started for run in launches), default="")[:10],
            }
        )
    return rows


def _violations(winners: Sequence[Row]) -> list[Row]:
    """A native collective is slower than variants made of the same library's calls (Träff and Hunold, 2020)."""
    slower = [
        {
            **one,
            "native": one["seconds"] * one["ratio"],
            "lost": one["seconds"] * (one["ratio"] - 1),
        }
        for one in winners
        if one["evidence"] == DECIDED and (one["low"] or 0) > 1 and one["seconds"]
    ]
    worst: dict[tuple[str, ...], Row] = {}
    for one in sorted(slower, key=lambda row: -row["lost"]):
        key = one["system"], one["library"], one["collective"], one["layout"]
        worst.setdefault(key, one)
    by_library: dict[str, list[Row]] = {}
    for one in worst.values():
        by_library.setdefault(one["library"], []).append(one)
    return [row for rows in by_library.values() for row in rows[:WORST]]


def _libraries(winners: Sequence[Row]) -> Iterator[Row]:
    """Which library users should load: over the sizes that several were measured at."""
    common: dict[tuple[Any, ...], dict[str, Times]] = {}
    for one in winners:
        served = one.get("native_us" if one["variant"] == NATIVE else "tuned_us", [])
        seconds = [each for each in served if each]
        if seconds:
            key = one["system"], one["layout"], one["collective"], one["bytes"]
            common.setdefault(key, {})[one["library"]] = Times((), seconds)
    places: dict[tuple[str, str, str], list[tuple[float, bool]]] = {}
    for (system, layout, *_), times in common.items():
        if len(times) < 2:
            continue
        best, least = fastest(times), min(one.typical for one in times.values())
        for library, own in times.items():
            found = places.setdefault((system, layout, library), [])
            found.append((own.typical / least, library == best))
    for (system, layout, library), compared in sorted(places.items()):
        yield {
            "system": system, "layout": layout, "library": library, "sizes": len(compared),
            "fastest": sum(surely for _, surely in compared),
            "slower": math.exp(statistics.fmean(math.log(slower) for slower, _ in compared)),
        }  # fmt: skip


def _todo(store: Store, made: Manifest, places: Sequence[Place], about: _About) -> Iterator[Row]:
    for one in proposals.read(store, made, places):
        yield {**about.at(one.place), "what": one.why, "command": one.command}


def _profiles(
    store: Store, made: Manifest, places: Sequence[Place], given: Profile | None, about: _About
) -> Iterator[Row]:
    for place in {(one.system, one.library): one for one in places}.values():
        profile = given or parse(one.content for one in store.profiles(place.system))
        total = profile.seconds or 1.0
        for row, saved in list(zip(profile.rows, savings(store, made, place, profile)))[:CALLS]:
            yield {
                **about.at(place), "layout": row.layout, "collective": row.collective,
                "bytes": row.size, "calls": row.calls, "time": row.moving / total,
                "waiting": row.waited / total, "saved": saved.seconds / total, "by": saved.by,
            }  # fmt: skip


def _findings(store: Store, places: Iterable[Place]) -> Iterator[Row]:
    for system in sorted({one.system for one in places}):
        for one in store.findings(system, failed=True)[:FINDINGS]:
            yield {
                "system": system, "library": one.environment, "night": one.found[:10], "test": one.test,
                "variable": one.variable, "value": f"{one.value:.4g} {one.unit}",
                "accepted": _accepted(one), "job": one.scheduler_job,
            }  # fmt: skip


def _accepted(one: Finding) -> str:
    """The reference and its ends, as in ``5 (at most 6)``."""
    ends = [
        f"{word} {end:.4g}"
        for word, end in (("at least", one.low), ("at most", one.high))
        if end is not None
    ]
    reference = "" if one.reference is None else f"{one.reference:.4g}"
    return f"{reference} ({', '.join(ends)})" if ends else reference


def columns(rows: Sequence[Mapping[str, Any]]) -> Row:
    """The rows by columns, short enough for a page: repeated texts once, numbers with four digits.

    ``{name: {"of": [texts], "at": [indices]}}`` for texts, ``{name: [values or null]}`` for others.
    """
    found: Row = {}
    for name in dict.fromkeys(key for row in rows for key in row):
        values = [row.get(name) for row in rows]
        if any(isinstance(value, str) for value in values):
            texts = {text: at for at, text in enumerate(dict.fromkeys(v or "" for v in values))}
            found[name] = {"of": list(texts), "at": [texts[value or ""] for value in values]}
        else:
            found[name] = [_short(value) for value in values]
    return found


def _short(value: Any) -> Any:
    if isinstance(value, list):
        return [_short(one) for one in value]
    if not isinstance(value, float):
        return value
    number = float(f"{value:.4g}")
    if not math.isfinite(number):  # such as the end of a wide interval; JSON has none
        return None
    return int(number) if number.is_integer() else number
