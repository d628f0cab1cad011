"""Overlap of nonblocking collectives with computation: `collforge probe overlap`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import reframe as rfm
from reframe.core.builtins import fixture, run_before, sanity_function, variable
from reframe.core.exceptions import SanityError
from reframe.utility import typecheck as typ

from collforge.reframe_checks import overlap
from collforge.reframe_checks.driver_check import BuildPrograms, DriverCheck


class BuildOverlap(BuildPrograms):
    """The program."""

    def compile_commands(self, mpicc: str, out: Path) -> list[list[str]]:
        return [overlap.compile_command(mpicc, out / "overlap")]


@rfm.simple_test
class Overlap(DriverCheck):
    """Times collectives and computations, alone and together (reframe_checks/overlap.py)."""

    collectives = variable(typ.List[str], value=list(overlap.COLLECTIVES))

    times = variable(typ.List[int], value=[2000, 8000])
    """Microseconds, of communication and computation."""

    threads = variable(int, value=1)
    """That compute, in each rank."""

    cores = variable(int, value=0)
    """Of a rank; 0: one for each thread. With more, a progress thread has a core of its own."""

    progress_thread = variable(typ.Bool, value=False)
    """MPICH: with its thread that makes communication progress."""

    repetitions = variable(int, value=10)

    most_bytes = variable(int, value=1 << 28)
    """Of each of the two buffers of a rank."""

    lines = variable(str, value="overlap.jsonl")
    """The file for the program's lines, which the first rank writes."""

    time_limit = "30m"
    driver: Any = fixture(BuildOverlap, scope="environment")

    @run_before("run")
    def set_command(self) -> None:
        self.num_cpus_per_task = max(self.cores, self.threads)
        self.env_vars["OMP_NUM_THREADS"] = str(self.threads)
        if self.progress_thread:
            self.env_vars["MPICH_ASYNC_PROGRESS"] = "1"
        self.executable = shlex.quote(str(Path(self.driver.stagedir, "overlap")))
        lists = [",".join(map(str, each)) for each in (self.collectives, self.times)]
        words = [self.lines, self.repetitions, self.most_bytes, *lists]
        self.executable_opts = [shlex.quote(str(word)) for word in words]
        self.keep_files = [] if Path(self.lines).is_absolute() else [self.lines]

    @sanity_function
    def check_launches(self) -> bool:
        path = Path(self.stagedir, self.lines)
        try:
            found = len(overlap.read(path.read_text(encoding="utf-8")))
        except (OSError, ValueError) as error:
            raise SanityError(f"no results: {error}{self._last_words()}") from error
        wanted = overlap.expected(self.collectives, self.times)
        if found != wanted:
            raise SanityError(f"{found} of {wanted} lines were measured{self._last_words()}")
        return True
