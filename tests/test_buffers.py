"""Buffers of the program that a variant must treat as the MPI library does: read-only ones, unlike types."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from conftest import Installation, Launch
from hazards.build import compiled
from support import mostly_wide

TIME = 120
NODES = ["2", "3,1"]

BCASTS = [
    *("full_lane", "full_lane[node_phase=shared]"),
    "full_lane[lane_algorithm=chain,node_phase=shared,overlap=yes]",
    "full_lane[lane_algorithm=scatter_allgather]",
    "hierarchical[lane_algorithm=scatter_allgather,node_phase=shared]",
    "rank_shift[carrier=exchange]",
]
# These hand the root's buffer to a broadcast of the MPI library.
BCASTS_BY_MPI = [
    *("hierarchical", "shared_window", "rank_shift[carrier=nonblocking]"),
    "rank_shift[carrier=threads]",
]


def broadcast(built: Installation, launch: Launch, variant: str, nodes: str) -> None:
    program = compiled(built, "read_only")
    env = {
        "LD_PRELOAD": str(built.built.library_path),
        "COLLFORGE_NODE_MAP": nodes,
        "COLLFORGE_FORCE": f"bcast={variant}",
        "COLLFORGE_VERBOSE": "2",
    }
    done = launch(built.library.name, 4, [str(program)], env, timeout=TIME)
    assert (done.returncode, done.stdout) == (0, "passed\n"), done.stderr
    assert re.search(rf"bcast@.*: {re.escape(variant.split('[', maxsplit=1)[0])}\b", done.stderr)


@pytest.mark.either
@pytest.mark.parametrize("nodes", mostly_wide(NODES, "2"))
@pytest.mark.parametrize("variant", BCASTS)
def test_broadcasts_of_read_only_memory(
    built: Installation, launch: Launch, variant: str, nodes: str
) -> None:
    broadcast(built, launch, variant, nodes)


@pytest.mark.parametrize("mpi", ["openmpi"], indirect=True)
@pytest.mark.parametrize("nodes", mostly_wide(NODES, "3,1"))
@pytest.mark.parametrize("variant", BCASTS_BY_MPI)
def test_broadcasts_by_the_mpi_library_of_read_only_memory(
    built: Installation, launch: Launch, variant: str, nodes: str
) -> None:
    """MPICH's own broadcast stores into the root's buffer."""
    broadcast(built, launch, variant, nodes)


# Open MPI's own choice of an allgather, which also sees 32 ranks: from 512 bytes on another algorithm.
RULES = "1\n0\n1\n0\n2\n0 3 0 0\n512 4 0 0\n"


def test_an_allgather_in_place_of_unlike_types(
    built: Installation, launch: Launch, tmp_path: Path
) -> None:
    """Ranks of a lane once passed Open MPI sizes that differ, and it ran two algorithms at once."""
    if built.library.flavor != "openmpi":
        pytest.skip("only Open MPI reads rules")
    (tmp_path / "rules").write_text(RULES)
    program = compiled(built, "unlike_types")
    env = {
        "COLLFORGE_NODE_MAP": "2",
        "COLLFORGE_FORCE": "allgather=zero_copy",
        "OMPI_MCA_coll_tuned_use_dynamic_rules": "1",
        "OMPI_MCA_coll_tuned_dynamic_rules_filename": str(tmp_path / "rules"),
        "LD_PRELOAD": str(built.built.library_path),
    }
    done = launch(built.library.name, 8, [str(program), "2"], env, timeout=TIME)
    assert (done.returncode, done.stdout) == (0, "passed\n"), done.stderr
