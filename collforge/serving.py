"""The rule that says which stored winner serves a call; runtime/src/winners/rules.c has the same rule in C.

Winners are measured at a few sizes and layouts, but calls have any size. The test vectors in
`tests/data/serving.txt` check that this module and the runtime agree.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from collforge.layout import Layout

REACH = 4
"""How many buckets a winner serves towards another measured size: four quarter-octaves, a factor of two."""


@dataclass(frozen=True)
class Stored:
    """A row of the winners of a collective on a layout: the decision at one size in bytes."""

    bytes: int
    variant: str
    """The variant's name; "" for native."""
    tie: bool = False
    """Whether native was as fast as the best variant. Such a row does not limit neighbouring winners."""


def bucket(nbytes: int) -> int:
    """floor(4 log2 nbytes), computed exactly, for nbytes > 0. All calls of one bucket get the same winner."""
    return int(nbytes**4).bit_length() - 1


def serving(rows: Sequence[Stored], nbytes: int) -> Stored | None:
    """The row that serves a call of ``nbytes`` bytes; None: no row does, so native runs.

    The size nearest on the logarithmic scale serves; of two equally near, the smaller. A call below the
    smallest size is served only in the bucket next to it. Towards another measured size a variant serves at
    most `REACH` buckets. Towards a size where native was faster it serves its own bucket only.
    """
    rows = sorted(rows, key=lambda row: row.bytes)
    at = bucket(nbytes)
    near = _nearest(rows, at)
    if near is None:
        return None
    own = bucket(rows[near].bytes)
    if not rows[near].variant or at == own:
        return rows[near]
    beside = near - 1 if at < own else near + 1
    if not 0 <= beside < len(rows):
        return rows[near]
    bound = not rows[beside].variant and not rows[beside].tie
    return None if bound or abs(at - own) > REACH else rows[near]


def decides(rows: Sequence[Stored], nbytes: int) -> bool:
    """Whether a nonblocking form's own rows decide about a call; else those of its collective do.

    They do within `REACH` of their sizes.
    """
    rows = sorted(rows, key=lambda row: row.bytes)
    at = bucket(nbytes)
    near = _nearest(rows, at)
    return near is not None and abs(at - bucket(rows[near].bytes)) <= REACH


def _nearest(rows: Sequence[Stored], at: int) -> int | None:
    """The index of the size nearest to a bucket; None below all sizes."""
    if not rows or at < (bucket(rows[0].bytes ** 2) - 1) // 2:
        return None
    near = 0
    while near + 1 < len(rows) and bucket(rows[near].bytes * rows[near + 1].bytes) < 2 * at + 1:
        near += 1
    return near


def serving_layouts(stored: Collection[str], at: Layout) -> list[str]:
    """The stored layouts that serve a layout; for each collective, the first that has winners of it.

    Those of a part of the job (``4x2/4x1``) go before those of the part alone (``4x1``), those of its sockets
    (``4x1-packed``) before those of any. Each has the most threads, but at most those of the layout.
    """
    found = [
        serving_layout(stored, placement, at.threads, sockets)
        for placement in dict.fromkeys((at.key, at.placement))
        for sockets in dict.fromkeys((at.sockets, ""))
    ]
    return [name for name in found if name]


def serving_layout(
    stored: Collection[str], placement: str, threads: int = 1, sockets: str = ""
) -> str | None:
    """The stored layout of a placement and these sockets with the most threads, but at most ``threads``.

    It is named as ``4x2``, or ``4x2x3`` for three threads. None if there is none.
    """
    found = {_threads_of(name, placement, sockets): name for name in stored}
    most = max((number for number in found if number <= threads), default=0)
    return found[most] if most > 0 else None


def _threads_of(layout: str, placement: str, sockets: str) -> int:
    """The threads in a layout's name; 0 if its placement or its sockets differ."""
    name, _, on = layout.partition("-")
    if on != sockets or not name.startswith(placement):
        return 0
    if name == placement:
        return 1
    rest = name.removeprefix(placement)
    return int(rest[1:]) if rest[0] == "x" and rest[1:].isdecimal() and rest.isascii() else 0


MOST_FACTOR = 1.5
"""A point of the map serves layouts whose nodes, and whose ranks per node, differ by this factor at most."""


@dataclass(frozen=True, order=True)
class Point:
    """Layouts of which the map has winners."""

    far: bool
    """They are extrapolated."""
    nodes: int
    ranks_per_node: int


def nearest_point(points: Iterable[Point], layout: Layout) -> Point | None:
    """The point of the map that serves layouts without winners of their own.

    The nearest by the product of the factors in which nodes and ranks per node differ; one that is extrapolated
    only if no other is near. None: none is. Points of one node serve single nodes only, and those of one rank
    per node only layouts without more.
    """
    sizes = layout.node_sizes
    ranks = layout.size / layout.nodes
    found = []
    for one in points:
        if (one.nodes == 1, one.ranks_per_node == 1) != (layout.nodes == 1, max(sizes) == 1):
            continue
        factors = _factor(one.nodes, layout.nodes), _factor(one.ranks_per_node, ranks)
        if max(factors) <= MOST_FACTOR:
            name = f"~{one.nodes}x{one.ranks_per_node}"
            found.append((one.far, factors[0] * factors[1], name, one))
    return min(found)[-1] if found else None


def _factor(a: float, b: float) -> float:
    return a / b if a > b else b / a


def bytes_at(nbytes: int, point: tuple[int, int], size: int, has_blocks: bool) -> int:
    """The bytes of a block for which a point's row stands in a communicator of ``size`` ranks.

    As many bytes in all: ``has_blocks`` if a call moves one block for each rank.
    """
    if not has_blocks:
        return nbytes
    return min(max(nbytes * point[0] * point[1] // size, 1), 2**31 - 1)
