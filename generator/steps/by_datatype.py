"""Component collectives whose derived datatypes reorder the blocks, instead of copies before or after.

Träff and Hunold (2020), listing 3. All nodes have the same number n of consecutive ranks. With k lanes, a
node's share of lane m has the ranks m, m + k, m + 2 k ... of the node, whose blocks are k blocks apart in rank
order; those of its share on the next node follow n blocks after them.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..machine import Cells, Machine, cut, join
from ..model import Step
from . import components  # noqa: F401 (registers those that these are like)
from .kind import MOVE, STEPS, GroupStep, InC, Reader, StepKind
from .node import Fold, Unfold

Group = Sequence[int]


class HandIn(Fold):
    call = "hand_in"
    one_buffer = "fewer_lanes"

    def to_c(self, c: InC) -> str:
        return STEPS["fold"].to_c(c)


class HandOut(Unfold):
    call = "hand_out"
    keys = {**MOVE}
    one_buffer = "fewer_lanes"

    def to_c(self, c: InC) -> str:
        return STEPS["unfold"].to_c(c)


class ByDatatype(GroupStep):
    """A step of this module. Buffers are cut in blocks of one cell."""

    header = "data/by_datatype.h"
    like: StepKind
    """The component collective that it is with other datatypes, and costs what that costs."""

    def __init_subclass__(cls) -> None:
        cls.rounds = cls.like.rounds
        cls.moved = cls.__dict__.get("moved", cls.like.moved)
        super().__init_subclass__()

    def to_c(self, c: InC) -> str:
        data = f"comm, {c.use.lanes}, {c.source}, {c.target}, {c.use.block}, {c.use.unit}"
        return f"CF_TRY(cf_{self.call}({data}{', ' if c.root else ''}{c.root}));"


class HandOutInterleaved(ByDatatype):
    call = "hand_out_interleaved"
    like = STEPS["unfold"]
    one_buffer = "fewer_lanes"
    sentence = "Hand {reads} back to the ranks whose lane I carry: to each its blocks, as {writes}."

    def on_group(self, m: Machine, step: Step, group: Group, data: Reader) -> dict[int, Cells]:
        k = m.lanes.k
        shares = {lane: group[lane::k] for lane in range(k)}
        return {
            rank: data(group[lane])[index :: len(share)]
            for lane, share in shares.items()
            for index, rank in enumerate(share)
        }


class AllgatherApart(ByDatatype):
    call = "allgather_apart"
    like = STEPS["allgather"]
    sentence = "Allgather {reads} over the lane into {writes}, each block at its rank's place."
    among = "lane"
    moved = "p * read - read"  # the other lanes' places of the buffer stay as they are

    def on_group(self, m: Machine, step: Step, group: Group, data: Reader) -> dict[int, Cells]:
        placed: Cells = [None] * m.layout.size
        for carrier in group:
            share = m.lanes.share(m.lane(carrier), m.layout.node_of[carrier])
            for rank, cell in zip(share, data(carrier)):
                placed[rank] = cell
        return {rank: list(placed) for rank in group}


class AllgatherInterleaved(ByDatatype):
    call = "allgather_interleaved"
    like = STEPS["allgather"]
    sentence = "Allgather the lanes' blocks in {reads} over the node, in place."

    def on_group(self, m: Machine, step: Step, group: Group, data: Reader) -> dict[int, Cells]:
        carriers = [group[m.layout.node_rank(rank) % m.lanes.k] for rank in range(m.layout.size)]
        union = [data(carrier)[rank] for rank, carrier in enumerate(carriers)]
        return {rank: list(union) for rank in group}

    def to_c(self, c: InC) -> str:
        data = f"comm, {c.use.lanes}, {c.target}, {c.use.block}, {c.use.unit}"
        return f"CF_TRY(cf_{self.call}({data}));"


class GatherInterleaved(ByDatatype):
    call = "gather_interleaved"
    keys = {"root": ("root",), **MOVE}
    like = STEPS["gather"]
    sentence = (
        "Gather {reads} over the node at {root} into {writes}, each block at its rank's place."
    )

    def on_group(self, m: Machine, step: Step, group: Group, data: Reader) -> dict[int, Cells]:
        placed: Cells = [None] * m.layout.size
        for lane in range(m.lanes.k):
            for rank, cell in zip(m.lanes.ranks(lane), data(group[lane])):
                placed[rank] = cell
        return {m.member(group, "root"): placed}


class ScatterInterleaved(ByDatatype):
    call = "scatter_interleaved"
    keys = GatherInterleaved.keys
    like = STEPS["scatter"]
    sentence = "Scatter {reads} from {root} over the node into {writes}: to each carrier its lane's blocks."

    def on_group(self, m: Machine, step: Step, group: Group, data: Reader) -> dict[int, Cells]:
        blocks = data(m.member(group, "root"))
        return {
            group[lane]: [blocks[rank] for rank in m.lanes.ranks(lane)] for lane in range(m.lanes.k)
        }


class AlltoallInterleaved(ByDatatype):
    call = "alltoall_interleaved"
    like = STEPS["alltoall"]
    sentence = "Exchange {reads} over the node into {writes}: to each carrier its lane's blocks."

    def on_group(self, m: Machine, step: Step, group: Group, data: Reader) -> dict[int, Cells]:
        return {
            group[lane]: [data(source)[rank] for source in group for rank in m.lanes.ranks(lane)]
            for lane in range(m.lanes.k)
        }


class AlltoallApart(ByDatatype):
    call = "alltoall_apart"
    like = STEPS["alltoall"]
    sentence = "Exchange {reads} over the lane into {writes}: to each node its blocks."
    among = "lane"

    def on_group(self, m: Machine, step: Step, group: Group, data: Reader) -> dict[int, Cells]:
        nodes, n = len(group), m.layout.node_sizes[0]
        share = len(m.lanes.share(m.lane(group[0]), 0))
        parts = {carrier: cut(data(carrier), [share] * nodes * n) for carrier in group}
        return {
            rank: join([part for source in group for part in parts[source][node::nodes]])
            for node, rank in enumerate(group)
        }
