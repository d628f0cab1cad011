"""Random jobs: variants, parameters, placements and settings are drawn, tiny limits of memory among them.

Each job makes random calls (`conformance fuzz`) and checks their results. A failure names seed and variables.
"""

from __future__ import annotations

import random

import pytest
from support import SEED
from test_conformance import Program, program

from collforge.generator.manifest import Manifest

__all__ = ["program"]  # a fixture
pytestmark = pytest.mark.either
WIDE, ALL = 8, 100
SETTINGS = {
    "COLLFORGE_MEMORY": ["0", "1K", "10K", "100K", "1M", "64M"],
    "COLLFORGE_SPLIT_OPS": ["0", "1", "1"],
    "COLLFORGE_REPRODUCIBLE": ["", "", "", "1"],
    "COLLFORGE_NATIVE_ORDER": ["", "", "", "1"],
    "COLLFORGE_GUARD": ["0", "1", "reductions"],
    "COLLFORGE_CHECK_OPS": ["", "1"],
    "COLLFORGE_REPORT": ["", "", "30"],
    "COLLFORGE_VERBOSE": ["0", "1"],
}


def placement(draw: random.Random, ranks: int) -> str:
    nodes = draw.randint(1, ranks)
    if draw.random() < 0.5:
        return ",".join(str(draw.randint(1, 4)) for _ in range(nodes))
    return "map:" + ",".join(
        map(str, [*range(nodes), *(draw.randrange(nodes) for _ in range(ranks - nodes))])
    )


def forced(draw: random.Random, made: Manifest) -> str:
    """COLLFORGE_FORCE: one variant for each collective, now and then native."""
    rules = []
    for collective in sorted({variant.collective for variant in made.variants}):
        variant = draw.choice(list(made.variants_of(collective)))
        chosen: dict[str, object] = {}
        for parameter in variant.parameters:
            if all(chosen.get(name) in values for name, values in parameter.requires.items()):
                chosen[parameter.name] = draw.choice(parameter.values)
        text = ",".join(f"{name}={value}" for name, value in chosen.items())
        name = variant.family + (f"[{text}]" if text else "")
        rules.append(f"{collective}={'native' if draw.random() < 0.1 else name}")
    return ";".join(rules)


@pytest.mark.parametrize(
    "number",
    [pytest.param(n, marks=pytest.mark.wide if n < WIDE else pytest.mark.slow) for n in range(ALL)],
)
def test_a_random_job(program: Program, number: int) -> None:
    draw = random.Random(f"{SEED} {number}")
    ranks = draw.randint(2, 7)
    variables = {
        "LD_PRELOAD": str(program.runtime),
        "CONFORMANCE_MAYBE_NATIVE": "1",
        "COLLFORGE_NODE_MAP": placement(draw, ranks),
        "COLLFORGE_FORCE": forced(draw, program.generated),
        **{name: draw.choice(values) for name, values in SETTINGS.items()},
    }
    arguments = (f"--seed={draw.randrange(10**6)}", "--seconds=5", "fuzz")
    outcome = program.native(ranks, *arguments, **variables)
    again = " ".join(f"{name}='{value}'" for name, value in variables.items())
    assert outcome.passed(), f"{ranks} ranks, {arguments}: {again}\n{outcome.text[-2000:]}"
