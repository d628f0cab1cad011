"""What a variant does in a call: the terms of its time."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True)
class Counts:
    """Of a call of a variant on N x n ranks, or of many calls, as arrays.

    Bytes and messages: of the busiest rank, or node.
    """

    calls: Any = 1.0
    lane_rounds: Any = 0.0
    """Between nodes, one after the other."""
    lane_messages: Any = 0.0
    lane_bytes: Any = 0.0
    """That a rank sends, or receives, between nodes."""
    node_out: Any = 0.0
    """That a node sends, or receives, over all lanes."""
    node_rounds: Any = 0.0
    """On the node, by the MPI library."""
    node_bytes: Any = 0.0
    shared_rounds: Any = 0.0
    """The same, through shared memory."""
    shared_bytes: Any = 0.0
    copied: Any = 0.0
    combined: Any = 0.0
    """Bytes to which the op is applied."""

    @property
    def values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, field.name) for field in fields(self))
