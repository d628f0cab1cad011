"""Errors in the middle of a collective: no request under way may access the call's memory afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Installation, Launch
from hazards.build import compiled
from support import mostly_wide

# Ranks 0 and 1 share a node; 2 and 3 are alone on theirs, so they only use a lane. The root is rank 2.
NODES = "2,1,1"
WINDOW = "segment_bytes=262144,window=8"
CASES = {
    "chain, sends": ("bcast", f"chain,{WINDOW}", 2, "Isend", 4),
    "chain, receives": ("bcast", f"chain,{WINDOW}", 3, "Irecv", 4),
    "chain of partial results": ("reduce", f"chain,{WINDOW}", 2, "Irecv", 3),
    "chain of prefixes": ("exscan", f"chain,{WINDOW}", 3, "Irecv", 4),
    "tree, sends": ("bcast", "binomial", 2, "Isend", 2),
    "tree of blocks, sends": ("scatter", "binomial", 2, "Isend", 2),
    "tree of blocks, receives": ("gather", "binomial", 2, "Irecv", 2),
    "ring": ("allreduce", f"ring,{WINDOW}", 2, "Isend", 2),
    "ring, receives": ("allreduce", f"ring,{WINDOW}", 2, "Irecv", 4),
    "exchange": ("alltoall", f"pairwise,{WINDOW}", 2, "Isend", 3),
    "two ranks": ("allreduce", "recursive_doubling", 2, "Isend", 1),
    "groups of ranks": ("allreduce", "recursive_doubling,radix=3", 2, "Isend", 2),
    "digits of distances": ("allgather", "bruck,radix=3", 2, "Isend", 2),
    "stretches of a circle": ("allreduce", "circulant", 2, "Isend", 2),
    "halves of parts": ("allreduce", "bine", 2, "Isend", 2),
}


# One of each algorithm, and of sends and receives.
FAST = ["chain, sends", "chain of prefixes", "tree, sends"]
FAST += ["ring, receives", "exchange", "digits of distances"]


@pytest.mark.either
@pytest.mark.parametrize("case", mostly_wide(CASES, *FAST))
def test_an_error_leaves_nothing_under_way(
    built: Installation, launch: Launch, tmp_path: Path, case: str
) -> None:
    collective, algorithm, rank, function, n = CASES[case]
    program = compiled(built, "pending", "-rdynamic", "-ldl")
    env = {
        "LD_PRELOAD": str(built.built.library_path),
        "COLLFORGE_NODE_MAP": NODES,
        "COLLFORGE_FORCE": f"{collective}=hierarchical[lane_algorithm={algorithm}]",
        # Freed temporaries are unmapped, so an access to them crashes.
        "MALLOC_MMAP_THRESHOLD_": "65536",
    }
    said = tmp_path / "said"
    words = [str(program), collective, str(rank), function, str(n), str(said)]
    launch(built.library.name, 4, words, env, timeout=60)
    assert said.read_text() == "passed"
