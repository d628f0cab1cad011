"""Component collectives whose derived datatypes reorder the blocks, instead of copies before or after.

Träff and Hunold (2020), listing 3. All nodes have the same number n of consecutive ranks, and every rank is the
carrier of a lane. The blocks of a lane are n blocks apart in rank order.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..machine import Cells, Machine, join
from ..model import Step
from . import components  # noqa: F401 (registers those that these are like)
from .kind import MOVE, STEPS, BestCase, GroupStep, InC, Reader, StepKind

Group = Sequence[int]


class ByDatatype(GroupStep):
    """A step of this module. Buffers are cut in blocks of one cell."""

    header = "data/by_datatype.h"
    like: StepKind
    """The component collective that it is with other datatypes."""

    def best_case(self, size: int, read: float, written: float) -> BestCase:
        return self.like.best_case(size, read, written)

    def to_c(self, c: InC) -> str:
        arguments = f"comm, {c.source}, {c.target}, {c.use.block}, {c.use.unit}"
        return f"CF_TRY(cf_{self.call}({arguments}{', ' if c.root else ''}{c.root}));"


class AllgatherApart(ByDatatype):
    call = "allgather_apart"
    like = STEPS["allgather"]
    sentence = "Allgather {reads} over the lane into {writes}, each block at its rank's place."
    among = "lane"

    def best_case(self, size: int, read: float, written: float) -> BestCase:
        # The other lanes' places of the buffer stay as they are.
        return self.like.best_case(size, read, size * read)

    def on_group(self, m: Machine, step: Step, group: Group, data: Reader) -> dict[int, Cells]:
        placed: Cells = [None] * m.layout.size
        for rank in group:
            (placed[rank],) = data(rank)
        return {rank: list(placed) for rank in group}


class AllgatherInterleaved(ByDatatype):
    call = "allgather_interleaved"
    like = STEPS["allgather"]
    sentence = "Allgather the lanes' blocks in {reads} over the node, in place."

    def on_group(self, m: Machine, step: Step, group: Group, data: Reader) -> dict[int, Cells]:
        node_size = len(group)
        union = [data(group[rank % node_size])[rank] for rank in range(m.layout.size)]
        return {rank: list(union) for rank in group}

    def to_c(self, c: InC) -> str:
        return f"CF_TRY(cf_{self.call}(comm, {c.target}, {c.use.block}, {c.use.unit}));"


class GatherInterleaved(ByDatatype):
    call = "gather_interleaved"
    keys = {"root": ("root",), **MOVE}
    like = STEPS["gather"]
    sentence = (
        "Gather {reads} over the node at {root} into {writes}, each block at its rank's place."
    )

    def on_group(self, m: Machine, step: Step, group: Group, data: Reader) -> dict[int, Cells]:
        columns = [data(rank) for rank in group]
        return {m.member(group, "root"): [cell for row in zip(*columns) for cell in row]}


class ScatterInterleaved(ByDatatype):
    call = "scatter_interleaved"
    keys = GatherInterleaved.keys
    like = STEPS["scatter"]
    sentence = (
        "Scatter {reads} from {root} over the node into {writes}: to each rank its lane's blocks."
    )

    def on_group(self, m: Machine, step: Step, group: Group, data: Reader) -> dict[int, Cells]:
        blocks = data(m.member(group, "root"))
        return {rank: blocks[index :: len(group)] for index, rank in enumerate(group)}


class AlltoallInterleaved(ByDatatype):
    call = "alltoall_interleaved"
    like = STEPS["alltoall"]
    sentence = "Exchange {reads} over the node into {writes}: to each rank its lane's blocks."

    def on_group(self, m: Machine, step: Step, group: Group, data: Reader) -> dict[int, Cells]:
        n = len(group)
        return {
            rank: join([data(source)[index::n] for source in group])
            for index, rank in enumerate(group)
        }


class AlltoallApart(ByDatatype):
    call = "alltoall_apart"
    like = STEPS["alltoall"]
    sentence = "Exchange {reads} over the lane into {writes}: to each node its blocks."
    among = "lane"

    def on_group(self, m: Machine, step: Step, group: Group, data: Reader) -> dict[int, Cells]:
        nodes = len(group)
        return {
            rank: join([data(source)[index::nodes] for source in group])
            for index, rank in enumerate(group)
        }
