"""Programs that once hung, crashed or got wrong results under the preload: each must end with right results."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from conftest import Installation, Launch
from hazards.build import SOURCES, compiled, hybrid_program
from preloaded import tuned
from support import execute, make_folder

from collforge.toolchain import build, libraries

ORDERS = ("rotated", "spread", "reversed", "strided", "shuffled", "ranks")
CHUNKED = ("allreduce", "bcast", "reduce", "allgather", "alltoall")
CHUNKS = ";".join(
    f"{name}=rank_shift[chunks=16,node_order={order}]" for name, order in zip(CHUNKED, ORDERS)
)
TIME = 120


def check(
    launch: Launch, built: Installation, ranks: int, words: list[str], **env: str
) -> subprocess.CompletedProcess[str]:
    """Runs a program with and without the library, which must serve some calls; both runs must pass.

    Returns the run with the library.
    """
    native = launch(built.library.name, ranks, words, timeout=TIME)
    assert (native.returncode, native.stdout) == (0, "passed\n")
    variables = {"LD_PRELOAD": str(built.built.library_path), "COLLFORGE_VERBOSE": "1", **env}
    done = launch(built.library.name, ranks, words, variables, timeout=TIME)
    assert (done.returncode, done.stdout) == (0, "passed\n"), env
    (winners,) = re.findall(r"collforge: version \S+, (\d+) winners", done.stderr)
    assert int(winners) > 0
    return done


@pytest.mark.parametrize("mode", ["free", "disconnect", "pending", "untouched"])
@pytest.mark.parametrize(
    "family", ["full_lane", pytest.param("hierarchical", marks=pytest.mark.slow)]
)
def test_collectives_while_a_communicator_is_freed(
    built: Installation, launch: Launch, mode: str, family: str
) -> None:
    program = compiled(built, "attr_collective")
    env = {"COLLFORGE_NODE_MAP": "2", "COLLFORGE_FORCE": f"*={family}"}
    check(launch, built, 4, [str(program), mode], **env)


@pytest.mark.parametrize("interface", [1, 2, 3], ids=["mpif.h", "use mpi", "use mpi_f08"])
def test_collectives_while_fortran_frees_a_communicator(
    built: Installation, launch: Launch, interface: int
) -> None:
    mpi = built.library.name
    folder = make_folder(f"hazards-{mpi}/interface{interface}")
    program = folder / "attr_collective"
    command = [f"mpif90.{mpi}", "-O1", "-fallow-argument-mismatch", "-w", "-J", str(folder)]
    command += [f"-I{SOURCES.parent / 'fortran'}", f"-DINTERFACE={interface}"]
    command += [str(SOURCES / "attr_collective.F90"), "-o", str(program)]
    assert execute(command).returncode == 0
    env = {"COLLFORGE_NODE_MAP": "2", "COLLFORGE_FORCE": "*=full_lane"}
    check(launch, built, 4, [str(program)], **env)


def test_hidden_communicators_leave_the_program_its_own(
    built: Installation, launch: Launch
) -> None:
    program = compiled(built, "context_ids")
    check(launch, built, 2, [str(program)], COLLFORGE_NODE_MAP="1", COLLFORGE_FORCE=CHUNKS)


def test_a_thread_that_makes_communicators(built: Installation, launch: Launch) -> None:
    program = compiled(built, "create_group")
    env = {"COLLFORGE_NODE_MAP": "2", "COLLFORGE_FORCE": "*=full_lane"}
    check(launch, built, 4, [str(program)], **env)


@pytest.mark.parametrize("who", ["all", "half"])
def test_a_duplication_under_way(built: Installation, launch: Launch, who: str) -> None:
    program = compiled(built, "idup")
    env = {"COLLFORGE_NODE_MAP": "2", "COLLFORGE_FORCE": "*=full_lane"}
    check(launch, built, 8, [str(program), who], **env)


def test_a_late_start_while_a_duplication_is_under_way(built: Installation, launch: Launch) -> None:
    """A tool loaded before the library hides MPI_Init, so that the first collective starts the library."""
    program = compiled(built, "idup")
    tool = compiled(built, "tool", "-shared", "-fPIC")
    preload = f"{tool}:{built.built.library_path}"
    env = {"LD_PRELOAD": preload, "COLLFORGE_FORCE": "bcast=shared_window"}
    done = launch(built.library.name, 8, [str(program), "late"], env, timeout=TIME)
    assert (done.returncode, done.stdout) == (0, "passed\n")


@pytest.mark.parametrize(
    ("how", "where"),
    [("group", "half"), ("file", "half"), ("dup", "all"), ("window", "all")],
)
def test_a_thread_that_is_making_a_communicator(
    built: Installation, launch: Launch, tmp_path: Path, how: str, where: str
) -> None:
    program = compiled(built, "making")
    force = "allreduce=full_lane;bcast=full_lane[node_phase=shared]"
    env = {"COLLFORGE_NODE_MAP": "2", "COLLFORGE_FORCE": force}
    check(launch, built, 8, [str(program), how, where, str(tmp_path / "file")], **env)


INTERLEAVED = {
    "recursive_doubling": ("scan", "exscan", "allreduce"),
    "binomial": ("reduce",),
    "chain": ("scan", "exscan", "reduce"),
    "ring": ("allreduce",),
}


@pytest.mark.parametrize("algorithm", INTERLEAVED)
def test_elements_that_interleave(built: Installation, launch: Launch, algorithm: str) -> None:
    """Six nodes, for the ring. In no temporary may one interleaved vector overwrite another."""
    program = compiled(built, "interleaved")
    variant = f"hierarchical[lane_algorithm={algorithm}]"
    force = ";".join(f"{name}={variant}" for name in INTERLEAVED[algorithm])
    env = {"COLLFORGE_NODE_MAP": "map:0,1,2,3,4,5,0", "COLLFORGE_FORCE": force}
    check(launch, built, 7, [str(program)], **env)


@pytest.mark.parametrize("family", ["shared_window", "rank_shift"])
def test_reductions_into_mpi_bottom(built: Installation, launch: Launch, family: str) -> None:
    """Tested with all ranks on one node and with one rank per node."""
    program = compiled(built, "bottom")
    nodes = "4" if family == "shared_window" else "1"
    env = {"COLLFORGE_NODE_MAP": nodes, "COLLFORGE_FORCE": f"*={family}"}
    check(launch, built, 4, [str(program)], **env)


def test_types_without_a_name_that_nobody_may_free(built: Installation, launch: Launch) -> None:
    program = compiled(built, "f90_types")
    env = {"COLLFORGE_NODE_MAP": "2", "COLLFORGE_FORCE": "bcast=full_lane"}
    check(launch, built, 4, [str(program)], **env)


def test_an_error_handler_set_while_others_wait(built: Installation, launch: Launch) -> None:
    program = compiled(built, "handler")
    env = {"COLLFORGE_NODE_MAP": "2", "COLLFORGE_FORCE": "allreduce=full_lane"}
    check(launch, built, 4, [str(program)], **env)


@pytest.mark.parametrize(
    ("memory", "served"), [("0262144", True), ("0000262144", True), ("26214", False)]
)
def test_a_number_of_bytes_of_any_length(
    built: Installation, launch: Launch, memory: str, served: bool
) -> None:
    """With this limit of temporaries, the call is served or runs native."""
    program = compiled(built, "alltoall")
    env = {
        "LD_PRELOAD": str(built.built.library_path),
        "COLLFORGE_NODE_MAP": "2",
        "COLLFORGE_FORCE": "alltoall=full_lane",
        "COLLFORGE_MEMORY": memory,
        "COLLFORGE_VERBOSE": "2",
    }
    done = launch(built.library.name, 4, [str(program)], env, timeout=TIME)
    assert done.returncode == 0
    assert ("does not apply" not in done.stderr) == served


REDUCTIONS = ("allreduce", "reduce", "reduce_scatter_block", "scan", "exscan")
STORING = {
    "shared_window": (8, REDUCTIONS, "shared_window"),
    **{
        name: (2, calls, f"full_lane[lane_algorithm={name},node_phase=shared]")
        for name, calls in INTERLEAVED.items()
    },
}
"""Case -> ranks per node, collectives and their variant. No step is a reduction of the MPI library."""


@pytest.mark.parametrize("case", STORING)
def test_an_op_that_stores_into_both_operands(
    built: Installation, launch: Launch, case: str
) -> None:
    """MPICH's own collectives fail in this case."""
    node, calls, variant = STORING[case]
    check_storing_op(launch, built, 8, node, calls, variant)


