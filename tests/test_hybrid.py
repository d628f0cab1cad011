"""Packages of collforge_hybrid.h: tests/c/hybrid.c under both MPI libraries, on several placements."""

from __future__ import annotations

import re

import pytest
from stub_build import LIBRARIES, Build, Output, make_build
from support import MEMORY_SANITIZERS, SEED

STEPS = 2000
# Ranks and node map: one node, unequal nodes, not consecutive, one rank per node.
NODES = [(4, "4"), (4, "3,1"), (6, "map:0,1,0,1,0,1"), (4, "1"), (1, "1")]
# The state of one package takes more than a kilobyte, so a leak of it exceeds this limit.
MOST_BYTES_PER_CYCLE = 16.0
MORE_THAN_ANY_NODE_HAS = 2**60

each_nodes = pytest.mark.parametrize(("ranks", "nodes"), NODES, ids=[f"{r}-{t}" for r, t in NODES])


@pytest.fixture(scope="module", params=LIBRARIES)
def build(request: pytest.FixtureRequest) -> Build:
    return make_build(str(request.param), "hybrid")


@pytest.fixture(scope="module", params=LIBRARIES)
def sanitized(request: pytest.FixtureRequest) -> Build:
    return make_build(str(request.param), "hybrid", flags=MEMORY_SANITIZERS)


def run(build: Build, ranks: int, nodes: str, *words: str | int, **variables: str) -> Output:
    """Runs the program, which must report success in its last line; returns its output."""
    return build.passes("hybrid", ranks, nodes, *words, **variables)


@pytest.mark.parametrize("command", ["tables", "memory", "errors"])
@each_nodes
def test_package(build: Build, ranks: int, nodes: str, command: str) -> None:
    run(build, ranks, nodes, command)


@pytest.mark.parametrize("command", ["tables", "memory"])
def test_real_nodes(build: Build, command: str) -> None:
    """The package finds the nodes itself, without pretended nodes or winners."""
    run(build, 3, "", command)


@each_nodes
def test_domains_in_the_place_of_nodes(build: Build, ranks: int, nodes: str) -> None:
    """Ranks are bound to cores 0 and 1 in turn; for hwloc, each core is a NUMA domain."""
    run(build, ranks, nodes, "domains", HWLOC_SYNTHETIC="numa:2 core:1 pu:1")


@each_nodes
def test_without_bound_ranks_a_domain_is_a_node(build: Build, ranks: int, nodes: str) -> None:
    run(build, ranks, nodes, "unbound")


@each_nodes
def test_order_of_flags_under_random_delays(build: Build, ranks: int, nodes: str) -> None:
    run(build, ranks, nodes, "order", SEED, STEPS)


@each_nodes
def test_more_memory_than_there_is(build: Build, ranks: int, nodes: str) -> None:
    """Every node's leader prints how much memory there is; all ranks get an error and can continue."""
    done = run(build, ranks, nodes, "full", MORE_THAN_ANY_NODE_HAS)
    asked = (
        rf"{MORE_THAN_ANY_NODE_HAS} bytes of shared memory are asked for on node \d+, which has \d+"
    )
    assert [line for line in done.log if re.search(asked, line)]


def test_no_leak_in_packages(build: Build) -> None:
    done = run(build, 3, "2,1", "cycles", 2000)
    found = re.fullmatch(r"bytes-per-cycle (-?[\d.]+)", done.out[0])
    assert found and float(found[1]) < MOST_BYTES_PER_CYCLE


def test_under_address_and_undefined_behaviour_sanitizers(sanitized: Build) -> None:
    options = "detect_leaks=0:verify_asan_link_order=0"  # another test counts leaks
    for words in (("tables",), ("memory",), ("order", SEED, 200), ("errors",), ("cycles", 20)):
        run(sanitized, 5, "map:0,1,0,0,1", *words, ASAN_OPTIONS=options)
