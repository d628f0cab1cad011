"""Calls given collectives and records which of Open MPI's algorithms ran, for `collforge export`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import reframe as rfm
from reframe.core.builtins import (
    fixture,
    run_after,
    run_before,
    sanity_function,
    variable,
)
from reframe.core.exceptions import PipelineError, SanityError

from collforge.errors import CollforgeError
from collforge.reframe_checks import read_back
from collforge.reframe_checks.driver_check import DriverCheck, mpi_name
from collforge.toolchain import libraries


class BuildReadBack(rfm.CompileOnlyRegressionTest):
    """Builds the program that records the algorithms, in the stage directory."""

    build_system: Any = "CustomBuild"
    build_time_limit = "10m"
    sourcesdir = None

    @run_before("compile")
    def set_commands(self) -> None:
        try:
            mpicc = str(libraries.find(mpi_name(self.current_environ)).mpicc)
        except CollforgeError as error:
            raise PipelineError(str(error)) from error
        words = read_back.compile_command(mpicc, Path(self.stagedir, "which_algorithm"))
        self.build_system.commands = [shlex.join(words)]


@rfm.simple_test
class ReadBack(DriverCheck):
    """Runs `calls` on all ranks of the layout. The environment has the settings that select algorithms."""

    calls = variable(str, value="")
    """Items COLLECTIVE:BYTES, separated by blanks. If empty, the check is skipped."""

    lines = variable(str, value="")
    """Path of the file to which the first rank writes the program's lines."""

    time_limit = "10m"
    driver: Any = fixture(BuildReadBack, scope="environment")

    @run_after("init")
    def need_calls(self) -> None:
        self.skip_if(not self.calls, "no calls given: -S ReadBack.calls='bcast:1024'")

    @run_before("run")
    def set_command(self) -> None:
        self.executable = shlex.quote(str(Path(self.driver.stagedir, "which_algorithm")))
        self.executable_opts = [shlex.quote(self.lines), *self.calls.split()]

    @sanity_function
    def check_launches(self) -> bool:
        path = Path(self.lines)
        text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
        found, wanted = len(read_back.read(text)), len(self.calls.split())
        if found != wanted:
            raise SanityError(f"{found} of {wanted} calls came to their end{self._last_words()}")
        return True
