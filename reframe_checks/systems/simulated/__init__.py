"""Clusters of hundreds of nodes, simulated by SimGrid's SMPI on one core of this machine.

- ``machine``: what is simulated, and its name;
- ``platform``: the files that describe it to SimGrid;
- ``native.cpp``: what SimGrid lacks as a stand-in for a native MPI library;
- ``launch``: the command line.
"""

from __future__ import annotations

from collforge.reframe_checks.systems.simulated.launch import command
from collforge.reframe_checks.systems.simulated.machine import KIND, PRESETS, Machine, MachineError

__all__ = ["KIND", "PRESETS", "Machine", "MachineError", "command"]