def test_temporaries_of_a_hybrid_package_are_given_back(
    built: Installation, launch: Launch
) -> None:
    program = hybrid_program(built, "hybrid_temporaries")
    env = {
        "COLLFORGE_NODE_MAP": "2",
        "COLLFORGE_FORCE": "hybrid_allreduce=hybrid[lane_algorithm=recursive_doubling]",
        "COLLFORGE_MEMORY": "1M",
    }
    done = launch(built.library.name, 4, [str(program)], env, timeout=TIME)
    assert (done.returncode, done.stdout) == (0, "passed\n"), done.stderr


@pytest.mark.parametrize(("memory", "served"), [("1M", True), ("100K", False)])
def test_copies_for_a_users_op_count_as_temporaries(
    built: Installation, launch: Launch, memory: str, served: bool
) -> None:
    program = compiled(built, "storing_op")
    env = {
        "LD_PRELOAD": str(built.built.library_path),
        "COLLFORGE_NODE_MAP": "2",
        "COLLFORGE_FORCE": "allreduce=full_lane",
        "COLLFORGE_MEMORY": memory,
        "COLLFORGE_VERBOSE": "2",
    }
    done = launch(built.library.name, 4, [str(program), "allreduce"], env, timeout=TIME)
    assert ("does not apply" not in done.stderr) == served


