"""Which layouts to measure for the map."""

from __future__ import annotations

import pytest

from collforge.tuner.decide.next_layouts import growing_layouts, next_layouts, uncertainty


@pytest.mark.parametrize("most", [(4, 2), (8, 4), (64, 48), (4, 1), (1, 8)])
def test_each_layout_brings_the_map_nearer(most: tuple[int, int]) -> None:
    points = [(n, r) for n in (1, 2, 3, 4) for r in (1, 2, 3, 4) if n * r > 1 and (n, r) <= most]
    chosen = next_layouts([], most, 100)
    assert len(set(chosen)) == len(chosen) > 0
    assert all(1 <= n <= most[0] and 1 <= r <= most[1] and n * r > 1 for n, r in chosen)
    steps = [uncertainty(points, chosen[:i]) for i in range(len(chosen) + 1)]
    assert steps == sorted(steps, reverse=True)
    assert next_layouts(chosen, most, 100) == [], "near enough"


def test_few_nodes_come_first_and_all_kinds_are_there() -> None:
    chosen = next_layouts([], (16, 8), 100)
    assert chosen[0][0] <= 2
    kinds = {(n == 1, r == 1) for n, r in chosen}
    assert kinds == {(False, False), (True, False), (False, True)}


def test_what_is_measured_need_not_be_again() -> None:
    assert (4, 2) not in next_layouts([(4, 2)], (4, 2), 100)
    assert next_layouts([(2, 1), (4, 1)], (4, 1), 100) == []


def test_the_number_is_kept() -> None:
    assert len(next_layouts([], (64, 48), 3)) == 3


def test_growth_shows_on_several_numbers_of_nodes() -> None:
    """The cheapest layouts of a wide map have one or two nodes."""
    assert growing_layouts([], (8, 64), 4)[:3] == [(8, 64), (4, 64), (2, 64)]
    assert growing_layouts([(4, 64)], (8, 64), 2) == [(8, 64), (2, 64)]
    assert len({nodes for nodes, _ in next_layouts([], (8, 64), 4) if nodes > 1}) == 1
