"""The program that records which of Open MPI's algorithms ran (runtime/bench/programs), and its output.

`ompi_info` lists the algorithms of coll/tuned by number and title. The program sees the functions that run.
The table below maps titles to functions; tests force every algorithm and check which function runs.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from collforge.toolchain.build import RUNTIME

SOURCE = RUNTIME / "bench" / "programs" / "which_algorithm.c"
# The program must export its functions, so that they interpose the library's.
FLAGS = ("-std=c11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror", "-Wl,--export-dynamic")

FUNCTIONS = {
    "allgather": {
        "linear": "intra_basic_linear",
        "bruck": "intra_bruck",
        "recursive_doubling": "intra_recursivedoubling",
        "ring": "intra_ring",
        "neighbor": "intra_neighborexchange",
        "two_proc": "intra_two_procs",
        "sparbit": "intra_sparbit",
        "direct-messaging": "intra_direct_messaging",
        "k_bruck": "intra_k_bruck",
    },
    "allreduce": {
        "basic_linear": "intra_basic_linear",
        "nonoverlapping": "intra_nonoverlapping",
        "recursive_doubling": "intra_recursivedoubling",
        "ring": "intra_ring",
        "segmented_ring": "intra_ring_segmented",
        "rabenseifner": "intra_redscat_allgather",
        "allgather_reduce": "intra_allgather_reduce",
    },
    "alltoall": {
        "linear": "intra_basic_linear",
        "pairwise": "intra_pairwise",
        "modified_bruck": "intra_bruck",
        "linear_sync": "intra_linear_sync",
        "two_proc": "intra_two_procs",
    },
    "bcast": {
        "basic_linear": "intra_basic_linear",
        "chain": "intra_chain",
        "pipeline": "intra_pipeline",
        "split_binary_tree": "intra_split_bintree",
        "binary_tree": "intra_bintree",
        "binomial": "intra_binomial",
        "knomial": "intra_knomial",
        "scatter_allgather": "intra_scatter_allgather",
        "scatter_allgather_ring": "intra_scatter_allgather_ring",
    },
    "exscan": {"linear": "intra_linear", "recursive_doubling": "intra_recursivedoubling"},
    "reduce": {
        "linear": "intra_basic_linear",
        "chain": "intra_chain",
        "pipeline": "intra_pipeline",
        "binary": "intra_binary",
        "binomial": "intra_binomial",
        "in-order_binary": "intra_in_order_binary",
        "rabenseifner": "intra_redscat_gather",
        "knomial": "intra_knomial",
    },
    "reduce_scatter_block": {
        "basic_linear": "basic_linear",
        "recursive_doubling": "intra_recursivedoubling",
        "recursive_halving": "intra_recursivehalving",
        "butterfly": "intra_butterfly",
    },
    "scan": {"linear": "intra_linear", "recursive_doubling": "intra_recursivedoubling"},
}
"""Collective -> title -> function, without ompi_coll_base_ and the collective's name."""


@dataclass(frozen=True)
class Entered:
    """The algorithms that ran in one call; functions without ompi_coll_base_ and the collective's name."""

    first: str
    """The first algorithm; '' if none of coll/tuned's ran on the program's communicator."""
    then: str
    """The algorithm to which the first delegated the call, or ''."""
    elsewhere: int
    """The number of algorithms that ran on other communicators."""
    same: bool
    """Whether all ranks ran the same algorithms."""
    failed: bool
    """Whether MPI returned an error."""


def compile_command(mpicc: str, out: Path) -> list[str]:
    """The command that compiles the program to this file."""
    return [mpicc, *FLAGS, "-o", str(out), str(SOURCE), "-ldl"]


def read(text: str) -> dict[tuple[str, int], Entered]:
    """The output of a launch by (collective, bytes); if it ended early, the complete lines of it."""
    found = {}
    for line in text.splitlines():
        try:
            one = json.loads(line)
        except ValueError:
            break
        if "collective" not in one:
            continue
        collective = one["collective"]
        first, then = (_short(collective, one[key]) for key in ("first", "then"))
        found[collective, int(one["bytes"])] = Entered(
            first, then, int(one["elsewhere"]), bool(one["same"]), bool(one["failed"])
        )
    return found


def title(collective: str, function: str) -> str:
    """The title in ompi_info of the algorithm with this function; the function's name if there is none."""
    known = FUNCTIONS.get(collective, {}).items()
    return next((name for name, of_it in known if of_it == function), function)


def _short(collective: str, name: str) -> str:
    prefix = f"{collective}_"
    return name[len(prefix) :] if name.startswith(prefix) else name
