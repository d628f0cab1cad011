"""Launches inside an allocation of Slurm that the user has already, by salloc or in a batch script.

ReFrame would submit a job from there. Instead its local scheduler runs the script, and the partition's launcher
starts the ranks on the nodes of the allocation.
"""

from __future__ import annotations

import os

from collforge.layout import Layout


def nodes() -> int:
    """The nodes of the allocation in which this process runs; 0 if there is none."""
    said = os.environ.get("SLURM_JOB_NUM_NODES", "")
    return int(said) if said.isdecimal() else 0


def variables(layout: Layout) -> dict[str, str]:
    """What srun has to know where no options of the job say it: the first nodes, filled one after the other."""
    size = max(layout.node_sizes)
    return {
        "SLURM_NNODES": str(layout.nodes),
        "SLURM_NTASKS": str(layout.size),
        "SLURM_NTASKS_PER_NODE": str(size),
        "SLURM_DISTRIBUTION": "block",
    }
