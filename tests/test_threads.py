"""Collectives in chunks run by a program's OpenMP threads, with unmodified MPI+OpenMP programs."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from conftest import Installation
from hazards.build import C
from support import SEED, TOP, compile_once, execute, launch_local
from test_sanitizers import make_library, only_openmpi, sanitizer

from collforge.toolchain import vcis

STEPS = 60
SECONDS = 120
# Ranks and node map: one rank per node, unequal nodes, not consecutive, one node.
NODES = [(3, "1"), (4, "3,1"), (4, "map:0,1,0,1"), (3, "3")]
COLLECTIVES = ("allreduce", "bcast", "reduce", "allgather", "alltoall", "reduce_scatter_block")
FORCED = (
    "thread_split",
    "rank_shift[chunks=3,node_order=shuffled,carrier=threads]",
    "rank_shift[chunks=5,node_order=strided]",
    "rank_shift[chunks=3,carrier=exchange]",
)
either = pytest.mark.either
wide = pytest.mark.wide


def compile_c(built: Installation, name: str, *words: str, compiler: str = "gcc") -> Path:
    source = C / f"{name}.c"
    command = ["env", f"OMPI_CC={compiler}", f"MPICH_CC={compiler}", str(built.library.mpicc)]
    command += ["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-fopenmp"]
    command += ["-D_POSIX_C_SOURCE=200809L", "-pthread", f"-I{TOP / 'runtime' / 'src'}", *words]
    needed = [Path(word) for word in words if not word.startswith("-")]
    needed += [path.with_suffix(".h") for path in needed if path.suffix == ".c"]
    return compile_once(name, [*command, source], source, *needed)


@pytest.fixture(scope="module")
def program(built: Installation) -> Path:
    return compile_c(built, "openmp")


def run(
    built: Installation, ranks: int, nodes: str, command: Sequence[str], forced: str, **more: str
) -> str:
    """Runs the program preloaded, with two threads per process; returns the library's log."""
    variables = {
        "LD_PRELOAD": str(built.built.library_path),
        "COLLFORGE_NODE_MAP": nodes,
        "COLLFORGE_FORCE": forced,
        "COLLFORGE_VERBOSE": "2",
        "OMP_NUM_THREADS": "2",
        **more,
    }
    done = launch_local(built.library.name, ranks, command, variables, SECONDS)
    case = f"{built.library.name}: {ranks} ranks on nodes {nodes}, {forced}: {' '.join(command)}"
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["passed"]), case
    return done.stderr


def decisions(log: str) -> dict[str, set[str]]:
    """Layout -> the families that calls used."""
    found: dict[str, set[str]] = {}
    for layout, family in re.findall(r"collforge: \w+@(\S+), .* bytes: (\w+)", log):
        found.setdefault(layout, set()).add(family)
    return found


@pytest.mark.parametrize(
    ("ranks", "nodes", "turn"),
    [
        pytest.param(*at, turn, marks=either if turn == number else wide)
        for number, at in enumerate(NODES)
        for turn in range(len(FORCED))
    ],
)
@pytest.mark.parametrize("modes", ["outside mixed", "workers"])
def test_results(
    built: Installation, program: Path, ranks: int, nodes: str, turn: int, modes: str
) -> None:
    """Each collective is forced to another variant at each turn.

    In ``mixed``, ranks of one call have different numbers of idle threads; no rank may hang.
    """
    order = [*FORCED[turn:], *FORCED[:turn]]
    forced = ";".join(f"{name}={one}" for name, one in zip(COLLECTIVES, [*order, *order]))
    command = [str(program), str(SEED), str(STEPS), *modes.split()]
    log = run(built, ranks, nodes, command, forced, COLLFORGE_THREAD_MULTIPLE="always")
    ((layout, families),) = decisions(log).items()
    assert layout.endswith("x2")
    # Of workers, only the first call on each communicator finds idle threads.
    wanted = {"thread_split", "rank_shift"}
    assert wanted <= families if modes != "workers" else wanted & families


@either
@pytest.mark.parametrize("setting", ["", "0"])
def test_below_thread_multiple_nothing_changes(
    built: Installation, program: Path, setting: str
) -> None:
    """The layout then has no threads, and thread_split does not apply."""
    command = [str(program), str(SEED), "50", "mixed"]
    log = run(built, 3, "1", command, "*=thread_split", COLLFORGE_THREAD_MULTIPLE=setting)
    assert set(decisions(log)) == {"3x1"}
    assert "native, because thread_split[threads=0] does not apply" in log


