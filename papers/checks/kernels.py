"""Runs the kernels of docs/papers.md and compares their three versions."""

from __future__ import annotations

import shlex
import statistics
from pathlib import Path
from typing import ClassVar

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import (
    fixture,
    parameter,
    run_after,
    run_before,
    sanity_function,
    variable,
)
from reframe.core.exceptions import SanityError

from collforge.home import home
from collforge.papers.programs import kernels
from collforge.papers.programs.kernels import KERNELS, MOST_ADDED, Line, versions
from collforge.reframe_checks.driver_check import BuildDriver, BuildPrograms, DriverCheck, mpi_name
from collforge.toolchain.build import built_paths


class BuildKernels(BuildPrograms):
    """Builds all versions of all kernels."""

    driver = fixture(BuildDriver, scope="environment")

    def compile_commands(self, mpicc: str, out: Path) -> list[list[str]]:
        library = built_paths(mpi_name(self.current_environ), home()).library_path
        return [
            kernels.compile_command(mpicc, kernel, version, out, library)
            for kernel in KERNELS
            for version in versions(kernel)
        ]


@rfm.simple_test
class Kernel(DriverCheck):
    """Runs the versions of a kernel in turn, ``launches`` times each; their results must agree.

    The MPI and the hybrid version run on all ranks of the layout. The OpenMP version runs with one rank
    per node and as many threads as the largest node has ranks. Reported are the median seconds, the
    lines of code, and the lines that the hybrid version adds.
    """

    kernel = parameter(KERNELS, loggable=True)

    size = variable(int, value=0)
    """Problem size, rounded up to one that can be cut evenly. 0: the kernel's default."""

    iterations = variable(int, value=0)
    """0: the kernel's default."""

    lines = variable(str, value="")
    """A file for the programs' lines; empty: none."""

    launches = 3
    built = fixture(BuildKernels, scope="environment")
    reference: ClassVar = {"*": {"added_lines": (MOST_ADDED, None, 0, "lines")}}

    @run_before("run")
    def set_command(self) -> None:
        size = kernels.problem_size(
            self.kernel, self.rank_layout.size, self.rank_layout.nodes, self.size
        )
        self.executable_opts = [str(size), *([str(self.iterations)] if self.iterations else [])]
        self.env_vars["OMP_NUM_THREADS"] = str(max(self.rank_layout.node_sizes))
        if {"rails", "pretend_nodes"} & set(self.current_partition.extras):
            # The nodes share this machine's cores: threads that poll would keep others from running.
            self.env_vars["OMP_WAIT_POLICY"] = "passive"
        self.prerun_cmds = [f"for launch in {' '.join(self._numbers())}; do"]
        self.executable = self._program("mpi")
        self.postrun_cmds = [
            self._launch(version, self.rank_layout.nodes, 1)
            if version == "openmp"
            else self._launch(version, self.num_tasks, self.num_tasks_per_node)
            for version in versions(self.kernel)[1:]
        ]
        self.postrun_cmds.append("done")

    def _program(self, version: str) -> str:
        return shlex.quote(str(Path(self.built.stagedir, f"{self.kernel}_{version}")))

    def _launch(self, version: str, ranks: int, per_node: int | None) -> str:
        """The command that launches one version; ReFrame sets the job's task counts again later."""
        self.job.num_tasks, self.job.num_tasks_per_node = ranks, per_node
        launcher = self.job.launcher
        layout = getattr(launcher, "layout", "")
        launcher.layout = "" if per_node else layout
        words = [launcher.run_command(self.job)]
        launcher.layout = layout
        if launcher.registered_name == "srun":  # srun takes the task counts from the allocation
            words.append(f"--ntasks={ranks}")
            words += [f"--ntasks-per-node={per_node}"] if per_node else []
        return " ".join([*words, self._program(version), *self.executable_opts])

    def _output_text(self) -> str:
        return Path(self.stagedir, str(self.job.stdout)).read_text(
            encoding="utf-8", errors="replace"
        )

    @property
    def found(self) -> list[Line]:
        """The lines that the programs printed."""
        return kernels.printed(self.kernel, self._output_text())

    @run_after("sanity")
    def copy_lines(self) -> None:
        if self.lines:
            Path(self.lines).write_text(self._output_text(), encoding="utf-8")

    @sanity_function
    def check_launches(self) -> bool:
        at = self.rank_layout
        for version in versions(self.kernel):
            ranks = at.nodes if version == "openmp" else at.size
            ranks_of = [line.ranks for line in self.found if line.version == version]
            if ranks_of != [ranks] * self.launches:
                raise SanityError(
                    f"{self.kernel}_{version} was launched {self.launches} times on "
                    f"{ranks} ranks, and printed lines of {ranks_of}{self._last_words()}"
                )
        if not kernels.agree(self.found):
            sums = ", ".join(f"{line.version} {line.checksum!r}" for line in self.found)
            raise SanityError(f"{self.kernel}: checksums differ: {sums}")
        return True

    @run_before("performance")
    def set_performance(self) -> None:
        paths = {version: kernels.source(self.kernel, version) for version in versions(self.kernel)}
        values: dict[str, tuple[float, str]] = {
            "added_lines": (kernels.added_lines(paths["mpi"], paths["hybrid"]), "lines")
        }
        for version, path in paths.items():
            seconds = [line.seconds for line in self.found if line.version == version]
            values[f"{version}_seconds"] = statistics.median(seconds), "s"
            values[f"{version}_lines"] = len(kernels.code_lines(path)), "lines"
        for name, (value, unit) in values.items():
            self.perf_variables[name] = sn.make_performance_function(sn.defer(value), unit)
