"""Programs that once hung, crashed or got wrong results under the preload: each must end with right results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from conftest import Installation, Launch, install
from hazards.build import SOURCES, compiled, pass_cases, run_cases
from preloaded import tuned
from support import LIBRARIES, compile_once, run_native

TIME = 120
FULL_LANE = {"COLLFORGE_NODE_MAP": "2", "COLLFORGE_FORCE": "*=full_lane"}
either = pytest.mark.either

FREED = [f"attr_collective {how}" for how in ("free", "disconnect", "untouched")]
REFUSED = ["refused_free both free", "refused_free late disconnect"]
ALL_REFUSED = [*REFUSED, *(f"refused_free {how}" for how in ("early free", "late free"))]
ALL_REFUSED += [f"refused_free {how}" for how in ("early disconnect", "both disconnect")]
DUPLICATED = ["idup half", "idup all"]
REDUCTIONS = "allreduce reduce scan exscan"
# MPICH returns the error of the last callback alone (docs/design/runtime.md), and its own reductions fail with
# an op that stores into both operands.
NOT_MPICH = ("refused_free", "storing_op allreduce scan", "storing_op scan")


def by_algorithm(variant: str, algorithms: Mapping[str, str]) -> str:
    """COLLFORGE_FORCE. ``algorithms``: the collectives of each."""
    rows = [(name, algorithm) for algorithm in algorithms for name in algorithms[algorithm].split()]
    return ";".join(f"{name}={variant.format(algorithm)}" for name, algorithm in rows)


# Each algorithm with each collective that it has.
TREES = {"recursive_doubling": "allreduce scan exscan", "binomial": "reduce"}
CHAINS = {"ring": "allreduce", "chain": "scan exscan reduce"}
LANE = "hierarchical[lane_algorithm={}]"
SHARED = "full_lane[lane_algorithm={},node_phase=shared]"
SIX_NODES = "map:0,1,2,3,4,5,0"
ORDERS = {"rotated": "allreduce", "spread": "bcast", "reversed": "reduce"}
ORDERS |= {"strided": "allgather", "shuffled": "alltoall"}
GROUPS = {
    "communicators": (
        *(4, "2", "*=full_lane"),
        [*FREED, "attr_collective pending", *ALL_REFUSED]
        + [f"PMPI {case}" for case in (*FREED, *REFUSED)],
    ),
    # In launches of their own: after one duplication the library makes no communicators any more.
    "duplications": (8, "2", "*=full_lane", DUPLICATED),
    "duplications by PMPI": (8, "2", "*=full_lane", [f"PMPI {case}" for case in DUPLICATED]),
    "hidden communicators leave the program its own": (
        *(2, "1", by_algorithm("rank_shift[chunks=16,node_order={}]", ORDERS)),
        ["context_ids"],
    ),
}
"""Ranks, node map, COLLFORGE_FORCE, cases. The first case may measure memory, the last one use MPI_Finalize."""
EITHER_OPENMPI = {
    "full lane": (
        *(4, "2", "*=full_lane"),
        ["temporaries", "storing_op allreduce scan", "f90_types", "larger_receive"],
    ),
    "hierarchical": (
        *(4, "2", "allreduce=full_lane[node_phase=shared];*=hierarchical"),
        ["temporaries", "storing_op scan", "larger_receive", "last_message"],
    ),
    "one node": (4, "4", "*=shared_window", ["bottom", "last_message"]),
    "one rank per node": (4, "1", "*=rank_shift", ["bottom", "storing_op allreduce scan"]),
    # In no temporary may one interleaved vector overwrite another.
    "interleaved, chains": (7, SIX_NODES, by_algorithm(LANE, CHAINS), ["interleaved"]),
}
EITHER_MPICH = {
    "interleaved, trees": (7, SIX_NODES, by_algorithm(LANE, TREES), ["interleaved"]),
    # Rank 0 has no data. MPICH's MPI_Unpack divides by the size of the type.
    "empty blocks": (
        *(4, "2", "*=full_lane"),
        [f"empty_blocks {name} 0" for name in ("allgatherv", "gatherv", "scatterv", "alltoallv")],
    ),
    # No step is a reduction of the MPI library, of which MPICH's fail.
    "storing, trees": (8, "2", by_algorithm(SHARED, TREES), [f"storing_op {REDUCTIONS}"]),
    "storing, chains": (8, "2", by_algorithm(SHARED, CHAINS), [f"storing_op {REDUCTIONS}"]),
    "storing, one node": (
        *(8, "8", "*=shared_window"),
        [f"storing_op {REDUCTIONS} reduce_scatter_block"],
    ),
}
WIDE = {
    "hierarchical, wide": (
        *(4, "2", "*=hierarchical"),
        [*FREED, "attr_collective pending", "storing_op allreduce scan"],
    ),
    "rank shift, wide": (4, "2", "*=rank_shift", ["bottom", "storing_op allreduce scan"]),
}


def possible(built: Installation, cases: Sequence[str]) -> list[str]:
    mpich = built.library.flavor == "mpich"
    return [
        one for one in cases if not mpich or not one.removeprefix("PMPI ").startswith(NOT_MPICH)
    ]


@pytest.mark.parametrize(
    "group",
    [
        *(pytest.param(group, id=name) for name, group in GROUPS.items()),
        *(
            pytest.param(group, id=name, marks=either(mpi))
            for mpi, groups in (("openmpi", EITHER_OPENMPI), ("mpich", EITHER_MPICH))
            for name, group in groups.items()
        ),
        *(pytest.param(group, id=name, marks=pytest.mark.wide) for name, group in WIDE.items()),
    ],
)
def test_programs(built: Installation, group: tuple[int, str, str, list[str]]) -> None:
    ranks, nodes, force, cases = group
    env = {"COLLFORGE_NODE_MAP": nodes, "COLLFORGE_FORCE": force}
    pass_cases(built, ranks, possible(built, cases), env)


@pytest.mark.parametrize("case", ["handler", "create_group"])
def test_a_program_with_threads(built: Installation, case: str) -> None:
    """The error handler is set while others wait in the first collective of MPI_COMM_WORLD."""
    pass_cases(built, 4, [case], FULL_LANE, threads=True)


def test_a_thread_that_is_making_a_communicator(built: Installation, tmp_path: Path) -> None:
    # `dup all` before `window all`: the first collective of MPI_COMM_WORLD, and the first through a window.
    cases = [f"making {how}" for how in ("dup all", "window all", "group half", "file half")]
    force = "allreduce=full_lane;bcast=full_lane[node_phase=shared]"
    env = {"COLLFORGE_NODE_MAP": "2", "COLLFORGE_FORCE": force}
    pass_cases(built, 8, [f"{case} {tmp_path / 'file'}" for case in cases], env, threads=True)


@either
@pytest.mark.parametrize("interface", [1, 2, 3], ids=["mpif.h", "use mpi", "use mpi_f08"])
def test_collectives_while_fortran_frees_a_communicator(
    built: Installation, launch: Launch, tmp_path: Path, interface: int
) -> None:
    mpi = built.library.name
    source = SOURCES / "attr_collective.F90"
    header = SOURCES.parent / "fortran" / "interface.h"
    command = [f"mpif90.{mpi}", "-O1", "-fallow-argument-mismatch", "-w", f"-I{header.parent}"]
    program = compile_once(
        source.stem, [*command, f"-DINTERFACE={interface}", source], source, header
    )
    env = {**FULL_LANE, "LD_PRELOAD": str(built.built.library_path)}
    done = launch(mpi, 4, [str(program)], env, timeout=TIME)
    assert (done.returncode, done.stdout) == (0, "passed\n")


@either
@pytest.mark.parametrize(
    ("family", "memory", "served"),
    [
        ("full_lane", "1M", [True, True]),
        ("full_lane", "0000262144", [True, True]),
        ("full_lane", "160K", [True, False]),
        ("full_lane", "26214", [False, False]),
        ("hierarchical", "1K", [False, False]),
    ],
)
def test_a_limit_of_temporaries(
    built: Installation, family: str, memory: str, served: list[bool]
) -> None:
    """A number of any length. Copies for a user's op count, too; what is not served runs native."""
    force = f"alltoall={family};allreduce={family}"
    env = {"COLLFORGE_NODE_MAP": "2", "COLLFORGE_FORCE": force, "COLLFORGE_MEMORY": memory}
    cases = ["temporaries", "alltoall", "storing_op allreduce"]
    temporaries, *said = run_cases(built, 4, cases, {**env, "COLLFORGE_VERBOSE": "2"})
    assert temporaries.out == "passed\n"
    assert ["does not apply" not in one.err for one in said] == served


