"""Programs that count their own calls, preloaded: what they say, and what the library saw."""

from __future__ import annotations

import csv
import re
from collections import Counter
from pathlib import Path

from conftest import Installation


def preload(built: Installation, profile: Path, family: str) -> dict[str, str]:
    """The variables of a run on two pretended nodes of two ranks, in which every call takes the family."""
    variables = {
        "LD_PRELOAD": str(built.built.library_path),
        "COLLFORGE_NODE_MAP": "2",
        "COLLFORGE_VERBOSE": "2",
        "COLLFORGE_PROFILE": str(profile),
    }
    return variables if family == "native" else {**variables, "COLLFORGE_FORCE": f"*={family}"}


def profiled(path: Path) -> Counter[str]:
    """Calls that were decided, by collective."""
    calls: Counter[str] = Counter()
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            calls[row["collective"]] += int(row["calls"])
    return calls


def made(output: str) -> Counter[str]:
    """Calls that the program says that it made, by collective. It ended well."""
    *lines, last = output.split("\n")[:-1]
    assert last == "done"
    return Counter({name: int(calls) for name, calls in map(str.split, lines)})


def tuned(log: str, family: str) -> set[str]:
    """The collectives of which a call was decided for the family."""
    return set(re.findall(rf"collforge: (\w+)@2x2, .* bytes: {family}\b", log))
