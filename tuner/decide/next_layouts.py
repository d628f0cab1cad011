"""Which layouts to measure, so that the map (layout_map.py) gains most per node-hour.

A point of the map is less certain the further it is from the measured layouts of its kind. The next layout is
the one that shortens these distances most for its number of nodes.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping

from collforge.tuner.decide.layout_map import Shape, axis, distance, kind

FAR = 3.0
"""The distance, in doublings, of a point of whose kind nothing was measured."""
NEAR = 0.5
"""Points as near as this need no layout of their own, on the mean."""


def growing_layouts(measured: Iterable[Shape], most: Shape, count: int) -> list[Shape]:
    """As next_layouts, after ``most``, half of its nodes, and so on: how times grow with the nodes."""
    known = set(measured)
    nodes = [most[0]]
    while nodes[-1] > 2:  # one node is of another kind
        nodes.append((nodes[-1] + 1) // 2)
    first = [(one, most[1]) for one in nodes if (one, most[1]) not in known][:count]
    return first + next_layouts(known | set(first), most, count - len(first))


def next_layouts(measured: Iterable[Shape], most: Shape, count: int) -> list[Shape]:
    """At most ``count`` layouts of up to ``most`` nodes and ranks per node, in the order to be measured.

    Fewer if the points are near enough to what is ``measured`` or to those before.
    """
    points = [
        (nodes, ranks)
        for nodes in axis([1, most[0]], 1)
        for ranks in axis([1, most[1]], 1)
        if nodes * ranks > 1
    ]
    known = set(measured)
    near = {point: _nearest(point, known) for point in points}
    chosen: list[Shape] = []
    while len(chosen) < count and near and math.fsum(near.values()) > NEAR * len(near):
        best = max(points, key=lambda one: (_gain(near, one), one))
        if best in known:
            break
        known.add(best)
        near = {point: min(far, _nearest(point, [best])) for point, far in near.items()}
        chosen.append(best)
    return chosen


def uncertainty(points: Collection[Shape], known: Collection[Shape]) -> float:
    """The mean distance of the points from the nearest known layout of their kind, in doublings."""
    return math.fsum(_nearest(one, known) for one in points) / len(points)


def _nearest(point: Shape, known: Iterable[Shape]) -> float:
    return min([FAR, *(distance(one, point) for one in known if kind(one) == kind(point))])


def _gain(near: Mapping[Shape, float], one: Shape) -> float:
    """By how much a layout brings the points nearer for each of its nodes."""
    return math.fsum(max(0.0, far - _nearest(point, [one])) for point, far in near.items()) / one[0]
