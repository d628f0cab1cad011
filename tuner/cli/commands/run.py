"""`collforge run`: starts an application with the winners, or in turn with and without them."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from collforge.errors import CollforgeError
from collforge.home import home
from collforge.mpi_library import MpiLibrary
from collforge.toolchain import build, libraries
from collforge.tuner.cli.command import Subparsers, add_command
from collforge.tuner.run.options import add_database, add_mpi, positive
from collforge.tuner.site.preloading import preload_settings, told, with_preload, without_preload

EXAMPLE = """\
collforge run --mpi openmpi -- mpirun.openmpi -n 8 ./app
  collforge run --mpi mpich -- srun --mpi=pmi2 -n 8 ./app
  collforge run --mpi openmpi --gain 5 -- mpirun.openmpi -n 2 build/collective_times 1048576

With --gain, the numbers at the end of lines that all runs print, as in the tables of OSU's benchmarks, are
compared line by line, with the smallest and the largest ratio of a run and the next one."""
ROOT = ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM")
PATIENCE = 10
"""Seconds for a launcher to end after SIGTERM."""
TOLD = "collforge: on rank 0: "
"""The beginning of the line in which a job tells what was served (COLLFORGE_VERBOSE=1)."""
MOST = 400
"""Letters of a line that is compared."""
LAST_NUMBER = re.compile(r"^(.*?)(\d+\.?\d*(?:[eE][-+]?\d+)?)(\s*[a-zA-Z/%]*)\s*$")


@dataclass(frozen=True)
class Ran:
    seconds: float
    numbers: Mapping[str, float]
    """A line without its last number -> that number."""
    served: str
    """What the job says that was served."""


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(subparsers, "run", "run a program with the winners", EXAMPLE, run)
    add_mpi(parser, required=True, simulated=False)
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
        "program",
        nargs=argparse.REMAINDER,
        metavar="COMMAND",
        help="with the launcher: mpirun, srun",
    )


def run(args: argparse.Namespace) -> int:
    """Returns the command's exit code."""
    args.program = args.program[args.program[:1] == ["--"] :]
    if not args.program:
        raise CollforgeError("name a COMMAND, e.g. mpirun -n 8 ./app")
    library = libraries.find(args.mpi)
    check_launcher(library, args.program[0])
    path = build.built_paths(library.name, home()).library_path
    settings = preload_settings(library, path, args.db, args.system)
    settings["LD_PRELOAD"] = with_preload(path, os.environ)
    if args.gain is not None:
        settings["COLLFORGE_VERBOSE"] = os.environ.get("COLLFORGE_VERBOSE", "1")
    environment = {**os.environ, **settings}
    if args.gain is not None:
        environment.pop("COLLFORGE_DISABLE", None)
    words = told(library, args.program, settings)
    if library.flavor == "openmpi" and os.geteuid() == 0 and words != args.program:
        missing = [name for name in ROOT if not os.environ.get(name)]
        if missing:
            raise CollforgeError(f"Open MPI refuses root: export {'=1 '.join(missing)}=1")
    try:
        if args.gain is None:
            return ended(subprocess.Popen(words, env=environment, text=True))[0]
        pairs = [
            (measure(args.program, native_environment()), measure(words, environment))
            for _ in range(args.gain)
        ]
    except OSError as error:
        raise CollforgeError(f"{args.program[0]} cannot be started: {error.strerror}") from None
    show([one for one, _ in pairs], [other for _, other in pairs])
    return 0


def native_environment() -> dict[str, str]:
    """Without the runtime, which a module may have preloaded."""
    return {**os.environ, "LD_PRELOAD": without_preload(os.environ)}


def check_launcher(library: MpiLibrary, launcher: str) -> None:
    """Raises CollforgeError for the mpirun of another library that is known."""
    path = Path(shutil.which(launcher) or launcher).resolve()
    owners = {one.mpirun.resolve(): one.name for one in libraries.found()}
    if owners.get(path, library.name) != library.name and path != library.mpirun.resolve():
        raise CollforgeError(
            f"{launcher} is {owners[path]}'s, not {library.name}'s: use {library.mpirun}, "
            f"or --mpi {owners[path]}"
        )


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Its exit code as a shell's, and captured output. If this command is ended, so is the launcher."""
    try:
        out, err = process.communicate()
    except KeyboardInterrupt:
        with suppress(subprocess.TimeoutExpired):
            process.wait(1)  # of Ctrl-C the launcher knows
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(PATIENCE)
        process.kill()
        raise
    code = process.returncode
    return code if code >= 0 else 128 - code, out or "", err or ""


def measure(words: Sequence[str], environment: Mapping[str, str]) -> Ran:
    begin = time.perf_counter()
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        words, env=environment, text=True, errors="replace", stdout=pipe, stderr=pipe
    )
    code, out, err = ended(process)
    seconds = time.perf_counter() - begin
    lines = err.splitlines(keepends=True)
    said = [line for line in lines if line.startswith("collforge: ") and "warning" not in line]
    sys.stderr.writelines(line for line in lines if line not in said)
    if code != 0:
        print(out, end="", file=sys.stderr)
        raise CollforgeError(f"{words[0]} ended with exit code {code}")
    served = [line[len(TOLD) :].strip() for line in said if line.startswith(TOLD)]
    return Ran(seconds, numbers(out), "; ".join(served) or "nothing: see COLLFORGE_VERBOSE=1")


def numbers(text: str) -> dict[str, float]:
    """Of each line that ends with a number, and maybe a unit: the line with # in its place -> the number."""
    lines = (line for line in text.splitlines() if len(line) <= MOST)
    found = filter(None, map(LAST_NUMBER.match, lines))
    return {" ".join(f"{one[1]}#{one[3]}".split()): float(one[2]) for one in found}


def show(native: Sequence[Ran], ours: Sequence[Ran]) -> None:
    """Prints medians, and their ratio with the smallest and largest of the pairs."""
    from rich.markup import escape
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
        if ratios and median(other) > 0:
            table.add_row(
                escape(" ".join(line.replace("#", "").split())),
                f"{median(one):.4g}",
                f"{median(other):.4g}",
                f"{median(one) / median(other):.2f}",
                f"{min(ratios):.2f} to {max(ratios):.2f}",
            )
    tables.show(table)
    print(f"with Collforge, last run, on rank 0: {ours[-1].served}")
