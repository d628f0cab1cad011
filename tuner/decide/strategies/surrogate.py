"""The strategy for large spaces: Bayesian optimisation with a model of the measured values."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Sequence
from typing import Any

from collforge.tuner.decide.strategies.enumeration import Enumeration, Key, key
from collforge.variant import Point


class Surrogate(Enumeration):
    """Bayesian optimisation: extra trees as the model, expected improvement as the acquisition.

    Uses parts of scikit-optimize but not its Optimizer, which samples candidates from the product of
    all values. In a discrete space with parameters that do not always matter, that repeats points and
    never ends. Here the candidates are all remaining points.

    The model's features are a point's parameters and the coordinates of its problem. So measurements of
    other problems (sizes, layouts) give a start, and this problem's own values override them.
    """

    INITIAL = 6
    """With fewer values than this, points are drawn at random, by rank, instead of by the model."""

    TREES = 30

    NOISE = 0.01
    """Standard deviation of a measured value; a logarithm of times, so it means 1 %."""

    def __init__(
        self,
        points: Sequence[Point],
        seed: int,
        here: Sequence[float] = (),
        least_gain: float = 0.0,
        rank: Callable[[Point], float] = lambda _: 0.0,
    ) -> None:
        super().__init__(sorted(random.Random(seed).sample(points, len(points)), key=rank))
        self._seed = seed
        self._codes = _encode(points)
        self._here = list(here)
        self._least_gain = least_gain
        self._known: dict[Key, float] = {}
        self._recalled: list[tuple[list[float], float]] = []
        self._pending: dict[Key, None] = {}

    def propose(self, n: int) -> list[Point]:
        count = min(n, len(self._remaining))
        values = len(self._known) + len(self._pending) + len(self._recalled)
        if self._finite() and values >= self.INITIAL and count > 0:
            chosen = self._most_promising(count)
        else:
            chosen = list(self._remaining)[:count]
        self._pending.update(dict.fromkeys(chosen))
        return [self._remaining.pop(one) for one in chosen]

    def observe(self, point: Point, value: float) -> None:
        """Takes a measured value; a point that is not in the space is ignored."""
        super().observe(point, value)
        if key(point) in self._codes:
            self._known[key(point)] = value
            self._pending.pop(key(point), None)

    def recall(self, point: Point, value: float, where: Sequence[float]) -> None:
        """Takes a value of another problem; a point that is not in the space is ignored."""
        if key(point) in self._codes and math.isfinite(value):
            self._recalled.append(([*self._codes[key(point)], *where], value))

    def _finite(self) -> list[float]:
        """The finite values of this problem; those of other problems if it has none."""
        own = [value for value in self._known.values() if math.isfinite(value)]
        return own or [value for _, value in self._recalled]

    def _most_promising(self, count: int) -> list[Key]:
        """The point with the largest expected improvement, then the best points of single trees.

        Each tree is a sample of the possible values (Thompson sampling), so that the points of a batch differ
        without training a model for each. Once this problem's own values show that the expected gain is
        too small, the result is empty, from then on always.
        """
        # Imported here because importing scikit-optimize takes over a second.
        from skopt.acquisition import gaussian_ei

        model = self._model()
        candidates = list(self._remaining)
        features = [self._features(one) for one in candidates]
        best = min(self._finite()) if self._known else float(model.predict(features).min())
        gains = gaussian_ei(features, model, y_opt=best)
        if len(self._known) >= self.INITIAL and gains.max() < self._least_gain:
            self._remaining.clear()
            return []
        chosen = dict.fromkeys([candidates[int(gains.argmax())], *self._one_step_off()][:count])
        trees = random.Random(self._seed + len(self._known)).sample(model.estimators_, self.TREES)
        for tree in trees:
            order = tree.predict(features).argsort(kind="stable")
            if len(chosen) == count:
                break
            chosen[next(candidates[i] for i in order if candidates[i] not in chosen)] = None
        return [*chosen, *(one for one in candidates if one not in chosen)][:count]

    def _one_step_off(self) -> list[Key]:
        """Untried points that differ from the best known one in one symbolic parameter.

        The model alone may never propose them: an algorithm without parameters has few points, so most
        training data and most candidates are of other algorithms.
        """
        if not self._known:
            return []
        best = dict(min((value, one) for one, value in self._known.items())[1])
        found: dict[Key, None] = {}
        symbols = {part for one in self._codes for part in one if isinstance(part[1], str)}
        for name, value in sorted(symbols - best.items()):
            near = self._nearest({**best, name: value}, name)
            if set(near) <= self._remaining.keys():
                found[near[0]] = None
        return list(found)

    def _nearest(self, point: Point, name: str) -> list[Key]:
        """The points with this point's value of parameter ``name`` that share the most other values with it."""
        alike = {
            one: len(point.items() & dict(one).items())
            for one in self._codes
            if dict(one)[name] == point[name]
        }
        return [one for one, number in alike.items() if number == max(alike.values())]

    def _model(self) -> Any:
        from skopt.learning import ExtraTreesRegressor

        # A point that does not work gets the worst finite value; a proposed point without a value gets
        # the mean.
        finite = self._finite()
        values = {one: min(value, max(finite)) for one, value in self._known.items()}
        values.update((one, statistics.fmean(finite)) for one in self._pending)
        known = [*((self._features(one), value) for one, value in values.items()), *self._recalled]
        model = ExtraTreesRegressor(
            n_estimators=self.TREES, min_variance=self.NOISE**2, random_state=self._seed
        )
        return model.fit([features for features, _ in known], [value for _, value in known])

    def _features(self, one: Key) -> list[float]:
        return [*self._codes[one], *self._here]


def _encode(points: Sequence[Point]) -> dict[Key, list[float]]:
    """Feature vectors: integers as they are, because trees use only their order; else one column per value."""
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
