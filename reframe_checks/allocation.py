"""Launches inside an allocation of Slurm that the user has already, by salloc or in a batch script.

ReFrame would submit a job from there. Instead its local scheduler runs the script, and the partition's launcher
starts the ranks on the first nodes of the allocation.
"""

from __future__ import annotations

import os

from collforge.layout import Layout


def nodes() -> int:
    """The nodes of the allocation in which this process runs; 0 if there is none."""
    said = os.environ.get("SLURM_JOB_NUM_NODES", "")
    return int(said) if said.isdecimal() else 0


def commands(layout: Layout) -> list[str]:
    """Shell commands that make srun and mpirun fill the first nodes, one after the other.

    The options of a job would say so to srun (versions differ in the variable for the nodes). Launchers of MPI
    libraries take the nodes and their slots from the variables of the job.
    """
    size = max(layout.node_sizes)
    facts = {
        "SLURM_JOB_NUM_NODES": layout.nodes,
        "SLURM_NNODES": layout.nodes,
        "SLURM_NTASKS": layout.size,
        "SLURM_NPROCS": layout.size,
        "SLURM_NTASKS_PER_NODE": size,
        "SLURM_TASKS_PER_NODE": f"'{size}(x{layout.nodes})'",
        "SLURM_DISTRIBUTION": "block",
    }
    first = (
        f'scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n {layout.nodes} | paste -s -d ,'
    )
    return [
        "export " + " ".join(f"{name}={value}" for name, value in facts.items()),
        f"export SLURM_JOB_NODELIST=$({first})",
        "export SLURM_NODELIST=$SLURM_JOB_NODELIST",
    ]
