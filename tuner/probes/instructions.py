"""Counts the instructions that the preload adds to a call for which native won, by callgrind.

Rank 0 of four runs under callgrind with the library preloaded. In the database every collective has a variant
for large messages and native for small ones. Small messages are sent, so the library must look at the size.
Counts are repeatable, so a test asserts them.
"""

from __future__ import annotations

import argparse
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from collforge import layout
from collforge.errors import CollforgeError
from collforge.generator.manifest import Manifest
from collforge.home import home, new_folder
from collforge.mpi_library import MpiLibrary
from collforge.reframe_checks.mpirun import local_command
from collforge.toolchain import build
from collforge.toolchain.build import Built
from collforge.tuner.decide.evidence import Interval
from collforge.tuner.probes import Result, programs
from collforge.tuner.run.pictures import DotPicture, Dots

SUMMARY = "count the instructions of a call for which native won, with callgrind"
LAYOUT = "2x2"
CALLS = 1000  # templates/calls.c.j2
BUDGET = 80


@dataclass(frozen=True)
class Cost:
    """Instructions per call that the wrapper of a function adds."""

    function: str
    instructions: float
    foreign: tuple[str, ...]
    """Functions outside the runtime that it calls each time, other than the PMPI function; should be empty."""


@dataclass(frozen=True)
class Instructions(Result):
    rows: Sequence[Cost]

    def table(self) -> Table:
        table = Table(title=self.title)
        for name in ("function", "per call", "calls outside the runtime"):
            table.add_column(name)
        for one in self.rows:
            table.add_row(one.function, f"{one.instructions:.0f}", " ".join(one.foreign) or "none")
        return table

    def picture(self) -> DotPicture:
        values = {one.function: Interval(*[one.instructions] * 3) for one in self.rows}
        panels = {f"instructions over PMPI (line: at most {BUDGET})": [Dots("a call", values)]}
        return DotPicture(panels, self.title, mark=BUDGET)

    def failed(self) -> bool:
        return any(one.instructions > BUDGET or one.foreign for one in self.rows)


def add_arguments(_: argparse.ArgumentParser) -> None:
    """The probe has no options of its own: counts are repeatable."""


def run(library: MpiLibrary, _: argparse.Namespace) -> Instructions:
    built, made = programs.build_all(library)
    folder = new_folder(home() / "runs", "instructions")
    title = f"{library.short_version}: instructions over PMPI where native is the winner"
    return Instructions(title, count(library, built, made, folder))


def count(library: MpiLibrary, built: Built, made: Manifest, folder: Path) -> list[Cost]:
    """Counts for every collective. Raises CollforgeError if valgrind is missing or the program fails."""
    if shutil.which("valgrind") is None:
        raise CollforgeError("valgrind is missing: apt-get install valgrind")
    program = folder / "calls"
    generated = build.generated_folder(built.library_path.parent.parent)
    compile_command = [str(library.mpicc), "-O2", "-o", str(program), str(generated / "calls.c")]
    compile_command += [
        f"-L{built.library_path.parent}",
        "-lcollforge",
        f"-Wl,-rpath,{built.library_path.parent}",
    ]
    programs.run_program(compile_command, {}, "the program cannot be compiled")
    database = folder / "native.db"
    at = layout.from_name(LAYOUT)
    programs.store_native_winners(database, library, made, at)
    functions = [entry.function for entry in made.collectives if not entry.hybrid]
    valgrind = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder / 'callgrind.out'}"]
    valgrind += ["--collect-atstart=no", *(f"--toggle-collect={name}" for name in functions)]
    launcher = local_command(library.name, at.size)
    split = launcher.index("-n")
    common = launcher[:split] + launcher[split + 2 :]
    first, rest = ["-n", "1", *valgrind, str(program)], ["-n", str(at.size - 1), str(program)]
    env = {
        "COLLFORGE_DB": str(database),
        "COLLFORGE_NODE_MAP": "2",
        "COLLFORGE_SYSTEM": programs.SYSTEM,
    }
    command = [*common, *first, ":", *rest]
    programs.run_program(command, env, "the program failed under valgrind")
    text = (folder / "callgrind.out").read_text(encoding="utf-8", errors="replace")
    return [cost(text, name) for name in functions]


def cost(text: str, function: str) -> Cost:
    """Reads callgrind's output: the instructions of a wrapper and its callees, without those in PMPI.

    Format: "fn=(id) name" opens a function. After "cfn=(id) name" and "calls=N ...", the cost in the next line
    is that of a callee. A name is given only at the first use of its id.
    """
    names: dict[str, str] = {}
    total, caller, callee, calls = 0, "", "", 0
    callees: dict[str, None] = {}
    for line in text.splitlines():
        opened = re.match(r"(c?fn)=(\(\d+\))(?: (.+))?$", line)
        if opened:
            kind, number, name = opened.groups()
            names.setdefault(number, name or "")
            named = names[number].split("'")[0]
            caller, callee = (named, "") if kind == "fn" else (caller, named)
        elif line.startswith("calls="):
            calls = int(line[6:].split()[0])
        elif re.match(r"[+\-*\d]", line):
            # The set-up in the first call on a communicator is not counted.
            usual = not callee or calls > CALLS // 2
            if caller == function and usual and callee != f"P{function}":
                total += int(line.split()[1])
            ours = caller == function or caller.startswith("cf_")
            if ours and callee and usual and callee != f"P{function}":
                callees[callee] = None
            callee = ""
    foreign = tuple(name for name in callees if not name.startswith("cf_"))
    return Cost(function, total / CALLS, foreign)
