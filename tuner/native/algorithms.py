"""Native, but tuned, for `bench`: the MPI library's own algorithms, and a file that `export` wrote."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

from collforge.case import Case
from collforge.db import NativeBest
from collforge.errors import CollforgeError
from collforge.mpi_library import MpiLibrary
from collforge.place import Place
from collforge.tuner.native import export
from collforge.tuner.native.export import RulesFile, TuningFile
from collforge.tuner.native.mpich_selection import SelectionFile, Trees
from collforge.tuner.run.benchmark import ALGORITHM, EXPORTED, Environment, Measured
from collforge.variant import NATIVE, Variant

PAIR, FOR_A_PAIR = 2, "two_proc"
"""Open MPI's algorithms of this title fail on other numbers of ranks."""


def tuning_file(library: MpiLibrary, path: Path, ranks: int) -> TuningFile:
    """The file of this library, without rules. Raises CollforgeError if it is neither Open MPI nor MPICH."""
    if library.flavor == "mpich":
        trees = Trees.of(library)
        return SelectionFile(path, ranks, trees.algorithms(ranks), {}, trees)
    algorithms, han = export.openmpi_algorithms(library), export.han_of(library)
    if ranks != PAIR:
        algorithms = {
            name: {n: title for n, title in known.items() if title != FOR_A_PAIR}
            for name, known in algorithms.items()
        }
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


def not_measured(
    others: Sequence[Environment], cases: Sequence[Case], measured: Measured
) -> list[str]:
    """The algorithms without samples, because they, or calls before theirs in the launches, failed."""
    return sorted(
        {
            other.renamed(Variant(case.collective)).name + f" of {case.collective}"
            for other in others
            for case in cases
            if case.collective in (other.titles or {})
            and not any(
                other.renamed(Variant(case.collective)) in launch
                for launch in measured.launches[case.problem]
            )
        }
    )


def best(place: Place, problems: Iterable[Case], measured: Measured) -> Iterator[NativeBest]:
    """The fastest algorithm of each problem, by the median of the launches' medians."""
    for one in problems:
        seconds: dict[str, list[float]] = {}
        for launch in measured.launches[one.problem]:
            for variant, times in launch.items():
                title = variant.parameters
                if variant.family == f"{NATIVE}/{ALGORITHM}" and times:
                    seconds.setdefault(title, []).append(statistics.median(times))
        medians = {title: statistics.median(each) for title, each in seconds.items()}
        if medians:
            title = min(medians, key=lambda name: medians[name])
            yield NativeBest(place, one.collective, one.bytes, title, medians[title])


def exported(library: MpiLibrary, path: Path, ranks: int) -> Environment:
    """Native under an exported file. Raises CollforgeError if it is not of this library and for these ranks."""
    file = tuning_file(library, path.absolute(), ranks)
    again = f"write it by `collforge export --to {library.name}`"
    for one in file.files():
        if not one.is_file():
            raise CollforgeError(f"{one} is missing: {again}")
    text = path.read_text(encoding="utf-8", errors="replace")
    if not text.startswith(f"{file.begins}{export.mark(ranks)};"):
        raise CollforgeError(f"{path} has no rules of {library.name} for {ranks} ranks: {again}")
    return Environment(EXPORTED, file.variables())
