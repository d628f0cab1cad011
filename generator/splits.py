"""The splits (how a buffer is cut) and shapes (how large a temporary is), each with its meaning and its C."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .machine import Machine

Counts = list[int]
Group = Sequence[int]


@dataclass(frozen=True)
class Split:
    """How a buffer is cut among the members of a communicator (struct cf_split).

    ``cells(machine, group, me)``: the number of cells that rank ``me`` has for each member of a group.
    ``name``: the C variable. ``setup``: the C call that fills the variable, a format of {name}, {slot} and
    local variables (Scope.fill). ``receiving``: the split of the received data of an all-to-all, if it
    differs.
    """

    cells: Callable[[Machine, Group, int], Counts]
    name: str = ""
    setup: str = ""
    receiving: str = ""


def _each(m: Machine, group: Group, me: int) -> Counts:
    return [1] * len(group)


def _every(m: Machine, group: Group, me: int) -> Counts:
    return [m.layout.size] * len(group)


def _slices(m: Machine, group: Group, me: int) -> Counts:
    return [1 if member < m.lanes.k else 0 for member in range(len(group))]


def _lanes(m: Machine, group: Group, me: int) -> Counts:
    members = range(len(group))
    return [m.blocks(m.lanes.ranks(q)) if q < m.lanes.k else 0 for q in members]


def _collecting(m: Machine, group: Group, me: int) -> Counts:
    return [_lanes(m, group, me)[group.index(me)]] * len(group)


def _shares(m: Machine, group: Group, me: int) -> Counts:
    return [m.blocks(m.lanes.share(m.lane(me), node)) for node in range(m.layout.nodes)]


def _departing(m: Machine, group: Group, me: int) -> Counts:
    own = m.layout.node_sizes[m.layout.node_of[me]]
    return [own * share for share in _shares(m, group, me)]


def _arriving(m: Machine, group: Group, me: int) -> Counts:
    own = _shares(m, group, me)[m.layout.node_of[me]]
    return [size * own for size in m.layout.node_sizes]


def _lane_slices(m: Machine, group: Group, me: int) -> Counts:
    return list(m.layout.node_sizes)


def _of_pairs(name: str) -> str:
    return f"cf_split_{name}(&{{name}}, comm, {{slot}}, &{{pairs}})"


def _by_lane(name: str) -> str:
    return f"cf_split_{name}(&{{name}}, comm, {{slot}}, {{lanes}}, {{lane}}, {{blocks}})"


SPLITS: dict[str, Split] = {
    "ranks": Split(_each),
    "blocks": Split(_each, "node_parts", "cf_split_blocks(&{name}, comm, {slot}, {blocks})"),
    "rows": Split(_every, "row_parts", _of_pairs("rows")),
    "columns": Split(_every, "column_parts", _of_pairs("columns")),
    "slices": Split(_slices, "slices", "cf_split_slices(&{name}, comm, {slot}, {lanes}, {block})"),
    "lanes": Split(
        _lanes,
        "lane_parts",
        "cf_split_lanes(&{name}, comm, {slot}, {lanes}, {blocks})",
        "collecting",
    ),
    "collecting": Split(_collecting, "collected_parts", _of_pairs("collecting")),
    "shares": Split(_shares, "share_parts", _by_lane("shares")),
    "node_pairs": Split(_departing, "departing_parts", _of_pairs("departing"), "arriving"),
    "arriving": Split(_arriving, "arriving_parts", _of_pairs("arriving")),
    "lane_slices": Split(_lane_slices, "lane_slices", _by_lane("lane_slices")),
    # For an exchange among all ranks, in rank order: on one node, or with one rank on each.
    "targets": Split(
        _each, "target_parts", "cf_split_ranks(&{name}, comm, {slot}, {blocks})", "sources"
    ),
    "sources": Split(_each, "source_parts", "cf_split_ranks(&{name}, comm, {slot}, &{column})"),
}


def sent(name: str, m: Machine, group: Group, me: int) -> Counts:
    """The number of cells that rank ``me`` sends to each member of a group."""
    return SPLITS[name].cells(m, group, me)


def received(name: str, m: Machine, group: Group, me: int) -> Counts:
    """The number of cells that rank ``me`` receives from each member of a group."""
    return sent(SPLITS[name].receiving or name, m, group, me)


@dataclass(frozen=True)
class Shape:
    """The size of a temporary: ``cells(machine, rank)``, and in C ``units``, a format (Scope.fill).

    ``memory``: the member of struct cf_temporaries that counts it.
    """

    cells: Callable[[Machine, int], int]
    units: str
    memory: str


def _on_lane(m: Machine, rank: int) -> int:
    return m.blocks(m.lanes.ranks(m.lane(rank))) if m.carrier(rank) else 0


def _share(m: Machine, rank: int) -> int:
    on = m.layout.node_of[rank]
    return m.blocks(m.lanes.share(m.lane(rank), on)) if m.carrier(rank) else 0


def _outgoing(m: Machine, rank: int) -> int:
    return m.layout.node_sizes[m.layout.node_of[rank]] * _on_lane(m, rank)


SHAPES: dict[str, Shape] = {
    "vector": Shape(lambda m, rank: m.cells, "{block}", "vector"),
    "slice": Shape(
        lambda m, rank: 1 if m.carrier(rank) else 0, "slices.counts[{at}->node_rank]", "slice"
    ),
    "share": Shape(_share, "{share_units}", "share"),
    "lane": Shape(_on_lane, "{lane_units}", "lane"),
    "all": Shape(lambda m, rank: m.blocks(range(m.layout.size)), "{all_units}", "vector"),
    "outgoing": Shape(_outgoing, "{outgoing_units}", "crossing"),
    "incoming": Shape(
        lambda m, rank: m.layout.size * _share(m, rank), "{incoming_units}", "crossing"
    ),
}
