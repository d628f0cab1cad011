"""A cluster of several nodes and network rails, emulated on one Linux machine.

`run` starts an MPI program on it. The modules are

- ``spec``: the parameters of a cluster, and the errors;
- ``preflight``: whether this machine can emulate one;
- ``network``: the addresses, and the ``ip`` and ``tc`` commands that build the rails;
- ``launch``: the command lines of the MPI libraries, and `run`;
- ``switch.py``: process 1 of a running cluster, which starts ``node.sh``, ``agent.sh`` and
  ``rank.sh``.

A cluster, including its bridges, has its own namespaces. It is not visible outside, several can run
at once, and the kernel removes all of it when the cluster's process 1 ends.
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
