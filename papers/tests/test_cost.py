"""The best-case costs of compositions are the formulas of Träff and Hunold (2020), section III."""

from __future__ import annotations

import math

import pytest
from conftest import Launch

from collforge.generator.cost import Cost, cost
from collforge.generator.expand import expand
from collforge.generator.load import load_specs
from collforge.layout import from_name
from collforge.papers.commands import costs
from collforge.variant import Variant

VARIANTS = {variant.name: variant for variant in expand(load_specs())}
LAYOUTS = [(2, 2), (3, 4), (36, 32)]


def log(ranks: int) -> int:
    return math.ceil(math.log2(ranks))


def of(name: str, nodes: int, ranks: int) -> Cost:
    return cost(VARIANTS[name], from_name(f"{nodes}x{ranks}"))


@pytest.mark.parametrize(("nodes", "n"), LAYOUTS)
def test_bcast(nodes: int, n: int) -> None:
    found = of("full_lane_bcast", nodes, n)
    assert found.rounds == 2 * log(n) + log(nodes) and found.lane_rounds == log(nodes)
    assert found.node_volume == pytest.approx(2 * (n - 1) / n)
    assert found.lane_volume == pytest.approx(1 / n)
    assert found.off_node == pytest.approx(1)


@pytest.mark.parametrize("family", ["full_lane", "zero_copy"])
@pytest.mark.parametrize(("nodes", "n"), LAYOUTS)
def test_allgather(nodes: int, n: int, family: str) -> None:
    found = of(f"{family}_allgather", nodes, n)
    assert found.rounds == log(nodes) + log(n)
    assert found.node_volume + found.lane_volume == pytest.approx(nodes * n - 1)
    assert found.off_node == pytest.approx(n * (nodes - 1))


@pytest.mark.parametrize(("nodes", "n"), LAYOUTS)
def test_allreduce(nodes: int, n: int) -> None:
    found = of("full_lane_allreduce", nodes, n)
    assert found.rounds == 2 * log(n) + 2 * log(nodes)
    assert found.node_volume == pytest.approx(2 * (n - 1) / n)
    assert found.lane_volume == pytest.approx(2 * (nodes - 1) / nodes / n)
    assert found.node_volume + found.lane_volume == pytest.approx(2 * (nodes * n - 1) / (nodes * n))


def test_the_root_that_combines_its_node_moves_more() -> None:
    """All vectors of the node but its own, where the full-lane reduce moves two times (n - 1)/n of one."""
    usual, other = (of(f"{family}_reduce", 4, 4) for family in ("full_lane", "root_reduce"))
    assert usual.node_volume == pytest.approx(2 * 3 / 4)
    assert other.node_volume == pytest.approx(2 * 3 / 4 + 3)
    assert usual.off_node == other.off_node == pytest.approx(1)


def test_one_lane_moves_as_much_from_a_node_as_all_lanes() -> None:
    one, all_ = (of(f"{family}_bcast", 4, 4) for family in ("hierarchical", "full_lane"))
    assert one.off_node == all_.off_node == 1 and one.lane_volume == 4 * all_.lane_volume


@pytest.mark.parametrize(("family", "beta"), [("full_lane", 1 / 2), ("hierarchical", 1)])
def test_the_k_lane_model(family: str, beta: float) -> None:
    """Two lanes halve the time only if two ranks of a node communicate."""
    found = of(f"{family}_bcast", 4, 2)
    assert found.beta(2) == beta and found.beta(1) == 1
    wanted = 2 * 1e-5 + beta * (1 << 20) / 12.5e6
    assert found.seconds(1 << 20, 2, 12.5e6, 1e-5) == pytest.approx(wanted)


def test_the_latency_is_that_of_the_best_round_measured() -> None:
    best_cases = costs.costs(from_name("4x2"))
    one, other = (Variant("bcast", family, ()) for family in ("full_lane", "hierarchical"))
    problem = "bcast@4x2,bytes=8,type=double,seed=1"
    known = {problem: [{one: (5e-5,), other: (4e-5, 4e-5, 9e-5)}]}
    assert costs.least_latency(known, best_cases) == pytest.approx(4e-5 / 2)
    assert costs.least_latency({}, best_cases) == 0


def test_every_variant_on_every_kind_of_layout() -> None:
    for layout in ("4x2", "3+1", "cyclic:2x3", "1x4"):
        for _, _, found in costs.costs(from_name(layout)):
            assert found.rounds >= found.lane_rounds >= 0 and found.off_node >= 0


@pytest.mark.slow
def test_the_command_prints_them(collforge: Launch) -> None:
    done = collforge("costs", "--layout", "36x32", "--collective", "bcast")
    assert done.returncode == 0, done.stderr
    (row,) = (line for line in done.stdout.splitlines() if "full_lane" in line)
    assert [cell.strip() for cell in row.split("│")[3:-1]] == [
        *("16", "6", "1.94", "0.0312", "1"),
        "6 alpha + 0.0312 beta",
    ]
