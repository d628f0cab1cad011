"""COLLFORGE_REPRODUCIBLE: the bits of sums of doubles in vectors of many lengths, on both libraries."""

from __future__ import annotations

import itertools
import re

import pytest
from conftest import Installation, Launch
from hazards.build import compiled

from collforge.generator.expand import expand
from collforge.generator.load import load_specs
from collforge.generator.manifest import Manifest, VariantEntry
from collforge.generator.order import fixed_order

either = pytest.mark.either
NODES = {
    "3x2": "2",
    "1x6": "6",
    "6x1": "1",
    "12x1": "1",
    "cyclic:3x2": "map:0,1,2,0,1,2",
    "3+1+2": "3,1,2",
}


def bits(
    built: Installation, launch: Launch, layout: str, how: str = "", **variables: str
) -> tuple[dict[tuple[str, str], int], str]:
    """The differing elements for each communicator and collective, and the log."""
    env = {
        "LD_PRELOAD": str(built.built.library_path),
        "COLLFORGE_NODE_MAP": NODES[layout],
        "COLLFORGE_VERBOSE": "2",
        "COLLFORGE_REPRODUCIBLE": "1",
        **variables,
    }
    program = [str(compiled(built, "reproducible", "-lm")), how]
    done = launch(built.library.name, 12 if layout == "12x1" else 6, program, env)
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines()]
    return {(comm, name): int(count) for comm, name, count in rows}, done.stderr


def differing(found: dict[tuple[str, str], int]) -> set[tuple[str, str]]:
    return {key for key, count in found.items() if count}


@either
@pytest.mark.parametrize("layout", NODES)
def test_an_element_has_the_same_bits_in_vectors_of_any_length(
    built: Installation, launch: Launch, layout: str
) -> None:
    """Without a database, on MPI_COMM_WORLD, its columns and its pairs."""
    found, log = bits(built, launch, layout)
    assert not differing(found)
    assert "reductions in a fixed order" in log
    assert not re.search(r"(reduce|reduce_scatter|reduce_scatter_block|scan)@.* bytes: native", log)


def points(entry: VariantEntry) -> list[str]:
    """The points of a variant in a fixed order that differ in a word, not only in a number."""
    domains = [p.values if p.minimum is None else p.values[:1] for p in entry.parameters]
    names = [p.name for p in entry.parameters]
    rows = (entry.canonical(dict(zip(names, row))) for row in itertools.product(*domains))
    return list(dict.fromkeys(entry.name(point) for point in rows if entry.has_fixed_order(point)))


def forced(made: Manifest, family: str) -> list[str]:
    """COLLFORGE_FORCE for each point of a family, of all collectives together."""
    entries = [v for v in made.variants if v.family == family and v.fixed_order]
    rows = itertools.zip_longest(*([f"{v.collective}={p}" for p in points(v)] for v in entries))
    return [";".join(filter(None, row)) for row in rows]


FAMILIES = {v.family.name for v in expand(load_specs()) if fixed_order(v)} - {"hybrid"}


@either
@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_variants_that_state_a_fixed_order(
    built: Installation, made: Manifest, launch: Launch, family: str
) -> None:
    """Each is forced; the runtime takes it only if its order is fixed."""
    layout = {"shared_window": "1x6", "flat": "6x1"}.get(family, "3x2")
    assert forced(made, family)
    for force in forced(made, family):
        found, log = bits(built, launch, layout, COLLFORGE_FORCE=force)
        named = dict(text.split("=", 1) for text in force.split(";"))
        assert not {comm for comm, name in differing(found) if name in named} & {"world"}, force
        for name, variant in named.items():
            assert f"bytes: {variant}" in log or name.startswith("hybrid"), variant


@either
def test_the_sums_show_their_order(built: Installation, launch: Launch) -> None:
    """A ring's order depends on the part of the vector; the mode does not take it."""
    ring = "allreduce=full_lane[lane_algorithm=ring,node_phase=shared]"
    found, _ = bits(built, launch, "3x2", COLLFORGE_FORCE=ring, COLLFORGE_REPRODUCIBLE="0")
    assert found["world", "allreduce"] > 0
    found, log = bits(built, launch, "3x2", COLLFORGE_FORCE=ring)
    assert found["world", "allreduce"] == 0
    assert re.search(r"allreduce@.* bytes: full_lane\[.*lane_algorithm=recursive_doubling", log)


@either
@pytest.mark.parametrize("layout", ["12x1", "3x2"])
def test_an_op_that_does_not_commute(built: Installation, launch: Launch, layout: str) -> None:
    """On 12 ranks both libraries' own reductions change their order with the size."""
    found, _ = bits(built, launch, layout, "ordered", COLLFORGE_SPLIT_OPS="1")
    unserved = {"reduce_scatter", *(["reduce_scatter_block"] if layout == "12x1" else [])}
    assert {name for comm, name in differing(found) if comm == "world"} <= unserved


def test_where_shared_memory_cannot_be_had(mpi: str, built: Installation, launch: Launch) -> None:
    """Open MPI makes no windows with MPI_THREAD_MULTIPLE: a warning says that the mode does not hold."""
    found, log = bits(built, launch, "1x6", "threads")
    assert ("COLLFORGE_REPRODUCIBLE does not hold for" in log) == (mpi == "openmpi")
    assert bool(differing(found)) == (mpi == "openmpi")


@either
def test_native_can_be_forced(built: Installation, launch: Launch) -> None:
    _, log = bits(built, launch, "3x2", COLLFORGE_FORCE="allreduce=native")
    served = re.findall(r": allreduce@3x2, .* bytes: (\S+)", log)
    assert served and set(served) == {"native"}


@either
def test_beside_native_order(built: Installation, launch: Launch) -> None:
    _, log = bits(built, launch, "3x2", COLLFORGE_NATIVE_ORDER="1")
    assert "COLLFORGE_REPRODUCIBLE is ignored" in log
    assert "bytes: full_lane" not in log
