"""Steps that each rank executes alone."""

from __future__ import annotations

from ..lanes import Lanes
from ..machine import Cells, Machine, Memory, combine, cut, join, read
from ..model import Step
from .kind import MOVE, InC, RankStep


class Copy(RankStep):
    call = "copy"
    sentence = "Copy {reads} to {writes}."
    whole = True
    in_pipe = "elementwise"

    def to_c(self, c: InC) -> str:
        return f"CF_TRY(cf_copy(comm, {c.target}, {c.source}, {c.units}, {c.use.unit}));"


class Combine(RankStep):
    call = "combine"
    sentence = "Combine {reads} with {writes}; {reads} comes first."
    whole = True
    takes_op = True
    in_pipe = "elementwise"

    def on_rank(self, m: Machine, step: Step, rank: int, memory: Memory) -> Cells:
        return combine([read(memory, rank, step.reads), read(memory, rank, step.writes)])

    def to_c(self, c: InC) -> str:
        arguments = f"{c.source}, {c.target}, {c.units}, {c.use.unit}->type, args->op"
        return f"CF_TRY(PMPI_Reduce_local({arguments}));"


class Reorder(RankStep):
    """Reorders blocks between rank order and the order of lanes or nodes."""

    call = "reorder"
    keys = {"direction": ("to_lanes", "to_ranks", "nodes_to_ranks"), **MOVE}
    sentence = "Reorder {reads} into {writes}."

    def on_rank(self, m: Machine, step: Step, rank: int, memory: Memory) -> Cells:
        blocks = cut(read(memory, rank, step.reads), [m.cells] * m.layout.size)
        direction = step["direction"]
        order = Lanes(m.layout, 1).order if direction == "nodes_to_ranks" else m.lanes.order
        if direction == "to_lanes":
            return join([blocks[r] for r in order])
        places = {r: position for position, r in enumerate(order)}
        return join([blocks[places[r]] for r in range(m.layout.size)])

    def to_c(self, c: InC) -> str:
        use, to_lanes = c.use, c.step["direction"] == "to_lanes"
        by_node = c.step["direction"] == "nodes_to_ranks"
        direction = "to_lanes" if to_lanes else "to_ranks"
        lanes = f"&{use.at}->single" if by_node else use.lanes
        blocks = use.blocks if to_lanes else use.received_blocks
        arguments = f"comm, {lanes}, {c.source}, {c.target}, {blocks}, {use.unit}"
        return f"CF_TRY(cf_reorder_{direction}({arguments}));"


class Regroup(RankStep):
    """Regroups the blocks of pairs of ranks before or after they are sent over a lane."""

    call = "regroup"
    keys = {"direction": ("by_target_node", "by_target_rank"), **MOVE}
    sentence = "Regroup {reads} as {writes}."

    def on_rank(self, m: Machine, step: Step, rank: int, memory: Memory) -> Cells:
        data, at, lane = read(memory, rank, step.reads), m.layout, m.lane(rank)
        if step["direction"] == "by_target_rank":
            members = len(m.lanes.share(lane, at.node_of[rank]))
            return [data[source * members + q] for q in range(members) for source in range(at.size)]
        on_lane, sources = len(m.lanes.ranks(lane)), at.node_sizes[at.node_of[rank]]
        out: Cells = []
        begin = 0
        for node in range(at.nodes):
            share = len(m.lanes.share(lane, node))
            for source in range(sources):
                out += data[source * on_lane + begin : source * on_lane + begin + share]
            begin += share
        return out

    def to_c(self, c: InC) -> str:
        arguments = f"comm, &{c.use.pairs}, {c.source}, {c.target}, {c.use.unit}"
        return f"CF_TRY(cf_regroup_{c.step['direction']}({arguments}));"
