"""Small spaces are measured whole."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from collforge.variant import ParameterValue, Point

Key = tuple[tuple[str, ParameterValue], ...]
"""A point that can be looked up, whatever the order of its parameters."""


def key(point: Point) -> Key:
    return tuple(sorted(point.items()))


class Enumeration:
    """Proposes each of the points once, in order."""

    def __init__(self, points: Iterable[Point]) -> None:
        self._remaining = {key(point): point for point in points}

    def propose(self, n: int) -> list[Point]:
        """Up to n points that were neither proposed nor observed before; fewer at the end."""
        return [self._remaining.pop(first) for first in list(self._remaining)[:n]]

    def observe(self, point: Point, value: float) -> None:  # noqa: ARG002
        """Takes a measured value; what was measured needs no proposal."""
        self._remaining.pop(key(point), None)

    def recall(self, point: Point, value: float, where: Sequence[float]) -> None:
        """Does nothing: all points will be measured here."""

    @property
    def exhausted(self) -> bool:
        """Nothing is left to propose."""
        return not self._remaining
