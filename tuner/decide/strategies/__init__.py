"""Search strategies for parameter points: a small space is measured completely, a large one with a model.

A space is the list of its distinct points (VariantEntry.points).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from collforge.tuner.decide.strategies.enumeration import Enumeration
from collforge.tuner.decide.strategies.surrogate import Surrogate
from collforge.variant import Point

__all__ = ["FEW", "Enumeration", "Strategy", "Surrogate", "make"]

FEW = 12
"""A space of at most this many points is measured completely."""


class Strategy(Protocol):
    """Proposes points and learns from their measured values."""

    def propose(self, n: int) -> list[Point]:
        """At most n points that were neither proposed nor observed; fewer when the space is exhausted."""

    def observe(self, point: Point, value: float) -> None:
        """Takes a measured value, log(time of the variant / time of native); smaller is better.

        Infinity means that the point does not work. Points that were never proposed are allowed, so
        that an interrupted search can resume.
        """

    def recall(self, point: Point, value: float, where: Sequence[float]) -> None:
        """Takes a value measured in another problem, whose coordinates are ``where`` (warm start)."""

    @property
    def exhausted(self) -> bool:
        """Whether no point is left that is worth proposing."""


def make(
    points: Sequence[Point],
    seed: int,
    here: Sequence[float] = (),
    least_gain: float = 0.0,
    rank: Callable[[Point], float] = lambda _: 0.0,
) -> Strategy:
    """The strategy for a space. Equal seeds and observations give equal proposals.

    ``here``: the coordinates (size, layout) of the problem. ``least_gain``: a large space is exhausted when
    the model expects a smaller gain (a logarithm, as the values). ``rank``: points of a smaller rank are tried
    first, as long as the model knows too little.
    """
    if len(points) <= FEW:
        return Enumeration(sorted(points, key=rank))
    return Surrogate(points, seed, here, least_gain, rank)