@pytest.mark.parametrize("family", ["full_lane", "hierarchical", "rank_shift"])
def test_a_storing_op_in_steps_of_the_mpi_library(
    built: Installation, launch: Launch, family: str
) -> None:
    """Of the native collectives, these two are right."""
    if built.library.flavor == "mpich":
        pytest.skip("its native collectives fail")
    check_storing_op(launch, built, 4, 2, ("allreduce", "scan"), family)


def check_storing_op(
    launch: Launch, built: Installation, ranks: int, node: int, calls: tuple[str, ...], variant: str
) -> None:
    """``node``: ranks of a node."""
    program = compiled(built, "storing_op")
    env = {
        "LD_PRELOAD": str(built.built.library_path),
        "COLLFORGE_NODE_MAP": str(node),
        "COLLFORGE_FORCE": ";".join(f"{call}={variant}" for call in calls),
    }
    done = launch(built.library.name, ranks, [str(program), *calls], env, timeout=TIME)
    assert (done.returncode, done.stdout) == (0, "passed\n")


def test_a_package_without_a_window(built: Installation, launch: Launch) -> None:
    program = hybrid_program(built, "hybrid_no_window")
    env = {"COLLFORGE_FORCE": "barrier=shared_window;hybrid_allreduce=hybrid"}
    done = launch(built.library.name, 2, [str(program)], env, timeout=TIME)
    assert (done.returncode, done.stdout) == (0, "passed\n")
    assert "no room for a shared window" in done.stderr, "there were windows for all"


@pytest.mark.parametrize("overlap", ["yes", "no"])
@pytest.mark.parametrize(
    ("name", "algorithm"),
    [("reduce", "chain"), ("ordered", "chain"), ("ordered", "binomial"), ("allreduce", "ring")],
)
def test_what_others_read_in_a_piece(
    built: Installation, launch: Launch, name: str, algorithm: str, overlap: str
) -> None:
    """`ordered`: an op that does not commute, to a root that is not where the chain ends."""
    program = hybrid_program(built, "hybrid_reads")
    call = "allreduce" if name == "allreduce" else "reduce"
    parameters = f"lane_algorithm={algorithm},node_phase=shared"
    parameters += "" if algorithm == "binomial" else f",overlap={overlap}"
    env = {
        "COLLFORGE_NODE_MAP": "2",
        "COLLFORGE_FORCE": f"hybrid_{call}=hybrid[{parameters}]",
    }
    words = [str(program), name, str(1 << 16), "1"]
    done = launch(built.library.name, 4, words, env, timeout=TIME)
    assert (done.returncode, done.stdout) == (0, "passed\n"), done.stderr


