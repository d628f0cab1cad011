"""Overlap of nonblocking collectives with computation: `collforge probe overlap`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import reframe as rfm
from reframe.core.builtins import fixture, run_before, variable
from reframe.utility import typecheck as typ

from collforge.papers.programs import overlap
from collforge.reframe_checks.driver_check import BuildPrograms, LinesCheck


class BuildOverlap(BuildPrograms):
    """The program."""

    def compile_commands(self, mpicc: str, out: Path) -> list[list[str]]:
        return [overlap.compile_command(mpicc, out / "overlap")]


@rfm.simple_test
class Overlap(LinesCheck):
    """Times collectives and computations, alone and together (papers/programs/overlap.py)."""

    program = "overlap"

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

    time_limit = "30m"
    driver: Any = fixture(BuildOverlap, scope="environment")

    @run_before("run")
    def set_threads(self) -> None:
        self.num_cpus_per_task = max(self.cores, self.threads)
        self.env_vars["OMP_NUM_THREADS"] = str(self.threads)
        if self.progress_thread:
            self.env_vars["MPICH_ASYNC_PROGRESS"] = "1"

    def arguments(self) -> list[object]:
        lists = [",".join(map(str, each)) for each in (self.collectives, self.times)]
        return [self.repetitions, self.most_bytes, *lists]

    def count_lines(self, text: str) -> int:
        return len(overlap.read(text))

    def wanted_lines(self) -> int:
        return overlap.expected(self.collectives, self.times)
