"""The collectives of collforge_hybrid.h as programs call them, from C, Fortran and Python."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from conftest import Installation
from support import SEED, TOP, execute, launch_local, make_folder, mpi4py_variables

HERE = Path(__file__).resolve().parent
STEPS = 3000
# Ranks and node map: one node, equal and unequal nodes, not consecutive, one rank per node.
NODES = [(4, "4"), (4, "2"), (4, "3,1"), (6, "map:0,1,0,1,0,1"), (3, "1"), (1, "1")]
each_nodes = pytest.mark.parametrize(("ranks", "nodes"), NODES, ids=[f"{r}-{t}" for r, t in NODES])
# Parameter values other than the first ones, which the winners of a database can select.
SETTINGS = {
    "default": "",
    "barrier, leaders": "*=hybrid[lanes=1,sync=barrier]",
    "no waits": "hybrid_allreduce=shared_window",
}


def compile_c(built: Installation, source: Path) -> Path:
    """A program linked with the real library, as in docs/application.md."""
    target = make_folder(f"hybrid-{built.library.name}") / source.stem
    library = built.built.library_path.parent
    command = [str(built.library.mpicc), "-std=c11", "-O2", "-Wall", "-Wextra", "-Werror"]
    command += ["-D_POSIX_C_SOURCE=200809L", f"-I{TOP / 'runtime' / 'include'}", str(source)]
    command += ["-o", str(target), f"-L{library}", "-lcollforge", f"-Wl,-rpath,{library}"]
    assert execute(command).returncode == 0
    return target


def passes(
    built: Installation, ranks: int, nodes: str, command: Sequence[str], **more: str
) -> None:
    variables: Mapping[str, str] = {"COLLFORGE_NODE_MAP": nodes, **more}
    done = launch_local(built.library.name, ranks, command, variables)
    case = f"{built.library.name}: {ranks} ranks on nodes {nodes}: {' '.join(map(str, command))}"
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["passed"]), case


@pytest.fixture(scope="module")
def program(built: Installation) -> Path:
    return compile_c(built, HERE / "c" / "hybrid_calls.c")


@pytest.mark.parametrize("setting", SETTINGS)
@each_nodes
def test_results(built: Installation, program: Path, ranks: int, nodes: str, setting: str) -> None:
    forced = {"COLLFORGE_FORCE": SETTINGS[setting]} if SETTINGS[setting] else {}
    passes(built, ranks, nodes, [str(program), "results", str(SEED)], **forced)


@pytest.mark.parametrize(
    ("command", "setting"),
    [
        ("order", "default"),
        ("order", "barrier, leaders"),
        ("waits", "default"),
        ("waits", "no waits"),
    ],
)
@each_nodes
def test_order_under_random_delays(
    built: Installation, program: Path, ranks: int, nodes: str, command: str, setting: str
) -> None:
    """Thousands of collectives in random order, with a sync only where the header requires one."""
    forced = {"COLLFORGE_FORCE": SETTINGS[setting]} if SETTINGS[setting] else {}
    passes(built, ranks, nodes, [str(program), command, str(SEED), str(STEPS)], **forced)


@pytest.mark.parametrize("command", ["errors", "requests"])
@each_nodes
def test_errors_and_requests(
    built: Installation, program: Path, ranks: int, nodes: str, command: str
) -> None:
    passes(built, ranks, nodes, [str(program), command])


@pytest.mark.parametrize("nodes", ["2", "3,1"])
def test_the_program_of_the_paper(built: Installation, nodes: str) -> None:
    program = compile_c(built, TOP / "examples" / "hybrid_allgather.c")
    done = launch_local(built.library.name, 4, [str(program)], {"COLLFORGE_NODE_MAP": nodes})
    assert (done.returncode, done.stdout) == (0, "the mean rank is 1.5\n")


def test_the_program_of_the_paper_without_the_api(built: Installation) -> None:
    program = compile_c(built, TOP / "examples" / "hybrid_allgather_plain.c")
    done = launch_local(built.library.name, 4, [str(program)])
    assert (done.returncode, done.stdout) == (0, "the mean rank is 1.5\n")


@pytest.mark.parametrize("nodes", ["4", "2"])
def test_replicated_data_once_per_node(built: Installation, nodes: str) -> None:
    """With n ranks on a node, the additional memory is 1/n of that with a copy per rank."""
    program = compile_c(built, TOP / "examples" / "replicated_data.c")
    done = launch_local(built.library.name, 4, [str(program), "64"], {"COLLFORGE_NODE_MAP": nodes})
    found = re.fullmatch(r"64 MiB .* ratio ([\d.]+)\n", done.stdout)
    assert done.returncode == 0 and found
    assert abs(float(found[1]) - 1 / int(nodes)) < 0.02


def test_fortran_module(built: Installation) -> None:
    folder = make_folder(f"hybrid-{built.library.name}")
    library = built.built.library_path.parent
    command = [f"mpif90.{built.library.name}", "-std=f2008", "-Wall", "-fallow-argument-mismatch"]
    command += [f"-J{folder}", str(built.home / "generated" / "collforge_hybrid.f90")]
    command += [str(HERE / "fortran" / "hybrid.F90"), "-o", str(folder / "fortran")]
    command += [f"-L{library}", "-lcollforge", f"-Wl,-rpath,{library}"]
    assert execute(command).returncode == 0
    for nodes in ("2", "3,1", "map:0,1,0,1", "4"):
        passes(built, 4, nodes, [str(folder / "fortran")])


@pytest.mark.parametrize("nodes", ["2", "map:0,1,0,1", "4"])
def test_python(built: Installation, nodes: str) -> None:
    """Also if the library is loaded after MPI_Init."""
    command = [sys.executable, str(HERE / "python_hybrid.py")]
    library = str(built.built.library_path)
    more = {"COLLFORGE_HOME": str(built.home), **mpi4py_variables(built.library.name)}
    passes(built, 4, nodes, command, LD_PRELOAD=library, **more)
    passes(built, 4, nodes, command, **more)
