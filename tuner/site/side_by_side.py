"""The MPI libraries of a database side by side: which one is the fastest for which collective."""

from __future__ import annotations

import statistics
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from rich.table import Table

from collforge.case import parse
from collforge.db import Store
from collforge.mpi_library import short_version
from collforge.place import Place
from collforge.tuner.site.rebuild import choices_at
from collforge.units import format_seconds, format_size
from collforge.variant import Variant

Key = tuple[str, str, int, str]
"""System, collective, bytes and the problem: the case string without the variant."""


@dataclass(frozen=True)
class Times:
    """What a library takes: the medians of launches, in seconds."""

    native: Sequence[float]
    tuned: Sequence[float]
    """With the stored winner; of native if it wins, or if there is none."""

    @property
    def typical(self) -> float:
        return statistics.median(self.tuned)


Row = Mapping[str, Times]
"""Library -> its times."""


def library_name(place: Place) -> str:
    """The name that the user gave it, and the version."""
    return f"{place.mpi}: {short_version(place.mpi_version)}"


def read(store: Store, places: Iterable[Place], collectives: Sequence[str]) -> dict[Key, Row]:
    """The problems that several libraries were measured on."""
    found: dict[Key, dict[str, Times]] = {}
    for place in places:
        for key, each in times(store, place).items():
            if key[1] in collectives:
                found.setdefault(key, {})[library_name(place)] = each
    return {key: row for key, row in found.items() if len(row) > 1}


def times(store: Store, place: Place, runs: Container[str] | None = None) -> dict[Key, Times]:
    """Of every problem of a place (database key) that has native launches. ``runs``: these launches only."""
    chosen = choices_at(store, place)
    medians: dict[Key, dict[Variant, list[float]]] = {}
    for one in store.measurements(place):
        if one.samples and (runs is None or one.run in runs):
            key = (place.system, one.variant.collective, one.bytes, one.problem)
            medians.setdefault(key, {}).setdefault(one.variant, []).append(one.median)
    found = {}
    for key, group in medians.items():
        _, collective, size, _ = key
        native = group.get(Variant(collective))
        choice = chosen.get((collective, size))
        if native:
            found[key] = Times(native, group.get(choice.variant, native) if choice else native)
    return found


def fastest(row: Row) -> str:
    """The library of which every launch was faster than every launch of the others; '' if there is none."""
    first, *others = sorted(row, key=lambda name: row[name].typical)
    rest = min(min(row[name].tuned) for name in others)
    return first if max(row[first].tuned) < rest else ""


def table(rows: Mapping[Key, Row]) -> Table:
    names = sorted({name for row in rows.values() for name in row})
    made = Table(
        title="median time of a call, tuned, and (native)",
        caption="fastest: in all its launches faster than the others in all theirs",
    )
    for name in ("system", "layout", "collective", "bytes"):
        made.add_column(name, justify="right" if name == "bytes" else "left")
    for name in names:
        made.add_column(name, justify="right", overflow="fold")
    made.add_column("fastest")
    for (system, collective, size, problem), row in sorted(rows.items()):
        layout = parse(problem).layout
        cells = [_cell(row[name]) if name in row else "" for name in names]
        best = fastest(row).partition(":")[0]
        made.add_row(system, layout, collective, format_size(size), *cells, best)
    return made


def _cell(times: Times) -> str:
    return f"{format_seconds(times.typical)} ({format_seconds(statistics.median(times.native))})"
