"""The machines that are simulated: nodes of cores and sockets, their links, and what a message costs.

A what-if, not a calibrated machine: its microseconds are not those of the cluster that it is called after.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace
from typing import Any

from collforge.errors import CollforgeError

KIND = "simulated"
"""The system's name in ReFrame, and the first word of its names in the database."""


class MachineError(CollforgeError, ValueError):
    """There is no such machine. The message names the fix."""


@dataclass(frozen=True)
class Machine:
    """Rates in 1e9 bytes/s and direction, times in microseconds; by default Hydra's of the multi-lane paper.

    Each socket of a node has one lane. A rank uses the lane of its socket.
    """

    preset: str = "hydra"
    layout: str = "36x32"
    """The cluster's nodes x cores of a node."""
    lanes: float = 2
    link: float = 12.3
    """Of a lane."""
    core: float = 10.0
    """The most that a rank gets of its lane."""
    copy: float = 6.0
    """Of a rank's message to another one of its node."""
    memory: float = 40.0
    """Of all messages on a socket."""
    upi: float = 20.0
    """Of all messages from one socket to another."""
    latency: float = 1.0
    """Between nodes."""
    overhead: float = 0.3
    """Of the processor, for each message that it sends, and for each that it receives."""
    eager: float = 1024
    """Bytes from which a sender waits for its receiver."""
    op: float = 0.2
    """Nanoseconds that a reduction takes for a byte."""
    leaf: float = 0
    """Nodes on a leaf switch; 0: one switch has them all."""
    taper: float = 1
    """By how much the links of a leaf's nodes exceed those from it to the other leaves."""

    @property
    def name(self) -> str:
        """As `of_system` reads it: ``simulated``, ``simulated-vsc3``, ``simulated-hydra-eager4096-link6.15``.

        The database has it as the system."""
        usual = PRESETS[self.preset]
        changed = [
            f"{one}{_plain(getattr(self, one))}"
            for one in sorted(_RATES)
            if getattr(self, one) != getattr(usual, one)
        ]
        words = [self.preset, *changed]
        return KIND if words == [Machine.preset] else "-".join([KIND, *words])

    @classmethod
    def of_system(cls, name: str) -> Machine | None:
        """The machine of a system ``simulated[-PRESET[-KEYVALUE ...]]``; None if the name is another system's.

        Raises MachineError for a name that only begins like one.
        """
        kind, *words = name.split("-")
        if kind != KIND:
            return None
        preset, *changes = words or [cls.preset]
        if preset not in PRESETS:
            raise MachineError(f"system {name}: {preset} is none of {', '.join(PRESETS)}")
        rates: dict[str, Any] = {}
        for change in changes:
            match = re.fullmatch(r"([a-z]+)(\d+(?:\.\d+)?)", change)
            if match is None or match[1] not in _RATES:
                raise MachineError(
                    f"system {name}: {change} is no number of {', '.join(sorted(_RATES))}, such as link6.15"
                )
            rates[match[1]] = float(match[2])
        found = replace(PRESETS[preset], **rates)
        if found.lanes < 1 or min(found.link, found.core, found.copy, found.memory, found.upi) <= 0:
            raise MachineError(f"system {name}: give at least one lane, and rates above 0")
        if found.taper <= 0 or found.lanes % 1 or found.leaf % 1:
            raise MachineError(f"system {name}: lanes and leaf are whole numbers, taper is above 0")
        return found


def _plain(value: float) -> str:
    """Without an exponent, with all digits."""
    return f"{value:.12f}".rstrip("0").rstrip(".")


_RATES = {one.name for one in fields(Machine)} - {"preset", "layout"}

PRESETS = {
    one.preset: one
    for one in (
        Machine(),
        # Two rails of 40 Gbit/s, sockets of 8 cores.
        Machine("vsc3", "100x16", link=3.2, core=3.2, copy=5.0, memory=30.0, upi=12.0),
        # `--system emulated` (systems/emulated): two shaped links, whose messages cross the kernel's TCP.
        Machine(
            "emulated", "4x2", link=0.0125, core=1.0, copy=2.0, memory=4.0, upi=4.0,
            latency=30.0, overhead=8.0, eager=65536, op=0.5,
        ),
    )
}  # fmt: skip
