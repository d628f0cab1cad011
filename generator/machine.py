"""The symbolic machine on which compositions are executed: the ranks of a layout and their buffers.

A buffer is a list of cells. A cell is the sequence of contributions (rank, index) that were combined into it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

from collforge.errors import CollforgeError
from collforge.layout import Layout

from .lanes import Lanes
from .model import Collective, Composition, Step

Cell = tuple[tuple[int, int], ...]
Cells = list[Optional[Cell]]
"""A cell that is None is undefined (exscan on the first rank)."""


Memory = dict[tuple[int, str], Cells]
"""The buffers of all ranks, by (rank, name)."""


class ProofError(CollforgeError):
    """A composition does not compute its collective; the message names the step, layout, root, rank."""


class Machine:
    """All ranks of one layout with a family's lanes.

    The leader of each node has the root's node rank if every node has such a rank, else node rank 0.
    ``most_lanes``: the most lanes of a full-lane family; 0 means all.
    """

    def __init__(
        self,
        layout: Layout,
        lanes: str,
        collective: Collective,
        root: int,
        commutative: bool = True,
        most_lanes: int = 0,
    ) -> None:
        self.layout = layout
        self.collective = collective
        self.root = root
        self.commutative = commutative
        smallest = min(layout.node_sizes)
        self.lanes = Lanes(layout, min(most_lanes or smallest, smallest) if lanes == "full" else 1)
        root_rank = layout.node_rank(root)
        self.leader = root_rank if collective.rooted and root_rank < smallest else 0
        self.full = lanes == "full"
        # A vector has one cell for each lane. A block has one cell, except in hybrid collectives, which cut
        # the blocks of a node together.
        vector = not collective.has_blocks and not collective.moves_nothing
        self.cells = self.lanes.k if vector or collective.hybrid else 1

    def carrier(self, rank: int) -> bool:
        node_rank = self.layout.node_rank(rank)
        return node_rank < self.lanes.k if self.full else node_rank == self.leader

    def lane(self, rank: int) -> int:
        return self.layout.node_rank(rank) if self.full else 0

    def groups(self, over: str) -> list[list[int]]:
        """The members of each communicator: a node's ranks, one carrier per node for a lane, or all ranks."""
        nodes = [self.layout.ranks_on(node) for node in range(self.layout.nodes)]
        if over == "node":
            return nodes
        if over == "all":
            return [list(range(self.layout.size))]
        carriers = [[rank for rank in node if self.carrier(rank)] for node in nodes]
        return [list(lane) for lane in zip(*carriers)]

    def member(self, group: Sequence[int], name: str) -> int:
        """The rank called root, leader or root_node in a group. -1 if the root is not in the group."""
        if name == "root":
            return self.root if self.root in group else -1
        if name == "root_node":
            place = self.layout.node_of[self.root]
            return next(rank for rank in group if self.layout.node_of[rank] == place)
        return group[self.leader]

    def facts(self, rank: int) -> dict[str, int]:
        return {
            "node": self.layout.node_of[rank],
            "nodes": self.layout.nodes,
            "node_rank": self.layout.node_rank(rank),
            "rank": rank,
            "root": self.root,
            "root_node": self.layout.node_of[self.root],
            "carrier": self.carrier(rank),
            "consecutive": self.layout.facts()["consecutive"],
            "commutative": self.commutative,
        }

    def runs(self, step: Step, rank: int) -> bool:
        """Whether a step's condition holds on a rank."""
        return step.where is None or bool(step.where.evaluate(self.facts(rank)))

    def has_spare(self, composition: Composition, rank: int) -> bool:
        """Whether a rank's output is a temporary (Composition.spare)."""
        spare = composition.spare
        return spare is not None and bool(spare.evaluate(self.facts(rank)))

    def places(self, rank: int) -> dict[str, int]:
        """The values of the names in the expressions of a collective's result."""
        return {"rank": rank, "root": self.root, "size": self.layout.size}

    def blocks(self, ranks: Sequence[int]) -> int:
        """The number of cells of one block for each of these ranks."""
        return len(ranks) * self.cells


def combine(parts: Sequence[Cells]) -> Cells:
    """Cells combined elementwise, in the order given."""
    out: Cells = []
    for cells in zip(*parts):
        out.append(tuple(c for cell in cells for c in (cell or ())) or None)
    return out


def cut(cells: Cells, counts: Sequence[int]) -> list[Cells]:
    if len(cells) != sum(counts):
        raise ProofError(f"{len(cells)} cells cannot be split into {list(counts)}")
    parts, begin = [], 0
    for count in counts:
        parts.append(cells[begin : begin + count])
        begin += count
    return parts


def join(parts: Sequence[Cells]) -> Cells:
    return [cell for part in parts for cell in part]


def read(memory: Memory, rank: int, name: str) -> Cells:
    """The cells of a rank's buffer. Raises ProofError if the buffer was never written."""
    try:
        return memory[rank, name]
    except KeyError:
        raise ProofError(f"rank {rank} reads {name}, which was never written") from None
