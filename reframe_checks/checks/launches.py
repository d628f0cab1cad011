"""Launches programs for probes, one after the other in one job (reframe_checks/launches.py)."""

from __future__ import annotations

import math
import shlex
import shutil
from pathlib import Path
from typing import Any

import msgspec
import reframe as rfm
from reframe.core.backends import getlauncher
from reframe.core.builtins import run_after, run_before, sanity_function, variable
from reframe.core.exceptions import PipelineError, SanityError
from reframe.utility import typecheck as typ

from collforge import launch_log
from collforge.errors import CollforgeError
from collforge.layout import from_name
from collforge.reframe_checks import allocation, mpirun
from collforge.reframe_checks.driver_check import mpi_environments, mpi_name, place
from collforge.reframe_checks.launches import KILLED, Launch, Outcome, read_plan
from collforge.toolchain import libraries

FILES = ("code", "out", "err")


def _ended_by(signal: str, is_here: bool) -> list[str]:
    """The words before a command that gets the signal when its parent dies; none on other machines.

    The ranks get one, too: Open MPI 4's mpirun leaves them behind if it is stopped while it starts them.
    """
    return ["setpriv", "--pdeathsig", signal] if is_here and shutil.which("setpriv") else []


@rfm.simple_test
class Launches(rfm.RegressionTest):
    """Compiles the programs of a plan and launches them; one that fails or hangs does not end the others."""

    plan = variable(str, value="")
    """Path of the JSON file. If empty, the check is skipped."""

    lines = variable(str, value="outcomes.jsonl")
    """The file for the outcomes, a line each."""

    layout = variable(str, value="")
    """Of the allocation, in which all launches find room."""

    cores = variable(int, value=1)
    """Of a rank of the allocation."""

    in_allocation = variable(typ.Bool, value=False)
    """Whether to launch in the allocation in which ReFrame runs (allocation.py), not in a job of its own."""

    build_system: Any = "CustomBuild"
    build_time_limit = "10m"
    time_limit = "30m"
    sourcesdir = None

    @run_after("init")
    def select_environments(self) -> None:
        self.skip_if(not self.plan, "no plan given: -S Launches.plan=FILE")
        self.valid_systems = ["*"]
        self.valid_prog_environs = mpi_environments()
        self.local = self.in_allocation

    @run_after("setup")
    def allocate(self) -> None:
        try:
            self.planned = read_plan(Path(self.plan))
            at = from_name(self.layout)
        except (OSError, ValueError, CollforgeError) as error:
            raise PipelineError(f"Launches.plan={self.plan}: {error}") from error
        self.num_tasks, self.num_tasks_per_node = at.size, at.node_sizes[0]
        self.num_cpus_per_task = self.cores
        if self.in_allocation:
            self.job.launcher = self.current_partition.launcher_type()

    @run_before("compile")
    def set_commands(self) -> None:
        commands = self.planned.compile_commands or [["true"]]
        self.build_system.commands = [shlex.join(words) for words in commands]

    @run_before("run")
    def set_command(self) -> None:
        scheduler = self.job.scheduler.registered_name
        launcher = self.current_partition.launcher_type.registered_name
        self.prerun_cmds = launch_log.first_line(scheduler, launcher)
        for number, launch in enumerate(self.planned.launches):
            self.prerun_cmds += self._commands(number, launch)
        # Each launch has its own launcher; the job itself has nothing left to launch.
        self.job.launcher = getlauncher("local")()
        self.executable = "true"

    def _commands(self, number: int, launch: Launch) -> list[str]:
        at = from_name(launch.layout)
        extras = self.current_partition.extras
        is_here = bool(extras.get("pretend_nodes") or extras.get("places_ranks"))
        try:
            variables = {**place(self, at, self.job), **launch.variables}
            command = str(self.job.launcher.run_command(self.job))
            if not is_here:
                command = mpirun.step(command, self._flavor, at, self.planned.allocation[1])
        except CollforgeError as error:
            raise PipelineError(str(error)) from error
        env = ["env", *(f"{name}={value}" for name, value in variables.items())]
        if extras.get("one_process"):
            command, words = f"{shlex.join(env)} {command}", [*launch.words]
        else:
            # A program whose path has a = would be one more variable for env.
            guard = ["sh", "-c", 'exec "$0" "$@"'] if "=" in launch.words[0] else []
            words = [*_ended_by("KILL", is_here), *env, *guard, *launch.words]
        # timeout has a process group of its own, so nobody else ends it with the job's script.
        seconds = str(max(1, math.ceil(launch.seconds)))
        limit = shlex.join([*_ended_by("TERM", is_here), "timeout", "-k", "10", seconds])
        files = f"< /dev/null > {number}.out 2> {number}.err"
        lines = ["begin=$(date +%s%N)", f"{limit} {command} {shlex.join(words)} {files}"]
        lines.append(f'echo "$? $(( $(date +%s%N) - begin ))" > {number}.code')
        if not self.in_allocation:
            return lines
        return ["(", *allocation.commands(at), *lines, ")"]

    @property
    def _flavor(self) -> str:
        return libraries.find(mpi_name(self.current_environ)).flavor

    @sanity_function
    def write_outcomes(self) -> bool:
        outcomes = []
        for number in range(len(self.planned.launches)):
            try:
                texts = [
                    Path(self.stagedir, f"{number}.{name}").read_text(
                        encoding="utf-8", errors="replace"
                    )
                    for name in FILES
                ]
            except OSError as error:
                raise SanityError(f"launch {number} has not ended: {error}") from error
            code, nanoseconds = map(int, texts[0].split())
            seconds = nanoseconds * 1e-9
            # timeout(1) says 124, or 137 where the program needed its second signal; so may a program.
            ended = code in (124, 137) and seconds >= math.ceil(
                self.planned.launches[number].seconds
            )
            outcomes.append(Outcome(KILLED if ended else code, seconds, *texts[1:]))
        text = b"".join(msgspec.json.encode(one) + b"\n" for one in outcomes)
        Path(self.stagedir, self.lines).write_bytes(text)
        return True
