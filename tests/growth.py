"""How times grow with the nodes of the simulated Hydra (docs/scale.md).

    python tests/growth.py docs/growth.png

prints a table and draws the picture. It takes about ten minutes.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from collforge.case import parse
from collforge.tuner.cli import plots
from collforge.tuner.run.pictures import Line, LinePicture
from collforge.variant import split_name

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
        "hierarchical[lane_algorithm=recursive_doubling,radix=4]",
        "full_lane[lane_algorithm=recursive_doubling,radix=4]",
        "full_lane[lane_algorithm=chain,segment_bytes=4096]",
    ),
}
PLAIN = "full_lane"
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
        for variant in ((PLAIN, *ours) if mpi == OURS_OVER else ("native",))
    ]


def is_plain(variant: str) -> bool:
    return split_name(variant)[0] == PLAIN and (
        "lane_algorithm=" not in variant or "lane_algorithm=native" in variant
    )


def measure(mpi: str, nodes: int, output: Path) -> Times:
    words = ["bench", "--system", "simulated", "--mpi", mpi, "--layout", f"{nodes}x{PER_NODE}"]
    words += ["--each", "--launches", "1", "--json", str(output), *cases(mpi, nodes)]
    command = [sys.executable, "-m", "collforge", *words]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    found: Times = {}
    for row in json.loads(output.read_text(encoding="utf-8"))["rows"]:
        problem = parse(row["problem"])
        times = {name: launches[0][0] for name, launches in row["samples"].items() if launches[0]}
        lines = {RULES[mpi]: times.pop("native")}
        if mpi == OURS_OVER:
            plain = next(name for name in times if is_plain(name))
            lines |= {"plain full-lane": times[plain], "best of ours": min(times.values())}
        for line, seconds in lines.items():
            found[problem.collective, problem.bytes, line, nodes] = seconds
    return found


def main(picture: Path) -> None:
    times: Times = {}
    with tempfile.TemporaryDirectory() as folder:
        for nodes in NODES:
            for mpi in RULES:
                times |= measure(mpi, nodes, Path(folder, f"{mpi}-{nodes}.json"))
    lines = (*RULES.values(), "plain full-lane", "best of ours")
    panels = {
        f"{collective}, {size} B": [
            Line(
                line,
                "o-",
                [(n, times[key]) for n in NODES if (key := (collective, size, line, n)) in times],
            )
            for line in lines
        ]
        for collective in VARIANTS
        for size in SIZES
    }
    plots.draw(
        LinePicture(panels, across=f"nodes of {PER_NODE} ranks", unit="us", scale=1e6), picture
    )
    print("| call | line |", " | ".join(map(str, NODES)), "|")
    print("|---|---|" + "---|" * len(NODES))
    for panel, drawn in panels.items():
        for one in drawn:
            at = {int(n): f"{seconds * 1e6:.4g}" for n, seconds in one.points}
            print(f"| {panel} | {one.label} |", " | ".join(at.get(n, "") for n in NODES), "|")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
