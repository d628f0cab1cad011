"""`collforge bench` of a simulated machine, for the scripts that make the docs' and the tests' tables of it."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any


def bench(layout: str, *words: str, mpi: str = "smpi-openmpi", system: str = "simulated") -> Any:
    """What `--json` writes, without a database's winners. Raises CalledProcessError or TimeoutExpired."""
    where = ["--system", system, "--mpi", mpi, "--layout", layout, "--each"]
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "rows.json")
        command = [sys.executable, "-m", "collforge", "bench", *where, "--json", str(output)]
        command += ["--db", str(Path(folder, "none.db")), *words]
        subprocess.run(command, check=True, timeout=1200, stdout=subprocess.DEVNULL)
        return json.loads(output.read_text(encoding="utf-8"))
