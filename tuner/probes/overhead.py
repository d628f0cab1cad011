"""The cost of the preload for a program whose calls all run native, and of recording them."""

from __future__ import annotations

import argparse

from collforge import layout
from collforge.layout import Layout
from collforge.mpi_library import MpiLibrary
from collforge.tuner.probes import programs, ratios
from collforge.tuner.probes.programs import Programs
from collforge.tuner.probes.ratios import Ratio, Ratios

SUMMARY = "time a program whose calls all run native, with and without the preload, and profiled"
LAYOUT = "2x1"  # one rank per core: waiting for a core would hide the overhead
COUNT = 128  # doubles of a block


def add_arguments(parser: argparse.ArgumentParser) -> None:
    ratios.add_arguments(parser, LAYOUT)


def run(library: MpiLibrary, args: argparse.Namespace) -> Ratios:
    at = layout.from_name(args.layout)
    found = measure(programs.prepare(library, [at]), at, args.launches, args.rounds)
    words = f"only calls for which native won, {args.launches} launches"
    return Ratios(f"{library.short_version}, {at.name}: {words}", found, "ms")


def measure(started: Programs, at: Layout, launches: int, rounds: int) -> list[Ratio]:
    """Paired launches with and without the preload, and in each launch paired rounds of calls.

    The last row compares MPI_ and PMPI_ calls without the preload, which are the same functions. The
    deviation of its ratio from 1 is the error of the method.
    """
    whole: list[tuple[float, float]] = []
    calls: dict[str, list[list[tuple[float, float]]]] = {"tuned": [], "native": [], "profiled": []}
    for number in range(launches):
        seconds = {}
        for kind in list(calls)[:: 1 if number % 2 == 0 else -1]:
            found = started.launch(at, started.overhead, kind, rounds, COUNT)
            seconds[kind] = found["init"] + found["calls"] + found["finalize"]
            ways = [
                [sum(parts) for parts in zip(*found[way].values())] for way in ("direct", "wrapped")
            ]
            calls[kind].append(list(zip(*ways)))
        whole.append((seconds["native"], seconds["tuned"]))
    return [
        ratios.ratio("program, preloaded over not", [[pair] for pair in whole]),
        ratios.ratio("calls, preloaded, MPI_ over PMPI_", calls["tuned"]),
        ratios.ratio("calls, profiled, MPI_ over PMPI_", calls["profiled"]),
        ratios.ratio("calls, not preloaded, MPI_ over PMPI_", calls["native"]),
    ]
