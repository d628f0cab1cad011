"""ReFrame launchers for the systems `local` and `emulated`.

A launcher belongs to a partition of a configuration, so there is one for each MPI library. `local`
and `emulated` register one and return its name for the configuration.
"""

from __future__ import annotations

import os
import shlex
import sys
from typing import Any

from reframe.core import backends
from reframe.core.exceptions import JobError
from reframe.core.launchers import JobLauncher

from collforge.errors import CollforgeError
from collforge.home import home, make_folder
from collforge.reframe_checks.systems.emulated import ClusterSpec
from collforge.reframe_checks.systems.emulated.launch import build_mpich_progress
from collforge.toolchain import libraries

PRELOAD = 'LD_PRELOAD="${LD_PRELOAD:+$LD_PRELOAD:}$0" exec "$@"'
"""Script for `sh -c PRELOAD LIBRARY COMMAND...`: preloads a library after those of the launcher."""


class _Launcher(JobLauncher):
    """A launcher whose errors make the check fail with their message."""

    def words(self, job: Any) -> list[str]:
        raise NotImplementedError

    def command(self, job: Any) -> list[str]:
        try:
            return [shlex.quote(word) for word in self.words(job)]
        except CollforgeError as error:
            raise JobError(str(error)) from error


def local(mpi: str) -> str:
    """Registers the launcher for ranks on this machine with an MPI library; returns its name."""

    class LocalLauncher(_Launcher):
        def words(self, job: Any) -> list[str]:
            return local_command(mpi, job.num_tasks, job.num_cpus_per_task or 1)

    return _register(f"collforge-local-{mpi}", LocalLauncher)


def emulated(mpi: str, rails: int, rate: str, rail_model: str) -> str:
    """Registers the launcher for an emulated cluster with these rails; returns its name.

    The nodes follow from a job's num_tasks and num_tasks_per_node. The parameters are those of
    ClusterSpec. A second call for the same MPI library has no effect.
    """

    class EmulatedLauncher(_Launcher):
        def words(self, job: Any) -> list[str]:
            per_node = job.num_tasks_per_node or 1
            spec = ClusterSpec(job.num_tasks // per_node, per_node, rails, rate, rail_model)
            return cluster_command(mpi, spec)

    return _register(f"collforge-emulated-{mpi}", EmulatedLauncher)


def local_command(mpi: str, ranks: int, threads: int = 1) -> list[str]:
    """The command prefix that starts ``ranks`` processes on this machine.

    If there are enough cores, each thread of each process has its own core; else processes share cores.
    Raises CollforgeError if there is no such MPI library or its preload library cannot be compiled.
    """
    library = libraries.find(mpi)
    command = [str(library.mpirun), "-n", str(ranks)]
    share = ranks * threads > len(os.sched_getaffinity(0))
    if library.flavor == "openmpi":
        command += ["--mca", "pml", "ob1", "--mca", "btl", "vader,self"]
        command += ["--oversubscribe", "--bind-to", "none" if share else "core"]
        command += ["--map-by", f"slot:PE={threads}"] if threads > 1 and not share else []
        command += ["--mca", "mpi_yield_when_idle", str(int(share))]
        if os.geteuid() == 0:
            command.append("--allow-run-as-root")
    elif library.flavor == "mpich" and share:
        # MPICH polls without yielding, so ranks that share a core would make hardly any progress.
        preload = build_mpich_progress(make_folder(home() / "preload"))
        command += ["-genv", "LD_PRELOAD", str(preload)]
    elif library.flavor == "mpich":
        command += ["-bind-to", f"core:{threads}"]
    return command


def cluster_command(mpi: str, spec: ClusterSpec) -> list[str]:
    """The command prefix that runs a program on all ranks of an emulated cluster."""
    command = [sys.executable, "-m", "collforge", "cluster", "run", "--mpi", mpi]
    command += ["--nodes", str(spec.nodes), "--ranks-per-node", str(spec.ranks_per_node)]
    command += ["--rails", str(spec.rails), "--rate", spec.rate, "--rail-model", spec.rail_model]
    return [*command, "--"]


def _register(name: str, launcher: type[JobLauncher]) -> str:
    """Registers a launcher once: ReFrame may run a configuration twice, but refuses a name twice."""
    if name not in backends._launchers:
        backends.register_launcher(name)(launcher)
    return name
