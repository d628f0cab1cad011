"""Nonblocking collectives by variants (COLLFORGE_NONBLOCKING): legal programs end, and results are right."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from conftest import Installation, Launch, some
from support import PREFIXES, TOP, execute
from test_conformance import PAIRS, Program, everywhere, program

from collforge.home import home
from collforge.reframe_checks.mpirun import local_command
from collforge.toolchain import build, libraries

__all__ = ["program"]
SOURCE = TOP / "tests" / "c" / "nonblocking.c"
NODE_PHASES = ("shared", "native")
FORCED = {"COLLFORGE_NONBLOCKING": "1", "COLLFORGE_NODE_MAP": "2", "COLLFORGE_VERBOSE": "1"}
LEGAL = (
    "blocked in a receive",
    "start, then send",
    "other collectives",
    "opposite orders",
    "all kinds of requests",
    "many at once",
    "freed early",
)


def compile_legal(mpicc: str, folder: Path) -> str:
    target = str(folder / "nonblocking")
    command = [
        mpicc,
        "-std=gnu11",
        "-O1",
        "-Wall",
        "-Wextra",
        str(SOURCE),
        "-o",
        target,
        "-pthread",
    ]
    assert execute(command).returncode == 0
    return target


def check(stdout: str, stderr: str, threads: bool) -> None:
    """All programs have ended, and variants have served every nonblocking call."""
    said = stdout.splitlines()
    assert {*LEGAL, "passed"} <= set(said)
    assert ("threads" in said) == threads
    found = re.search(r"variants served (\d+) of (\d+) nonblocking calls", stdout + stderr)
    assert found and int(found[1]) > 30
    assert found[1] == found[2]


@pytest.mark.parametrize("threads", [False, True], ids=["single", "threads"])
@pytest.mark.parametrize("node_phase", some(NODE_PHASES))
def test_legal_programs_end(
    node_phase: str, threads: bool, built: Installation, launch: Launch, tmp_path: Path
) -> None:
    command = [compile_legal(str(built.library.mpicc), tmp_path), *["threads"] * threads]
    env = {**FORCED, "LD_PRELOAD": str(built.built.library_path)}
    env["COLLFORGE_FORCE"] = f"*=full_lane[node_phase={node_phase}]"
    done = launch(built.library.name, 4, command, env)
    assert done.returncode == 0, done.stdout + done.stderr
    if built.library.flavor == "openmpi":
        check(done.stdout, done.stderr, threads)
    else:
        assert "COLLFORGE_NONBLOCKING is ignored: this MPICH cannot call" in done.stderr
        assert "passed" in done.stdout


@pytest.mark.wide
@pytest.mark.parametrize("threads", [False, True], ids=["single", "threads"])
@pytest.mark.parametrize("mpi", ["openmpi5", "mpich5"])
def test_legal_programs_end_with_a_prefix(
    mpi: str, threads: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"COLLFORGE_MPI_{mpi.upper()}", str(PREFIXES / mpi))
    library = libraries.find(mpi)
    built = build.build(library, home())
    command = [compile_legal(str(library.mpicc), tmp_path), *["threads"] * threads]
    env = {**FORCED, "LD_PRELOAD": str(built.library_path)}
    env["COLLFORGE_FORCE"] = "*=full_lane[node_phase=shared]"
    words = ["env", *(f"{name}={value}" for name, value in env.items())]
    done = execute([*local_command(mpi, 4), *words, *command], timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    check(done.stdout, done.stderr, threads)


@pytest.mark.parametrize(("family", "layout"), some(PAIRS, 3))
def test_results_are_right(program: Program, family: str, layout: str) -> None:
    """Random calls, most of them nonblocking, with later, blocking and other requests in between."""
    if program.mpi != "openmpi":
        pytest.skip("MPICH 4.0.2 cannot call others when it makes progress")
    outcome = program.forced(everywhere(family, layout), "--nonblocking", "--calls=3000", "fuzz")
    assert outcome.passed(), outcome.text