def test_a_package_without_a_window(built: Installation) -> None:
    env = {"COLLFORGE_FORCE": "barrier=shared_window;hybrid_allreduce=hybrid"}
    (said,) = pass_cases(built, 2, ["hybrid_no_window"], env, linked=True)
    assert "no room for a shared window" in said.err, "there were windows for all"


READS = [f"hybrid_reads {name} 65536 1" for name in ("reduce", "ordered", "allreduce")]
# With few elements most parts of the ring are empty.
READS += ["hybrid_reads allreduce 2 1", "hybrid_reads allreduce 3 0"]
OVERLAP = "hybrid_reduce=hybrid[lane_algorithm=chain,{0}];hybrid_allreduce=hybrid[lane_algorithm=ring,{0}]"
PACKAGES = {
    "overlap": (OVERLAP.format("node_phase=shared,overlap=yes"), READS),
    "no overlap": (OVERLAP.format("node_phase=shared,overlap=no"), READS),
    "tree": ("hybrid_reduce=hybrid[lane_algorithm=binomial,node_phase=shared]", READS[1:2]),
    "temporaries": (
        "hybrid_allreduce=hybrid[lane_algorithm=recursive_doubling]",
        ["hybrid_temporaries"],
    ),
}


@either
@pytest.mark.parametrize("case", PACKAGES)
def test_packages(built: Installation, case: str) -> None:
    """`ordered`: an op that does not commute, to a root that is not where the chain ends."""
    force, cases = PACKAGES[case]
    env = {"COLLFORGE_NODE_MAP": "2", "COLLFORGE_FORCE": force}
    env |= {"COLLFORGE_MEMORY": "1M"} if case == "temporaries" else {}
    pass_cases(built, 4 if case == "temporaries" else 6, cases, env, linked=True)


