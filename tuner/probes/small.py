"""Times of calls with 8 bytes per block between ranks that share memory, preloaded and native."""

from __future__ import annotations

import argparse
from dataclasses import replace

from collforge import layout
from collforge.layout import Layout
from collforge.mpi_library import MpiLibrary
from collforge.tuner.probes import programs, ratios
from collforge.tuner.probes.programs import Programs
from collforge.tuner.probes.ratios import Ratio, Ratios

SUMMARY = "time calls of 8 bytes among ranks that share memory, preloaded and native"
LAYOUT = "1x2"
FAMILY = "shared_window"
SLOWER = "forced; tune would not choose it"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    ratios.add_arguments(parser, LAYOUT)


def run(library: MpiLibrary, args: argparse.Namespace) -> Ratios:
    at = layout.from_name(args.layout)
    found = measure(programs.prepare(library, [at]), at, args.launches, args.rounds)
    words = f"8 bytes, preloaded with {FAMILY} over native, {args.launches} launches"
    return Ratios(f"{library.short_version}, {at.name}: {words}", found, "us")


def measure(started: Programs, at: Layout, launches: int, rounds: int) -> list[Ratio]:
    """Times every collective in turn through PMPI_ (native) and through MPI_ with FAMILY forced."""
    calls: dict[str, list[list[tuple[float, float]]]] = {}
    for _ in range(launches):
        found = started.launch(at, started.overhead, FAMILY, rounds, 1)
        for name, direct in found["direct"].items():
            pairs = zip(direct, found["wrapped"][name])
            each = [(a / found["burst"], b / found["burst"]) for a, b in pairs]
            calls.setdefault(name, []).append(each)
    rows = [ratios.ratio(name, launched) for name, launched in calls.items()]
    return [replace(row, note=SLOWER if row.ratio > 1 else "") for row in rows]
