"""The lane pattern and multi-collective benchmarks: `collforge probe lanes`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import reframe as rfm
from reframe.core.builtins import fixture, variable
from reframe.core.exceptions import PipelineError
from reframe.utility import typecheck as typ

from collforge.reframe_checks import lanes
from collforge.reframe_checks.driver_check import BuildPrograms, LinesCheck


class BuildLanes(BuildPrograms):
    """The program."""

    def compile_commands(self, mpicc: str, out: Path) -> list[list[str]]:
        return [lanes.compile_command(mpicc, out / "lanes")]


@rfm.simple_test
class Lanes(LinesCheck):
    """Times the exchanges of nodes over 1, 2, ... of their ranks (reframe_checks/lanes.py)."""

    program = "lanes"

    benchmarks = variable(typ.List[str], value=list(lanes.BENCHMARKS))

    lanes = variable(typ.List[int], value=[1, 2])
    """So many ranks of each node communicate; none more than the nodes have."""

    sizes = variable(typ.List[int], value=[65536])
    """Bytes."""

    exchanges = variable(int, value=100)
    """Of the lane pattern, in one repetition."""

    repetitions = variable(int, value=80)

    time_limit = "30m"
    driver: Any = fixture(BuildLanes, scope="environment")

    def arguments(self) -> list[object]:
        if not self.rank_layout.regular:
            raise PipelineError(f"layout {self.rank_layout.name}: its nodes must be of one size")
        per_node = self.rank_layout.node_sizes[0]
        self.lanes = [number for number in self.lanes if number <= per_node]
        numbers = [",".join(map(str, each)) for each in (self.lanes, self.sizes)]
        return [per_node, self.exchanges, self.repetitions, *numbers, *self.benchmarks]

    def count_lines(self, text: str) -> int:
        return len(lanes.read(text))

    def wanted_lines(self) -> int:
        return lanes.expected(self.lanes, self.sizes, self.benchmarks)
