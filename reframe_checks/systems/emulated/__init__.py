"""A cluster of several nodes and network rails, emulated on one Linux machine.

`run` starts an MPI program on it; the modules are

- ``spec``: what a cluster looks like, and the errors;
- ``preflight``: whether this machine can emulate one;
- ``network``: the addresses, and the ``ip`` and ``tc`` commands that build the rails;
- ``launch``: the command lines of the MPI libraries, and `run`;
- ``switch.py``: process 1 of a running cluster, and ``node.sh``, ``agent.sh``, ``rank.sh`` that it
  starts.

A cluster lives in namespaces of its own, its bridges too: nothing of it shows outside, several run
side by side, and the kernel removes everything with the cluster's process 1.
"""

from __future__ import annotations

from collforge.reframe_checks.systems.emulated.launch import run
from collforge.reframe_checks.systems.emulated.preflight import check
from collforge.reframe_checks.systems.emulated.spec import (
    FLAVORS,
    RAIL_MODELS,
    TIMEOUT_EXIT_CODE,
    ClusterError,
    ClusterSpec,
)

__all__ = [
    "FLAVORS",
    "RAIL_MODELS",
    "TIMEOUT_EXIT_CODE",
    "ClusterError",
    "ClusterSpec",
    "check",
    "run",
]
