"""The family node_ported: rounds that end early, any number of ports, unequal and scattered nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conftest import Installation
from driver import make_driver

from collforge.generator import proof
from collforge.generator.cost import cost
from collforge.generator.expand import expand
from collforge.generator.load import load_specs
from collforge.generator.model import Variant
from collforge.layout import from_name

VARIANTS = {v.collective.name: v for v in expand(load_specs()) if v.family.name == "node_ported"}
LAYOUTS = ["5x2", "9x2", "10x2", "5x3", "3+2+2+4", "cyclic:5x3", "map:0.1.0.1.2.2.3.4.3.4.0"]


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=list(VARIANTS))
def test_every_number_of_ports_is_proven(variant: Variant) -> None:
    """With 2 ports 9 nodes fill two rounds, 10 need a third one, and 5 end in the second."""
    ports = [min(from_name(name).node_sizes) for name in LAYOUTS]
    assert proof.prove(variant, LAYOUTS) == sum(ports) * (2 if variant.collective.has_op else 1)


def test_rounds_are_the_logarithm_to_the_number_of_ports_and_one() -> None:
    """The paper's Hydra, 36 nodes of 32 ranks; a node receives each of the other 35 nodes' data once."""
    found = [cost(VARIANTS["allgather"], from_name("36x32"), ports) for ports in (0, 5, 2, 1)]
    assert [one.lane_rounds for one in found] == [2, 2, 4, 6]
    assert all(round(one.off_node) == 35 * 32 for one in found)
    assert cost(VARIANTS["allreduce"], from_name("36x32")).lane_rounds == 2
    assert cost(VARIANTS["alltoall"], from_name("36x32")).lane_rounds == 2


@pytest.mark.parametrize(
    ("name", "nodes"),
    [
        ("4x3", "3"),
        ("3+2+2+4", "3,2,2,4"),
        ("map:0.1.2.0.1.2.2.3.3.4.4", "map:0,1,2,0,1,2,2,3,3,4,4"),
    ],
)
def test_any_number_of_ports(
    mpi: str, built: Installation, launch: Any, tmp_path: Path, name: str, nodes: str
) -> None:
    layout = from_name(name)
    cases = []
    for collective, variant in VARIANTS.items():
        ends = [""]
        if variant.collective.has_op:
            ends = [",op=sum", ",type=strided,op=affine", ",type=strided,op=affine,in_place"]
        for lanes in range(min(layout.node_sizes)):
            for phase in ("native", "shared"):
                chosen = f"{collective}:node_ported[lanes={lanes},node_phase={phase}]"
                cases += [f"{chosen}@{name},bytes={size}{end}" for size in (0, 48) for end in ends]
    driver = make_driver(mpi, built.built.driver_path, tmp_path, launch)
    where = {"ranks": layout.size, "COLLFORGE_NODE_MAP": nodes}
    code, records, said = driver(cases, "--verify-only", **where)
    assert code == 0 and all(one["verified"] for one in records[1:-1]), said
    assert len(records) == len(cases) + 2
