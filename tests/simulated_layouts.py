"""Times of variants on layouts of the simulated Hydra, for test_extrapolation.py.

    python tests/simulated_layouts.py [LAYOUT ...]

measures these layouts into tests/data/simulated-layouts.json: 36x32 takes more than an hour on two cores, 8x32
twenty minutes. The file's layouts of 4 and 8 ranks a node are older and have fewer variants. Reductions are of
doubles.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from simulated_bench import Times, alone, manifest

from collforge.case import Case, parse
from collforge.errors import CollforgeError
from collforge.generator.manifest import Manifest
from collforge.layout import from_name
from collforge.tuner.decide import plan
from collforge.tuner.decide.plan import Goal
from collforge.variant import NATIVE, split_name

FILE = Path(__file__).parent / "data" / "simulated-layouts.json"
LAYOUTS = ("4x32", "8x32", "36x32")
COLLECTIVES = (
    *("bcast", "reduce", "allreduce", "reduce_scatter_block", "scan", "exscan"),
    *("allgather", "gather", "scatter", "alltoall"),
)
TOTALS = (8192, 131072, 1 << 20)
"""Bytes of a vector, or of all blocks of a rank."""
CHUNKS = {("0", "0"), ("4096", "0"), ("4096", "8"), ("16384", "0"), ("16384", "8")}
FIXED = {"lanes": "0", "overlap": "no", "node_phase": NATIVE}
RADIX = {"0", "2", "4", "8"}
LINEAR = 200
"""Bytes of a block from which Open MPI's alltoall is linear: SimGrid takes hours for it on a large layout."""


def is_measured(name: str) -> bool:
    """Whether a variant is among those that stand for all."""
    inside = dict(word.split("=") for word in split_name(name)[1].split(","))
    chunk = (inside.get("segment_bytes", "0"), inside.get("window", "0"))
    usual = all(inside.get(key, value) == value for key, value in FIXED.items())
    return usual and chunk in CHUNKS and inside.get("radix", "0") in RADIX


def cases(made: Manifest, collective: str, layout: str, total: int) -> Iterator[Case]:
    ranks = from_name(layout).size
    nbytes = total // made.collective(collective).total_bytes(ranks, 1) // 8 * 8 or 8
    goal = Goal(from_name(layout), (collective,), (nbytes,))
    large = collective == "alltoall" and ranks > 128
    if large and nbytes >= LINEAR:
        return
    for problem in plan.problems(made, goal):
        yield problem
        for entry in plan.applicable(made, goal, problem):
            for name in plan.points(made, entry, problem):
                if is_measured(name) and not (large and f"algorithm={NATIVE}" in name):
                    yield problem.by(name)


def measure(layout: str) -> Times:
    """A problem that fails is printed and left out."""
    made = manifest()

    def one(collective: str, total: int) -> Times:
        try:
            return alone(map(str, cases(made, collective, layout, total)))
        except CollforgeError as error:
            print(f"{collective} {total} on {layout}: {error}", file=sys.stderr)
            return {}

    problems = [(collective, total) for collective in COLLECTIVES for total in TOTALS]
    with ThreadPoolExecutor(2) as pool:
        found = pool.map(lambda problem: one(*problem), problems)
        return {problem: times for launch in found for problem, times in launch.items()}


def main() -> None:
    for layout in sys.argv[1:] or LAYOUTS:
        measured = measure(layout)
        stored: dict[str, Any] = json.loads(FILE.read_text()) if FILE.exists() else {}
        names = stored.setdefault("variants", [NATIVE])
        rows = stored.setdefault("times", {})[layout] = {}
        for problem, times in sorted(measured.items()):
            names += sorted(times.keys() - set(names))
            call = parse(problem)
            rows.setdefault(call.collective, {})[str(call.bytes)] = sorted(
                [names.index(name), round(1e9 * time)] for name, time in times.items()
            )
        FILE.write_text(json.dumps(stored, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
