"""Runs the programs of papers.programs.applications, each in two ways that must have the same result."""

from __future__ import annotations

import shlex
import statistics
from pathlib import Path

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import fixture, parameter, run_before, sanity_function, variable
from reframe.core.exceptions import SanityError

from collforge.home import database_path, home
from collforge.papers.programs import applications
from collforge.papers.programs.applications import PRELOADED, WAYS, Line
from collforge.reframe_checks.driver_check import BuildDriver, BuildPrograms, DriverCheck, mpi_name
from collforge.reframe_checks.mpirun import PRELOAD
from collforge.toolchain import libraries, vcis
from collforge.toolchain.build import built_paths


class BuildApplications(BuildPrograms):
    """Builds the programs."""

    driver = fixture(BuildDriver, scope="environment")

    def compile_commands(self, mpicc: str, out: Path) -> list[list[str]]:
        return [applications.compile_command(mpicc, name, out) for name in WAYS]


@rfm.simple_test
class Application(DriverCheck):
    """Runs a program in two ways in turn and reports the median seconds of each."""

    application = parameter(list(WAYS), loggable=True)

    system = variable(str, value="")
    """The system whose winners apply to the preloaded program; by default found by host name."""

    threads = variable(int, value=2)
    """Threads per process, unless the layout gives them."""

    launches = 3
    built = fixture(BuildApplications, scope="environment")

    @run_before("run")
    def set_command(self) -> None:
        threads = self.rank_layout.threads if self.rank_layout.threads > 1 else self.threads
        self.env_vars["OMP_NUM_THREADS"] = str(threads)
        if {"rails", "pretend_nodes"} & set(self.current_partition.extras):
            # The nodes share this machine's cores: threads that poll would keep others from running.
            self.env_vars["OMP_WAIT_POLICY"] = "passive"
        library = libraries.find(mpi_name(self.current_environ))
        self.env_vars.update(vcis.thread_settings(library, threads))
        self.env_vars["COLLFORGE_DB"] = str(database_path())
        if self.system:
            self.env_vars["COLLFORGE_SYSTEM"] = self.system
        first, second = WAYS[self.application]
        self.prerun_cmds = [f"for launch in {' '.join(self._numbers())}; do"]
        program, *words = self._words(first)
        self.executable, self.executable_opts = shlex.quote(program), words
        other = self._launch()
        self.postrun_cmds = [f"{other} {shlex.join(self._words(second))}", "done"]

    def _launch(self) -> str:
        """The command that launches the second way; ReFrame sets the job's task counts again later."""
        self.job.num_tasks, self.job.num_tasks_per_node = self.num_tasks, self.num_tasks_per_node
        self.job.num_cpus_per_task = self.num_cpus_per_task
        return str(self.job.launcher.run_command(self.job))

    def _words(self, way: str) -> list[str]:
        program = str(Path(self.built.stagedir, self.application))
        words = [program, *applications.arguments(self.application, way)]
        if way != PRELOADED:
            return words
        runtime = built_paths(mpi_name(self.current_environ), home()).library_path
        return ["sh", "-c", PRELOAD, str(runtime), *words]

    @property
    def lines(self) -> list[Line]:
        """The lines that the runs printed."""
        path = Path(self.stagedir, str(self.job.stdout))
        text = path.read_text(encoding="utf-8", errors="replace")
        return applications.printed(self.application, text)

    @sanity_function
    def check_launches(self) -> bool:
        wanted = 2 * self.launches
        if len(self.lines) != wanted:
            raise SanityError(
                f"{self.application}: {len(self.lines)} of {wanted} runs came to their end{self._last_words()}"
            )
        sums = {line.checksum for line in self.lines}
        if len(sums) > 1:
            raise SanityError(f"{self.application}: checksums differ: {', '.join(sorted(sums))}")
        return True

    @run_before("performance")
    def set_performance(self) -> None:
        for number, way in enumerate(WAYS[self.application]):
            seconds = statistics.median(line.seconds for line in self.lines[number::2])
            self.perf_variables[f"{way}_seconds"] = sn.make_performance_function(
                sn.defer(seconds), "s"
            )
