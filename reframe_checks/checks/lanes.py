"""The lane pattern and multi-collective benchmarks: `collforge probe lanes`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import reframe as rfm
from reframe.core.builtins import fixture, run_before, sanity_function, variable
from reframe.core.exceptions import PipelineError, SanityError
from reframe.utility import typecheck as typ

from collforge.reframe_checks import lanes
from collforge.reframe_checks.driver_check import BuildPrograms, DriverCheck


class BuildLanes(BuildPrograms):
    """The program."""

    def compile_commands(self, mpicc: str, out: Path) -> list[list[str]]:
        return [lanes.compile_command(mpicc, out / "lanes")]


@rfm.simple_test
class Lanes(DriverCheck):
    """Times the exchanges of nodes over 1, 2, ... of their ranks (reframe_checks/lanes.py)."""

    lanes = variable(typ.List[int], value=[1, 2])
    """So many ranks of each node communicate; none more than the nodes have."""

    sizes = variable(typ.List[int], value=[65536])
    """Bytes."""

    exchanges = variable(int, value=100)
    """Of the lane pattern, in one repetition."""

    repetitions = variable(int, value=80)

    lines = variable(str, value="lanes.jsonl")
    """The file for the program's lines, which the first rank writes."""

    time_limit = "30m"
    driver: Any = fixture(BuildLanes, scope="environment")

    @run_before("run")
    def set_command(self) -> None:
        if not self.rank_layout.regular:
            raise PipelineError(f"layout {self.rank_layout.name}: its nodes must be of one size")
        per_node = self.rank_layout.node_sizes[0]
        self.lanes = [number for number in self.lanes if number <= per_node]
        self.executable = shlex.quote(str(Path(self.driver.stagedir, "lanes")))
        numbers = [",".join(map(str, each)) for each in (self.lanes, self.sizes)]
        words = [self.lines, per_node, self.exchanges, self.repetitions, *numbers]
        self.executable_opts = [shlex.quote(str(word)) for word in words]
        self.keep_files = [] if Path(self.lines).is_absolute() else [self.lines]

    @sanity_function
    def check_launches(self) -> bool:
        path = Path(self.stagedir, self.lines)
        try:
            found = len(lanes.read(path.read_text(encoding="utf-8")))
        except (OSError, ValueError) as error:
            raise SanityError(f"no results: {error}{self._last_words()}") from error
        wanted = lanes.expected(self.lanes, self.sizes)
        if found != wanted:
            raise SanityError(f"{found} of {wanted} series were measured{self._last_words()}")
        return True
