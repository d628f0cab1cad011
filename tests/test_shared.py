"""Collectives of a node through its shared-memory window: tests/c/shared.c."""

from __future__ import annotations

import re

import pytest
from stub_build import Build, make_build
from support import LIBRARIES, MEMORY_SANITIZERS, SEED

STEPS = 150
NO_WINDOWS = "under Open MPI a program at MPI_THREAD_MULTIPLE gets no windows (place/connect.c)"
# Ranks, node map, the rank without a window: one node, equal and unequal ones, cyclic, one rank each.
NODES = [(4, "4", 0), (4, "2", 3), (4, "3,1", 1), (6, "map:0,1,0,1,0,1", 1), (4, "1", 0)]
# The state of one communicator takes more than a kilobyte, so a leak of it exceeds this limit.
MOST_BYTES_PER_CYCLE = 16.0

either = pytest.mark.either
wide = pytest.mark.wide


@pytest.fixture(scope="module", params=LIBRARIES)
def build(request: pytest.FixtureRequest) -> Build:
    return make_build(str(request.param), "shared")


def run(build: Build, ranks: int, nodes: str, commands: str, **variables: str) -> list[str]:
    """Runs the program; returns its lines before the last one, which must report success."""
    # Otherwise UCX's madvise would interpose the program's.
    env = {"UCX_MEM_EVENTS": "no", **variables}
    return build.passes("shared", ranks, nodes, *commands.split(), **env).out[:-1]


@either
@pytest.mark.parametrize(("ranks", "nodes", "rank"), NODES, ids=[nodes for _, nodes, _ in NODES])
def test_collectives(build: Build, ranks: int, nodes: str, rank: int) -> None:
    """`refuse`: where one rank gets no window, no rank has one, and none hangs; the next one is served.

    `free`: freeing a communicator waits for nobody. `progress`: a waiting rank serves its messages, on
    transports where a long message makes progress only if the sender calls MPI.
    """
    transports = {"OMPI_MCA_btl_vader_single_copy_mechanism": "none", "UCX_TLS": "posix,self"}
    commands = f"random {SEED} {STEPS} , random {SEED + 1} {STEPS} , progress , free , ready 3"
    refused = 0
    if nodes != "1":
        refused = 3
        for what in ("room", "pages", "window"):
            commands = f"refuse {what} {rank} , {commands}"
    lines = run(build, ranks, nodes, commands, **transports)
    assert lines == ["ready 0"] * refused + ["ready 3 of 3"]


@either
def test_default_transports(build: Build) -> None:
    commands = f"random {SEED} {STEPS} , free , ready 3"
    done = build.passes("shared", 4, "3,1", *commands.split())
    assert done.out[:-1] == ["ready 3 of 3"]


@pytest.mark.parametrize(("ranks", "nodes"), [(4, "4"), pytest.param(4, "3,1", marks=wide)])
def test_collectives_of_several_threads(build: Build, ranks: int, nodes: str) -> None:
    if build.mpi == "openmpi":
        pytest.skip(NO_WINDOWS)
    run(build, ranks, nodes, f"threads {SEED} {STEPS}")


@wide
@pytest.mark.parametrize("mpi", LIBRARIES)
def test_under_address_and_undefined_behaviour_sanitizers(mpi: str) -> None:
    # Leaks at the end are those of the MPI libraries; another test counts the runtime's.
    options = "detect_leaks=0:verify_asan_link_order=0"
    sanitized = make_build(mpi, "shared", flags=MEMORY_SANITIZERS)
    launches = [f"refuse window 1 , random {SEED} 100 , free"]
    launches += [f"threads {SEED} 50"] if mpi == "mpich" else []  # NO_WINDOWS
    for commands in launches:
        run(sanitized, 5, "map:0,1,0,0,1", commands, ASAN_OPTIONS=options)


@either
@pytest.mark.parametrize(("ranks", "nodes"), [(3, "3"), (4, "3,1")])
def test_no_leak_in_a_thousand_communicators(build: Build, ranks: int, nodes: str) -> None:
    """They use the same shared-memory window, one after the other."""
    (line,) = run(build, ranks, nodes, "cycles 1000")
    found = re.fullmatch(r"cycles 1000 windows 1 bytes-per-cycle (-?[\d.]+)", line)
    assert found and float(found[1]) < MOST_BYTES_PER_CYCLE


@either
def test_no_more_windows_than_the_library_can_bear(build: Build) -> None:
    assert run(build, 2, "2", "ready 132") == ["ready 128 of 132"]
