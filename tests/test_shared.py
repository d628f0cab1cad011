"""Collectives of a node through its shared-memory window: tests/c/shared.c under both MPI libraries."""

from __future__ import annotations

import re

import pytest
from stub_build import LIBRARIES, Build, make_build
from support import MEMORY_SANITIZERS, SEED

STEPS = 300
NO_WINDOWS = "under Open MPI a program at MPI_THREAD_MULTIPLE gets no windows (place/connect.c)"
# Ranks and node map: one node, unequal nodes, not consecutive, one rank per node.
NODES = [(4, "4"), (4, "3,1"), (6, "map:0,1,0,1,0,1"), (4, "1")]
# The state of one communicator takes more than a kilobyte, so a leak of it exceeds this limit.
MOST_BYTES_PER_CYCLE = 16.0

each_nodes = pytest.mark.parametrize(("ranks", "nodes"), NODES, ids=[text for _, text in NODES])


@pytest.fixture(scope="module", params=LIBRARIES)
def build(request: pytest.FixtureRequest) -> Build:
    return make_build(str(request.param), "shared")


@pytest.fixture(scope="module", params=LIBRARIES)
def sanitized(request: pytest.FixtureRequest) -> Build:
    return make_build(str(request.param), "shared", flags=MEMORY_SANITIZERS)


def run(build: Build, ranks: int, nodes: str, *words: str | int, **variables: str) -> list[str]:
    """Runs the program; returns its lines before the last one, which must report success."""
    return build.passes("shared", ranks, nodes, *words, **variables).out[:-1]


@pytest.mark.parametrize("seed", [SEED, SEED + 1])
@each_nodes
def test_collectives(build: Build, ranks: int, nodes: str, seed: int) -> None:
    run(build, ranks, nodes, "random", seed, STEPS)


@pytest.mark.parametrize(("ranks", "nodes"), [(4, "4"), (4, "3,1")])
def test_collectives_of_several_threads(build: Build, ranks: int, nodes: str) -> None:
    if build.mpi == "openmpi":
        pytest.skip(NO_WINDOWS)
    run(build, ranks, nodes, "threads", SEED, STEPS)


def test_under_address_and_undefined_behaviour_sanitizers(sanitized: Build) -> None:
    # Leaks at the end are those of the MPI libraries; another test counts the runtime's.
    options = "detect_leaks=0:verify_asan_link_order=0"
    for words in (("random", SEED, 100), ("threads", SEED, 50), ("refuse", "window", 1), ("free",)):
        if words[0] == "threads" and sanitized.mpi == "openmpi":
            continue  # NO_WINDOWS
        run(sanitized, 5, "map:0,1,0,0,1", *words, ASAN_OPTIONS=options)


@each_nodes
def test_a_waiting_rank_serves_its_messages(build: Build, ranks: int, nodes: str) -> None:
    """On transports where a long message makes progress only if the sender calls MPI."""
    transports = {"OMPI_MCA_btl_vader_single_copy_mechanism": "none", "UCX_TLS": "posix,self"}
    run(build, ranks, nodes, "progress", **transports)


@pytest.mark.parametrize(("ranks", "nodes"), [(3, "3"), (4, "3,1")])
def test_no_leak_in_a_thousand_communicators(build: Build, ranks: int, nodes: str) -> None:
    """They use the same shared-memory window, one after the other."""
    (line,) = run(build, ranks, nodes, "cycles", 1000)
    found = re.fullmatch(r"cycles 1000 windows 1 bytes-per-cycle (-?[\d.]+)", line)
    assert found and float(found[1]) < MOST_BYTES_PER_CYCLE


@each_nodes
def test_freeing_a_communicator_waits_for_nobody(build: Build, ranks: int, nodes: str) -> None:
    run(build, ranks, nodes, "free")


@each_nodes
def test_ready_on_every_node(build: Build, ranks: int, nodes: str) -> None:
    assert run(build, ranks, nodes, "ready", 3) == ["ready 3 of 3"]


def test_no_more_windows_than_the_library_can_bear(build: Build) -> None:
    assert run(build, 2, "2", "ready", 132) == ["ready 128 of 132"]


@pytest.mark.parametrize("what", ["room", "pages", "window"])
@pytest.mark.parametrize(("nodes", "rank"), [("4", 0), ("2", 3), ("3,1", 1)])
def test_one_rank_gets_no_window(build: Build, what: str, nodes: str, rank: int) -> None:
    """Then no rank of any node has a shared-memory window, and no rank hangs; the next communicator has one."""
    # Otherwise UCX's madvise would interpose the program's.
    lines = run(build, 4, nodes, "refuse", what, rank, UCX_MEM_EVENTS="no")
    assert lines == ["ready 0"]
