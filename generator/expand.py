"""Families times collectives: every variant there is, with the parameters that mean something in it."""

from __future__ import annotations

from .model import Algorithm, Collective, Composition, Family, Parameter, Specs, Variant


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
    parameters: list[Parameter] = list(family.parameters)
    if algorithms:
        names = ("native", *(algorithm.name for algorithm in algorithms))
        parameters.append(Parameter("lane_algorithm", names))
        for algorithm in algorithms:
            parameters.extend(algorithm.parameters)
    return Variant(collective, family, composition, tuple(parameters), algorithms)


def lane_algorithms(specs: Specs, composition: Composition) -> tuple[Algorithm, ...]:
    """The algorithms that can run every lane step of a composition beside the native collective."""
    calls = {step.call for step in composition.steps if step.get("over") == "lane"}
    return tuple(a for a in specs.algorithms.values() if calls and calls <= set(a.calls))
