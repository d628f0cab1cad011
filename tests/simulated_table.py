"""Times of all collectives and families on 8x16 ranks of the simulated Hydra, for test_simulated.py."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

FILE = Path(__file__).parent / "data" / "simulated-8x16.json"
# Messages between all pairs of ranks at once, longer than these, take hours to simulate.
PROBLEMS = (("mpi", "64"), ("bcast,reduce,allreduce,reduce_scatter_block,scan,exscan", "64KiB"))


def measure(output: Path) -> dict[str, Any]:
    """SimGrid's version, and the seconds of each variant in each problem."""
    seconds: dict[str, float] = {}
    for collectives, sizes in PROBLEMS:
        words = [
            "bench",
            "--mpi",
            "smpi-openmpi",
            "--system",
            "simulated",
            "--layout",
            "8x16",
            "--each",
        ]
        words += ["--collective", collectives, "--sizes", sizes, "--json", str(output)]
        words += ["--db", str(output.with_suffix(".db"))]
        command = [sys.executable, "-m", "collforge", *words]
        subprocess.run(command, check=True, timeout=600, stdout=subprocess.DEVNULL)
        document = json.loads(output.read_text(encoding="utf-8"))
        seconds |= {
            f"{row['problem']} {variant}": times[0][0]
            for row in document["rows"]
            for variant, times in row["samples"].items()
            if times[0]
        }
    return {"version": document["mpi"], "seconds": dict(sorted(seconds.items()))}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        found = measure(Path(folder, "table.json"))
    FILE.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