@either
def test_one_thread_is_none_to_split_over(built: Installation, program: Path) -> None:
    command = [str(program), str(SEED), "50", "outside"]
    more = {"COLLFORGE_THREAD_MULTIPLE": "always", "OMP_NUM_THREADS": "1"}
    assert set(decisions(run(built, 3, "1", command, "*=thread_split", **more))) == {"3x1"}


@either
def test_a_team(built: Installation) -> None:
    """Tests the distribution of chunks over threads (runtime/src/base/threads.c) alone."""
    team = compile_c(built, "team", str(TOP / "runtime" / "src" / "base" / "threads.c"))
    done = launch_local(built.library.name, 1, [str(team)], {"OMP_NUM_THREADS": "2"}, SECONDS)
    assert (done.returncode, done.stdout) == (0, "passed\n")


@pytest.fixture(scope="module", params=["GOMP_parallel", "__kmpc_fork_call"])
def llvm(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with LLVM's OpenMP runtime, whole or without the entry points of GCC's."""
    if not (clang := shutil.which("clang")):
        pytest.skip("no clang: apt-get install clang libomp-dev")
    library = Path(execute([clang, "-print-file-name=libomp.so.5"]).stdout.strip())
    if not library.exists():
        pytest.skip("no OpenMP runtime of clang: apt-get install libomp-dev")
    entire = library.read_bytes()
    without = entire.replace(b"GOMP_parallel\0", b"NONE_parallel\0")
    assert without != entire, "the test has to hide the entry point in another way"
    folder = tmp_path_factory.mktemp("llvm")
    (folder / "libomp.so.5").write_bytes(entire if request.param == "GOMP_parallel" else without)
    source = folder / "user.c"
    source.write_text(
        "int omp_get_max_threads(void);\nint user(void) { return omp_get_max_threads(); }\n"
    )
    command = ["gcc", "-fopenmp", "-shared", "-fPIC", "-o", str(folder / "libuser.so"), str(source)]
    assert execute([*command, "-Wl,--no-as-needed", "-lgomp"]).returncode == 0
    return str(folder)


@wide
@pytest.mark.parametrize("modes", ["outside mixed", "workers"])
@pytest.mark.parametrize("other", ["", "libuser.so"])
def test_llvms_threads(built: Installation, llvm: str, modes: str, other: str) -> None:
    """As test_results, with a program that clang has compiled, alone and with a library of GCC's OpenMP."""
    needed = ["-Wl,--no-as-needed", f"{llvm}/{other}"] if other else []
    program = compile_c(built, "openmp", *needed, compiler="clang")
    more = {"LD_LIBRARY_PATH": llvm, "COLLFORGE_THREAD_MULTIPLE": "always"}
    command = [str(program), str(SEED), str(STEPS), *modes.split()]
    log = run(built, 3, "2,1", command, "*=thread_split", **more)
    ((layout, families),) = decisions(log).items()
    assert layout.endswith("x2") and "thread_split" in families


@wide
def test_a_team_of_llvm(built: Installation, llvm: str) -> None:
    source = TOP / "runtime" / "src" / "base" / "threads.c"
    team = compile_c(built, "team", str(source), compiler="clang")
    variables = {"OMP_NUM_THREADS": "2", "LD_LIBRARY_PATH": llvm}
    done = launch_local(built.library.name, 1, [str(team)], variables, SECONDS)
    assert (done.returncode, done.stdout) == (0, "passed\n")


def test_progress_of_one_communicator_is_progress_of_all(built: Installation) -> None:
    """Zambre et al. (2020), Fig. 9, with the settings that `collforge env` prints."""
    program = compile_c(built, "progress")
    settings = {"OMP_NUM_THREADS": "2", **vcis.thread_settings(built.library, 2)}
    done = launch_local(built.library.name, 2, [str(program)], settings, SECONDS)
    assert (done.returncode, done.stdout) == (0, "passed\n")


@wide
def test_threads_do_not_race(built: Installation, program: Path) -> None:
    only_openmpi(built)
    library = make_library(built, "-fsanitize=thread", f"tsan-{built.library.name}")
    log = run(
        built,
        3,
        "1",
        [str(program), str(SEED), "40", "outside", "mixed"],
        "*=thread_split",
        LD_PRELOAD=f"{sanitizer('tsan')}:{library}",
        TSAN_OPTIONS="ignore_noninstrumented_modules=1:halt_on_error=1",
        COLLFORGE_THREAD_MULTIPLE="always",
    )
    assert "ThreadSanitizer" not in log
