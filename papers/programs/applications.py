"""The MPI+OpenMP programs `monte_carlo` and `halo` (papers/kernels): how they are built and what they print.

`monte_carlo` (Mahéo et al., 2014, section 3) ends each step with an allreduce outside the parallel region; it
runs natively and preloaded. `halo` (Zambre et al., 2020, section 6.1) exchanges messages inside a parallel
region, over the communicators of one thread or over those of each thread. The sources are in the checkout
only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from collforge import papers
from collforge.toolchain.build import OPENMP_FLAGS

PRELOADED = "preloaded"
WAYS = {"monte_carlo": ("native", PRELOADED), "halo": ("serial", "parallel")}
ARGUMENTS = {"monte_carlo": ["50000", "20"], "halo": ["256", "200"]}


@dataclass(frozen=True)
class Line:
    """A line that a program printed."""

    seconds: float
    checksum: str


def compile_command(mpicc: str, name: str, out: Path) -> list[str]:
    """The command that compiles a program to out/NAME."""
    return [mpicc, *OPENMP_FLAGS, "-o", str(out / name), str(papers.KERNELS / f"{name}.c")]


def arguments(name: str, way: str) -> list[str]:
    """The program's arguments for one of its two ways."""
    return [*([way] if name == "halo" else []), *ARGUMENTS[name]]


def printed(name: str, text: str) -> list[Line]:
    """The lines of a program in an output, in order."""
    patterns = {
        "monte_carlo": r"^monte_carlo .*: (?P<s>[\d.]+) s, .* checksum (?P<sum>\S+)$",
        "halo": r"^halo \w+ (?P<s>[\d.]+) [\d.]+ (?P<sum>\S+)$",
    }
    found = re.finditer(patterns[name], text, re.MULTILINE)
    return [Line(float(one["s"]), one["sum"]) for one in found]
