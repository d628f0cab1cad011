"""Packages of collforge_hybrid.h: tests/c/hybrid.c on several placements."""

from __future__ import annotations

import re

import pytest
from stub_build import Build, make_build
from support import LIBRARIES, MEMORY_SANITIZERS, SEED

pytestmark = pytest.mark.either
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


@each_nodes
def test_packages(build: Build, ranks: int, nodes: str) -> None:
    """`full`: every node's leader prints how much memory there is; all ranks get an error and can continue.

    `unbound`: without bound ranks a domain is a node. `order`: flags under random delays.
    """
    commands = f"tables , memory , errors , unbound , order {SEED} {STEPS}"
    commands += f" , full {MORE_THAN_ANY_NODE_HAS}"
    done = build.passes("hybrid", ranks, nodes, *commands.split())
    asked = (
        rf"{MORE_THAN_ANY_NODE_HAS} bytes of shared memory are asked for on node \d+, which has \d+"
    )
    assert [line for line in done.log if re.search(asked, line)]


def test_real_nodes(build: Build) -> None:
    """The package finds the nodes itself, without pretended nodes or winners."""
    build.passes("hybrid", 3, "", "tables", ",", "memory")


@each_nodes
def test_domains_in_the_place_of_nodes(build: Build, ranks: int, nodes: str) -> None:
    """Ranks are bound to cores 0 and 1 in turn; for hwloc, each core is a NUMA domain."""
    build.passes("hybrid", ranks, nodes, "domains", HWLOC_SYNTHETIC="numa:2 core:1 pu:1")


@pytest.mark.either
def test_no_leak_in_packages(build: Build) -> None:
    done = build.passes("hybrid", 3, "2,1", "cycles", 2000)
    found = re.fullmatch(r"bytes-per-cycle (-?[\d.]+)", done.out[0])
    assert found and float(found[1]) < MOST_BYTES_PER_CYCLE


@pytest.mark.wide
@pytest.mark.either
@pytest.mark.parametrize("mpi", LIBRARIES)
def test_under_address_and_undefined_behaviour_sanitizers(mpi: str) -> None:
    commands = f"tables , memory , order {SEED} 200 , errors , cycles 20"
    options = "detect_leaks=0:verify_asan_link_order=0"  # another test counts leaks
    sanitized = make_build(mpi, "hybrid", flags=MEMORY_SANITIZERS)
    sanitized.passes("hybrid", 5, "map:0,1,0,0,1", *commands.split(), ASAN_OPTIONS=options)
