"""What the preload costs a program: once, at start, and in every call where it gains nothing; and small calls.

The one-off costs are those of the hybrid paper's Table 2 (papers/hybrid-mpi-plus-mpi): MPI_Init,
and what each communicator needs at its first call (layout and rules: local) and at the first call
that runs a variant (communicators of nodes and lanes: collective). A launch is the unit of
statistics, as everywhere (evidence.py): a cell is the median over launches of the medians in each.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from collforge.generator.manifest import Manifest
from collforge.layout import Layout
from collforge.mpi_library import MpiLibrary
from collforge.reframe_checks.launchers import PRELOAD, cluster_command, local_command
from collforge.reframe_checks.systems.emulated import ClusterSpec
from collforge.toolchain import build
from collforge.toolchain.build import Built
from collforge.tuner import evidence, instructions
from collforge.tuner.evidence import Comparison, Interval
from collforge.variant import Variant

LAYOUTS = ("2x1", "2x2", "4x2")
OVERHEAD_LAYOUT = "2x1"  # ranks that wait for a core would hide what is looked for
OVERHEAD_COUNT = 128  # doubles
SMALL_LAYOUT = "1x2"
SMALL_FAMILY = "shared_window"
LAUNCHES = 10
COMMUNICATORS = 160  # at most so many: runtime/bench/programs/communicators.c
ROUNDS = 200  # at most 1000: templates/overhead.c.j2

# How a program is started, and the words of the table for its MPI_Init.
STARTS = {
    "native": "MPI_Init, native",
    "inactive": "MPI_Init, preloaded, no database",
    "tuned": "MPI_Init, preloaded, database",
}
FORCED = "forced"
ADDED = {"inactive": "added, no database", "tuned": "added, database"}
# What communicators prints, in the order of the table.
STAGES = {
    "dup": "MPI_Comm_dup, native",
    "stage_one": "stage one: layout and rules",
    "stage_two": "stage two: communicators of nodes and lanes",
    "free": "MPI_Comm_free, native",
    "free_one": "MPI_Comm_free after stage one",
    "free_two": "MPI_Comm_free after stage two",
    "create": "collforge_hybrid_create",
    "alloc": "collforge_hybrid_alloc of 1 MiB",
    "init": "collforge_hybrid_allgather_init",
    "hybrid": "collforge_hybrid_free",
}
MEMORY = ("dup", "stage_one", "stage_two")


@dataclass(frozen=True)
class Row:
    """One primitive: what it costs on each layout."""

    primitive: str
    unit: str
    """ms, us or bytes; of one call or one communicator, on the slowest or largest rank."""
    cells: dict[str, Interval]
    """By layout."""


@dataclass(frozen=True)
class Overhead:
    """Seconds with and without, and their ratio (above 1: slower with) over launches."""

    what: str
    without: float
    having: float
    ratio: Comparison


@dataclass(frozen=True)
class Programs:
    """What is launched, for one MPI library."""

    library: MpiLibrary
    overhead: Path
    communicators: Path
    preload: Path
    database: Path
    cluster: ClusterSpec | None = None
    """An emulated cluster's rails; its nodes are those of each layout. None: ranks of this machine."""

    def start(self, at: Layout) -> list[str]:
        """The words before a command that start it on all ranks."""
        if self.cluster is None:
            return local_command(self.library.name, at.size)
        spec = replace(self.cluster, nodes=at.nodes, ranks_per_node=at.node_sizes[0])
        return cluster_command(self.library.name, spec)

    def launch(self, at: Layout, program: Path, kind: str, *numbers: int) -> dict[str, Any]:
        """One launch of `program numbers`; what it prints. `kind` is a key of STARTS, or FORCED."""
        env = {"COLLFORGE_SYSTEM": "count"}
        if self.cluster is None:
            env["COLLFORGE_NODE_MAP"] = at.node_map
        if kind == "tuned":
            env["COLLFORGE_DB"] = str(self.database)
        if kind == FORCED:
            env["COLLFORGE_FORCE"] = f"*={SMALL_FAMILY}"
        # communicators has the library inside.
        bare = kind == "native" or program == self.communicators
        words = [] if bare else ["sh", "-c", PRELOAD, str(self.preload)]
        command = [*self.start(at), *words, str(program)]
        command += map(str, numbers)
        text = instructions.run(command, env, f"{program.name} failed")
        found: dict[str, Any] = json.loads(text[text.index("{") :])
        return found


def prepare(
    library: MpiLibrary, built: Built, made: Manifest, layouts: Sequence[Layout], folder: Path
) -> Programs:
    """Compiles the programs and stores native winners for all layouts, in a new folder."""
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
            "-Wl,--wrap=PMPI_Init",
            "-ldl",
        ],
    }
    for name, words in sources.items():
        command = [*compile_command, *words, "-o", str(folder / name)]
        instructions.run(command, {}, f"{name} cannot be compiled")
    for at in layouts:
        instructions.store_native_winners(folder / "native.db", library, made, at)
    return Programs(
        library,
        folder / "overhead",
        folder / "communicators",
        built.library_path,
        folder / "native.db",
    )


