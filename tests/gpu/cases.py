"""The cases that verify every variant on device memory; for test_gpu.py and real.sh.

python tests/gpu/cases.py MANIFEST LAYOUT
"""

from __future__ import annotations

import sys
from itertools import groupby
from pathlib import Path

from collforge import layout as layouts
from collforge.cases import verification_cases
from collforge.generator import manifest


def calls(path: Path, layout: str, all_points: bool) -> list[str]:
    """The cases that verify every variant, with all points or with one point per problem in turn.

    On a layout with threads, only the variants that need threads.
    """
    made = manifest.load(path)
    at = layouts.from_name(layout)
    found = []
    for variant in made.variants:
        facts = {**made.facts(variant.collective, at, 4096), "threads": 1}
        if made.collective(variant.collective).hybrid or (
            at.threads > 1 and variant.applies(facts)
        ):
            continue
        cases = verification_cases(made, variant, at, "small")
        for turn, (_, same) in enumerate(groupby(cases, lambda text: text.split("@")[1])):
            points = list(same)
            found += points if all_points else [points[turn % len(points)]]
    return found


if __name__ == "__main__":
    print(*calls(Path(sys.argv[1]), sys.argv[2], all_points=True), sep="\n")