@either("openmpi")  # MPICH's own reduce, gather and gatherv crash
@pytest.mark.parametrize("name", ["reduce", "gather", "gatherv", "allgather"])
def test_mpi_in_place_where_it_is_illegal(built: Installation, launch: Launch, name: str) -> None:
    """Tested where the MPI library itself reports an error. The root of a rooted collective may get none."""
    words = [str(compiled(built, "in_place")), name]
    env = {"LD_PRELOAD": str(built.built.library_path), **FULL_LANE}
    errors = {f"rank {rank}: error" for rank in range(1, 4)}
    if not errors <= {*run_native(built.library.name, 4, words).stdout.splitlines()}:
        pytest.skip("the MPI library's own collective reports none")
    done = launch(built.library.name, 4, words, env, timeout=TIME)
    assert errors <= {*done.stdout.splitlines()}, done.stderr


def test_the_build_for_another_mpi_library(built: Installation, launch: Launch) -> None:
    """The library says so and all calls run native."""
    mpi = built.library.name
    (other,) = {*LIBRARIES} - {mpi}
    env = {"LD_PRELOAD": str(install(other).built.library_path), "COLLFORGE_FORCE": "*=full_lane"}
    done = launch(mpi, 4, [str(compiled(built, "attr_collective"))], env, timeout=TIME)
    assert (done.returncode, done.stdout) == (0, "passed\n")
    (line,) = [one for one in done.stderr.splitlines() if "collforge" in one]
    assert "this library is built for" in line


# ---- other tools ---------------------------------------------------------------------------------


def with_tool(built: Installation, name: str, first: bool, *options: str) -> dict[str, str]:
    """LD_PRELOAD with a tool before or behind the library."""
    tool, library = compiled(built, name, "-shared", "-fPIC", *options), built.built.library_path
    return {"LD_PRELOAD": f"{tool}:{library}" if first else f"{library}:{tool}"}


def test_a_duplication_under_way_behind_a_tool(built: Installation, launch: Launch) -> None:
    """A tool loaded before the library hides MPI_Init and calls PMPI_Init, which starts the library."""
    env = {**with_tool(built, "tool", True), "COLLFORGE_FORCE": "bcast=shared_window"}
    program = compiled(built, "idup")
    done = launch(built.library.name, 8, [str(program), "late"], env, timeout=TIME)
    assert (done.returncode, done.stdout) == (0, "passed\n")


def test_a_duplication_by_another_name(built: Installation) -> None:
    """A tool before the library defines MPI_Comm_idup."""
    env = {**with_tool(built, "tool_idup", True), **FULL_LANE}
    env["COLLFORGE_FORCE"] = "bcast=shared_window;*=full_lane"
    pass_cases(built, 8, [*DUPLICATED, "idup late"], env)


