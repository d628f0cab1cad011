"""The strategy for small spaces: every point is measured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from collforge.variant import ParameterValue, Point

Key = tuple[tuple[str, ParameterValue], ...]
"""A point as a dictionary key, independent of the order of its parameters."""


def key(point: Point) -> Key:
    return tuple(sorted(point.items()))


class Enumeration:
    """Proposes each point once, in order."""

    def __init__(self, points: Iterable[Point]) -> None:
        self._remaining = {key(point): point for point in points}

    def propose(self, n: int) -> list[Point]:
        """At most n points that were neither proposed nor observed; fewer when the space is exhausted."""
        return [self._remaining.pop(first) for first in list(self._remaining)[:n]]

    def observe(self, point: Point, value: float) -> None:  # noqa: ARG002
        """Takes a measured value; the point is not proposed any more."""
        self._remaining.pop(key(point), None)

    def recall(self, point: Point, value: float, where: Sequence[float]) -> None:
        """Does nothing, because all points are measured in this problem."""

    @property
    def exhausted(self) -> bool:
        """Whether no point is left to propose."""
        return not self._remaining
