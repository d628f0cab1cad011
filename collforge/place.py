"""The database key of measurements and winners: system, MPI library and layout."""

from __future__ import annotations

from dataclasses import dataclass, replace

from collforge.layout import Layout
from collforge.mpi_library import MpiLibrary


@dataclass(frozen=True, order=True)
class Place:
    """The key of measurements and winners in the database."""

    system: str
    mpi: str
    """Short name of the MPI library, e.g. ``openmpi``."""
    mpi_version: str
    """The first line of MPI_Get_library_version."""
    layout: str

    @classmethod
    def of(cls, system: str, library: MpiLibrary, layout: Layout) -> Place:
        return cls(system, library.name, library.first_line, layout.name)

    @property
    def library(self) -> Place:
        """The system and the MPI library, for what holds on all layouts: ``layout`` is ''."""
        return replace(self, layout="")
