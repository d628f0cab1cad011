"""The description of an MPI library; collforge.toolchain.libraries finds the libraries of this machine."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Flavor = Literal["openmpi", "mpich", "other"]
"""The project whose command-line options a library takes; libraries derived from MPICH count as mpich."""


@dataclass(frozen=True)
class MpiLibrary:
    """One MPI library of this machine."""

    name: str
    """The short name: openmpi, mpich, or the lower-case <NAME> of a COLLFORGE_MPI_<NAME>."""
    mpicc: Path
    mpirun: Path
    version: str
    """The result of MPI_Get_library_version without trailing blanks. May have several lines."""
    thread_multiple: bool
    """Whether MPI_Init_thread grants MPI_THREAD_MULTIPLE; False also when MPI_Init_thread fails."""

    @property
    def flavor(self) -> Flavor:
        if self.version.startswith("Open MPI"):
            return "openmpi"
        if self.version.startswith(("MPICH", "Intel(R) MPI", "MVAPICH")):
            return "mpich"
        return "other"

    @property
    def first_line(self) -> str:
        """The version's first line, which the database and the driver (runtime/bench/record.c) store."""
        return self.version.split("\n", 1)[0].strip()

    @property
    def short_version(self) -> str:
        """The first words of the version, for tables: `Open MPI v4.1.4`, `MPICH 4.0.2`."""
        return short_version(self.first_line)


def short_version(first_line: str) -> str:
    """The same, of the first line of a version."""
    named = re.split(r",|\. Copyright", first_line, maxsplit=1)[0]
    return " ".join(named.replace("Version:", "").split())
