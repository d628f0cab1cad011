"""Command prefixes that start the ranks of an MPI program, on this machine and on an emulated cluster.

Separate from the launchers that use them, because importing ReFrame takes longer than most commands run.
"""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

from collforge.errors import CollforgeError
from collforge.home import home, make_folder
from collforge.layout import CYCLIC, PACKED, Layout
from collforge.reframe_checks.systems.emulated import ClusterSpec
from collforge.reframe_checks.systems.emulated.launch import build_mpich_progress, defaults
from collforge.reframe_checks.systems.emulated.network import MANAGEMENT_DEVICE
from collforge.reframe_checks.systems.slurm import PMI, RANK_VARIABLE
from collforge.toolchain import libraries

PRELOAD = 'LD_PRELOAD="${LD_PRELOAD:+$LD_PRELOAD:}$0" exec "$@"'
"""Script for `sh -c PRELOAD LIBRARY COMMAND...`: preloads a library after those of the launcher."""


def _cores(at: Layout) -> str:
    """Behind Open MPI's --map-by: how many cores each rank gets."""
    return f":PE={at.threads}" if at.threads > 1 else ""


def _node_by_node(at: Layout) -> str:
    """Open MPI's --map-by that fills the nodes one after the other."""
    return f"ppr:{at.node_sizes[0]}:node{_cores(at)}"


def on_sockets(program: str, flavor: str, at: Layout) -> list[str]:
    """The options of a launcher that bind ranks to cores in the order that the layout has on sockets.

    [] for a layout that leaves it to the launcher, and for other launchers, whose configuration
    has to do it: the driver tells what they did. Open MPI's give one core to each thread of a rank, as do
    MPICH's; srun's does so by --cpus-per-task.
    """
    packed, name = at.sockets == PACKED, Path(program).name
    if at.sockets and name == "srun":
        return [f"--distribution=block:{'block' if packed else 'cyclic'}", "--cpu-bind=cores"]
    if not at.sockets or flavor == "other" or not name.startswith(("mpirun", "mpiexec")):
        return []
    if flavor == "openmpi":
        by = _node_by_node(at) if packed else f"socket{_cores(at)}"
        return ["--map-by", by, *([] if packed else ["--rank-by", "slot"]), "--bind-to", "core"]
    return ["-bind-to", f"core:{at.threads}", "-map-by", "core" if packed else "socket"]


def local_command(mpi: str, ranks: int, threads: int = 1, sockets: str = "") -> list[str]:
    """The command prefix that starts ``ranks`` processes on this machine.

    If there are enough cores, each thread of each process has its own core; else processes share cores.
    ``sockets``: as in Layout. Raises CollforgeError if there is no such MPI library, if its preload library
    cannot be compiled, or if there are too few cores for ranks on sockets.
    """
    library = libraries.find(mpi)
    command = [str(library.mpirun), "-n", str(ranks)]
    share = ranks * threads > len(os.sched_getaffinity(0))
    if sockets and share:
        raise CollforgeError(
            f"{ranks * threads} cores are needed to place the ranks {sockets} on sockets: "
            f"this machine has {len(os.sched_getaffinity(0))}"
        )
    bound = on_sockets("mpirun", library.flavor, Layout((0,) * ranks, threads, sockets=sockets))
    if library.flavor == "openmpi":
        command += ["--mca", "pml", "ob1", "--mca", "btl", "vader,self"]
        command += ["--oversubscribe", *(bound or ["--bind-to", "none" if share else "core"])]
        command += (
            ["--map-by", f"slot:PE={threads}"] if threads > 1 and not share | bool(bound) else []
        )
        command += ["--mca", "mpi_yield_when_idle", str(int(share))]
        if os.geteuid() == 0:
            command.append("--allow-run-as-root")
    elif library.flavor == "mpich" and share:
        # MPICH polls without yielding, so ranks that share a core would make hardly any progress.
        preload = build_mpich_progress(make_folder(home() / "preload"))
        command += ["-genv", "LD_PRELOAD", str(preload)]
    elif library.flavor == "mpich":
        command += bound or ["-bind-to", f"core:{threads}"]
    return command


def cluster_command(mpi: str, spec: ClusterSpec) -> list[str]:
    """The command prefix that runs a program on all ranks of an emulated cluster."""
    command = [sys.executable, "-m", "collforge", "cluster", "run", "--mpi", mpi]
    return [*command, "--layout", spec.layout, *spec.options, "--"]


def slurm_command(mpi: str, launcher: str, ranks: int) -> list[str]:
    """The command prefix that runs a program on all ranks of a job of the Slurm cluster.

    ``launcher``: srun or mpirun. Call it where the cluster's commands run, for RANK_VARIABLE.
    """
    library = libraries.find(mpi)
    if library.flavor not in PMI:
        raise CollforgeError(
            f"{mpi} cannot run on the Slurm cluster: it is none of {' or '.join(PMI)}"
        )
    if launcher == "srun":
        command = ["srun", f"--mpi={PMI[library.flavor]}"]
    else:
        command = [str(library.mpirun), "-n", str(ranks)]
        command += (
            ["--bind-to", "none"]
            if library.flavor == "openmpi"
            else ["-iface", MANAGEMENT_DEVICE, "-bind-to", "none"]
        )
    ours = defaults(library, os.environ)
    words = [f"{name}={value}" for name, value in ours.items() if name not in os.environ]
    command += [*shlex.split(os.environ.get(RANK_VARIABLE, "")), "env", *words]
    return command


def step(command: str, flavor: str, at: Layout, room: int) -> str:
    """The command of a launcher of a site, as a step of an allocation that may have more room.

    ``command`` starts as many ranks as the layout has; what comes after its first word stays. ``room``: ranks
    on each node of the allocation. Raises CollforgeError if the launcher cannot place such ranks there.
    """
    program, _, rest = command.partition(" ")
    per_node, name = at.node_sizes[0], Path(program).name
    if flavor == "openmpi" and name != "srun" and at.sockets == CYCLIC and room > per_node:
        raise CollforgeError(
            f"layout {at.name}: mpirun cannot place fewer ranks on a node than it has room for "
            f"({room}) and take its sockets in turn; use srun, or measure this layout alone"
        )
    if name == "srun":
        words = [f"--nodes={at.nodes}", f"--ntasks={at.size}", f"--ntasks-per-node={per_node}"]
        words += [f"--cpus-per-task={at.threads}"] if at.threads > 1 else []
    elif flavor == "openmpi":
        words = [] if at.sockets else ["--map-by", _node_by_node(at)]
    else:
        words = ["-ppn", str(per_node)]
    return " ".join([program, *words, *on_sockets(name, flavor, at), rest])
