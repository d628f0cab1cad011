"""Runs programs that count their own calls under the preload, and reads the library's counts."""

from __future__ import annotations

import csv
import re
from collections import Counter
from pathlib import Path

from conftest import Installation


def preload(built: Installation, profile: Path, family: str) -> dict[str, str]:
    """The variables for a run on two pretended nodes of two ranks with this family forced."""
    variables = {
        "LD_PRELOAD": str(built.built.library_path),
        "COLLFORGE_NODE_MAP": "2",
        "COLLFORGE_VERBOSE": "2",
        "COLLFORGE_PROFILE": str(profile),
    }
    return variables if family == "native" else {**variables, "COLLFORGE_FORCE": f"*={family}"}


def with_winners(built: Installation, database: Path, **more: str) -> dict[str, str]:
    """The variables for a run on two pretended nodes with this database's winners of system ``here``."""
    variables = {
        "LD_PRELOAD": str(built.built.library_path),
        "COLLFORGE_DB": str(database),
        "COLLFORGE_SYSTEM": "here",
        "COLLFORGE_NODE_MAP": "2",
        "COLLFORGE_VERBOSE": "1",
    }
    return {**variables, **more}


def profiled(path: Path) -> Counter[str]:
    """Collective -> calls in the library's profile."""
    calls: Counter[str] = Counter()
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            if row["collective"] != "job":
                calls[row["collective"]] += int(row["calls"])
    return calls


def made(output: str) -> Counter[str]:
    """Collective -> calls that the program reports; it must have succeeded."""
    *lines, last = output.split("\n")[:-1]
    assert last == "done"
    return Counter({name: int(calls) for name, calls in map(str.split, lines)})


def tuned(log: str, family: str) -> set[str]:
    """The collectives of which a call used the family."""
    return set(re.findall(rf"collforge: (\w+)@2x2, .* bytes: {family}\b", log))
