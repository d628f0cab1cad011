"""Programs that one job launches, one after the other: a probe's plan, and the outcome of each launch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from collforge.layout import from_name


@dataclass(frozen=True)
class Launch:
    """A program on all ranks of a layout."""

    words: Sequence[str]
    """The program's absolute path, and its arguments."""
    layout: str
    """Its name: nodes x ranks a node (x threads a rank)."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Further environment variables of the ranks."""
    seconds: float = 60.0
    """The launch is killed then."""


@dataclass(frozen=True)
class Plan:
    compile_commands: Sequence[Sequence[str]]
    launches: Sequence[Launch]

    @property
    def allocation(self) -> tuple[int, int, int]:
        """Nodes, ranks a node, and cores a rank that all launches fit into."""
        layouts = [from_name(launch.layout) for launch in self.launches]
        per_node = max(max(at.node_sizes) for at in layouts)
        cores = max(max(at.node_sizes) * at.threads for at in layouts)
        return max(at.nodes for at in layouts), per_node, -(-cores // per_node)

    @property
    def seconds(self) -> float:
        return sum(launch.seconds for launch in self.launches)


KILLED = -1
"""The code of a launch that took longer than its seconds; no program has it."""


class Outcome(msgspec.Struct, frozen=True):
    """Of a launch."""

    code: int
    """Its exit status, or KILLED."""
    seconds: float
    """Of the whole launch."""
    out: str
    err: str


def read_plan(path: Path) -> Plan:
    """Raises OSError and msgspec.MsgspecError, a ValueError."""
    return msgspec.json.decode(path.read_bytes(), type=Plan)


def read_outcomes(text: str) -> list[Outcome]:
    return msgspec.json.Decoder(Outcome).decode_lines(text)
