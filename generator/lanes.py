"""The assignment of ranks to lanes, as the runtime's layout.c has it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from collforge.layout import Layout


@dataclass(frozen=True)
class Lanes:
    """The decomposition of a layout into k lanes.

    The data of the rank with node rank m uses lane m mod k. The rank of its node with node rank m mod k
    sends and receives them (the carrier). k = 1 is the hierarchical decomposition, k = smallest node size
    the full-lane one (Träff, Hunold, section III; unequal nodes are this project's extension).
    """

    layout: Layout
    k: int

    @cached_property
    def order(self) -> list[int]:
        """The ranks sorted by (lane, node, node rank)."""
        at = self.layout
        return sorted(
            range(at.size),
            key=lambda r: (at.node_rank(r) % self.k, at.node_of[r], at.node_rank(r)),
        )

    def share(self, lane: int, node: int) -> list[int]:
        """The ranks of a node whose data use a lane, sorted by node rank."""
        return self.layout.ranks_on(node)[lane :: self.k]

    def ranks(self, lane: int) -> list[int]:
        """The ranks whose data use a lane, sorted by (node, node rank)."""
        return [r for node in range(self.layout.nodes) for r in self.share(lane, node)]
