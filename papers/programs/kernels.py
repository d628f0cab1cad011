"""The kernels of docs/papers.md: their sizes, builds, output and lines of code.

Each kernel has three versions: MPI alone; the same source with OpenMP threads and one rank per node; and
collforge_hybrid.h. The sources are in the checkout only, not in an installed package.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from collforge import papers
from collforge.toolchain.build import RUNTIME

KERNELS = ("summa", "poisson", "bpmf")
VERSIONS = ("mpi", "openmp", "hybrid")
"""Of every kernel."""

MORE_VERSIONS = {"poisson": ("allreduce",)}
"""Further hybrid versions: poisson_allreduce.c changes nothing but the allreduce."""

MOST_ADDED = 12
"""The most lines that the hybrid version may add to the MPI version."""

TOLERANCE = 1e-9
"""Relative tolerance of checksums. They are sums over ranks, whose order depends on the number of ranks.

For a sum of 10^6 doubles of one sign, the rounding error is below 10^6 * 2^-53, about 1e-10.
"""


@dataclass(frozen=True)
class Line:
    """The line that a program of a kernel prints."""

    version: str
    ranks: int
    seconds: float
    in_collectives: float
    """Of these seconds, those in collectives and in waits for the node's ranks; mean over ranks."""
    checksum: float


def versions(kernel: str) -> tuple[str, ...]:
    return (*VERSIONS, *MORE_VERSIONS.get(kernel, ()))


def source(kernel: str, version: str) -> Path:
    return papers.KERNELS / f"{kernel}_{'mpi' if version == 'openmp' else version}.c"


def compile_command(mpicc: str, kernel: str, version: str, out: Path, library: Path) -> list[str]:
    """The command that compiles one version to out/KERNEL_VERSION; ``library`` is libcollforge.so."""
    command = [mpicc, "-std=c11", "-O3", "-Wall", "-Wextra"]
    command.append("-fopenmp" if version == "openmp" else "-Wno-unknown-pragmas")
    command += [f"-I{RUNTIME / 'include'}", "-o", str(out / f"{kernel}_{version}")]
    command.append(str(source(kernel, version)))
    if version not in ("mpi", "openmp"):
        command += [f"-L{library.parent}", "-lcollforge", f"-Wl,-rpath,{library.parent}"]
    return [*command, "-lm"]


def problem_size(kernel: str, ranks: int, nodes: int, wanted: int = 0) -> int:
    """The least size >= `wanted` that all versions can cut into equal parts.

    The default for `wanted` is small, except for bpmf, which has the paper's blocks of 80 000 bytes.
    """
    usual = {"summa": 480, "poisson": 256, "bpmf": 1000 * ranks}
    step = 1 if kernel == "poisson" else math.lcm(ranks, nodes)
    return -(-(wanted or usual[kernel]) // step) * step


def paper_size(kernel: str, ranks: int, nodes: int) -> int:
    """The size of Zhou et al. (2020), section 5.3, which grows with ranks or nodes; 0 (default) for bpmf.

    In summa a block has 256 x 256 numbers, so that broadcasts are of 512 KiB if the grid of ranks is square.
    """
    columns = next(n for n in range(math.isqrt(ranks - 1) + 1, ranks + 1) if ranks % n == 0)
    return {"summa": 256 * columns, "poisson": round(256 * math.sqrt(nodes))}.get(kernel, 0)


def printed(kernel: str, text: str) -> list[Line]:
    """The lines of a kernel's programs in an output, in order."""
    number = r"([\d.]+)"
    found = re.findall(rf"^{kernel} (\w+) (\d+) {number} {number} (\S+)$", text, re.MULTILINE)
    return [Line(v, int(p), float(s), float(c), float(check)) for v, p, s, c, check in found]


def agree(lines: Iterable[Line]) -> bool:
    """Whether all checksums are equal within TOLERANCE. NaN equals nothing."""
    sums = [line.checksum for line in lines]
    return all(math.isclose(one, sums[0], rel_tol=TOLERANCE) for one in sums)


def code_lines(path: Path) -> list[str]:
    """The lines of a C file with code, with comments removed."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    return [line.rstrip() for line in text.splitlines() if line.strip()]


def added_lines(before: Path, after: Path) -> int:
    """The number of code lines of ``after`` that are new or changed with respect to ``before``."""
    lines = code_lines(before), code_lines(after)
    steps = difflib.SequenceMatcher(None, *lines, autojunk=False).get_opcodes()
    return sum(end - begin for step, _, _, begin, end in steps if step != "equal")