@pytest.mark.parametrize("first", [True, False], ids=["before", "behind"])
def test_a_free_by_another_name(built: Installation, first: bool) -> None:
    """A tool before or behind the library defines MPI_Comm_free."""
    env = {**with_tool(built, "tool_free", first), **FULL_LANE}
    pass_cases(built, 4, possible(built, [*FREED, *REFUSED]), env)


@either
def test_a_program_that_takes_addresses(built: Installation, launch: Launch) -> None:
    """Its own entry of a function's name, which is no definition, is not taken for a tool."""
    program = compiled(built, "addresses", "-no-pie", "-fno-pic")
    env = {"LD_PRELOAD": str(built.built.library_path), "COLLFORGE_VERBOSE": "2", **FULL_LANE}
    done = launch(built.library.name, 4, [str(program)], env, timeout=TIME)
    assert (done.returncode, done.stdout) == (0, "passed\n")
    assert "passes this library by" not in done.stderr
    assert "bcast" in tuned(done.stderr, "full_lane")


@pytest.mark.parametrize("first", [True, False], ids=["before", "behind"])
def test_beside_a_tool_that_wraps_mpi(built: Installation, launch: Launch, first: bool) -> None:
    """In either order, results are right, the tool counts native calls, and bcast is served."""
    env = {
        **with_tool(built, "tool", first),
        "COLLFORGE_NODE_MAP": "2",
        "COLLFORGE_VERBOSE": "2",
        "COLLFORGE_FORCE": "bcast=full_lane",
    }
    done = launch(built.library.name, 4, [str(compiled(built, "tooled"))], env, timeout=TIME)
    assert (done.returncode, done.stdout) == (0, "passed\n")
    assert "tool: 1 MPI_Init, 5 MPI_Allreduce" in done.stderr
    assert tuned(done.stderr, "full_lane") == {"bcast"}
    assert ("passes this library by" in done.stderr) == first


@either
@pytest.mark.parametrize("back", [False, True])
def test_a_tool_that_comes_back(built: Installation, launch: Launch, back: bool) -> None:
    """Its MPI_Init calls MPI_Init_thread, or the other way round, and then a collective, by public names."""
    env = {
        **with_tool(built, "tool_init", False, *(["-DBACK"] if back else [])),
        "COLLFORGE_NODE_MAP": "2",
        "COLLFORGE_VERBOSE": "2",
        "COLLFORGE_THREAD_MULTIPLE": "always" if back else "",
        "COLLFORGE_FORCE": "bcast=full_lane",
    }
    done = launch(built.library.name, 4, [str(compiled(built, "tooled"))], env, timeout=TIME)
    assert (done.returncode, done.stdout) == (0, "passed\n")
    assert "warning" not in done.stderr and tuned(done.stderr, "full_lane") == {"bcast"}


@either
@pytest.mark.parametrize("hidden", [True, False])
def test_ranks_with_different_levels_of_thread_support(
    built: Installation, launch: Launch, hidden: bool
) -> None:
    """`hidden`: a tool before the library hides MPI_Init_thread."""
    alone = {"LD_PRELOAD": str(built.built.library_path)}
    env = {**(with_tool(built, "tool", True) if hidden else alone), **FULL_LANE}
    done = launch(built.library.name, 4, [str(compiled(built, "levels"))], env, timeout=TIME)
    assert (done.returncode, done.stdout) == (0, "passed\n")


SESSIONS = ["session_first all", "session_first first", "session_first second", "session_comm"]


@pytest.mark.parametrize("case", SESSIONS)
def test_a_session_before_mpi_init(built: Installation, launch: Launch, case: str) -> None:
    """On its communicator a rank once went native, because its neighbour had no notice yet, and waited."""
    if built.library.flavor == "openmpi":
        pytest.skip("Open MPI 4 has no sessions")
    name, *words = case.split()
    env = {"LD_PRELOAD": str(built.built.library_path), "COLLFORGE_VERBOSE": "2", **FULL_LANE}
    done = launch("mpich", 4, [str(compiled(built, name)), *words], env, timeout=TIME)
    assert (done.returncode, done.stdout) == (0, "passed\n")
    assert "allreduce@2x2, 4 to 4 bytes: full_lane" in done.stderr
