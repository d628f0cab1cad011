"""`collforge run`: starts an application with the winners, or in turn with and without them."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from collforge.errors import CollforgeError
from collforge.home import home
from collforge.toolchain import build, libraries
from collforge.tuner.cli.command import Subparsers, add_command
from collforge.tuner.run.options import add_database, add_mpi, positive
from collforge.tuner.site.preloading import preload_settings, told, with_preload

EXAMPLE = """\
collforge run --mpi openmpi -- mpirun.openmpi -n 8 ./app
  collforge run --mpi mpich -- srun --mpi=pmi2 -n 8 ./app
  collforge run --mpi openmpi --gain 5 -- mpirun.openmpi -n 2 build/collective_times 1048576

With --gain, the numbers at the end of lines that all runs print, as in the tables of OSU's benchmarks, are
compared line by line."""
ROOT = ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM")
LAST_NUMBER = re.compile(r"^(.*?)(\d+\.?\d*(?:[eE][-+]?\d+)?)(\s*[a-zA-Z/%]*)\s*$")


@dataclass(frozen=True)
class Ran:
    seconds: float
    numbers: Mapping[str, float]
    """A line without its last number -> that number."""


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(subparsers, "run", "run a program with the winners", EXAMPLE, run)
    add_mpi(parser, required=True)
    parser.add_argument(
        "--system", metavar="SYS", help="system whose winners apply (default: found by host name)"
    )
    add_database(parser)
    parser.add_argument(
        "--gain",
        metavar="N",
        type=positive,
        help="run it N times without and N times with them, in turn, and compare",
    )
    parser.add_argument(
        "program", nargs="+", metavar="COMMAND", help="after --, with the launcher: mpirun, srun"
    )


def run(args: argparse.Namespace) -> int:
    """Returns the command's exit code."""
    library = libraries.find(args.mpi)
    path = build.built_paths(library.name, home()).library_path
    settings = preload_settings(library, path, args.db, args.system)
    settings["LD_PRELOAD"] = with_preload(path, os.environ)
    environment = {**os.environ, **settings}
    words = told(library, args.program, settings)
    if library.flavor == "openmpi" and os.geteuid() == 0 and words != args.program:
        missing = [name for name in ROOT if not os.environ.get(name)]
        if missing:
            raise CollforgeError(f"Open MPI refuses root: export {'=1 '.join(missing)}=1")
    try:
        if args.gain is None:
            return subprocess.run(words, env=environment, check=False).returncode
        pairs = [
            (measure(args.program, os.environ), measure(words, environment))
            for _ in range(args.gain)
        ]
    except FileNotFoundError:
        raise CollforgeError(f"there is no program {args.program[0]}") from None
    show([one for one, _ in pairs], [other for _, other in pairs])
    return 0


def measure(words: Sequence[str], environment: Mapping[str, str]) -> Ran:
    begin = time.perf_counter()
    done = subprocess.run(words, env=environment, check=False, stdout=subprocess.PIPE, text=True)
    seconds = time.perf_counter() - begin
    if done.returncode != 0:
        print(done.stdout, end="", file=sys.stderr)
        raise CollforgeError(f"{words[0]} ended with exit code {done.returncode}")
    return Ran(seconds, numbers(done.stdout))


def numbers(text: str) -> dict[str, float]:
    """Of each line that ends with a number, and maybe a unit: the line with # in its place -> the number."""
    found = filter(None, map(LAST_NUMBER.match, text.splitlines()))
    return {" ".join(f"{one[1]}#{one[3]}".split()): float(one[2]) for one in found}


def show(native: Sequence[Ran], ours: Sequence[Ran]) -> None:
    """Prints medians, and their ratio with the smallest and largest of the pairs."""
    from rich.table import Table

    from collforge.tuner.cli import tables

    table = Table()
    for name in ("", "native", "with Collforge", "native / Collforge", "of each pair"):
        table.add_column(name, justify="left" if not name else "right")
    shared = [
        line for line in native[0].numbers if all(line in one.numbers for one in (*native, *ours))
    ]
    columns = {
        line: ([r.numbers[line] for r in native], [r.numbers[line] for r in ours])
        for line in shared
    }
    columns["whole run, s"] = ([r.seconds for r in native], [r.seconds for r in ours])
    for line, (one, other) in columns.items():
        ratios = [a / b for a, b in zip(one, other) if b > 0]
        if ratios:
            table.add_row(
                " ".join(line.replace("#", "").split()),
                f"{median(one):.4g}",
                f"{median(other):.4g}",
                f"{median(one) / median(other):.2f}",
                f"{min(ratios):.2f} to {max(ratios):.2f}",
            )
    tables.show(table)
