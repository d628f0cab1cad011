"""Runs as a tuner records them. Other processes, too, import this module."""

from __future__ import annotations

from pathlib import Path

from collforge.db import Choice, Result, RunRecord, Store
from collforge.place import Place
from collforge.variant import Variant

PLACE = Place("emulated", "openmpi", "Open MPI v4.1.4", "4x2")
NATIVE = Variant("bcast")
RING = Variant("bcast", "full_lane", "lane_algorithm=ring,segment_bytes=65536", "ab12")
PROBLEM = "bcast@4x2,bytes=1024"


def result(variant: Variant, verified: bool = True, problem: str = PROBLEM) -> Result:
    return Result(
        variant, problem, 1024, verified, "" if verified else "rank 3", (3.0, 1.0, 2.0), 1
    )


def run(uuid: str, *results: Result, place: Place = PLACE) -> RunRecord:
    return RunRecord(
        uuid, place, 4, 8, "2026-01-02T03:04:05Z", "0.1.0", "4.10.4", ("node0", "node1"), 7, results
    )


def write_runs(path: Path, name: str, runs: int) -> None:
    """Records runs and replaces winners as a tuner does, for `runs` rounds."""
    with Store(path) as store:
        for number in range(runs):
            store.record_run(run(f"{name} {number}", result(NATIVE), result(RING)))
            with store.transaction():
                launches = len(store.measurements(PLACE)) // 2
                best = Choice(1024, RING, 1.9, 1.8, 2.0, launches)
                store.replace_winners(PLACE, "bcast", [best])
