"""What wins on 1152 simulated ranks, and that 4096 run: the tables of docs/scale.md.

    python tests/thousand.py

takes up to half an hour on two cores.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from simulated_bench import PLAIN, alone, plain_of

from collforge.case import parse
from collforge.variant import NATIVE, split_name

LAYOUT, MANY = "36x32", "128x32"
BINOMIAL = "hierarchical[lane_algorithm=binomial,radix={}]"
BLOCKS = "full_lane[lane_algorithm=circulant_blocks,segment_bytes=4096]"
CIRCULANT = "full_lane[lane_algorithm=circulant]"
BRUCK = "full_lane[lane_algorithm=bruck,radix=4]"
DOUBLING = "{}[lane_algorithm=recursive_doubling,radix=4]"
SCANS = (
    "hierarchical[lane_algorithm=recursive_doubling,radix=4,node_scan=lane]",
    "full_lane[lane_algorithm=recursive_doubling,radix=4,node_scan=lane]",
)
CHAIN = "full_lane[lane_algorithm=chain,segment_bytes={},node_scan=lane]"
TOTAL = 460800
"""Bytes of 115 200 integers: of a vector, or of all blocks of a rank."""
BLOCK = 400

ROWS: dict[tuple[str, int], tuple[str, ...]] = {
    ("bcast", 8): (BINOMIAL.format(8),),
    ("bcast", 4096): (BINOMIAL.format(8),),
    ("bcast", 46080): (BLOCKS,),
    ("bcast", TOTAL): (BLOCKS,),
    ("reduce", 8): (BINOMIAL.format(8),),
    ("reduce", 4096): (BLOCKS,),
    ("reduce", TOTAL): (BLOCKS,),
    ("allreduce", 8): (DOUBLING.format("hierarchical"),),
    ("allreduce", 4096): (DOUBLING.format("full_lane"),),
    ("allreduce", 46080): (CIRCULANT,),
    ("allreduce", TOTAL): (CIRCULANT,),
    ("scan", 8): SCANS,
    ("scan", 4096): SCANS,
    ("scan", TOTAL): (CHAIN.format(4096), CHAIN.format(16384)),
    ("exscan", 8): SCANS,
    ("exscan", 4096): SCANS,
    ("exscan", TOTAL): (CHAIN.format(4096), CHAIN.format(16384)),
    ("allgather", 8): (BRUCK,),
    ("allgather", BLOCK): (BRUCK,),
    ("reduce_scatter_block", 8): (CIRCULANT,),
    ("reduce_scatter_block", BLOCK): (CIRCULANT,),
    ("gather", 8): (BINOMIAL.format(8),),
    ("gather", BLOCK): (BINOMIAL.format(4),),
    ("scatter", 8): (BINOMIAL.format(8),),
    ("scatter", BLOCK): (BINOMIAL.format(4),),
    ("alltoall", 8): (BRUCK,),
}
"""Collective, bytes of a vector or block -> the candidates beside plain full-lane."""
USUAL = ("=0", "=native", "=no")
LINEAR = ("alltoall", 8, PLAIN)
"""SimGrid takes too long for the linear alltoall that Open MPI's rules choose on the lanes."""


@dataclass(frozen=True)
class Row:
    """Times in seconds."""

    collective: str
    nbytes: int
    native: float
    plain: float | None
    best: float
    which: str

    @property
    def is_short(self) -> bool:
        return self.nbytes in (8, 4096)

    @property
    def is_long(self) -> bool:
        return self.nbytes in (TOTAL, BLOCK)

    def __str__(self) -> str:
        plain = f"{self.native / self.plain:.2f}" if self.plain else ""
        gain = f"{self.native / self.best:.2f}"
        name = f"{self.collective} {self.nbytes}"
        family, inside = split_name(self.which)
        unusual = [word for word in inside.split(",") if word and not word.endswith(USUAL)]
        which = f"`{' '.join([family, *unusual])}`"
        return f"| {name} | {self.native * 1e6:.4g} | {plain} | {gain} | {which} |"


def measure(collective: str, layout: str, rows: Iterable[tuple[int, tuple[str, ...]]]) -> list[Row]:
    """One launch; native is a candidate, too."""
    cases = [
        f"{collective}:{variant}@{layout},bytes={nbytes},type=int"
        for nbytes, candidates in rows
        for variant in (NATIVE, PLAIN, *candidates)
        if (collective, nbytes, variant) != LINEAR
    ]
    found = []
    for problem, times in alone(cases).items():
        which = min(times, key=times.__getitem__)
        nbytes = parse(problem).bytes
        found.append(Row(collective, nbytes, times[NATIVE], plain_of(times), times[which], which))
    return found


def mean(values: Iterable[float]) -> str:
    return f"{statistics.geometric_mean(values):.2f}"


def main() -> None:
    slow = ("allreduce", "exscan", "scan")
    longest_first = sorted({name for name, _ in ROWS}, key=slow.count, reverse=True)
    with ThreadPoolExecutor(2) as pool:
        many = pool.submit(measure, "bcast", MANY, [(TOTAL, (BLOCKS,))])
        jobs = [
            pool.submit(
                measure,
                name,
                LAYOUT,
                [(n, which) for (one, n), which in ROWS.items() if one == name],
            )
            for name in longest_first
        ]
        rows = [row for job in jobs for row in job.result()]
    print("| call, bytes of a block | native, us | plain | best | which |\n|---|---|---|---|---|")
    print(*rows, sep="\n")
    short = [row for row in rows if row.is_short]
    chains = ("scan", "exscan")
    print("short, best over native:", mean(row.native / row.best for row in short))
    apart = [row.native / row.best for row in short if row.collective not in chains]
    print("short, best over native, without scan and exscan:", mean(apart))
    gains = [row.plain / row.best for row in rows if row.is_long and row.plain]
    print(f"{len(gains)} long, best over plain:", mean(gains))
    print(f"{MANY}:", *many.result(), sep="\n")


if __name__ == "__main__":
    main()
