"""Jobs in which some ranks lack the library or have another build, and communicators of two worlds."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from conftest import Installation
from hazards.build import compiled
from support import OPENMPI_SPAWN, execute, launch_groups, run_native

TIME = 120
either = pytest.mark.either
FORCED = {
    "COLLFORGE_NODE_MAP": "2",
    "COLLFORGE_FORCE": "*=full_lane",
    "COLLFORGE_START_TIMEOUT": "20",  # PMIx waits a second for a missing key
}


def with_library(built: Installation, library: Path | None = None) -> dict[str, str]:
    return {**FORCED, "LD_PRELOAD": str(library or built.built.library_path)}


def said(done: subprocess.CompletedProcess[str]) -> list[str]:
    return [line for line in done.stderr.splitlines() if line.startswith("collforge: ")]


def run(
    built: Installation, groups: Sequence[tuple[int, Mapping[str, str]]], *words: str
) -> subprocess.CompletedProcess[str]:
    program = compiled(built, "mixed")
    done = launch_groups(built.library.name, groups, [str(program), *words], timeout=TIME)
    assert (done.returncode, done.stdout) == (0, "passed\n"), done.stderr
    return done


@either
@pytest.mark.parametrize("having", ["110111", "011111", "000110", "101010", "000001"])
def test_some_ranks_lack_the_library(built: Installation, having: str) -> None:
    """One line, and every call runs native: ranks without the library must get no message from the others."""
    groups = [(1, with_library(built) if has == "1" else {}) for has in having]
    lines = said(run(built, groups))
    assert len(lines) <= 1
    if having != "000110":
        assert lines == [
            "collforge: warning: some ranks of the job run without libcollforge.so; native collectives"
        ]


@either
@pytest.mark.emulated
def test_a_node_lacks_the_file(built: Installation) -> None:
    """Across nodes the ranks learn it from the launcher; if all nodes have the library, winners run."""
    program, library = compiled(built, "mixed"), built.built.library_path
    # The cluster's own preload must stay: without it MPICH sometimes hangs in MPI_Finalize.
    preload = f"LD_PRELOAD=$LD_PRELOAD:{library} COLLFORGE_FORCE='*=full_lane' COLLFORGE_VERBOSE=2"
    for lacking, expected in (("nowhere", "bcast@3x2"), ("node1", "run without libcollforge.so")):
        script = f"[ $(hostname) = {lacking} ] || export {preload}; exec {program}"
        cluster = ["cluster", "run", "--mpi", built.library.name, "--layout", "3x2"]
        cluster += ["--timeout", "60"]
        command = [sys.executable, "-m", "collforge", *cluster, "--", "sh", "-c", script]
        done = execute(command, timeout=TIME)
        assert done.returncode == 0
        assert "passed" in done.stdout
        assert expected in done.stdout + done.stderr


@pytest.mark.parametrize("words", [[], ["signals"]], ids=["quiet", "signals"])
def test_all_ranks_have_it(built: Installation, words: list[str]) -> None:
    """A signal in the middle of a launcher's answer must not leave a part of the answer unread."""
    groups = [(6, {**with_library(built), "COLLFORGE_VERBOSE": "2"})]
    assert any("bcast@3x2" in line for line in said(run(built, groups, *words)))


@pytest.mark.parametrize("child", ["without", "other winners"])
def test_two_worlds_in_one_communicator(built: Installation, child: str) -> None:
    """The children's world has no library, or other winners: common communicators run native."""
    mpi = built.library.name
    program = str(compiled(built, "spawned"))
    if mpi == "mpich" and run_native(mpi, 4, [program, program]).returncode != 0:
        pytest.skip("Debian's MPICH cannot spawn")
    own = {"COLLFORGE_FORCE": "*=hierarchical", "COLLFORGE_NODE_MAP": "1"}
    changed = {"LD_PRELOAD": ""} if child == "without" else own
    words = [program, *(f"{name}={value}" for name, value in changed.items()), program]
    groups = [(4, with_library(built))]
    done = launch_groups(mpi, groups, words, openmpi=OPENMPI_SPAWN, timeout=TIME)
    assert (done.returncode, done.stdout) == (0, "passed\n"), done.stderr
    assert not said(done)


def test_without_a_board(built: Installation) -> None:
    """The launcher's key-value store is missing: native on all, unless the user vouches for all ranks."""
    if built.library.name != "mpich":
        pytest.skip("Hydra can be told to offer another way than the one that is known")
    program = str(compiled(built, "mixed"))
    vouched = {**with_library(built), "COLLFORGE_START_TIMEOUT": "3", "COLLFORGE_VERBOSE": "2"}
    plain = {name: value for name, value in vouched.items() if "TIMEOUT" not in name}
    jobs = {
        "all have it": [(4, plain)],
        "two have it": [(2, plain), (2, {})],
        "all, as said": [(4, vouched)],
        "two, though all were said": [(2, vouched), (2, {})],
    }
    done = {
        name: launch_groups("mpich", groups, [program], "-pmi-port", timeout=TIME)
        for name, groups in jobs.items()
    }
    ended = {name: (one.returncode == 0, one.stdout == "passed\n") for name, one in done.items()}
    assert ended == {
        **dict.fromkeys(jobs, (True, True)),
        "two, though all were said": (False, False),
    }
    log = {name: "\n".join(said(one)) for name, one in done.items()}
    for name in ("all have it", "two have it"):
        assert log[name].count("this launcher does not tell") == 1
        assert "full_lane" not in log[name]
    assert "full_lane" in log["all, as said"]
    assert "preload it on all nodes, or on none" in log["two, though all were said"]
