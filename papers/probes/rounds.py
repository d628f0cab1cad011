"""Programs that are launched in turn: every setting once in each round, all in one job of the system."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from collforge.home import home, new_folder
from collforge.layout import from_name
from collforge.mpi_library import MpiLibrary
from collforge.papers import PROGRAMS
from collforge.toolchain.build import OPENMP_FLAGS
from collforge.tuner.run import measuring
from collforge.tuner.run.launches import KILLED, Launch, Outcome, run_launches

MISSING = math.nan
"""In the place of a launch that failed; null in a --json file."""


@dataclass(frozen=True)
class Rounds:
    """The programs of a probe, which the job compiles, and where they run."""

    library: MpiLibrary
    args: argparse.Namespace
    folder: Path
    sources: Sequence[Path]

    @classmethod
    def of(
        cls, library: MpiLibrary, args: argparse.Namespace, name: str, sources: Sequence[Path]
    ) -> Rounds:
        return cls(library, args, new_folder(home() / "runs", name), sources)

    def program(self, name: str) -> str:
        """The path that `name`.c is compiled to."""
        return str(self.folder / name)

    def run(self, launches: Sequence[Launch], rounds: int) -> list[list[Outcome]]:
        """What became of each launch in each round. Raises CollforgeError if the job fails."""
        cc = [str(self.library.mpicc), *OPENMP_FLAGS]
        compiled = [[*cc, "-o", self.program(one.stem), str(one), "-lm"] for one in self.sources]
        site = measuring.site(self.args, self.library.name)
        found = run_launches(site, self.folder / "job", compiled, [*launches] * rounds)
        return [found[number :: len(launches)] for number in range(len(launches))]

    def doubt(self, layout: str, outcomes: Sequence[Outcome]) -> str:
        """Why these launches certify nothing; '' if nothing is known against them.

        They failed, or more threads than cores took turns, where all nodes are this machine.
        """
        failed = [one for one in outcomes if one.code != 0]
        if failed:
            return f"{len(failed)} of {len(outcomes)} launches failed: {last_words(failed[0])}"
        return measuring.crowded(self.args, from_name(layout))


def last_words(failed: Outcome) -> str:
    """The first line that the program of a failed launch printed, which names the error; else srun's.

    Both write at once: srun's line that it ends the other processes may come before the error's.
    """
    if failed.code == KILLED:
        return f"killed after {failed.seconds:.0f} s"
    whose = r"^\[[^]]*\] *\*+"  # Open MPI: [node:process] ***
    waits = r"^srun: (Job \d+ step creation|Step created)"
    said = (line for line in failed.err.splitlines() if not re.match(waits, line))
    lines = [line for line in (re.sub(whose, "", line).strip(" -=") for line in said) if line]
    lines.sort(key=lambda line: line.startswith(("srun:", "slurmstepd:")))
    return next(iter(lines), f"exit status {failed.code}")[:200]


def source(name: str) -> Path:
    return PROGRAMS / f"{name}.c"
