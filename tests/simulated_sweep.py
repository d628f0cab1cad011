"""Which rankings of native, full-lane and hierarchical hold on machines with other numbers (docs/scale.md).

    python tests/simulated_sweep.py

The multi-lane paper's compositions, over the collectives of Open MPI's rules, on 16x16 of the simulated Hydra,
and of machines with half and twice its rates, other eager limits, twice the overhead or latency of a message,
one and four lanes, or links between leaves of four nodes that are a quarter of what the nodes have.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import combinations

from simulated_bench import Times, alone

from collforge.case import parse
from collforge.variant import NATIVE, split_name

LAYOUT = "16x16"
BASE = "simulated"
CHANGES = (
    *("eager256", "eager16384", "link6.15", "link24.6", "core5", "core20"),
    *("copy3", "copy12", "memory20", "memory80", "overhead0.6", "latency2"),
    *("lanes1", "lanes4", "leaf4-taper4"),
)
COLLECTIVES = ("bcast", "allreduce", "scan")
SIZES = (4608, 46080, 460800)
"""Of 1152, 11 520 and 115 200 integers."""
FAMILIES = (NATIVE, "full_lane", "hierarchical")
SAME = 1.05
"""Differences below this are noise of the model."""


def measure(system: str) -> Times:
    """By the family instead of the variant."""
    cases = [
        f"{collective}:{family}@{LAYOUT},bytes={size},type=int"
        for collective in COLLECTIVES
        for size in SIZES
        for family in FAMILIES
    ]
    return {
        problem: {split_name(variant)[0]: time for variant, time in times.items()}
        for problem, times in alone(cases, system=system).items()
    }


def order(a: float, b: float) -> int:
    """-1 if a is clearly the shorter time, 1 if b is, 0 if they are the same."""
    return (a > b * SAME) - (b > a * SAME)


def changed(one: dict[str, float], other: dict[str, float]) -> list[str]:
    """The pairs of families whose times are in another order: ``<``, ``>``, or ``=`` if they are the same."""
    found = []
    for a, b in combinations(FAMILIES, 2):
        before, now = order(one[a], one[b]), order(other[a], other[b])
        if before != now:
            found.append(f"{a} {'<=>'[now + 1]} {b}")
    return found


def main() -> None:
    systems = [BASE, *(f"{BASE}-hydra-{change}" for change in CHANGES)]
    with ThreadPoolExecutor(2) as pool:
        base, *others = pool.map(measure, systems)
    print("| call, bytes | " + ", ".join(FAMILIES) + ", us | times in another order, and where |")
    print("|---|---|---|")
    for problem, times in base.items():
        orders = [
            f"{pair} ({change})"
            for change, other in zip(CHANGES, others)
            for pair in changed(times, other[problem])
        ]
        row = ", ".join(f"{times[family] * 1e6:.4g}" for family in FAMILIES)
        call = parse(problem)
        print(f"| {call.collective} {call.bytes} | {row} | {', '.join(orders) or 'none'} |")


if __name__ == "__main__":
    main()
