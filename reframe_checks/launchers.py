"""ReFrame launchers for the systems of this machine: `local`, `emulated`, `simulated` and the Slurm cluster.

A launcher belongs to a partition of a configuration, so there is one for each MPI library. `local`,
`emulated`, `simulated` and `slurm` register one and return its name for the configuration.
"""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any

from reframe.core import backends
from reframe.core.exceptions import JobError
from reframe.core.launchers import JobLauncher

from collforge.errors import CollforgeError
from collforge.layout import from_name
from collforge.reframe_checks.mpirun import cluster_command, local_command, slurm_command
from collforge.reframe_checks.systems import simulated as simulation
from collforge.reframe_checks.systems.emulated import ClusterSpec
from collforge.reframe_checks.systems.simulated import Machine


class _Launcher(JobLauncher):
    """A launcher whose errors make the check fail with their message."""

    sockets = ""
    """How ranks are to lie on sockets, as in Layout."""
    layout = ""
    """The placement's name, which a check sets where nodes are pretended, and where num_tasks_per_node does not
    describe it (``places_ranks``)."""

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
            return local_command(mpi, job.num_tasks, job.num_cpus_per_task or 1, self.sockets)

    return _register(f"collforge-local-{mpi}", LocalLauncher)


def emulated(mpi: str, rails: int, rate: str, rail_model: str) -> str:
    """Registers the launcher for an emulated cluster with these rails; returns its name.

    The parameters are those of ClusterSpec. A job without a layout gets one from its num_tasks and
    num_tasks_per_node.
    """

    class EmulatedLauncher(_Launcher):
        def words(self, job: Any) -> list[str]:
            per_node = job.num_tasks_per_node or 1
            layout = self.layout or f"{job.num_tasks // per_node}x{per_node}"
            return cluster_command(mpi, ClusterSpec(layout, rails, rate, rail_model))

    return _register(f"collforge-emulated-{mpi}-{rails}x{rate}-{rail_model}", EmulatedLauncher)


def simulated(mpi: str, machine: Machine) -> str:
    """Registers the launcher for a simulated machine; returns its name."""

    class SimulatedLauncher(_Launcher):
        def words(self, job: Any) -> list[str]:  # noqa: ARG002 (the layout has it)
            return simulation.command(
                mpi, machine, replace(from_name(self.layout), sockets=self.sockets)
            )

    return _register(f"collforge-{machine.name}-{mpi}", SimulatedLauncher)


def slurm(mpi: str, launcher: str) -> str:
    """Registers the launcher for jobs of the Slurm cluster, srun or mpirun; returns its name."""

    class SlurmLauncher(_Launcher):
        def words(self, job: Any) -> list[str]:
            return slurm_command(mpi, launcher, job.num_tasks)

    return _register(f"collforge-slurm-{launcher}-{mpi}", SlurmLauncher)


def _register(name: str, launcher: type[JobLauncher]) -> str:
    """Registers a launcher once: ReFrame may run a configuration twice, but refuses a name twice."""
    if name not in backends._launchers:
        backends.register_launcher(name)(launcher)
    return name
