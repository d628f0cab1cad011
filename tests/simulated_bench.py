"""`collforge bench` of a simulated machine, for the scripts that make the docs' and the tests' tables of it."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PLAIN_LANE = "lane_algorithm=native"


def bench(layout: str, *words: str, mpi: str = "smpi-openmpi", system: str = "simulated") -> Any:
    """What `--json` writes, without a database's winners. Raises CalledProcessError or TimeoutExpired."""
    where = ["--system", system, "--mpi", mpi, "--layout", layout, "--each"]
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "rows.json")
        command = [sys.executable, "-m", "collforge", "bench", *where, "--json", str(output)]
        command += ["--db", str(Path(folder, "none.db")), *words]
        subprocess.run(command, check=True, timeout=1200, stdout=subprocess.DEVNULL)
        return json.loads(output.read_text(encoding="utf-8"))


def seconds(document: Any) -> dict[str, dict[str, float]]:
    """Problem -> variant -> the time of its one call, of those that ran."""
    return {
        row["problem"]: {name: times[0][0] for name, times in row["samples"].items() if times[0]}
        for row in document["rows"]
    }


def plain_of(times: Mapping[str, float]) -> float | None:
    """The time of full_lane with the library's own collectives on lane and node, if it ran."""
    found = (name for name in times if name.startswith("full_lane[") and PLAIN_LANE in name)
    return next((times[name] for name in found), None)