@pytest.mark.parametrize(("count", "late"), [(2, 1), (3, 0)])
def test_what_others_read_in_a_piece_of_few_elements(
    built: Installation, launch: Launch, count: int, late: int
) -> None:
    """On three nodes, where most parts of the ring are empty."""
    program = hybrid_program(built, "hybrid_reads")
    parameters = "lane_algorithm=ring,node_phase=shared,overlap=yes"
    force = f"hybrid_allreduce=hybrid[{parameters}]"
    env = {"COLLFORGE_NODE_MAP": "2", "COLLFORGE_FORCE": force}
    check(launch, built, 6, [str(program), "allreduce", str(count), str(late)], **env)


@pytest.mark.parametrize("family", ["full_lane", "hierarchical"])
def test_receivers_with_room_to_spare(built: Installation, launch: Launch, family: str) -> None:
    program = compiled(built, "larger_receive")
    force = ";".join(
        f"{name}={family}" for name in ("scatterv", "gatherv", "alltoallv", "allgatherv")
    )
    check(launch, built, 4, [str(program)], COLLFORGE_NODE_MAP="2", COLLFORGE_FORCE=force)


@pytest.mark.parametrize("family", ["shared_window", "full_lane[node_phase=shared]"])
def test_a_message_sent_in_mpi_finalize(built: Installation, launch: Launch, family: str) -> None:
    program = compiled(built, "last_message")
    env = {"COLLFORGE_NODE_MAP": "4" if family == "shared_window" else "2"}
    check(launch, built, 4, [str(program)], **env, COLLFORGE_FORCE=f"allreduce={family}")


@pytest.mark.parametrize("how", ["free", "disconnect"])
@pytest.mark.parametrize("when", ["early", "late", "both"])
def test_a_communicator_that_a_callback_keeps(
    built: Installation, launch: Launch, when: str, how: str
) -> None:
    if built.library.flavor == "mpich":
        pytest.skip("it returns the error of the last callback alone (docs/design/runtime.md)")
    program = compiled(built, "refused_free")
    env = {"COLLFORGE_NODE_MAP": "2", "COLLFORGE_FORCE": "*=full_lane"}
    check(launch, built, 4, [str(program), when, how], **env)


@pytest.mark.parametrize("name", ["allgatherv", "gatherv", "scatterv", "alltoallv"])
def test_blocks_without_data(built: Installation, launch: Launch, name: str) -> None:
    """Rank 0 has none. MPICH's MPI_Unpack divides by the size of the type."""
    program = compiled(built, "empty_blocks")
    env = {"COLLFORGE_NODE_MAP": "2", "COLLFORGE_FORCE": f"{name}=full_lane"}
    check(launch, built, 4, [str(program), name, "0"], **env)


@pytest.mark.parametrize("name", ["reduce", "gather", "gatherv", "allgather"])
def test_mpi_in_place_where_it_is_illegal(built: Installation, launch: Launch, name: str) -> None:
    """Tested where the MPI library itself reports an error. The root of a rooted collective may get none."""
    program = compiled(built, "in_place")
    words = [str(program), name]
    env = {
        "LD_PRELOAD": str(built.built.library_path),
        "COLLFORGE_NODE_MAP": "2",
        "COLLFORGE_FORCE": "*=full_lane",
    }
    errors = {f"rank {rank}: error" for rank in range(1, 4)}
    native = launch(built.library.name, 4, words, timeout=TIME)
    if not errors <= {*native.stdout.splitlines()}:
        pytest.skip("the MPI library's own collective reports none")
    done = launch(built.library.name, 4, words, env, timeout=TIME)
    assert errors <= {*done.stdout.splitlines()}, done.stderr


@pytest.mark.parametrize("family", ["full_lane", "hierarchical"])
def test_temporaries_are_bounded_and_given_back(
    built: Installation, launch: Launch, family: str
) -> None:
    program = compiled(built, "temporaries")
    env = {"COLLFORGE_NODE_MAP": "2", "COLLFORGE_FORCE": f"alltoall={family}"}
    check(launch, built, 4, [str(program)], **env)
    check(launch, built, 4, [str(program)], **env, COLLFORGE_MEMORY="1K")


