"""Native, but tuned, for `bench`: the MPI library's own algorithms, and a file that `export` wrote."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from collforge.errors import CollforgeError
from collforge.mpi_library import MpiLibrary
from collforge.tuner import export
from collforge.tuner.benchmark import Environment
from collforge.tuner.export import RulesFile, TuningFile
from collforge.tuner.mpich_selection import SelectionFile, Trees

ALGORITHM, EXPORTED = "algorithm", "exported"
"""Names of the environments: native/algorithm[TITLE] and native/exported."""


def tuning_file(library: MpiLibrary, path: Path, ranks: int) -> TuningFile:
    """The file of this library, without rules. Raises CollforgeError if it is neither Open MPI nor MPICH."""
    if library.flavor == "mpich":
        trees = Trees.of(library)
        return SelectionFile(path, ranks, trees.algorithms(ranks), {}, trees)
    algorithms, han = export.openmpi_algorithms(library), export.openmpi_han(library)
    if han:
        algorithms = han.joined(algorithms)
    return RulesFile(path, ranks, algorithms, {}, export.openmpi_settings(library), han)


def each(library: MpiLibrary, ranks: int, collectives: Collection[str]) -> list[Environment]:
    """An environment for each number of an algorithm, which stands for one of each collective."""
    file = tuning_file(library, Path(), ranks)
    known = {name: titles for name, titles in file.algorithms.items() if name in collectives}
    return [
        Environment(
            ALGORITHM,
            file.forced(number),
            {name: titles[number] for name, titles in known.items() if number in titles},
        )
        for number in sorted({number for titles in known.values() for number in titles})
    ]


def exported(library: MpiLibrary, path: Path) -> Environment:
    """Native under an exported file. Raises CollforgeError if there is none."""
    if not path.is_file():
        raise CollforgeError(
            f"{path} is missing: write it by `collforge export --to {library.name}`"
        )
    return Environment(EXPORTED, tuning_file(library, path.absolute(), 0).variables())
