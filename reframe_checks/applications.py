"""The MPI+OpenMP programs of examples/: how they are built and what they print.

`monte_carlo` (papers/thread-split-rank-shift, section 3) ends its steps in an allreduce outside the parallel
region, and runs natively and preloaded. `halo` (papers/virtual-communication-interfaces, section 6.1)
exchanges messages inside one, with the communicators of one thread and with those of each. The sources are in
the checkout only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from collforge.toolchain.build import OPENMP_FLAGS

SOURCES = Path(__file__).resolve().parent.parent / "examples"

PRELOADED = "preloaded"
WAYS = {"monte_carlo": ("native", PRELOADED), "halo": ("serial", "parallel")}
ARGUMENTS = {"monte_carlo": ["50000", "20"], "halo": ["256", "200"]}


@dataclass(frozen=True)
class Line:
    """What a run of a program printed."""

    seconds: float
    checksum: str


def compile_command(mpicc: str, name: str, out: Path) -> list[str]:
    """Compiles a program to out/NAME."""
    return [mpicc, *OPENMP_FLAGS, "-o", str(out / name), str(SOURCES / f"{name}.c")]


def arguments(name: str, way: str) -> list[str]:
    """The words behind the program's name that make it go this way."""
    return [*([way] if name == "halo" else []), *ARGUMENTS[name]]


def printed(name: str, text: str) -> list[Line]:
    """The lines of a program in some output, in their order."""
    patterns = {
        "monte_carlo": r"^monte_carlo .*: (?P<s>[\d.]+) s, .* checksum (?P<sum>\S+)$",
        "halo": r"^halo \w+ (?P<s>[\d.]+) (?P<sum>\S+)$",
    }
    found = re.finditer(patterns[name], text, re.MULTILINE)
    return [Line(float(one["s"]), one["sum"]) for one in found]
