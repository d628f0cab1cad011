"""The collectives of collforge_hybrid.h as programs call them, from C, Fortran and Python."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from conftest import Installation
from hazards.build import C, hybrid_program, pass_cases
from support import (
    SEED,
    TOP,
    compile_once,
    launch_local,
    make_folder,
    mostly_wide,
    mpi4py_variables,
)

pytestmark = pytest.mark.either
HERE = Path(__file__).resolve().parent
STEPS = 3000
# Ranks and node map: one node, equal and unequal nodes, not consecutive, one rank per node.
NODES = [(4, "4"), (4, "2"), (6, "3"), (4, "3,1"), (6, "map:0,1,0,1,0,1"), (3, "1"), (1, "1")]
# Parameter values other than the first ones, which the winners of a database can select.
SETTINGS = {
    "default": ("", ["results", "order", "waits", "errors", "requests"]),
    "barrier, leaders": ("*=hybrid[lanes=1,sync=barrier]", ["results", "order"]),
    "no waits": ("hybrid_allreduce=shared_window", ["results", "waits"]),
}


wide = pytest.mark.wide


@pytest.mark.parametrize(
    ("setting", "ranks", "nodes"),
    [
        pytest.param(
            *(setting, *at), marks=[] if setting == "default" or at[1] in ("2", "3,1") else wide
        )
        for setting in SETTINGS
        for at in NODES
    ],
)
def test_calls(built: Installation, setting: str, ranks: int, nodes: str) -> None:
    """`order`: thousands of collectives in random order, with a sync only where the header requires one."""
    forced, commands = SETTINGS[setting]
    env = {"COLLFORGE_NODE_MAP": nodes, **({"COLLFORGE_FORCE": forced} if forced else {})}
    cases = [f"{C}/hybrid_calls {command} {SEED} {STEPS}" for command in commands]
    pass_cases(built, ranks, cases, env, linked=True)


def test_the_methods_of_the_paper(built: Installation) -> None:
    """Method 1 is MPI_Reduce on the node; in method 2 the leader reads the others' inputs in place."""
    methods = {"allreduce": "native", "reduce": "shared"}
    forced = [f"hybrid_{name}=hybrid[lanes=1,node_phase={way}]" for name, way in methods.items()]
    env = {"COLLFORGE_NODE_MAP": "3", "COLLFORGE_FORCE": ";".join(forced)}
    program = hybrid_program(built, str(C / "hybrid_methods"))
    done = launch_local(built.library.name, 6, [str(program)], env)
    # Launchers may mix the lines of ranks.
    assert (done.returncode, done.stdout.count("passed")) == (0, 6), done.stderr


def example(built: Installation, name: str, nodes: str, *words: str) -> str:
    program = hybrid_program(built, str(TOP / "examples" / name))
    env = {"COLLFORGE_NODE_MAP": nodes}
    done = launch_local(built.library.name, 4, [str(program), *words], env)
    assert done.returncode == 0
    return str(done.stdout)


@pytest.mark.parametrize(
    ("name", "nodes"),
    [
        ("hybrid_allgather", "3,1"),
        pytest.param("hybrid_allgather", "2", marks=wide),
        pytest.param("hybrid_allgather_plain", "4", marks=wide),  # without the API
    ],
)
def test_the_program_of_the_paper(built: Installation, name: str, nodes: str) -> None:
    assert example(built, name, nodes) == "the mean rank is 1.5\n"


@pytest.mark.parametrize("nodes", mostly_wide(["4", "2"], "2"))
def test_replicated_data_once_per_node(built: Installation, nodes: str) -> None:
    """With n ranks on a node, the additional memory is 1/n of that with a copy per rank."""
    found = re.fullmatch(
        r"64 MiB .* ratio ([\d.]+)\n", example(built, "replicated_data", nodes, "64")
    )
    assert found
    assert abs(float(found[1]) - 1 / int(nodes)) < 0.02


def run(built: Installation, nodes: str, command: Sequence[str], **more: str) -> None:
    done = launch_local(built.library.name, 4, command, {"COLLFORGE_NODE_MAP": nodes, **more})
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["passed"])


def test_fortran_module(built: Installation) -> None:
    sources = [built.home / "generated" / "collforge_hybrid.f90", HERE / "fortran" / "hybrid.F90"]
    library = built.built.library_path.parent
    command = [f"mpif90.{built.library.name}", "-std=f2008", "-Wall", "-fallow-argument-mismatch"]
    command += [f"-J{make_folder(f'hybrid-{built.library.name}')}", *map(str, sources)]
    command += [f"-L{library}", "-lcollforge", f"-Wl,-rpath,{library}"]
    program = compile_once("hybrid_fortran", command, *sources)
    for nodes in ("3,1", "4"):
        run(built, nodes, [str(program)])


@pytest.mark.parametrize("nodes", mostly_wide(["2", "map:0,1,0,1"], "2"))
@pytest.mark.parametrize("preloaded", [True, False], ids=["preloaded", "loaded after MPI_Init"])
def test_python(built: Installation, nodes: str, preloaded: bool) -> None:
    env = {"COLLFORGE_HOME": str(built.home), **mpi4py_variables(built.library.name)}
    env |= {"LD_PRELOAD": str(built.built.library_path)} if preloaded else {}
    run(built, nodes, [sys.executable, str(HERE / "python_hybrid.py")], **env)
