"""The winners alone, as the text that the runtime reads without SQLite (runtime/src/winners/published.h)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from collforge.db.database import PUBLISHED
from collforge.db.errors import Unverified
from collforge.db.records import Choice
from collforge.db.store import Store
from collforge.decision import TIE
from collforge.errors import CollforgeError
from collforge.place import Place
from collforge.variant import Variant

FORMAT = 1
LONGEST = 1e18
"""Nanoseconds that are not known any more: intervals of two launches may have any end."""


@dataclass(frozen=True)
class Section:
    """The winners of a system and an MPI library."""

    place: Place
    """Its layout is ''."""
    host_pattern: str
    winners: Mapping[str, Sequence[Choice]]
    """Layout -> its winners, sorted."""
    points: Mapping[str, Sequence[Choice]]
    """The same for the points of the map, named as `MapPoint.name` tells. And for what jobs
    confirmed of it (``=LAYOUT``) or refuted (``!LAYOUT``)."""

    @property
    def rows(self) -> Iterator[tuple[str, Choice]]:
        """What a library has no room for is dropped from the end: what was learnt, then the map."""
        for layouts in (self.winners, self.points):
            for layout in sorted(layouts, key=lambda name: (name[0] in "=!", name)):
                yield from ((layout, choice) for choice in layouts[layout])


def sections(store: Store, system: str = "", libraries: Collection[str] = ()) -> list[Section]:
    """What a database has for a system ('': all) and the MPI libraries of these names (none: all).

    Raises Unverified for a winner without a passing verification, which only a damaged database has.
    """
    found = []
    stored = store.winners(system)
    for place in sorted({one.library for one in [*store.places(), *(w.place for w in stored)]}):
        if system not in ("", place.system) or (libraries and place.mpi not in libraries):
            continue
        verified = store.verified(place.mpi, place.mpi_version)
        winners: dict[str, list[Choice]] = {}
        for one in stored:
            if one.place.library == place:
                winners.setdefault(one.place.layout, []).append(one.choice)
        points = _expected(store, place, verified)
        for choices in winners.values():
            wrong = [c for c in choices if not (c.variant.is_native or c.variant in verified)]
            if wrong:
                raise Unverified(
                    store.path, f"{wrong[0].variant.collective} {wrong[0].variant.name}"
                )
        if winners or points:
            found.append(Section(place, store.host_pattern(place.system), winners, points))
    return found


def _expected(store: Store, place: Place, verified: Collection[Variant]) -> dict[str, list[Choice]]:
    """The points of the map, and what jobs learnt of them (`Section.points`)."""
    points: dict[str, list[Choice]] = {}
    for point in store.map(place):
        if point.variant.is_native or point.variant in verified:
            choice = Choice(point.bytes, point.variant, point.ratio, point.low, point.ratio, 0)
            points.setdefault(point.name, []).append(choice)
    for one in store.learnt(place):
        if one.variant in verified:
            choice = Choice(one.bytes, one.variant, one.ratio, one.ratio, one.ratio, 0)
            points.setdefault(f"{'=' if one.confirmed else '!'}{one.layout}", []).append(choice)
    return points


def render(found: Sequence[Section]) -> str:
    """The text of a published file. It is the same for the same winners, whenever they were stored."""
    variants = sorted({choice.variant for section in found for _, choice in section.rows})
    number = {variant: n for n, variant in enumerate(variants)}
    systems = {section.place.system: section.host_pattern for section in found}
    lines = [f"{PUBLISHED.decode()}{FORMAT}"]
    lines += [_line("system", *pair) for pair in sorted(systems.items())]
    lines += [_line("variant", v.collective, v.name, v.fingerprint) for v in variants]
    rows = 0
    for section in found:
        # The name is the site's own; the runtime identifies a library by the version's first line.
        version = section.place.mpi_version.split("\n", 1)[0].rstrip()
        lines.append(f"{_line('winners', section.place.system)}\t{version}")
        layout = ""
        for name, choice in section.rows:
            if name != layout:
                lines.append(_line("layout", name))
            layout = name
            more = ("tie",) if choice.evidence == TIE else _times(choice)
            lines.append(_line(str(choice.bytes), str(number[choice.variant]), *more))
            rows += 1
    return "\n".join([*lines, _line("end", str(rows)), ""])


def counts(text: str) -> dict[tuple[str, str], tuple[int, int]]:
    """Of a published file: (system, MPI library's version) -> its winners, its points of the map.

    Raises CollforgeError for a part of a file, or another format.
    """
    first, *lines = text.split("\n")
    found: dict[tuple[str, str], list[int]] = {}
    counted, on_map = [0, 0], False
    for kind, *values in (line.split("\t") for line in lines):
        if kind == "winners" and len(values) >= 2:  # the version of MPICH 4 has a tab
            counted = found.setdefault((values[0], "\t".join(values[1:])), [0, 0])
        elif kind == "layout" and values:
            on_map = values[0].startswith(("~", "=", "!"))
        elif kind.isdecimal():
            counted[on_map] += 1
    rows = sum(map(sum, found.values()))
    if first != f"{PUBLISHED.decode()}{FORMAT}" or lines[-2:] != [_line("end", str(rows)), ""]:
        raise CollforgeError(
            "it is damaged, or of another version of Collforge: install a new tree"
        )
    return {place: (winners, points) for place, (winners, points) in found.items()}


def _times(choice: Choice) -> tuple[str, ...]:
    """The nanoseconds of a call by a variant, then those of native with their interval; () if not known.

    Never beside native, where older libraries would not see the tie before them.
    """
    factors = (1.0, choice.ratio, choice.low, choice.high)
    if choice.variant.is_native or choice.seconds is None:
        return ()
    times = [1e9 * choice.seconds * factor for factor in factors]
    return tuple(str(round(time)) for time in times) if max(times) < LONGEST else ()


def _line(*fields: str) -> str:
    for field in fields:
        if any(character in field for character in "\t\n\0"):
            raise CollforgeError(
                f"{field!r} has a tab or a line's end: name it without, and tune anew"
            )
    return "\t".join(fields)
