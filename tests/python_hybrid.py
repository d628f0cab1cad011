"""Tests collforge.hybrid on several ranks; run by tests/test_hybrid_calls.py."""

from __future__ import annotations

import sys

import numpy as np
from mpi4py import MPI

from collforge.hybrid import Hybrid

world = MPI.COMM_WORLD
rank, size = world.rank, world.size


def blocks(hybrid: Hybrid) -> None:
    array = hybrid.alloc((size, 1000))
    array[rank] = rank
    hybrid.allgather(array)
    assert (array == np.arange(size)[:, None]).all()
    hybrid.sync()
    array[rank] = -rank
    hybrid.gather(array, root=size - 1)
    if hybrid.node_of[size - 1] == hybrid.node:
        assert (array == -np.arange(size)[:, None]).all()
    hybrid.barrier()
    if rank == 0:
        array[:] = 3 * np.arange(size)[:, None]
    hybrid.scatter(array)
    assert (array[rank] == 3 * rank).all()
    hybrid.release(array)


def vectors(hybrid: Hybrid) -> None:
    vector = hybrid.alloc(100, np.int32)
    for root in range(size):
        hybrid.sync()
        if rank == root:
            vector[:] = np.arange(100) + root
        hybrid.bcast(vector, root)
        assert (vector == np.arange(100) + root).all()
    own = np.full(100, rank + 1, np.int32)
    hybrid.allreduce(own, vector)
    assert (vector == size * (size + 1) // 2).all()
    hybrid.reduce(own, vector, MPI.MAX, root=0)
    if hybrid.node_of[0] == hybrid.node:
        assert (vector == size).all()


def others(hybrid: Hybrid) -> None:
    counts = [3 * r for r in range(size)]
    array = hybrid.alloc(sum(counts) + 1)
    begin = sum(counts[:rank])
    array[begin : begin + counts[rank]] = rank
    hybrid.allgatherv(array, counts)
    assert (array[:-1] == np.repeat(np.arange(size), counts)).all()
    total = hybrid.alloc((size, 7))
    hybrid.reduce_scatter_block(np.full((size, 7), float(rank)), total)
    assert (total[rank] == sum(range(size))).all()


def errors(hybrid: Hybrid) -> None:
    array = hybrid.alloc((size, 2))
    swapped = array.view(array.dtype.newbyteorder())
    for wrong in (
        lambda: hybrid.allgather(array[:, 0]),
        lambda: hybrid.allgatherv(array, [1]),
        lambda: hybrid.allreduce(swapped, swapped),
    ):
        try:
            wrong()
        except ValueError:
            continue
        raise AssertionError("is refused")
    try:
        hybrid.bcast(np.zeros(3))
    except MPI.Exception as error:
        assert error.Get_error_class() == MPI.ERR_BUFFER
    else:
        raise AssertionError("is in no piece")


with Hybrid(world) as package:
    assert (package.size, package.rank) == (size, rank)
    for check in (blocks, vectors, others, errors):
        check(package)
if rank == 0:
    print("passed")
sys.stdout.flush()
