"""Times of all collectives and families on 8x16 ranks of the simulated Hydra, for test_simulated.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from simulated_bench import bench, seconds

FILE = Path(__file__).parent / "data" / "simulated-8x16.json"
# Messages between all pairs of ranks at once, longer than these, take hours to simulate.
PROBLEMS = (("mpi", "64"), ("bcast,reduce,allreduce,reduce_scatter_block,scan,exscan", "64KiB"))


def measure() -> dict[str, Any]:
    """SimGrid's version, and the seconds of each variant in each problem."""
    found: dict[str, float] = {}
    for collectives, sizes in PROBLEMS:
        document = bench("8x16", "--collective", collectives, "--sizes", sizes)
        found |= {
            f"{problem} {variant}": time
            for problem, times in seconds(document).items()
            for variant, time in times.items()
        }
    return {"version": document["mpi"], "seconds": dict(sorted(found.items()))}


if __name__ == "__main__":
    FILE.write_text(json.dumps(measure(), indent=1) + "\n", encoding="utf-8")
