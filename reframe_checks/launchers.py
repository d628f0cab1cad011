"""ReFrame launchers for the systems of one machine.

A launcher belongs to a partition of a site configuration, so there is one for each MPI library. `local` and
`emulated` register one and return its name, for the configuration to use:

    "launcher": launchers.emulated("openmpi", rails=2, rate="100mbit", rail_model="tied")
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable
from typing import Any

from reframe.core import backends
from reframe.core.exceptions import JobError
from reframe.core.launchers import JobLauncher

from collforge.errors import CollforgeError
from collforge.reframe_checks.systems.emulated import ClusterSpec
from collforge.reframe_checks.systems.emulated.launch import _build_mpich_progress
from collforge.runtime import libraries
from collforge.runtime.home import home, make_folder


def local(mpi: str) -> str:
    """Registers the launcher of this machine's ranks with an MPI library; returns its name.

    The library (collforge.runtime.libraries) is looked for when a job is launched.
    """

    class LocalLauncher(JobLauncher):  # type: ignore[misc]
        def command(self, job: Any) -> list[str]:
            return _quoted(local_command, mpi, job.num_tasks)

    return _register(f"collforge-local-{mpi}", LocalLauncher)


def emulated(mpi: str, *, rails: int, rate: str, rail_model: str) -> str:
    """Registers the launcher of an emulated cluster with these rails; returns its name.

    Nodes and ranks per node are those of the job (num_tasks, num_tasks_per_node). A second call for the same
    MPI library has no effect.
    """

    class EmulatedLauncher(JobLauncher):  # type: ignore[misc]
        def command(self, job: Any) -> list[str]:
            per_node = job.num_tasks_per_node or 1
            nodes = job.num_tasks // per_node
            return _quoted(_cluster_command, mpi, nodes, per_node, rails, rate, rail_model)

    return _register(f"collforge-emulated-{mpi}", EmulatedLauncher)


def local_command(mpi: str, ranks: int) -> list[str]:
    """The words that start ``ranks`` processes of the command after them on this machine.

    Raises CollforgeError when there is no such MPI library, or what it needs cannot be compiled.
    """
    library = libraries.find(mpi)
    command = [str(library.mpirun), "-n", str(ranks)]
    if library.flavor == "openmpi":
        command += ["--oversubscribe", "--bind-to", "none"]
        command += ["--mca", "pml", "ob1", "--mca", "btl", "vader,self"]
        command += ["--mca", "mpi_yield_when_idle", "1"]
        if os.geteuid() == 0:
            command.append("--allow-run-as-root")
    elif library.flavor == "mpich" and ranks > len(os.sched_getaffinity(0)):
        # MPICH polls while it waits; ranks that share a core then get nowhere.
        preload = _build_mpich_progress(make_folder(home() / "preload"))
        command += ["-genv", "LD_PRELOAD", str(preload)]
    return command


def _cluster_command(
    mpi: str, nodes: int, per_node: int, rails: int, rate: str, rail_model: str
) -> list[str]:
    spec = ClusterSpec(nodes, per_node, rails, rate, rail_model)
    command = [sys.executable, "-m", "collforge", "cluster", "run", "--mpi", mpi]
    command += ["--nodes", str(spec.nodes), "--ranks-per-node", str(spec.ranks_per_node)]
    command += ["--rails", str(spec.rails), "--rate", spec.rate]
    return [*command, "--rail-model", spec.rail_model, "--"]


def _quoted(make: Callable[..., list[str]], *arguments: Any) -> list[str]:
    """Words for the job script. What cannot be had fails the check with a message, not ReFrame."""
    try:
        return [shlex.quote(word) for word in make(*arguments)]
    except CollforgeError as error:
        raise JobError(str(error)) from error


def _register(name: str, launcher: type[Any]) -> str:
    """ReFrame refuses a second launcher of the same name, yet may execute a configuration twice."""
    if name not in backends._launchers:
        backends.register_launcher(name, local=True)(launcher)
    return name
