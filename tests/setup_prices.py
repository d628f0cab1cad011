"""What the first call of each family costs on simulated machines, in time and memory (docs/scale.md).

    python tests/setup_prices.py PICTURE [LAYOUT ...]

prints a table and draws what is expected of each, too: two splits, and bytes for each rank of the communicator.
The program runs with all of the runtime, which COLLFORGE_FORCE tells the variant. It needs the objects that
`collforge build --mpi smpi-openmpi` leaves.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from collforge.home import home
from collforge.layout import Layout, from_name
from collforge.reframe_checks.systems import simulated
from collforge.reframe_checks.systems.simulated import PRESETS
from collforge.toolchain import simgrid
from collforge.tuner.cli import plots
from collforge.tuner.run.pictures import Line, LinePicture

SOURCE = Path(__file__).parent / "c" / "first_calls.c"
LAYOUTS = ("2x16", "8x16", "32x16", "36x32", "64x32", "128x32")
MOST_NODES = 512
"""The file with the routes between all pairs of nodes grows as their square."""
SPLITS, FIXED, EACH = 2, 6000, 24
"""What is expected: communicators of nodes and of lanes; the bytes that any rank keeps, and for each rank."""
VARIANTS = (
    "allreduce=flat[lane_algorithm=recursive_doubling]",
    "allreduce=full_lane[lane_algorithm=recursive_doubling]",
    "allreduce=hierarchical[lane_algorithm=recursive_doubling]",
    "reduce=root_reduce[lane_algorithm=binomial]",
    "alltoallv=full_lane[lane_algorithm=pairwise]",
)


def build(folder: Path) -> Path:
    """The program, with the runtime's objects of the simulated driver."""
    # Not library.list: the preload library is not built for SimGrid.
    built = home() / simgrid.FOLDER / "obj"
    objects = [
        str(one)
        for folder_of in ("src", "generated")
        for one in sorted((built / folder_of).rglob("*.o"))
        if one.name != "oracle.o"
    ]
    program = folder / "first_calls"
    command = [simgrid.COMPILER, "-O2", str(SOURCE), *objects, "-lsqlite3", "-lm"]
    subprocess.run([*command, "-o", str(program)], check=True)
    return program


@dataclass(frozen=True)
class Price:
    """Of a variant; times in microseconds, of the slowest rank."""

    variant: str
    at: Layout
    split: float
    """MPI_Comm_split on the same ranks."""
    first: float
    second: float
    kept: float
    """Bytes of a rank after the first call."""

    @property
    def ranks(self) -> int:
        return self.at.size

    @property
    def splits(self) -> float:
        """What the first call costs more than the second."""
        return (self.first - self.second) / self.split


def price(program: Path, at: Layout, variant: str) -> Price:
    command = [*simulated.command("smpi-openmpi", PRESETS["hydra"], at), str(program)]
    variables = {"COLLFORGE_FORCE": variant, "COLLFORGE_NODE_MAP": at.node_map}
    done = subprocess.run(
        [*command, variant.partition("=")[0]],
        env={**os.environ, **variables, "COLLFORGE_VERBOSE": "1"},
        capture_output=True,
        text=True,
        timeout=3600,
        check=True,
    )
    if "variants served 2 of 2" not in done.stderr:
        raise SystemExit(f"{variant} was not served on {at.name}: {done.stderr[:500]}")
    split, first, second, kept = map(float, done.stdout.split())
    return Price(variant, at, split, first, second, kept)


def layouts_of(variant: str, layouts: Sequence[str]) -> list[Layout]:
    """As many ranks, one a node for the family that needs it, as far as they can be described."""
    found = map(from_name, layouts)
    if "flat" in variant:
        found = (from_name(f"{at.size}x1") for at in found)
    return [at for at in found if at.nodes <= MOST_NODES]


def rows(program: Path, layouts: Sequence[str]) -> Iterator[Price]:
    """Prints a table as it goes."""
    print(
        "| variant | layout | split, us | first call, us | second, us | more, in splits "
        "| mean bytes of a rank, with SMPI's | for each rank |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for variant in VARIANTS:
        for at in layouts_of(variant, layouts):
            one = price(program, at, variant)
            times = f"{one.split:.0f} | {one.first:.0f} | {one.second:.1f} | {one.splits:.1f}"
            kept = f"{one.kept:.0f} | {one.kept / one.ranks:.0f}"
            print(f"| `{variant}` | {one.at.name} | {times} | {kept} |", flush=True)
            yield one


def picture(found: Sequence[Price]) -> LinePicture:
    """What the first call costs more than a later one, and what it keeps, against what is expected of them."""
    of = {
        variant.partition("[")[0].replace("=", " "): [p for p in found if p.variant == variant]
        for variant in VARIANTS
    }
    longest = max(of.values(), key=len)
    time, kept = "first call less the second, us", "bytes of a rank"
    panels = {
        time: [
            Line(v, "o-", [(p.ranks, p.first - p.second) for p in each]) for v, each in of.items()
        ],
        kept: [Line(v, "o-", [(p.ranks, p.kept) for p in each]) for v, each in of.items()],
    }
    panels[time].append(
        Line(f"{SPLITS} splits", "--", [(p.ranks, SPLITS * p.split) for p in longest])
    )
    panels[kept].append(
        Line(
            f"{FIXED} B + {EACH} B x ranks",
            "--",
            [(p.ranks, FIXED + EACH * p.ranks) for p in longest],
        )
    )
    return LinePicture(panels, across="ranks", unit="", scale=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("picture", type=Path)
    parser.add_argument("layouts", nargs="*", default=LAYOUTS)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = list(rows(build(Path(folder)), args.layouts))
    plots.draw(picture(found), args.picture)


if __name__ == "__main__":
    main()