def other_library(mpi: str) -> Path:
    (other,) = sorted(libraries.DEBIAN_PACKAGES.keys() - {mpi})
    home = Path(os.environ["COLLFORGE_HOME"])
    return build.build(libraries.find(other), home).library_path


def test_the_build_for_another_mpi_library(built: Installation, launch: Launch) -> None:
    """The library says so and all calls run native."""
    program = compiled(built, "attr_collective")
    mpi = built.library.name
    env = {"LD_PRELOAD": str(other_library(mpi)), "COLLFORGE_FORCE": "*=full_lane"}
    done = launch(mpi, 4, [str(program)], env, timeout=TIME)
    assert (done.returncode, done.stdout) == (0, "passed\n")
    (line,) = [one for one in done.stderr.splitlines() if "collforge" in one]
    assert "this library is built for" in line


# ---- other tools ---------------------------------------------------------------------------------


@pytest.mark.parametrize("who", ["all", "half"])
@pytest.mark.parametrize("how", ["tool", "PMPI"])
def test_a_duplication_by_another_name(
    built: Installation, launch: Launch, how: str, who: str
) -> None:
    """A tool before the library defines MPI_Comm_idup, or the program calls PMPI_Comm_idup."""
    options = ["-DMPI_Comm_idup=PMPI_Comm_idup"] if how == "PMPI" else []
    program = compiled(built, "idup", *options)
    tool = [compiled(built, "tool_idup", "-shared", "-fPIC")] if how == "tool" else []
    env = {
        "LD_PRELOAD": ":".join(map(str, [*tool, built.built.library_path])),
        "COLLFORGE_NODE_MAP": "2",
        "COLLFORGE_FORCE": "bcast=shared_window;*=full_lane",
    }
    done = launch(built.library.name, 8, [str(program), who], env, timeout=TIME)
    assert (done.returncode, done.stdout) == (0, "passed\n")


@pytest.mark.parametrize(
    "words", ["free", "disconnect", "untouched", "refused both free", "refused late disconnect"]
)
@pytest.mark.parametrize("how", ["tool before", "tool behind", "PMPI"])
def test_a_free_by_another_name(built: Installation, launch: Launch, how: str, words: str) -> None:
    """A tool before or behind the library defines MPI_Comm_free, or the program calls PMPI_Comm_free."""
    refused = words.startswith("refused ")
    if refused and built.library.flavor == "mpich":
        pytest.skip("it returns the error of the last callback alone (docs/design/runtime.md)")
    names = ("MPI_Comm_free", "MPI_Comm_disconnect")
    options = [f"-D{name}=P{name}" for name in names] if how == "PMPI" else []
    program = compiled(built, "refused_free" if refused else "attr_collective", *options)
    tool = [] if how == "PMPI" else [compiled(built, "tool_free", "-shared", "-fPIC")]
    loaded = [*tool, built.built.library_path]
    env = {
        "LD_PRELOAD": ":".join(map(str, loaded if how == "tool before" else reversed(loaded))),
        "COLLFORGE_NODE_MAP": "2",
        "COLLFORGE_FORCE": "*=full_lane",
    }
    command = [str(program), *words.removeprefix("refused ").split()]
    done = launch(built.library.name, 4, command, env, timeout=TIME)
    assert (done.returncode, done.stdout) == (0, "passed\n"), done.stderr


def test_a_program_that_takes_addresses(built: Installation, launch: Launch) -> None:
    """Its own entry of a function's name, which is no definition, is not taken for a tool."""
    program = compiled(built, "addresses", "-no-pie", "-fno-pic")
    env = {
        "LD_PRELOAD": str(built.built.library_path),
        "COLLFORGE_NODE_MAP": "2",
        "COLLFORGE_VERBOSE": "2",
        "COLLFORGE_FORCE": "bcast=full_lane",
    }
    done = launch(built.library.name, 4, [str(program)], env, timeout=TIME)
    assert (done.returncode, done.stdout) == (0, "passed\n")
    assert "passes this library by" not in done.stderr
    assert tuned(done.stderr, "full_lane") == {"bcast"}


