"""What a call costs when native is its winner: instructions over PMPI, counted by callgrind.

Rank 0 of four runs under callgrind with the library preloaded and a database in which every collective has a
variant for large messages and native for small ones; small ones are called, so that the size matters. Counts
are repeatable, so a test asserts them.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import collforge
from collforge import layout
from collforge.db import Choice, Result, RunRecord, Store
from collforge.errors import CollforgeError
from collforge.generator.manifest import Manifest
from collforge.layout import Layout
from collforge.mpi_library import MpiLibrary
from collforge.place import Place
from collforge.reframe_checks.launchers import local_command
from collforge.toolchain.build import Built
from collforge.variant import Variant

LAYOUT = "2x2"
CALLS = 1000  # templates/calls.c.j2
SMALL, LARGE = 1024, 1 << 20
BUDGET = 80
TIME_LIMIT = 300
NEVER = "1970-01-01T00:00:00Z"


@dataclass(frozen=True)
class Cost:
    """Instructions per call that the wrapper of a function adds."""

    function: str
    instructions: float
    foreign: tuple[str, ...]
    """What the runtime calls outside itself in every call, PMPI's own function apart: should be nothing."""


def count(
    library: MpiLibrary, built: Built, made: Manifest, generated: Path, folder: Path
) -> list[Cost]:
    """Counts for every collective. Raises CollforgeError when valgrind is missing or the program fails."""
    program = folder / "calls"
    compile_command = [str(library.mpicc), "-O2", "-o", str(program), str(generated / "calls.c")]
    compile_command += [
        f"-L{built.library_path.parent}",
        "-lcollforge",
        f"-Wl,-rpath,{built.library_path.parent}",
    ]
    run(compile_command, {}, "the program cannot be compiled")
    database = folder / "native.db"
    at = layout.from_name(LAYOUT)
    store_native_winners(database, library, made, at)
    functions = [entry.function for entry in made.collectives if not entry.hybrid]
    valgrind = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder / 'callgrind.out'}"]
    valgrind += ["--collect-atstart=no", *(f"--toggle-collect={name}" for name in functions)]
    launcher = local_command(library.name, at.size)
    split = launcher.index("-n")
    common = launcher[:split] + launcher[split + 2 :]
    first, rest = ["-n", "1", *valgrind, str(program)], ["-n", str(at.size - 1), str(program)]
    env = {"COLLFORGE_DB": str(database), "COLLFORGE_NODE_MAP": "2", "COLLFORGE_SYSTEM": "count"}
    run([*common, *first, ":", *rest], env, "the program failed under valgrind")
    text = (folder / "callgrind.out").read_text(encoding="utf-8", errors="replace")
    return [cost(text, name) for name in functions]


def run(command: Sequence[str], env: dict[str, str], what: str) -> str:
    """What the command prints. Raises CollforgeError, which begins with `what`, when it fails."""
    try:
        done = subprocess.run(
            command,
            env={**os.environ, **env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIME_LIMIT,
            check=False,
        )
    except FileNotFoundError as error:
        raise CollforgeError(f"{error.filename} is missing: apt-get install valgrind") from error
    if done.returncode != 0:
        raise CollforgeError(f"{what}:\n{done.stderr.strip()[-2000:]}")
    return done.stdout


def store_native_winners(database: Path, library: MpiLibrary, made: Manifest, at: Layout) -> None:
    """Adds to a database: on a layout native won at SMALL and a variant at LARGE, for every collective."""
    place = Place.of("count", library, at)
    variants = {}
    for entry in made.variants:
        variants[entry.collective] = Variant(entry.collective, entry.family, "", entry.fingerprint)
    results = tuple(
        Result(variant, f"{name}@{at.name},bytes={LARGE}", LARGE, verified=True)
        for name, variant in variants.items()
    )
    record = RunRecord(
        at.name, place, at.nodes, at.size, NEVER, collforge.__version__, "", (), 0, results
    )
    with Store(database) as store:
        store.record_run(record)
        for name, variant in variants.items():
            native = Choice(SMALL, Variant(name), 1.0, 1.0, 1.0, 3)
            store.replace_winners(place, name, [native, Choice(LARGE, variant, 2.0, 1.9, 2.1, 3)])


def cost(text: str, function: str) -> Cost:
    """Reads callgrind's output: the instructions of a wrapper and its callees, but for PMPI's.

    Format: "fn=(id) name" opens a function; "cfn=(id) name" and "calls=N ..." announce that the next line's
    cost is a callee's; names stand only where an id is first met.
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
            # What the first call on a communicator does once is no cost of a call.
            usual = not callee or calls > CALLS // 2
            if caller == function and usual and callee != f"P{function}":
                total += int(line.split()[1])
            ours = caller == function or caller.startswith("cf_")
            if ours and callee and usual and callee != f"P{function}":
                callees[callee] = None
            callee = ""
    foreign = tuple(name for name in callees if not name.startswith("cf_"))
    return Cost(function, total / CALLS, foreign)
