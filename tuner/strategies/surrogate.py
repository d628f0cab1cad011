"""Large spaces are searched with a model of what was measured so far."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence

from collforge.generator.case import Point
from collforge.tuner.strategies.enumeration import Enumeration, Key, key


class Surrogate(Enumeration):
    """Bayesian optimisation: extra trees as the model, expected improvement as the acquisition.

    Uses scikit-optimize's parts and not its Optimizer: that one samples its candidates from the
    product of the values, so in a discrete space with parameters that do not always matter it soon
    repeats points, and it never notices that none is left. Here the candidates are the remaining
    points, all of them, so neither can happen.
    """

    INITIAL = 6
    """Points drawn at random before the model is believed."""

    NOISE = 0.01
    """Standard deviation of a measured value; of a logarithm of times, so 1 %."""

    def __init__(self, points: Sequence[Point], seed: int) -> None:
        super().__init__(random.Random(seed).sample(points, len(points)))
        self._seed = seed
        self._codes = _encode(points)
        self._known: dict[Key, float] = {}
        self._pending: dict[Key, None] = {}

    def propose(self, n: int) -> list[Point]:
        return [self._next() for _ in range(min(n, len(self._remaining)))]

    def observe(self, point: Point, value: float) -> None:
        """Takes a measured value; a point that is not in the space is ignored."""
        super().observe(point, value)
        if key(point) in self._codes:
            self._known[key(point)] = value
            self._pending.pop(key(point), None)

    def _next(self) -> Point:
        finite = [value for value in self._known.values() if math.isfinite(value)]
        modelled = finite and len(self._known) + len(self._pending) >= self.INITIAL
        best = self._most_promising(finite) if modelled else next(iter(self._remaining))
        self._pending[best] = None
        return self._remaining.pop(best)

    def _most_promising(self, finite: Sequence[float]) -> Key:
        # Late: scikit-optimize takes over a second to import.
        from skopt.acquisition import gaussian_ei
        from skopt.learning import ExtraTreesRegressor

        # A point that does not work is as bad as the worst that does; one under way is believed to
        # be average, so that the points of one batch keep apart.
        values = {one: min(value, max(finite)) for one, value in self._known.items()}
        values.update((one, statistics.fmean(finite)) for one in self._pending)
        model = ExtraTreesRegressor(
            n_estimators=30, min_variance=self.NOISE**2, random_state=self._seed
        )
        model.fit([self._codes[one] for one in values], list(values.values()))
        candidates = list(self._remaining)
        gains = gaussian_ei([self._codes[one] for one in candidates], model, y_opt=min(finite))
        return candidates[int(gains.argmax())]


def _encode(points: Sequence[Point]) -> dict[Key, list[float]]:
    """Integers as they are, for trees look only at their order; else a column per value."""
    columns: dict[str, list[str]] = {}
    for name in points[0] if points else ():
        values = [point[name] for point in points]
        numeric = all(isinstance(value, int) for value in values)
        columns[name] = [] if numeric else sorted(set(map(str, values)))
    codes: dict[Key, list[float]] = {}
    for point in points:
        code = codes[key(point)] = []
        for name, choices in columns.items():
            if choices:
                code.extend(float(choice == str(point[name])) for choice in choices)
            else:
                code.append(float(point[name]))
    return codes
