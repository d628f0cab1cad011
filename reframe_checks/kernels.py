"""The kernels of docs/kernels.md: their sizes, how they are built, what they print, their lines.

Each is a program in three versions: with MPI alone, with OpenMP threads in one rank per node, and
with collforge_hybrid.h. The sources are in the checkout only, not in an installed package.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from collforge.toolchain.build import RUNTIME

SOURCES = Path(__file__).resolve().parent.parent / "examples" / "kernels"

KERNELS = ("summa", "poisson", "bpmf")
VERSIONS = ("mpi", "openmp", "hybrid")

MOST_ADDED = 12
"""Lines that the hybrid version may have and the one with MPI alone has not."""

TOLERANCE = 1e-9
"""Of checksums, relative: they are sums over ranks, in an order that differs with their number.

Doubles of one sign, some 10^6 of them: rounding is below 10^6 * 2^-53, about 1e-10.
"""


@dataclass(frozen=True)
class Line:
    """What a program of a kernel prints."""

    version: str
    ranks: int
    seconds: float
    checksum: float


def source(kernel: str, version: str) -> Path:
    return SOURCES / f"{kernel}_{version}.c"


def compile_command(mpicc: str, kernel: str, version: str, out: Path, library: Path) -> list[str]:
    """Compiles one version to out/KERNEL_VERSION; library is libcollforge.so."""
    command = [mpicc, "-std=c11", "-O3", "-Wall", "-Wextra", "-Werror"]
    command += ["-fopenmp"] if version == "openmp" else []
    command += [f"-I{RUNTIME / 'include'}", "-o", str(out / f"{kernel}_{version}")]
    command.append(str(source(kernel, version)))
    if version == "hybrid":
        command += [f"-L{library.parent}", "-lcollforge", f"-Wl,-rpath,{library.parent}"]
    return [*command, "-lm"]


def problem_size(kernel: str, ranks: int, nodes: int, wanted: int = 0) -> int:
    """The least size from `wanted` on that all versions can cut into equal parts.

    Without `wanted` the usual one: small, but for bpmf the blocks of the paper, 80 000 bytes.
    """
    usual = {"summa": 480, "poisson": 256, "bpmf": 1000 * ranks}
    step = 1 if kernel == "poisson" else math.lcm(ranks, nodes)
    return -(-(wanted or usual[kernel]) // step) * step


def printed(kernel: str, text: str) -> list[Line]:
    """The lines of a kernel's programs in some output, in their order."""
    found = re.findall(rf"^{kernel} (\w+) (\d+) ([\d.]+) (\S+)$", text, re.MULTILINE)
    return [Line(version, int(ranks), float(s), float(check)) for version, ranks, s, check in found]


def agree(lines: Iterable[Line]) -> bool:
    """Whether all have the same checksum, within TOLERANCE. Not a number agrees with nothing."""
    sums = [line.checksum for line in lines]
    return all(math.isclose(one, sums[0], rel_tol=TOLERANCE) for one in sums)


def code_lines(path: Path) -> list[str]:
    """A C file's lines without comments, but those in which nothing else is."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    return [line.rstrip() for line in text.splitlines() if line.strip()]


def added_lines(before: Path, after: Path) -> int:
    """How many lines of code a file has more, or others, than another."""
    lines = code_lines(before), code_lines(after)
    steps = difflib.SequenceMatcher(None, *lines, autojunk=False).get_opcodes()
    return sum(end - begin for step, _, _, begin, end in steps if step != "equal")
