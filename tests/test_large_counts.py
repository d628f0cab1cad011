"""The large-count functions of MPI-4 (MPI_Bcast_c, ...) under the preloaded library."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Installation, Launch
from preloaded import made, preload, profiled, tuned
from support import compile_once, mostly_wide, run_native

from collforge.generator import load
from collforge.generator.in_c.large import has_large_form

SOURCE = Path(__file__).parent / "c" / "large_counts.c"
RANKS = 4
wide = pytest.mark.wide
MPI = "mpich"  # Debian's Open MPI has MPI-3.1


@pytest.fixture(scope="module")
def program() -> Path:
    command = [f"mpicc.{MPI}", "-std=c11", "-Wall", "-Wextra", "-Werror", SOURCE]
    return compile_once("large_counts", command, SOURCE)


@pytest.mark.parametrize("mpi", [MPI], indirect=True)
@pytest.mark.parametrize(
    "family", mostly_wide(["native", "full_lane", "hierarchical"], "native", "full_lane")
)
def test_each_call_is_decided_once_and_right(
    mpi: str, built: Installation, program: Path, family: str, launch: Launch, tmp_path: Path
) -> None:
    done = launch(mpi, RANKS, [str(program)], preload(built, tmp_path / "profile", family))
    assert done.returncode == 0
    calls = made(done.stdout)
    expected = {c.name for c in load.load_specs().standard if has_large_form(c)}
    assert set(calls) == expected
    assert profiled(tmp_path / "profile") == calls
    if family != "native":
        assert tuned(done.stderr, family) == expected


@wide
def test_the_program_is_right_without_us(program: Path) -> None:
    done = run_native(MPI, RANKS, [str(program)])
    assert done.returncode == 0
    assert made(done.stdout)