def measure_start(programs: Programs, layouts: Sequence[Layout], launches: int) -> list[Row]:
    """The rows of the table. Launches of all kinds and layouts are interleaved."""
    starts: dict[tuple[str, str], list[float]] = {}
    added: dict[tuple[str, str], list[float]] = {}
    stages: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for _ in range(launches):
        for at in layouts:
            for kind in STARTS:
                found = programs.launch(at, programs.overhead, kind, 0)
                starts.setdefault((kind, at.name), []).append(found["init"])
            for kind, count in (("inactive", 0), ("tuned", COMMUNICATORS)):
                found = programs.launch(at, programs.communicators, kind, count)
                added.setdefault((kind, at.name), []).append(found["start"])
            for stage in STAGES:
                stages.setdefault((stage, at.name), []).append(found[stage])

    def row(primitive: str, unit: str, values: Mapping[str, Sequence[float]]) -> Row:
        cells = {name: evidence.median_interval(cell) for name, cell in values.items()}
        return Row(primitive, unit, cells)

    names = [at.name for at in layouts]
    rows = [
        row(words, "ms", {name: [1e3 * s for s in starts[kind, name]] for name in names})
        for kind, words in STARTS.items()
    ]
    rows += [
        row(words, "us", {name: [1e6 * s for s in added[kind, name]] for name in names})
        for kind, words in ADDED.items()
    ]
    for stage, words in STAGES.items():
        medians = {
            name: [1e6 * statistics.median(one["seconds"]) for one in stages[stage, name]]
            for name in names
        }
        rows.append(row(words, "us", medians))
    for stage in MEMORY:
        sizes = {name: [one["bytes"] for one in stages[stage, name]] for name in names}
        rows.append(row(f"memory: {STAGES[stage]}", "bytes", sizes))
    return rows


def measure_overhead(programs: Programs, at: Layout, launches: int, rounds: int) -> list[Overhead]:
    """Paired launches with and without the preload; and, inside each, paired rounds of calls.

    The last row measures calls without the preload, through MPI_ and PMPI_, which are then the same
    functions: how far its ratio is from 1 is what the method cannot tell.
    """
    whole: list[tuple[float, float]] = []
    calls: dict[str, list[list[tuple[float, float]]]] = {"tuned": [], "native": []}
    for number in range(launches):
        seconds = {}
        for kind in ("native", "tuned") if number % 2 == 0 else ("tuned", "native"):
            found = programs.launch(at, programs.overhead, kind, rounds, OVERHEAD_COUNT)
            seconds[kind] = found["init"] + found["calls"] + found["finalize"]
            ways = [
                [sum(parts) for parts in zip(*found[way].values())] for way in ("direct", "wrapped")
            ]
            calls[kind].append(list(zip(*ways)))
        whole.append((seconds["native"], seconds["tuned"]))
    return [
        overhead("program, preloaded over not", [[pair] for pair in whole]),
        overhead("calls, preloaded, MPI_ over PMPI_", calls["tuned"]),
        overhead("calls, not preloaded, MPI_ over PMPI_", calls["native"]),
    ]


def measure_small(programs: Programs, at: Layout, launches: int, rounds: int) -> list[Overhead]:
    """Of every collective calls of 8 bytes a block, PMPI_ and, with SMALL_FAMILY forced, MPI_ in turn."""
    calls: dict[str, list[list[tuple[float, float]]]] = {}
    for _ in range(launches):
        found = programs.launch(at, programs.overhead, FORCED, rounds, 1)
        for name, direct in found["direct"].items():
            pairs = zip(direct, found["wrapped"][name])
            each = [(a / found["burst"], b / found["burst"]) for a, b in pairs]
            calls.setdefault(name, []).append(each)
    return [overhead(name, launched) for name, launched in calls.items()]


def overhead(what: str, launches: Sequence[Sequence[tuple[float, float]]]) -> Overhead:
    """From each launch's pairs of seconds (without, with), taken one right after the other."""
    without, having = Variant("program"), Variant("program", "preloaded")
    # The pairs share the load of the machine in their moment, so each gives a ratio of its own.
    ratios = [
        {without: [1.0], having: [statistics.median(b / a for a, b in pairs)]} for pairs in launches
    ]
    medians = [[statistics.median(times) for times in zip(*pairs)] for pairs in launches]
    typical = [statistics.median(times) for times in zip(*medians)]
    return Overhead(what, typical[0], typical[1], evidence.compare(without, having, ratios))
