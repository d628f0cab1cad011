"""Random jobs: variants, parameters, placements and settings are drawn, tiny limits of memory among them.

Each job makes random calls (`conformance fuzz`) and checks their results. A failure names seed and variables.
"""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from conftest import Installation
from hazards.build import compiled
from support import SEED, TOP, launch_groups
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


NAMES = re.findall(r"\buse\((\w+), \"", (TOP / "runtime/src/base/environment.h").read_text())
PIECES = [
    *(
        "1",
        "0",
        "-1",
        "2,1",
        "3,1,",
        "map:0,1,0,1",
        "map:0,9",
        "99999999999999999999",
        "1e9",
        "nan",
    ),
    *("64M", "0x10", "always", "stage", "native", "reductions", "here", "2x2", "*=", "=", ";", ","),
    *("*=full_lane", "bcast=hierarchical", "allreduce=shared_window", "full_lane[", "lanes=3", "]"),
    *(
        "60,USR2",
        "USR1",
        "%s%n",
        "é",
        "\t",
        " ",
        "'",
        "a" * 5000,
        "/",
        "../",
        "/dev/null",
        "/dev/full",
    ),
]


def variable(draw: random.Random) -> str:
    return "".join(draw.choice(PIECES) for _ in range(draw.randint(0, 4)))


@pytest.mark.parametrize(
    "number",
    [pytest.param(n, marks=pytest.mark.wide if n < WIDE else pytest.mark.slow) for n in range(ALL)],
)
def test_random_variables(built: Installation, number: int, tmp_path: Path) -> None:
    """Nonsense on all ranks, or other nonsense on each: the job gives its results."""
    draw = random.Random(f"{SEED} {number}")
    program = str(compiled(built, "calls"))
    names = {rank: draw.sample(NAMES, draw.randint(1, len(NAMES))) for rank in range(4)}
    drawn = {rank: {f"COLLFORGE_{name}": variable(draw) for name in names[rank]} for rank in names}
    library = {"LD_PRELOAD": str(built.built.library_path)}
    several = draw.random() < 0.5
    groups = (
        [(1, {**library, **drawn[rank]}) for rank in drawn]
        if several
        else [(4, {**library, **drawn[0]})]
    )
    words = ["env", f"--chdir={tmp_path}", program]
    done = launch_groups(built.library.name, groups, words, timeout=60)
    passed = done.returncode == 0 and "passed" in done.stdout.splitlines()
    assert passed, f"{groups}\n{done.stderr[-2000:]}"
