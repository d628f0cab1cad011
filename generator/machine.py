"""The ranks of a layout as the steps of a composition see them, and the symbolic data that they hold.

Every rank's buffer is a list of cells; a cell is the sequence of contributions (rank, index) that were
combined into it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

from collforge.errors import CollforgeError
from collforge.layout import Layout

from .lanes import Lanes
from .model import Collective, Step

Cell = tuple[tuple[int, int], ...]
Cells = list[Optional[Cell]]
"""None: undefined (exscan on the first rank)."""


Memory = dict[tuple[int, str], Cells]
"""The buffers of all ranks, by (rank, name)."""


class ProofError(CollforgeError):
    """A composition does not compute its collective; the message names the step, layout, root, rank."""


class Machine:
    """All ranks of one layout, seen through a family's lanes. Leaders share the root's node rank.

    ``most_lanes``: of a full-lane family, 0: all.
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
        # A vector is cut into one cell a lane; a block stays whole, unless its node's are cut together.
        vector = not collective.has_blocks and not collective.moves_nothing
        self.cells = self.lanes.k if vector or collective.hybrid else 1

    def carrier(self, rank: int) -> bool:
        node_rank = self.layout.node_rank(rank)
        return node_rank < self.lanes.k if self.full else node_rank == self.leader

    def lane(self, rank: int) -> int:
        return self.layout.node_rank(rank) if self.full else 0

    def groups(self, over: str) -> list[list[int]]:
        """The members of each communicator: a node's ranks, a lane's carriers in node order, or all ranks."""
        nodes = [self.layout.ranks_on(node) for node in range(self.layout.nodes)]
        if over == "node":
            return nodes
        if over == "all":
            return [list(range(self.layout.size))]
        carriers = [[rank for rank in node if self.carrier(rank)] for node in nodes]
        return [list(lane) for lane in zip(*carriers)]

    def member(self, group: Sequence[int], name: str) -> int:
        """The rank called root, leader or root_node in a group, else -1."""
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

    def places(self, rank: int) -> dict[str, int]:
        """What the expressions of a collective's result speak of."""
        return {"rank": rank, "root": self.root, "size": self.layout.size}

    def blocks(self, ranks: Sequence[int]) -> int:
        """The cells of one block of each of these ranks."""
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
    """What a rank has in a buffer. Raises ProofError where it never got any."""
    try:
        return memory[rank, name]
    except KeyError:
        raise ProofError(f"rank {rank} reads {name}, which it never got") from None
