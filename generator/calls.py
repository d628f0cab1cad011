"""What the steps of a composition may say: the vocabulary of the family specs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

BUFFER = "buffer"
SPLITS = (
    *("slices", "lanes", "shares", "blocks", "rows", "columns", "node_pairs", "lane_slices"),
    "ranks",
)
# A node, a lane, or all ranks: these in chunks, each on a communicator of its own (runtime/src/chunks).
OVER = ("node", "lane", "all")
ROOTS = ("root", "leader", "root_node")
MEMBERS = ("all", "carriers", "root")  # of a node
PLACES = (
    "node",
    "nodes",
    "node_rank",
    "rank",
    "root",
    "root_node",
    "carrier",
    "consecutive",
    "commutative",
)
OPTIONAL = ("blocks",)


@dataclass(frozen=True)
class Call:
    """What a step may say: its keys, each a buffer or one of a few words."""

    keys: Mapping[str, str | tuple[str, ...]]


_MOVE: dict[str, str | tuple[str, ...]] = {"from": BUFFER, "to": BUFFER}
CALLS: dict[str, Call] = {
    "scatter": Call({"over": OVER, "root": ROOTS, "split": SPLITS, **_MOVE}),
    "gather": Call({"over": OVER, "root": ROOTS, "split": SPLITS, **_MOVE}),
    "allgather": Call({"over": OVER, "split": SPLITS, **_MOVE}),
    "alltoall": Call({"over": OVER, "split": SPLITS, **_MOVE}),
    "bcast": Call({"over": OVER, "root": ROOTS, "data": BUFFER}),
    "reduce": Call({"over": OVER, "root": ROOTS, **_MOVE}),
    "allreduce": Call({"over": OVER, **_MOVE}),
    "reduce_scatter": Call({"over": OVER, "split": SPLITS, **_MOVE}),
    "scan": Call({"over": OVER, **_MOVE}),
    "exscan": Call({"over": OVER, **_MOVE}),
    "barrier": Call({"over": OVER, **_MOVE}),
    # Among all ranks: between the order of the ranks and that of the nodes; where it does not run, its
    # two buffers are one.
    "permute": Call({"direction": ("to_node_order", "to_rank_order"), **_MOVE}),
    # Among all ranks: every one's block to every other.
    "exchange": Call(_MOVE),
    # On one node: blocks to the ranks that carry their lanes, and back.
    "fold": Call(_MOVE),
    "unfold": Call({"blocks": ("size",), **_MOVE}),
    "release": Call(_MOVE),  # no data: the carriers let the other ranks go on
    "move": Call({"source": ("root", "leader"), "target": ("root", "leader"), **_MOVE}),
    # On one rank.
    "reorder": Call({"direction": ("to_lanes", "to_ranks", "nodes_to_ranks"), **_MOVE}),
    "regroup": Call({"direction": ("by_target_node", "by_target_rank"), **_MOVE}),
    "copy": Call(_MOVE),
    "combine": Call(_MOVE),
    # In the node's piece of a hybrid collective: some ranks of the node wait for others, and see what these
    # have written before; blocks are copied out of the piece and into it.
    "wait": Call({"ranks": MEMBERS, "for": MEMBERS, "data": BUFFER}),
    "collect": Call(_MOVE),
    "place": Call(_MOVE),
}
