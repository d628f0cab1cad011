"""Combines families with collectives into variants, each with the parameters that have a meaning in it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from .load import MOST_LANES, SpecError
from .manifest import Parameter
from .model import Algorithm, Collective, Composition, Family, Specs, Step, Variant
from .steps import STEPS

LANES = MOST_LANES.name
"""Parameter: the most lanes that a full-lane family uses; 0 means all."""

NODE_PHASE = "node_phase"
"""Parameter: whether the steps over a node use the MPI library or shared memory (runtime/src/node/shared.h)."""

NODE_SCAN = "node_scan"
"""Parameter: whether a node's scans and exscans by messages are the MPI library's or the lane algorithm's."""

OVERLAP = "overlap"
"""Parameter: whether the node's steps are pipelined, segment by segment, with the lane algorithm."""


@dataclass(frozen=True)
class Pieces:
    """The steps of a composition that may overlap with the lane step between them."""

    lane: Step | None = None
    before: Step | None = None
    after: Step | None = None
    then: tuple[Step, ...] = ()

    @property
    def steps(self) -> tuple[Step, ...]:
        return tuple(step for step in (self.before, self.after, *self.then) if step)


def expand(specs: Specs) -> list[Variant]:
    """All variants, by collective and family name."""
    variants = []
    for collective in specs.collectives.values():
        for family in specs.families.values():
            composition = family.compositions.get(collective.name)
            if composition is not None:
                variants.append(_variant(specs, collective, family, composition))
    return variants


def _variant(
    specs: Specs, collective: Collective, family: Family, composition: Composition
) -> Variant:
    algorithms = lane_algorithms(specs, composition)
    phases = has_node_phases(composition)
    parameters = [p for p in family.parameters if p.name != NODE_PHASE or phases]
    if algorithms:
        names = ("native", *(algorithm.name for algorithm in algorithms))
        several = Parameter(
            "lane_algorithm",
            names,
            needs=dict.fromkeys(names[1:], "nodes > 1"),
            summary="What runs the steps between nodes: the MPI library or a lane algorithm.",
        )
        parameters += [several, *shared_parameters(algorithms)]
    if phases and all(parameter.name != NODE_PHASE for parameter in family.parameters):
        summary = "What runs the steps among the ranks of a node: the MPI library or shared memory."
        parameters.append(Parameter(NODE_PHASE, ("native", "shared"), summary=summary))
        if algorithms and any(runs_by_lane(step) for step in composition.steps):
            parameters.append(_node_scan(algorithms))
    pipelined = tuple(algorithm.name for algorithm in algorithms if algorithm.pipelined)
    # Where block sizes differ, lanes of equal length may still be cut at different positions.
    if pipelined and collective.varies == "no" and pieces(family, composition).steps:
        meant = {"lane_algorithm": pipelined, NODE_PHASE: ("shared",)}
        summary = "Whether the node's steps run segment by segment with the lane algorithm."
        parameters.append(Parameter(OVERLAP, ("no", "yes"), meant, "no", summary=summary))
    known = [parameter.name for parameter in parameters]
    for name in known:
        if known.count(name) > 1:
            raise SpecError(
                f"families/{family.name}.toml: parameter {name!r}: a lane algorithm that runs its "
                f"{collective.name} has one of this name"
            )
    return Variant(collective, family, composition, tuple(parameters), algorithms)


def _node_scan(algorithms: Sequence[Algorithm]) -> Parameter:
    return Parameter(
        NODE_SCAN,
        ("native", "lane"),
        {"lane_algorithm": tuple(a.name for a in algorithms), NODE_PHASE: ("native",)},
        "native",
        needs={"lane": "max_node_size > 2"},
        summary="What runs scan and exscan among the ranks of a node: the MPI library or the lane algorithm.",
    )


def runs_by_lane(step: Step) -> bool:
    return step.get("over") == "node" and STEPS[step.call].by_lane


def has_node_phases(composition: Composition) -> bool:
    steps = composition.steps
    return any(step.get("over") == "node" for step in steps)


def pieces(family: Family, composition: Composition) -> Pieces:
    """The steps around a lane step: the one that splits the data before, the one that assembles, the next.

    All ranks of a node take part in these steps, so each must have a lane.
    """
    steps = composition.steps
    lanes = [number for number, step in enumerate(steps) if step.get("over") == "lane"]
    if family.lanes != "full" or len(lanes) != 1:
        return Pieces()
    (at,) = lanes
    before = steps[at - 1] if at > 0 else None
    after = steps[at + 1] if at + 1 < len(steps) else None
    if before and (STEPS[before.call].in_pipe != "splits" or before.writes != steps[at].reads):
        before = None
    if after and (STEPS[after.call].in_pipe != "assembles" or after.reads != steps[at].writes):
        after = None
    rest = steps[at + 2 :] if after else ()
    then = tuple(itertools.takewhile(lambda step: STEPS[step.call].in_pipe == "elementwise", rest))
    return Pieces(steps[at], before, after, then)


def lane_algorithms(specs: Specs, composition: Composition) -> tuple[Algorithm, ...]:
    """The algorithms, other than native collectives, that can run every lane step of a composition."""
    steps = [step for step in composition.steps if step.get("over") == "lane"]
    calls = {step.call for step in steps}
    anywhere = {step.call for step in steps if step.get("split") == "lane_slices"}
    return tuple(
        a
        for a in specs.algorithms.values()
        if calls and calls <= set(a.calls) and anywhere <= set(a.anywhere)
    )


def shared_parameters(algorithms: Sequence[Algorithm]) -> list[Parameter]:
    """The parameters of several algorithms. Parameters of the same name are merged into one.

    Raises SpecError, which names file and key, if parameters of the same name have different domains.
    """
    found: dict[str, Parameter] = {}
    owner: dict[str, Algorithm] = {}
    for algorithm in algorithms:
        for parameter in algorithm.parameters:
            before = found.get(parameter.name)
            if before is None:
                found[parameter.name], owner[parameter.name] = parameter, algorithm
                continue
            other = f"algorithms/{owner[parameter.name].name}.toml"
            for key in ("values", "minimum", "maximum", "whole", "enough"):
                if getattr(before, key) != getattr(parameter, key):
                    raise SpecError(
                        f"algorithms/{algorithm.name}.toml: parameter {parameter.name!r}: {key!r} "
                        f"differs from that in {other}; a variant that offers both has it once"
                    )
            meant = {
                name: (*values, *parameter.requires[name])
                for name, values in before.requires.items()
            }
            found[parameter.name] = replace(before, requires=meant)
    return list(found.values())
