"""Collectives between nodes in which all ranks of a node talk to different nodes at once.

With k lanes, a node exchanges with k other nodes in a round, and its ranks join what came. So N nodes need
the logarithm of N to base k + 1 rounds (Bienz, Gautam and Kharel, 2022; Bruck et al., 1997, with k ports).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..machine import Cells, Machine, combine, cut, join
from ..model import Step
from ..splits import sent
from .components import parts_of
from .kind import MOVE, GroupStep, InC, Reader

Group = Sequence[int]
Held = dict[int, list[Cells]]
"""By rank: the parts of the nodes that it has, its own node's first, then those of the nodes after it."""
Rows = dict[int, list[Cells]]
Slots = dict[tuple[int, int], Cells]

_CALL = """\
const struct cf_ported ported = {{
    .comm = comm,
    .unit = {unit},
    .ports = {lanes}->k,
    .shared = {shared},
}};
CF_TRY(cf_{call}(&ported, {arguments}));"""


class Ported(GroupStep):
    """A step among all ranks, where all ranks of a node have the same data before and after."""

    among = "all"
    header = "lane/ported.h"
    scratch = "all"
    on_nodes = True
    rounds = "ported"

    def arguments(self, c: InC) -> str:
        return f"{c.source}, {c.target}, {c.split or c.units}"

    def to_c(self, c: InC) -> str:
        return c.use.fill(_CALL, call=self.call, arguments=self.arguments(c))


def gather(m: Machine, group: Group, data: Reader) -> dict[int, list[Cells]]:
    """What each rank has after the rounds of cf_ported_allgather: the parts of all nodes, in node order."""
    at, k = m.layout, m.lanes.k
    held: Held = {rank: [list(data(rank))] for rank in group}
    have = 1
    while have < at.nodes:
        before = {rank: list(parts) for rank, parts in held.items()}
        for rank in group:
            node = at.node_of[rank]
            for port in range(k):
                first = (port + 1) * have
                count = min(have, at.nodes - first)
                if count > 0:
                    # The node rank `port` has them from the rank with its node rank; the node's ranks join.
                    partner = at.ranks_on((node + first) % at.nodes)[port]
                    held[rank] += before[partner][:count]
        have *= k + 1
    rotated = {rank: at.nodes - at.node_of[rank] for rank in group}
    return {rank: parts[rotated[rank] :] + parts[: rotated[rank]] for rank, parts in held.items()}


class PortedAllgather(Ported):
    call = "ported_allgather"
    keys = {"split": ("nodes",), **MOVE}
    sentence = "Gather {reads} of all nodes on all ranks, each rank of a node from other nodes, as {writes}."
    moved = "(written - written / nodes) / lanes"

    def on_group(self, m: Machine, step: Step, group: Group, data: Reader) -> dict[int, Cells]:
        counts = sent(step["split"], m, group, group[0])
        firsts = [m.layout.ranks_on(node)[0] for node in range(m.layout.nodes)]
        parts_of(step, firsts, counts, data)
        return {rank: join(parts) for rank, parts in gather(m, group, data).items()}


class PortedAllreduce(Ported):
    call = "ported_allreduce"
    sentence = "Gather {reads} of all nodes as in an allgather, and combine them in node order into {writes}."
    moved = "written * (nodes - 1) / lanes"
    whole = True
    takes_op = True

    def on_group(self, m: Machine, step: Step, group: Group, data: Reader) -> dict[int, Cells]:
        return {rank: combine(parts) for rank, parts in gather(m, group, data).items()}

    def arguments(self, c: InC) -> str:
        return f"{super().arguments(c)}, args->op"


class PortedAlltoall(Ported):
    """The block of a pair of nodes travels by the digits to base k + 1 of how far apart the nodes are.

    Rank m of a node moves the blocks whose digit is m + 1. `Slots`: what a rank holds for a
    distance, by both: the blocks of all ranks of one node for all ranks of another, by source.
    """

    call = "ported_alltoall"
    # In each round k of the k + 1 digits move, with the blocks of all ranks of the node.
    moved = "ported * written * ranks / (lanes + 1)"
    sentence = (
        "Exchange {reads} between all nodes, each rank of a node with other nodes, into {writes}."
    )

    def arguments(self, c: InC) -> str:
        return f"{c.source}, {c.target}, {c.use.block}"

    def on_group(self, m: Machine, step: Step, group: Group, data: Reader) -> dict[int, Cells]:
        at, base = m.layout, m.lanes.k + 1
        members = [at.ranks_on(node) for node in range(at.nodes)]
        rows = {rank: cut(data(rank), at.node_sizes) for rank in group}
        slots: Slots = {}
        far = 1
        while far < at.nodes:
            sent: Slots = {}
            for node in range(at.nodes):
                for d in range(1, at.nodes):
                    digit = d // far % base
                    if digit:
                        pair = (
                            slots.pop((members[node][_holder(d % far, base)], d))
                            if d % far
                            else join([rows[r][(node + d) % at.nodes] for r in members[node]])
                        )
                        sent[members[(node + digit * far) % at.nodes][digit - 1], d] = pair
            slots.update(sent)
            far *= base
        return {rank: self.delivered(m, rank, rows, slots) for rank in group}

    def delivered(self, m: Machine, rank: int, rows: Rows, slots: Slots) -> Cells:
        """The blocks for a rank, by node and rank of their source."""
        at, me, base = m.layout, m.layout.node_rank(rank), m.lanes.k + 1
        node = at.node_of[rank]
        ranks, out = at.ranks_on(node), []
        for source in range(at.nodes):
            d = (node - source) % at.nodes
            held = slots[ranks[_holder(d, base)], d] if d else join([rows[r][node] for r in ranks])
            out += held[me :: len(ranks)]
        return out


def _holder(d: int, base: int) -> int:
    """The node rank that last moved a slot: its highest digit, which is not 0, less 1."""
    while d >= base:
        d //= base
    return d - 1
