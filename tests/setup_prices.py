"""What the first call of each family costs on simulated machines, in time and memory (docs/scale.md).

    python tests/setup_prices.py [LAYOUT ...]

The program runs with all of the runtime, which COLLFORGE_FORCE tells the variant. It needs the objects that
`collforge build --mpi smpi-openmpi` leaves.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from collforge.home import home
from collforge.layout import from_name
from collforge.reframe_checks.systems import simulated
from collforge.reframe_checks.systems.simulated import PRESETS
from collforge.toolchain import simgrid

SOURCE = Path(__file__).parent / "c" / "first_calls.c"
LAYOUTS = ("2x16", "8x16", "32x16", "36x32")
VARIANTS = (
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


def price(program: Path, layout: str, variant: str) -> list[float]:
    """Microseconds of a split, the first and the second call; bytes of a rank after the first call."""
    at = from_name(layout)
    command = [*simulated.command("smpi-openmpi", PRESETS["hydra"], at), str(program)]
    variables = {"COLLFORGE_FORCE": variant, "COLLFORGE_NODE_MAP": at.node_map}
    done = subprocess.run(
        [*command, variant.partition("=")[0]],
        env={**os.environ, **variables, "COLLFORGE_VERBOSE": "1"},
        capture_output=True,
        text=True,
        timeout=1200,
        check=True,
    )
    if "variants served 2 of 2" not in done.stderr:
        raise SystemExit(f"{variant} was not served on {layout}: {done.stderr[-500:]}")
    return [float(word) for word in done.stdout.split()]


def main() -> None:
    print(
        "| variant | layout | split, us | first call, us | second, us | mean bytes of a rank, with SMPI's |"
    )
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        program = build(Path(folder))
        for variant in VARIANTS:
            for layout in sys.argv[1:] or LAYOUTS:
                split, first, second, kept = price(program, layout, variant)
                row = f"{split:.0f} | {first:.0f} | {second:.1f} | {kept:.0f}"
                print(f"| `{variant}` | {layout} | {row} |", flush=True)


if __name__ == "__main__":
    main()
