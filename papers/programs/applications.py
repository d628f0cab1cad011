"""The MPI+OpenMP programs `monte_carlo` and `halo` (papers/kernels): how they are built and what they print.

`monte_carlo` (Mahéo et al., 2014, section 3) ends each step with an allreduce outside the parallel region.
`halo` (Zambre et al., 2020, section 6.1) exchanges messages inside a parallel region, over the communicators of
one thread or over those of each thread. The sources are in the checkout only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from collforge import papers
from collforge.toolchain.build import OPENMP_FLAGS


@dataclass(frozen=True)
class Line:
    """A line that a program printed."""

    seconds: float
    in_allreduce: float
    """Of monte_carlo; 0 for halo."""
    checksum: str


def compile_command(mpicc: str, name: str, out: Path) -> list[str]:
    """The command that compiles a program to out/NAME."""
    return [mpicc, *OPENMP_FLAGS, "-o", str(out / name), str(papers.KERNELS / f"{name}.c")]


def printed(name: str, text: str) -> list[Line]:
    """The lines of a program in an output, in order."""
    patterns = {
        "monte_carlo": r"^monte_carlo .*: ([\d.]+) s, of which allreduce ([\d.]+) s; checksum (\S+)$",
        "halo": r"^halo \w+ ([\d.]+) [\d.]+() (\S+)$",
    }
    found = re.finditer(patterns[name], text, re.MULTILINE)
    return [Line(float(one[1]), float(one[2] or 0), one[3]) for one in found]