@pytest.mark.parametrize("first", ["tool", "collforge"])
def test_beside_a_tool_that_wraps_mpi(built: Installation, launch: Launch, first: str) -> None:
    """In either order, results are right, the tool counts native calls, and bcast is served."""
    program = compiled(built, "tooled")
    tool = compiled(built, "tool", "-shared", "-fPIC")
    library = str(built.built.library_path)
    order = [str(tool), library] if first == "tool" else [library, str(tool)]
    env = {
        "LD_PRELOAD": ":".join(order),
        "COLLFORGE_NODE_MAP": "2",
        "COLLFORGE_VERBOSE": "2",
        "COLLFORGE_FORCE": "bcast=full_lane",
    }
    done = launch(built.library.name, 4, [str(program)], env, timeout=TIME)
    assert (done.returncode, done.stdout) == (0, "passed\n")
    assert "tool: 1 MPI_Init, 5 MPI_Allreduce" in done.stderr
    assert tuned(done.stderr, "full_lane") == {"bcast"}
    assert ("passes this library by" in done.stderr) == (first == "tool")


@pytest.mark.parametrize("back", [False, True])
def test_a_tool_that_comes_back(built: Installation, launch: Launch, back: bool) -> None:
    """Its MPI_Init calls MPI_Init_thread, or the other way round, and then a collective, by public names."""
    program = compiled(built, "tooled")
    tool = compiled(built, "tool_init", "-shared", "-fPIC", *(["-DBACK"] if back else []))
    env = {
        "LD_PRELOAD": f"{built.built.library_path}:{tool}",
        "COLLFORGE_NODE_MAP": "2",
        "COLLFORGE_VERBOSE": "2",
        "COLLFORGE_THREAD_MULTIPLE": str(int(back)),
        "COLLFORGE_FORCE": "bcast=full_lane",
    }
    done = launch(built.library.name, 4, [str(program)], env, timeout=TIME)
    assert (done.returncode, done.stdout) == (0, "passed\n")
    assert "warning" not in done.stderr and tuned(done.stderr, "full_lane") == {"bcast"}


@pytest.mark.parametrize("hidden", [True, False])
def test_ranks_with_different_levels_of_thread_support(
    built: Installation, launch: Launch, hidden: bool
) -> None:
    """`hidden`: a tool before the library hides MPI_Init_thread."""
    program = compiled(built, "levels")
    tool = [compiled(built, "tool", "-shared", "-fPIC")] if hidden else []
    env = {
        "LD_PRELOAD": ":".join(map(str, [*tool, built.built.library_path])),
        "COLLFORGE_NODE_MAP": "2",
        "COLLFORGE_FORCE": "*=full_lane",
    }
    done = launch(built.library.name, 4, [str(program)], env, timeout=TIME)
    assert (done.returncode, done.stdout) == (0, "passed\n")


@pytest.mark.parametrize("who", ["all", "first", "second"])
def test_a_session_before_mpi_init(built: Installation, launch: Launch, who: str) -> None:
    if built.library.flavor == "openmpi":
        pytest.skip("Open MPI 4 has no sessions")
    program = compiled(built, "session_first")
    env = {"COLLFORGE_NODE_MAP": "2", "COLLFORGE_FORCE": "*=full_lane"}
    check(launch, built, 4, [str(program), who], **env)


def test_a_communicator_of_a_session_before_mpi_init(built: Installation, launch: Launch) -> None:
    """A rank once went native because its neighbour had no notice yet, and the neighbour waited for it."""
    if built.library.flavor == "openmpi":
        pytest.skip("Open MPI 4 has no sessions")
    program = compiled(built, "session_comm")
    env = {"COLLFORGE_NODE_MAP": "2", "COLLFORGE_FORCE": "*=full_lane", "COLLFORGE_VERBOSE": "2"}
    done = check(launch, built, 4, [str(program)], **env)
    assert "allreduce@2x2, 4 to 4 bytes: full_lane" in done.stderr
