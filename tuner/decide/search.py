"""Proposes parameter points by a model of the measurements of this problem, other sizes and other layouts."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from collforge.case import Case
from collforge.generator.manifest import VariantEntry
from collforge.layout import from_name
from collforge.tuner.decide import strategies
from collforge.tuner.decide.evidence import History, Launch, advantages, measured_problems
from collforge.variant import Point, Variant

# Beside the model's proposals, this many points are tried that are the best for other collectives.
KIN_POINTS = 2
# A search ends when the next point is expected to gain less than this fraction of the margin.
LEAST_GAIN = 0.1

LANES = "lanes"
"""The parameter that bounds the lanes of a full-lane variant; 0 means all (generator/expand.py)."""

Coordinates = tuple[float, float, float, float]
"""The coordinates of a problem: log2 of bytes, nodes, ranks per node and threads."""


def coordinates(problem: Case) -> Coordinates:
    at = from_name(problem.layout)
    numbers = (problem.bytes, at.nodes, at.size / at.nodes, at.threads)
    nbytes, nodes, ranks, threads = map(math.log2, numbers)
    return nbytes, nodes, ranks, threads


def neighbours(problem: Case, history: History) -> list[tuple[Coordinates, Sequence[Launch]]]:
    """The launches of the collective's other problems, with the coordinates of these.

    Parts of a job tell nothing of communicators that have the nodes to themselves, and the other way round.
    """
    sharing = from_name(problem.layout).sharing
    others = measured_problems(history, problem.collective)
    return [
        (coordinates(other), history[other.problem])
        for other in others
        if other.problem != problem.problem and from_name(other.layout).sharing == sharing
    ]


def relatives(problem: Case, history: History) -> list[Sequence[Launch]]:
    """The launches of other collectives on the same layout, nearest size first."""
    others = [
        (abs(math.log2(other.bytes / problem.bytes)), history[other.problem])
        for other in measured_problems(history)
        if other.collective != problem.collective and other.layout == problem.layout
    ]
    return [launches for _, launches in sorted(others, key=lambda pair: pair[0])]


@dataclass(frozen=True)
class Known:
    """The data for a search among the parameter points of one variant."""

    entry: VariantEntry
    points: Mapping[str, Point]
    here: Coordinates
    launches: Sequence[Launch]
    """Of the problem."""
    near: Sequence[tuple[Coordinates, Sequence[Launch]]]
    lanes: int = 0
    """Physical lanes of a node; 0: not known."""

    def off_lanes(self, point: Point) -> float:
        """How far a point's number of lanes is from that of the node; 0 if it has no such parameter."""
        if not self.lanes or LANES not in point:
            return 0.0
        ranks_per_node = 2.0 ** self.here[2]
        return abs(math.log2((float(point[LANES]) or ranks_per_node) / self.lanes))


def best_of_kin(known: Known, kin: Iterable[Sequence[Launch]]) -> list[str]:
    """New points of a variant that are the best of its family for other collectives.

    Collectives share lane algorithms, so good points are often the same.
    """
    entry = known.entry
    names = known.points.keys() - {variant.name for variant in measured(entry, known.launches)}
    found: dict[str, None] = {}
    for launches in kin:
        times = {
            variant.name: statistics.median(samples)
            for launch in launches
            for variant, samples in launch.items()
            if variant.family == entry.family and samples
        }
        best = min(times, key=times.__getitem__, default="")
        if best in names:
            found[best] = None
    return list(found)[:KIN_POINTS]


def propose(known: Known, count: int, seed: int, least_gain: float) -> list[str]:
    """New parameter points of a variant, by name, proposed by a model of the measured points.

    Empty if the next point is expected to gain less than ``least_gain`` (a logarithm of times).
    """
    entry, native = known.entry, Variant(known.entry.collective)
    if not entry.parameters:
        return [] if measured(entry, known.launches) else [entry.family]
    names = known.points
    strategy = strategies.make(list(names.values()), seed, known.here, least_gain, known.off_lanes)

    def values(launches: Sequence[Launch]) -> Iterator[tuple[Point, float]]:
        for variant, faster in advantages(launches, native).items():
            if variant.fingerprint == entry.fingerprint and variant.name in names:
                yield names[variant.name], -faster

    for point, value in values(known.launches):
        strategy.observe(point, value)
    for where, launches in known.near:
        for point, value in values(launches):
            strategy.recall(point, value, where)
    points = strategy.propose(count)
    return [entry.name(point) for point in points]


def measured(entry: VariantEntry, launches: Iterable[Launch]) -> list[Variant]:
    """The points of a variant that were measured in the launches."""
    found = {v for launch in launches for v in launch}
    return sorted(v for v in found if v.fingerprint == entry.fingerprint)
