"""Programs that the library cannot serve run unchanged under the preload."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Installation
from hazards.build import SOURCES
from support import PREFIXES, execute

either = pytest.mark.either
FORCED = ["COLLFORGE_FORCE=*=full_lane", "COLLFORGE_NODE_MAP=1"]


def preloaded(built: Installation, *words: str) -> list[str]:
    return ["env", f"LD_PRELOAD={built.built.library_path}", *FORCED, *words]


def test_a_program_of_the_standard_abi(built: Installation, tmp_path: Path) -> None:
    """Its handles belong to no library that Collforge knows: one rank says so, and all calls run native."""
    tools = PREFIXES / "mpich5" / "bin"
    program = tmp_path / "abi"
    command = [str(tools / "mpicc_abi"), str(SOURCES / "abi.c"), "-o", str(program)]
    assert execute(command).returncode == 0, "run `make prefixes`"
    assert "libmpi_abi.so" in execute(["readelf", "-d", str(program)]).stdout
    done = execute([str(tools / "mpiexec"), "-n", "2", *preloaded(built, str(program))])
    assert (done.returncode, done.stdout) == (0, "passed\n")
    (line,) = [one for one in done.stderr.splitlines() if "collforge" in one]
    assert "the program runs MPI's standard ABI in MPICH Version:" in line


@either
def test_a_program_with_mpi_inside(built: Installation, tmp_path: Path) -> None:
    """Linked with libmpich.a: its calls cannot be intercepted, and a second MPI library does no harm."""
    program = tmp_path / "static"
    command = ["mpicc.mpich", "-static-mpi", str(SOURCES / "abi.c"), "-o", str(program)]
    assert execute(command).returncode == 0
    assert "libmpi" not in execute(["readelf", "-d", str(program)]).stdout
    done = execute(preloaded(built, str(program)))
    assert (done.returncode, done.stdout, done.stderr) == (0, "passed\n", "")


@either
@pytest.mark.parametrize(
    "words",
    [
        ["true"],
        ["false"],
        ["sh", "-c", "echo one | sed s/one/two/; exit 7"],
        ["mpirun.openmpi", "--oversubscribe", "-n", "2", "sh", "-c", "echo three; exit 0"],
        ["mpirun.mpich", "-n", "2", "sh", "-c", "echo four; exit 0"],
    ],
    ids=lambda words: words[0],
)
def test_a_program_without_mpi(built: Installation, words: list[str]) -> None:
    plain = execute(words)
    done = execute(preloaded(built, *words))
    assert plain.stderr == ""
    assert (done.returncode, done.stdout, done.stderr) == (plain.returncode, plain.stdout, "")
