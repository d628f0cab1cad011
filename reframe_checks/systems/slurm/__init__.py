"""A Slurm cluster on this machine: the daemons of Debian's packages on the nodes of an emulated cluster.

`up` starts one, `enter` gives the command line that runs a command on its first node, `down` ends it.
The modules are

- ``config``: Slurm's configuration, and the plan of the emulated cluster;
- ``keeper``: the process that stands for a running cluster, which starts ``controller.sh``;
- ``standing``: `up`, `enter` and `down`, and what they know of the keeper.

Everything is in the namespaces of the emulated cluster, and its files are in one folder of the user's cache.
"""

from __future__ import annotations

from collforge.reframe_checks.systems.slurm.config import PMI, RANK_VARIABLE, SYSTEMS, check
from collforge.reframe_checks.systems.slurm.standing import check_entered, down, enter, up

__all__ = ["PMI", "RANK_VARIABLE", "SYSTEMS", "check", "check_entered", "down", "enter", "up"]
