"""The parameters of an emulated cluster."""

from __future__ import annotations

import re
from dataclasses import dataclass

from collforge.errors import CollforgeError
from collforge.layout import Layout, from_name

FLAVORS = ("openmpi", "mpich")
"""The flavors of MPI libraries (MpiLibrary.flavor) whose mpirun can use namespaces as nodes."""

RAIL_MODELS = ("tied", "hashed")

TIMEOUT_EXIT_CODE = 124
"""Exit code of a command that was stopped at its time limit, as with timeout(1)."""

# A node's number is the last byte of its addresses, a rail's number the second. The second bytes 254 and 255
# belong to the other two networks.
MAX_NODES = 250
MAX_RAILS = 16

_RATE = re.compile(r"(\d+(?:\.\d+)?)([kmg]?)bit", re.IGNORECASE)
_PREFIXES = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9}


class ClusterError(CollforgeError, ValueError):
    """The cluster cannot be made. The message names the fix."""


@dataclass(frozen=True)
class ClusterSpec:
    """Size and speed of an emulated cluster.

    `layout`: the name of the ranks' placement on the nodes, either consecutive (4x2, 3+1+2) or
    cyclic:NODESxRANKS. Every node is connected to each of the `rails` by one full-duplex link of
    `rate`, written as for tc(8): ``100mbit``.

    `rail_model`: with ``tied`` rails, a rank uses the rail with number (node rank) mod `rails`, as a
    socket uses the adapter next to it. With ``hashed`` rails, every connection uses one rail that
    depends on its addresses and ports, as on bonded Ethernet.

    Raises ClusterError if a value is out of range.
    """

    layout: str = "4x2"
    rails: int = 2
    rate: str = "100mbit"
    rail_model: str = "tied"

    def __post_init__(self) -> None:
        if self.nodes > MAX_NODES:
            raise ClusterError(f"layout={self.layout}: give 1 to {MAX_NODES} nodes")
        if self.placed.job:
            raise ClusterError(f"layout={self.layout}: give the job's layout alone")
        if self.placed.sockets:
            raise ClusterError(f"layout={self.layout}: these nodes share their sockets")
        if not self.placed.consecutive and not self.layout.startswith("cyclic:"):
            raise ClusterError(
                f"layout={self.layout}: mpirun places ranks node by node (4x2, 3+1+2) or in turn "
                "(cyclic:4x2); use --system local for any placement"
            )
        if not 1 <= self.rails <= MAX_RAILS:
            raise ClusterError(f"rails={self.rails}: give 1 to {MAX_RAILS} rails")
        if self.rail_model not in RAIL_MODELS:
            known = " or ".join(RAIL_MODELS)
            raise ClusterError(f"unknown rail model {self.rail_model!r}: give {known}")
        if not _RATE.fullmatch(self.rate) or self.bits_per_second < 1e3:
            raise ClusterError(f"rate={self.rate!r}: give 1kbit or more, for example 100mbit")

    @property
    def system(self) -> str:
        """The system name in the database for measurements on such rails."""
        usual = (ClusterSpec.rails, ClusterSpec.rate, ClusterSpec.rail_model)
        if (self.rails, self.rate, self.rail_model) == usual:
            return "emulated"
        return f"emulated-{self.rails}x{self.rate}-{self.rail_model}"

    @classmethod
    def of_system(cls, name: str) -> ClusterSpec | None:
        """The rails of a system name; None if it is not that of an emulated cluster."""
        found = re.fullmatch(r"emulated(?:-(\d+)x([^-]+)-([a-z]+))?", name)
        if found is None:
            return None
        return (
            cls()
            if found[1] is None
            else cls(rails=int(found[1]), rate=found[2], rail_model=found[3])
        )

    @property
    def options(self) -> list[str]:
        """The options of commands that describe these rails."""
        return ["--rails", str(self.rails), "--rate", self.rate, "--rail-model", self.rail_model]

    @property
    def placed(self) -> Layout:
        """The node of each rank."""
        return from_name(self.layout)

    @property
    def nodes(self) -> int:
        return self.placed.nodes

    @property
    def ranks(self) -> int:
        """Number of ranks on all nodes."""
        return self.placed.size

    @property
    def hosts(self) -> tuple[str, ...]:
        """Host names of the nodes, in the order of their ranks."""
        return tuple(f"node{node}" for node in range(self.nodes))

    @property
    def bits_per_second(self) -> float:
        """Rate of one rail's link in one direction; 0 if `rate` is not a rate."""
        match = _RATE.fullmatch(self.rate)
        return float(match[1]) * _PREFIXES[match[2].lower()] if match else 0.0
