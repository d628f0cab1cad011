"""How the points of a parameter space are searched: whole when few, with a model when many.

A space is the list of its distinct points, which the generator knows
(VariantEntry.points).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from collforge.tuner.strategies.enumeration import Enumeration
from collforge.tuner.strategies.surrogate import Surrogate
from collforge.variant import Point

__all__ = ["FEW", "Enumeration", "Strategy", "Surrogate", "make"]

FEW = 12
"""Up to this many points, measuring all of them costs less than being wrong."""


class Strategy(Protocol):
    """Proposes points and learns from what was measured at them."""

    def propose(self, n: int) -> list[Point]:
        """Up to n points that were neither proposed nor observed before; fewer at the end."""

    def observe(self, point: Point, value: float) -> None:
        """Takes a measured value, smaller is better: log(time of the variant / time of native).

        Infinity says that the point does not work. Points that were never proposed are welcome:
        that is how an interrupted search resumes.
        """

    def recall(self, point: Point, value: float, where: Sequence[float]) -> None:
        """Takes a value measured in another problem, at the coordinates ``where``: a warm start."""

    @property
    def exhausted(self) -> bool:
        """Nothing is left that is worth proposing."""


def make(
    points: Sequence[Point], seed: int, here: Sequence[float] = (), least_gain: float = 0.0
) -> Strategy:
    """The strategy for a space; equal seeds and observations give equal proposals.

    ``here``: the coordinates of the problem among those that are recalled (size, layout).
    ``least_gain``: a large space is exhausted when the model expects less (a logarithm, like the values).
    """
    return Enumeration(points) if len(points) <= FEW else Surrogate(points, seed, here, least_gain)
