"""What variants do on regular nodes, as the manifest tells it. Messages between nodes: test_lane_costs.py."""

from __future__ import annotations

import pytest

from collforge.counts import Counts
from collforge.errors import CollforgeError
from collforge.generator import cost, terms
from collforge.generator.expand import expand
from collforge.generator.load import SPECS, load_specs
from collforge.generator.manifest import Manifest
from collforge.generator.proof import applies
from collforge.generator.terms import LaneTerm, among, power_product, step_cost
from collforge.layout import from_name
from collforge.variant import Variant

LAYOUTS = ((2, 2), (3, 4), (5, 3), (9, 2), (4, 8))


@pytest.mark.parametrize("shape", LAYOUTS)
def test_the_terms_hold_for_the_buffers_of_each_layout(
    made: Manifest, shape: tuple[int, int]
) -> None:
    """With the best algorithms known. (Of a move between root and leader, which are one, nothing is left.)"""
    layout = from_name(f"{shape[0]}x{shape[1]}")
    entries = {(one.collective, one.family): one for one in made.variants}
    compared = 0
    for variant in expand(load_specs()):
        entry = entries[variant.collective.name, variant.family.name]
        calls = {step.call for step in variant.composition.steps}
        if not entry.steps or not applies(variant.composition, layout) or "move" in calls:
            continue
        lanes = shape[1] if variant.family.lanes == "full" else 1
        values = {"nodes": shape[0], "ranks": shape[1], "lanes": lanes}
        rounds = on_node = on_lane = 0.0
        for step in entry.steps:
            read, written = (
                terms.parse(text, terms.PLACES, "").evaluate(values)
                for text in (step.read, step.written)
            )
            sizes = {"node": shape[1], "lane": shape[0], "all": layout.size}
            p = sizes.get(step.over, 1)
            known = among(p, read, written)
            if p > 1:
                rounds += step_cost(step, "rounds", known)
                moved = step_cost(step, "moved", known)
                on_node += moved * (step.over == "node")
                on_lane += moved * (step.over != "node")
        found = cost.cost(variant, layout)
        assert (rounds, on_node, on_lane) == pytest.approx(
            (found.rounds, found.node_volume, found.lane_volume)
        ), variant.name
        compared += 1
    assert compared > 20


def counts(made: Manifest, collective: str, name: str, nodes: int, ranks: int, n: int) -> Counts:
    family = name.partition("[")[0]
    (entry,) = [v for v in made.variants_of(collective) if v.family == family]
    variant = Variant.from_name(collective, entry.completed(name), entry.fingerprint)
    found = made.counts(variant, nodes, ranks, n)
    assert found is not None
    return found


def test_a_ring_on_lanes(made: Manifest) -> None:
    name = "full_lane[lane_algorithm=ring,segment_bytes=1024,node_phase=shared]"
    found = counts(made, "allreduce", name, 8, 4, 32768)
    assert found.lane_rounds == 2 * 7
    assert found.lane_messages == 2 * 7  # of a slice of 8 KiB, an eighth in each step
    assert found.lane_bytes == pytest.approx(2 * 8192 * 7 / 8)
    assert found.node_out == pytest.approx(4 * found.lane_bytes)
    assert found.shared_bytes == pytest.approx(2 * 32768 * 3 / 4) and found.node_bytes == 0
    assert found.combined == pytest.approx(found.lane_bytes + 32768 * 3 / 4)


def test_a_chain_sends_each_segment_on(made: Manifest) -> None:
    found = counts(
        made, "bcast", "hierarchical[lane_algorithm=chain,segment_bytes=1024]", 9, 2, 8192
    )
    assert (found.lane_rounds, found.lane_messages) == (8, 8)
    assert found.lane_bytes == 8192 + 7 * 1024


def test_a_round_more_where_ranks_are_no_power(made: Manifest) -> None:
    rounds = [
        counts(
            made, "allreduce", "hierarchical[lane_algorithm=recursive_doubling]", n, 2, 8
        ).lane_rounds
        for n in (8, 9, 12, 16)
    ]
    assert rounds == [3, 4, 4, 4]


def test_arrays_are_many_calls(made: Manifest) -> None:
    import numpy as np

    (entry,) = [v for v in made.variants_of("bcast") if v.family == "full_lane"]
    name = entry.completed("full_lane[lane_algorithm=scatter_allgather]")
    variant = Variant.from_name("bcast", name, entry.fingerprint)
    nodes, ranks, sizes = np.array([2, 9, 512]), np.array([2, 3, 64]), np.array([8.0, 80000.0, 1e7])
    many = made.counts(variant, nodes, ranks, sizes)
    assert many is not None
    for i, call in enumerate(zip(nodes.tolist(), ranks.tolist(), sizes.tolist())):
        one = made.counts(variant, *call)
        assert one is not None
        assert [float(value[i]) for value in many.values] == pytest.approx(one.values)


def test_nothing_is_known_of_the_librarys_own_algorithms(made: Manifest) -> None:
    for family in ("full_lane", "rank_shift"):
        (entry,) = [v for v in made.variants_of("bcast") if v.family == family]
        variant = Variant.from_name("bcast", entry.completed(family), entry.fingerprint)
        assert "native" not in variant.name or made.counts(variant, 4, 2, 8) is None
    assert made.counts(Variant("bcast"), 4, 2, 8) is None


def test_every_lane_algorithm_states_its_costs() -> None:
    """Else its variants are never extrapolated."""
    for algorithm in load_specs(SPECS).algorithms.values():
        assert set(algorithm.costs) == set(algorithm.calls), algorithm.name


def test_a_cost_has_a_value_for_arrays() -> None:
    with pytest.raises(CollforgeError, match=r"x\.toml: moved: .*no if"):
        terms.cost_expression("read if p > 2 else written", "x.toml: moved")
    with pytest.raises(CollforgeError, match="unknown fact 'q'"):
        terms.cost_expression("q", "x.toml: moved")
    assert step_cost(LaneTerm("levels", "odd", "segments"), "rounds", among(9, 1, 1, 3)) == 2


def test_a_size_is_a_product_of_powers() -> None:
    at = [(3, 4, 2), (6, 4, 2), (3, 8, 2), (3, 4, 4), (6, 8, 4)]
    assert power_product({s: 2 * s[0] * s[1] ** 2 / s[2] for s in at}, "x") == (
        "2 * nodes * ranks * ranks / lanes"
    )
    with pytest.raises(terms.SizeError, match="x: "):
        power_product({s: s[0] + s[1] for s in at}, "x")
