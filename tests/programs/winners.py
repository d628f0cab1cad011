"""Writes a database in which the families take turns from size to size."""

from __future__ import annotations

from pathlib import Path

from collforge.db.records import Choice, Result, RunRecord
from collforge.db.store import Store
from collforge.generator import manifest
from collforge.layout import from_name
from collforge.mpi_library import MpiLibrary
from collforge.place import Place
from collforge.variant import Variant

SYSTEM = "programs"
LAYOUTS = {
    "2x2": (2, 4),
    "3+1": (2, 4),
    "cyclic:2x2": (2, 4),
    "3x2": (3, 6),
    "3+1+1+1": (4, 6),
    "cyclic:2x3": (2, 6),
}
"""Layout with winners -> (nodes, ranks); other layouts are native."""
SIZES = (1, 8, 64, 512, 4096, 32768, 262144)


def write(path: Path, library: MpiLibrary, home: Path) -> Path:
    """Stores winners for every collective, with various points of each family's parameters."""
    known = manifest.load(home / "generated" / "manifest.json")
    by_collective: dict[str, list[Variant]] = {}
    for entry in known.variants:
        for point in entry.points(from_name("2x2").facts()):
            name = entry.name(point)
            variant = Variant.from_name(entry.collective, name, entry.fingerprint)
            by_collective.setdefault(entry.collective, []).append(variant)
    sizes = {c.name: sorted({c.choice_bytes(size) for size in SIZES}) for c in known.collectives}
    version = library.version.splitlines()[0]
    with Store(path) as store:
        for number, (layout, (nodes, ranks)) in enumerate(LAYOUTS.items()):
            place = Place(SYSTEM, library.name, version, layout)
            results = tuple(
                Result(variant, f"{collective}@{layout},bytes={size}", size, True)
                for collective, variants in by_collective.items()
                for variant in variants
                for size in sizes[collective]
            )
            started = "2026-01-01T00:00:00Z"
            run = RunRecord(
                layout, place, nodes, ranks, started, "", "", ("node0", "node1"), 7, results
            )
            store.record_run(run)
            for collective, variants in by_collective.items():
                # A stride coprime to the number of points, so that every family and parameter gets a turn.
                turns = [variants[(7 * i + number) % len(variants)] for i in range(len(SIZES))]
                choices = [
                    Choice(size, variant, 2.0, 1.9, 2.1, 3)
                    for size, variant in zip(sizes[collective], turns)
                ]
                store.replace_winners(place, collective, choices)
    return path
