"""Shared by the probes of the preload: compiling programs and launching them with and without it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import collforge
from collforge.db import Choice, Result, RunRecord, Store
from collforge.errors import CollforgeError
from collforge.generator.manifest import Manifest
from collforge.home import home, new_folder
from collforge.layout import Layout
from collforge.mpi_library import MpiLibrary
from collforge.place import Place
from collforge.reframe_checks.mpirun import PRELOAD, cluster_command, local_command
from collforge.reframe_checks.systems.emulated import ClusterSpec
from collforge.toolchain import build
from collforge.toolchain.build import Built
from collforge.toolchain.process import outcome
from collforge.tuner.run import measuring
from collforge.variant import Variant

LAUNCHES = 10
SYSTEM = "probe"
"""The system name in a probe's own database."""
SMALL, LARGE = 1024, 1 << 20
WORD = 8
"""Bytes of an element in the calls of `overhead`."""
TRIED = 20
"""Calls of a problem: more than a trial of the guard takes."""
TIME_LIMIT = 300
NEVER = "1970-01-01T00:00:00Z"


@dataclass(frozen=True)
class Programs:
    """The compiled programs for one MPI library, and where they run."""

    library: MpiLibrary
    overhead: Path
    communicators: Path
    preload: Path
    database: Path
    cluster: ClusterSpec | None = None
    """The rails of an emulated cluster, whose nodes follow each layout. None: this machine."""
    system: str = SYSTEM
    """Of the database."""

    def start(self, at: Layout) -> list[str]:
        """The command prefix that starts a program on all ranks, on this machine if there is no cluster."""
        if self.cluster is None:
            return local_command(self.library.name, at.size, 1, at.sockets)
        return cluster_command(self.library.name, replace(self.cluster, layout=at.placement))

    def launch(self, at: Layout, program: Path, kind: str, *numbers: int | str) -> dict[str, Any]:
        """Launches `program numbers` and returns its output."""
        env = self.variables(kind)
        if self.cluster is None:
            env["COLLFORGE_NODE_MAP"] = at.node_map
        command = [*self.start(at), *self.words(program, kind, *numbers)]
        return output(run_program(command, env, f"{program.name} failed"))

    def words(self, program: Path, kind: str, *numbers: int | str) -> list[str]:
        """`program numbers`, with the preload if ``kind`` has one."""
        # The program `communicators` is linked with the library, so it needs no preload.
        bare = kind == "native" or program == self.communicators
        preload = [] if bare else ["sh", "-c", PRELOAD, str(self.preload)]
        return [*preload, str(program), *map(str, numbers)]

    def variables(self, kind: str) -> dict[str, str]:
        """The environment of a kind of launch.

        ``kind``: native (no preload), inactive (preload without database), profiled (the same, with
        COLLFORGE_PROFILE), tuned (preload and database), tried (the same, and the guard tries reductions, too),
        expected (the same without guard), started (tuned, nonblocking calls, too), learning (as tried, at once,
        and with COLLFORGE_LEARN), or a family that the preloaded library is forced to use where it applies.
        """
        # All ranks have the library, which some launchers do not tell.
        env = {"COLLFORGE_SYSTEM": self.system, "COLLFORGE_START_TIMEOUT": "60"}
        if kind in ("tuned", "tried", "expected", "started", "learning"):
            env["COLLFORGE_DB"] = str(self.database)
            guards = {"tried": "reductions", "expected": "0", "learning": "reductions"}
            env["COLLFORGE_GUARD"] = guards.get(kind, "1")
        if kind == "started":
            env["COLLFORGE_NONBLOCKING"] = "1"
        if kind == "learning":
            env["COLLFORGE_GUARD_AFTER"] = "0"
            env["COLLFORGE_LEARN"] = str(self.database.parent)
        if kind == "profiled":
            env["COLLFORGE_PROFILE"] = str(self.database.with_name("calls.csv"))
        elif "COLLFORGE_DB" not in env and kind not in ("native", "inactive"):
            env["COLLFORGE_FORCE"] = f"*={kind}"
        return env


def output(text: str) -> dict[str, Any]:
    """What a program printed, behind what the launcher may have."""
    found: dict[str, Any] = json.loads(text[text.index("{") :])
    return found


def build_all(library: MpiLibrary) -> tuple[Built, Manifest]:
    """Builds the runtime as far as it is out of date."""
    return build.build(library), build.read_manifest()


def prepare(library: MpiLibrary, layouts: Sequence[Layout], folder: Path | None = None) -> Programs:
    """Compiles the programs and stores native winners for all layouts, in a new folder."""
    built, made = build_all(library)
    folder = folder or new_folder(home() / "runs", SYSTEM)
    generated = build.generated_folder(built.library_path.parent.parent)
    objects = (built.library_path.parent / "obj" / "library.list").read_text(encoding="utf-8")
    runtime = build.RUNTIME
    compile_command = [str(library.mpicc), "-std=c11", "-D_GNU_SOURCE", "-O2", "-pthread"]
    compile_command += [f"-I{path}" for path in (runtime / "include", runtime / "src", generated)]
    sources = {
        "overhead": [str(generated / "overhead.c")],
        "communicators": [
            str(runtime / "bench" / "programs" / "communicators.c"),
            *objects.split(),
            "-Wl,--wrap=cf_presence_agree,--wrap=cf_layout_discover",
            "-ldl",
        ],
    }
    for name, words in sources.items():
        command = [*compile_command, *words, "-o", str(folder / name)]
        run_program(command, {}, f"{name} cannot be compiled")
    for at in layouts:
        store_native_winners(folder / "native.db", library, made, at)
    return Programs(
        library,
        folder / "overhead",
        folder / "communicators",
        built.library_path,
        folder / "native.db",
    )


def cluster_of(args: argparse.Namespace) -> ClusterSpec | None:
    """Of ``--system emulated``; None: this machine."""
    return measuring.cluster(args) if args.system == "emulated" else None


def add_launches(parser: argparse.ArgumentParser, default: int = LAUNCHES) -> None:
    parser.add_argument("--launches", type=int, default=default, help="default: %(default)s")


def run_program(command: Sequence[str], env: dict[str, str], what: str) -> str:
    """The output of a command. If it fails, raises CollforgeError, whose message begins with `what`."""
    done = outcome(command, TIME_LIMIT, env)
    if done.returncode != 0:
        raise CollforgeError(f"{what}:\n{done.stderr.strip()[-2000:]}")
    return done.stdout


def store_native_winners(database: Path, library: MpiLibrary, made: Manifest, at: Layout) -> None:
    """Stores winners for every collective on a layout: native at size SMALL and a variant at size LARGE."""
    place = Place.of(SYSTEM, library, at)
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
