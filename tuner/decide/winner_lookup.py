"""The rows of the database that serve a layout: its own winners, or those of the nearest point of the map.

The runtime looks them up in the same way (runtime/src/winners/sources.c).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from collforge.db import EXTRAPOLATED, Choice, MapPoint, Store, Winner
from collforge.decision import TIE
from collforge.generator.manifest import Manifest
from collforge.layout import Layout
from collforge.place import Place
from collforge.serving import (
    Point,
    Stored,
    bytes_at,
    decides,
    nearest_point,
    serving,
    serving_layouts,
)


def read_winners(store: Store, made: Manifest, place: Place, layout: Layout) -> list[Winner]:
    """The winners that serve a layout at a place (database key). The place's own layout is ignored.

    For each collective, the first that has winners: of `serving_layouts`, then the nearest point of the map.
    A nonblocking form has only those of a layout that is at least as near as its collective's.
    Winners of a point have its name as their layout (``~4x2``), and sizes converted to this one. A collective
    uses the map only where the layout is what `CollectiveEntry.map_needs` names.
    """
    stored = [
        one
        for one in store.winners(place.system, place.mpi)
        if one.place.mpi_version == place.mpi_version
    ]
    blocking = {form.name: form.blocking for form in made.forms}

    def rivals(collective: str) -> set[str]:
        return {collective, blocking.get(collective, "")}

    own: list[Winner] = []
    have: set[str] = set()
    for name in serving_layouts({one.place.layout for one in stored}, layout):
        mine = [one for one in stored if one.place.layout == name]
        own += [one for one in mine if not have & rivals(name_of(one))]
        have |= {name_of(one) for one in mine}
    points = store.map(place)
    nearest = nearest_point(map(_point, points), layout)
    near = [
        one
        for one in points
        if _point(one) == nearest
        and all(getattr(layout, n) for n in made.collective(one.variant.collective).map_needs)
    ]
    expected = (one for one in near if not have & rivals(one.variant.collective))
    return [*own, *_converted(made, place, layout, expected)]


def rows_of(
    made: Manifest, winners: Sequence[Winner], collective: str, nbytes: int
) -> list[Winner]:
    """Those among a layout's winners that decide about a call of a collective.

    Its own, or where those of a nonblocking form do not decide at this size, its collective's.
    """
    entry = made.collective(collective)
    found = [one for one in winners if name_of(one) == collective]
    stored = [_stored(one) for one in found]
    own = not entry.blocking or decides(stored, entry.choice_bytes(nbytes))
    return found if own else rows_of(made, winners, entry.blocking, nbytes)


def name_of(one: Winner) -> str:
    return one.choice.variant.collective


def _stored(one: Winner) -> Stored:
    choice = one.choice
    name = "" if choice.variant.is_native else choice.variant.name
    return Stored(choice.bytes, name, choice.evidence == TIE)


def _point(one: MapPoint) -> Point:
    return Point(one.evidence == EXTRAPOLATED, one.nodes, one.ranks_per_node)


def serving_winner(
    made: Manifest, winners: Sequence[Winner], collective: str, nbytes: int
) -> Winner | None:
    """The winner that serves a call of a collective with ``nbytes`` bytes; None if none does.

    ``winners``: those of a layout, of any collectives. That of a nonblocking call can be of the blocking one.
    """
    by_size = {one.choice.bytes: one for one in rows_of(made, winners, collective, nbytes)}
    size = made.collective(collective).choice_bytes(nbytes)
    row = serving([*map(_stored, by_size.values())], size) if size > 0 else None
    return by_size[row.bytes] if row else None


def _converted(
    made: Manifest, place: Place, layout: Layout, points: Iterable[MapPoint]
) -> list[Winner]:
    found: dict[tuple[str, int], Winner] = {}
    for one in points:
        collective = one.variant.collective
        has_blocks = made.collective(collective).has_blocks
        nbytes = bytes_at(one.bytes, (one.nodes, one.ranks_per_node), layout.size, has_blocks)
        choice = Choice(nbytes, one.variant, one.ratio, one.low, one.ratio, 0, one.evidence)
        at = Place(place.system, place.mpi, place.mpi_version, f"~{one.layout}")
        found[collective, nbytes] = Winner(at, "", choice, ", ".join(one.sources))
    return list(found.values())
