"""Whether a simulation is right: the emulated cluster against its own simulation (docs/scale.md).

    python tests/simulation_error.py build/collforge.db [LAYOUT]

compares every variant that was measured on this layout (4x2, as by `make tune`) with Open MPI, from 16 KiB on,
with the same cases in `--system simulated-emulated`.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections import defaultdict
from pathlib import Path

from scipy.stats import spearmanr
from simulated_bench import bench

from collforge.case import parse
from collforge.db import Store
from collforge.toolchain import build
from collforge.tuner.decide.evidence import by_problem, compare
from collforge.variant import Variant, split_name

LEAST_BYTES = 16384
NOT_SIMULATED = ("shared", "rank_shift", "zero_copy", "thread_split")

Ratios = dict[str, dict[str, float]]
"""Problem -> variant -> native's time / its time."""


def measured(database: Path, layout: str) -> Ratios:
    """Ratios on the emulated cluster."""
    with Store(database, create=False) as store:
        (place,) = (
            one
            for one in store.places()
            if (one.system, one.mpi, one.layout) == ("emulated", "openmpi", layout)
        )
        history = by_problem(store.measurements(place))
    entries = {(one.collective, one.family): one for one in build.read_manifest().variants}
    found: Ratios = {}
    for problem, launches in history.items():
        read = parse(problem)
        native = Variant(read.collective)
        for variant in {v for launch in launches for v in launch} - {native}:
            if read.bytes >= LEAST_BYTES and not any(w in variant.name for w in NOT_SIMULATED):
                ratio = compare(variant, native, launches).ratio
                name = entries[read.collective, split_name(variant.name)[0]].completed(variant.name)
                found.setdefault(problem, {})[name] = ratio
    return found


def simulated(real: Ratios, layout: str) -> Ratios:
    """Ratios of the same variants in the simulation."""
    cases = [str(parse(problem).by(name)) for problem, names in real.items() for name in names]
    rows = bench(layout, *cases, system="simulated-emulated")["rows"]
    return {row["problem"]: row["variants"] for row in rows}


def main(database: Path, layout: str = "4x2") -> None:
    real = measured(database, layout)
    model = simulated(real, layout)
    pairs = defaultdict(list)
    chosen = []
    for problem, ratios in real.items():
        both = {v: (r, model[problem][v]) for v, r in ratios.items() if v in model[problem]}
        pairs[parse(problem).collective] += both.values()
        if len(both) > 1:
            choice = max(both.values(), key=lambda pair: pair[1])
            chosen.append(choice[0] / max(pair[0] for pair in both.values()))
    pairs["all"] = [pair for of_one in pairs.values() for pair in of_one]
    print("collective            variants  rank correlation  error, median  90 %  largest")
    for name, found in pairs.items():
        errors = sorted(abs(math.log(far / near)) for near, far in found)
        at = [math.exp(errors[int(part * (len(errors) - 1))]) for part in (0.5, 0.9, 1)]
        rho = spearmanr(*zip(*found))[0]
        print(f"{name:22}{len(found):8}{rho:18.2f}{at[0]:15.2f}{at[1]:6.2f}{at[2]:9.2f}")
    mean = statistics.geometric_mean(chosen)
    print(
        f"its choice is as fast as {mean:.2f} of the best that was measured, in {len(chosen)} problems"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
