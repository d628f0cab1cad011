"""Real tools of others together with the preload: on all ranks and on one, before and behind the library.

`python tests/tools.py openmpi FILE [VARIABLE=VALUE ...]` prints a table for a tool that is a shared
library. Without a file: EZTrace, which Debian packages. mpiP and Darshan are built from their sources.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from preloaded import tuned
from support import SHARED_HOME, compile_once, launch_groups

from collforge.toolchain import build, libraries

RANKS = 4
CALLS = Path(__file__).resolve().parent / "hazards" / "calls.c"
EZTRACE = "/usr/lib/x86_64-linux-gnu/libeztrace-{}.so"
FAMILY = "full_lane"


@dataclass(frozen=True)
class Tool:
    """A tool and its variables, built for an MPI library."""

    mpi: str
    file: Path
    variables: dict[str, str]

    def run(self, where: str, ranks: set[int], folder: Path) -> tuple[bool, set[str]]:
        """Whether the job passed, and what was served. ``where``: before, behind, alone (no library)."""
        library = libraries.find(self.mpi)
        built = build.build(library, SHARED_HOME)
        plain = {
            "LD_PRELOAD": str(built.library_path),
            "COLLFORGE_VERBOSE": "2",
            "COLLFORGE_NODE_MAP": "2",
            "COLLFORGE_FORCE": f"*={FAMILY}",
        }
        order = {
            "before": [self.file, built.library_path],
            "behind": [built.library_path, self.file],
            "alone": [self.file],
        }[where]
        plain = {} if where == "alone" else plain  # the native job
        tooled = {**plain, **self.variables, "LD_PRELOAD": ":".join(map(str, order))}
        groups = [(1, tooled if rank in ranks else plain) for rank in range(RANKS)]
        program = compile_once("calls", [library.mpicc, "-O1", CALLS], CALLS)
        words = ["env", f"--chdir={folder}", str(program)]
        try:
            done = launch_groups(self.mpi, groups, words, timeout=30)
        except subprocess.TimeoutExpired:
            return False, set()
        passed = done.returncode == 0 and "passed" in done.stdout.splitlines()
        return passed, tuned(done.stderr, FAMILY)


def rows(tool: Tool) -> Iterator[tuple[str, set[int], bool, set[str]]]:
    """(where, the ranks with the tool, passed, served)."""
    with tempfile.TemporaryDirectory() as name:
        for where in ("alone", "before", "behind"):
            for ranks in ({*range(RANKS)}, {0}, {2}, {1, 3}):
                yield where, ranks, *tool.run(where, ranks, Path(name))


def main(mpi: str, file: str = "", *variables: str) -> None:
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    path = Path(file or EZTRACE.format(mpi)).resolve()
    tool = Tool(mpi, path, dict(word.split("=", 1) for word in variables))
    print("| tool | library | where | ranks | passed | served |\n|---|---|---|---|---|---|")
    for where, ranks, passed, served in rows(tool):
        ranks_text = "all" if len(ranks) == RANKS else ", ".join(map(str, sorted(ranks)))
        cells = [path.stem, mpi, where, ranks_text, "yes" if passed else "NO"]
        print(f"| {' | '.join([*cells, ', '.join(sorted(served)) or 'native'])} |", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
