"""Nonblocking collectives by variants (COLLFORGE_NONBLOCKING): legal programs end, and results are right."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from conftest import Installation, Launch, some
from stored_winners import store_winners
from support import PREFIXES, TOP, execute
from test_conformance import PAIRS, Program, everywhere, program

from collforge.generator.manifest import Manifest
from collforge.home import home
from collforge.reframe_checks.mpirun import local_command
from collforge.toolchain import build, libraries
from collforge.tuner.cli import main

__all__ = ["program"]
PROGRAMS = TOP / "tests" / "c"
FORTRAN = TOP / "tests" / "fortran"
NODE_PHASES = ("shared", "native")
FORCED = {"COLLFORGE_NONBLOCKING": "1", "COLLFORGE_NODE_MAP": "2", "COLLFORGE_VERBOSE": "1"}
LEGAL = (
    "blocked in a receive",
    "start, then send",
    "other collectives",
    "opposite orders",
    "all kinds of requests",
    "many at once",
    "large counts",
    "an op with room",
    "short ones",
    "freed early",
)
SERVED = r"variants served (\d+) of \1 nonblocking calls"
PERSISTENT = (
    "any order",
    "beside messages",
    "freed early",
    "freed under way",
    "errors",
    "illegal",
    "many",
)


def compile_legal(mpicc: str, folder: Path, way: str) -> str:
    name = way if way == "persistent" else "nonblocking"
    target = str(folder / name)
    command = [
        mpicc,
        "-std=gnu11",
        "-O1",
        "-Wall",
        "-Wextra",
        str(PROGRAMS / f"{name}.c"),
        "-o",
        target,
        "-pthread",
    ]
    assert execute(command).returncode == 0
    return target


WAYS = ("single", "threads", "computes", "persistent")


def words(way: str, folder: Path) -> list[str]:
    """Arguments of the program."""
    own = {"threads": ["threads"], "computes": ["computes", str(folder / "file")]}
    return own.get(way, [])


def variables(way: str, flavor: str, node_phase: str, library: Path) -> dict[str, str]:
    """A thread makes progress where a rank computes, and in MPICH 4.0.2, which calls nobody."""
    alone = flavor == "mpich" and way != "single"
    threads = "thread" if alone or way == "computes" else ""
    force = f"*=full_lane[node_phase={node_phase}]"
    own = {"LD_PRELOAD": str(library), "COLLFORGE_FORCE": force, "COLLFORGE_PROGRESS": threads}
    return FORCED | own


def check(stdout: str, stderr: str, way: str) -> None:
    """All programs have ended, and variants have served every nonblocking call that is legal."""
    said = stdout.splitlines()
    assert {*(PERSISTENT if way == "persistent" else LEGAL), "passed"} <= set(said)
    assert all((name in said) == (name == way) for name in ("threads", "computes"))
    found = re.search(r"variants served (\d+) of (\d+) nonblocking calls", stdout + stderr)
    assert found and int(found[1]) > 30
    illegal = 2 if way == "persistent" else 0
    assert int(found[1]) + illegal == int(found[2])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("node_phase", some(NODE_PHASES))
def test_legal_programs_end(
    node_phase: str, way: str, built: Installation, launch: Launch, tmp_path: Path
) -> None:
    command = [compile_legal(str(built.library.mpicc), tmp_path, way), *words(way, tmp_path)]
    flavor = built.library.flavor
    env = variables(way, flavor, node_phase, built.built.library_path)
    done = launch(built.library.name, 4, command, env)
    assert done.returncode == 0, done.stdout + done.stderr
    if flavor == "openmpi" or way != "single":
        check(done.stdout, done.stderr, way)
    else:
        assert "COLLFORGE_NONBLOCKING is ignored: this MPICH cannot call" in done.stderr
        assert "passed" in done.stdout


def served_with(
    winners: Sequence[Mapping[str, Mapping[str, str]]],
    way: str,
    at: tuple[Installation, Manifest, Launch, Path],
    *more: str,
) -> list[int]:
    """The nonblocking calls that variants served in a legal program, with each of these databases."""
    built, made, launch, folder = at
    command = [compile_legal(str(built.library.mpicc), folder, way), *words(way, folder), *more]
    env = variables(way, built.library.flavor, "native", built.built.library_path)
    del env["COLLFORGE_FORCE"]
    served = []
    for number, stored in enumerate(winners):
        path = store_winners(folder / f"{number}.db", made, built.library, stored)
        own = {"COLLFORGE_DB": str(path), "COLLFORGE_SYSTEM": "here", "COLLFORGE_GUARD": "0"}
        done = launch(built.library.name, 4, command, env | own)
        assert done.returncode == 0, done.stdout + done.stderr
        found = re.search(SERVED, done.stdout + done.stderr)
        served.append(int(found[1]) if found else 0)
    return served


@pytest.mark.either
def test_winners_of_its_own(
    built: Installation, made: Manifest, launch: Launch, tmp_path: Path
) -> None:
    """A nonblocking form has its own winners near their size, native too, else those of its collective."""
    served = served_with(
        (
            {"2x2": {"allreduce": "full_lane"}},
            {"2x2": {"iallreduce": "full_lane"}},
            {"2x2": {"allreduce": "full_lane", "iallreduce": "native"}},
            {"2x2": {"allreduce": "native", "iallreduce": "full_lane"}},
            {"~2x2": {"iallreduce": "full_lane"}},  # the map has them, too
            {"2x2": {"allreduce": "full_lane"}, "~2x2": {"iallreduce": "native"}},  # is farther
            # It needs a communicator that no other variant here does.
            {"2x2": {"alltoall": "direct"}},
        ),
        "threads",
        (built, made, launch, tmp_path),
    )
    every, near, *_, other = served  # near: the calls near the stored size
    assert 0 < near < every
    assert served == [every, near, every - near, near, near, every, other]
    assert other > 0


@pytest.mark.either
def test_persistent_requests_have_no_expected_winners_of_their_own(
    built: Installation, made: Manifest, launch: Launch, tmp_path: Path
) -> None:
    """No trial could drop one. They follow the map of the blocking collective."""
    served = served_with(
        (
            {"~2x2": {"iallreduce": "full_lane"}},
            {"~2x2": {"allreduce": "full_lane"}},
            {"2x2": {"iallreduce": "full_lane"}},
        ),
        "persistent",
        (built, made, launch, tmp_path),
        "many",
    )
    expected, of_blocking, measured = served
    assert expected == 0 < measured <= of_blocking


@pytest.mark.wide
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mpi", ["openmpi5", "mpich5"])
def test_legal_programs_end_with_a_prefix(
    mpi: str, way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"COLLFORGE_MPI_{mpi.upper()}", str(PREFIXES / mpi))
    library = libraries.find(mpi)
    built = build.build(library, home())
    command = [compile_legal(str(library.mpicc), tmp_path, way), *words(way, tmp_path)]
    env = variables(way, mpi, "shared", built.library_path)
    own = ["env", *(f"{name}={value}" for name, value in env.items())]
    done = execute([*local_command(mpi, 4), *own, *command], timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    check(done.stdout, done.stderr, way)


@pytest.mark.parametrize("interface", some((3, 1, 2)))
def test_ranks_in_fortran_and_in_c(
    interface: int, built: Installation, launch: Launch, tmp_path: Path
) -> None:
    """If native served one language and a variant the other, the collective would hang."""
    mpi, program, helper = built.library.name, str(tmp_path / "program"), str(tmp_path / "c.o")
    assert (
        execute([f"mpicc.{mpi}", "-c", "-o", helper, f"{FORTRAN}/nonblocking_c.c"]).returncode == 0
    )
    command = [f"mpif90.{mpi}", "-w", "-fallow-argument-mismatch", "-ffree-line-length-none"]
    command += [f"-DINTERFACE={interface}", f"-I{FORTRAN}", f"{FORTRAN}/nonblocking.F90", helper]
    assert execute([*command, "-o", program], cwd=tmp_path).returncode == 0
    env = {**FORCED, "LD_PRELOAD": str(built.built.library_path), "COLLFORGE_FORCE": "*=full_lane"}
    done = launch(mpi, 4, [program], env)
    assert done.stdout == "done\n"
    served = "served 5 of 5 nonblocking calls" in done.stderr
    assert served == (built.library.flavor == "openmpi")


@pytest.mark.parametrize(("family", "layout"), some(PAIRS, 3))
def test_results_are_right(program: Program, family: str, layout: str) -> None:
    """Random calls, most of them nonblocking, with later, blocking and other requests in between."""
    outcome = program.forced(everywhere(family, layout), "--nonblocking", "--calls=3000", "fuzz")
    assert outcome.passed(), outcome.text


@pytest.mark.wide
def test_the_probe(
    built: Installation, made: Manifest, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    families = {"bcast": "full_lane", "allgather": "full_lane"}
    path = store_winners(tmp_path / "db", made, built.library, {"2x2": families}, "local")
    words = ["probe", "nonblocking", "--system", "local", "--layout", "2x2", "--launches", "1"]
    words += ["--mpi", built.library.name, "--rounds", "2", "--sizes", "1KiB"]
    json_file = tmp_path / "json"
    assert main.main([*words, "--db", str(path), "--json", str(json_file)]) == 0
    rows = json.loads(json_file.read_text())["rows"]
    assert {row["collective"] for row in rows} >= {"bcast", "allgather", "reduce_scatter"}
    assert {row["bytes"] for row in rows} == {1024, 256}
    ways = ("native", "native_started", "winner")
    assert all(row[way]["ratio"] > 0 for row in rows for way in ways)
    assert main.main([*words, "--db", str(path), "--layout", "3x2"]) == main.USER_ERROR
    assert "no winners of this build for 3x2" in capsys.readouterr().err
