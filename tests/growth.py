"""How times grow with the nodes of the simulated Hydra (docs/scale.md).

    python tests/growth.py docs/growth.png

prints a table and draws the picture. It takes about ten minutes.
"""

from __future__ import annotations

import sys
from pathlib import Path

from simulated_bench import PLAIN, alone, plain_of

from collforge.case import parse
from collforge.tuner.cli import plots
from collforge.tuner.run.pictures import Line, LinePicture
from collforge.variant import NATIVE

NODES = (2, 4, 8, 16, 32)
PER_NODE = 16
SIZES = (8, 4096, 460800)
VARIANTS = {
    "bcast": (
        "hierarchical[lane_algorithm=binomial,radix=8]",
        "full_lane[lane_algorithm=circulant_blocks,segment_bytes=4096]",
    ),
    "allreduce": (
        "hierarchical[lane_algorithm=recursive_doubling,radix=4]",
        "full_lane[lane_algorithm=recursive_doubling,radix=4]",
        "full_lane[lane_algorithm=circulant]",
    ),
    "scan": (
        "hierarchical[lane_algorithm=recursive_doubling,radix=4,node_scan=lane]",
        "full_lane[lane_algorithm=recursive_doubling,radix=4,node_scan=lane]",
        "full_lane[lane_algorithm=chain,segment_bytes=4096,node_scan=lane]",
    ),
}
OURS_OVER = "smpi-openmpi"
"""The rules of the collectives that the variants call."""
RULES = {"smpi-openmpi": "Open MPI's rules", "smpi-mpich": "MPICH's rules"}

Times = dict[tuple[str, int, str, int], float]
"""Collective, bytes, line, nodes -> seconds."""


def cases(mpi: str, nodes: int) -> list[str]:
    at = f"{nodes}x{PER_NODE}"
    return [
        f"{collective}:{variant}@{at},bytes={size},type=int"
        for collective, ours in VARIANTS.items()
        for size in SIZES
        for variant in (NATIVE, *((PLAIN, *ours) if mpi == OURS_OVER else ()))
    ]


def measure(mpi: str, nodes: int) -> Times:
    found: Times = {}
    for name, times in alone(cases(mpi, nodes), mpi).items():
        problem = parse(name)
        lines = {RULES[mpi]: times.pop(NATIVE)}
        plain = plain_of(times)
        if plain is not None:
            lines |= {"plain full-lane": plain, "best of ours": min(times.values())}
        for line, time in lines.items():
            found[problem.collective, problem.bytes, line, nodes] = time
    return found


def main(picture: Path) -> None:
    times: Times = {}
    for nodes in NODES:
        for mpi in RULES:
            times |= measure(mpi, nodes)
    lines = (*RULES.values(), "plain full-lane", "best of ours")
    panels = {
        f"{collective}, {size} B": [
            Line(line, "o-", [(n, times[collective, size, line, n]) for n in NODES])
            for line in lines
        ]
        for collective in VARIANTS
        for size in SIZES
    }
    plots.draw(
        LinePicture(panels, across=f"nodes of {PER_NODE} ranks", unit="us", scale=1e6), picture
    )
    print("| call | line |", *(f"{n} |" for n in NODES))
    print("|---|---|" + "---|" * len(NODES))
    for panel, drawn in panels.items():
        for one in drawn:
            print(f"| {panel} | {one.label} |", *(f"{s * 1e6:.4g} |" for _, s in one.points))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
