"""collforge_hybrid.h for Python: NumPy arrays that exist once per node, on mpi4py communicators.

    from mpi4py import MPI
    from collforge.hybrid import Hybrid

    with Hybrid(MPI.COMM_WORLD) as hybrid:
        vector = hybrid.alloc((hybrid.size, 1000))     # one per node; a view of the shared memory, no copy
        vector[hybrid.rank] = my_block
        hybrid.allgather(vector)

Needs mpi4py, and libcollforge.so for the MPI library that mpi4py runs with (``collforge build --mpi NAME``).
Methods are collective over the package as their C functions are, and raise mpi4py's ``MPI.Exception`` for an
error where the communicator's error handler lets the call return.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from mpi4py import MPI

from collforge.errors import CollforgeError
from collforge.home import home

Array = np.ndarray[Any, Any]


def _handle_type(of: type) -> Any:
    """The C type of an MPI handle: an int (MPICH) or a pointer (Open MPI)."""
    small = MPI._sizeof(of) == ctypes.sizeof(ctypes.c_int)
    return ctypes.c_int if small else ctypes.c_void_p


_NUMBERS = ("size", "rank", "nodes", "node", "node_size", "node_rank")


class _Package(ctypes.Structure):
    """struct collforge_hybrid."""

    _fields_ = [
        ("comm", _handle_type(MPI.Comm)),
        ("node_comm", _handle_type(MPI.Comm)),
        ("bridge_comm", _handle_type(MPI.Comm)),
        *((name, ctypes.c_int) for name in _NUMBERS),
        ("node_of", ctypes.POINTER(ctypes.c_int)),
        ("node_rank_of", ctypes.POINTER(ctypes.c_int)),
    ]


def find_library() -> Path:
    """libcollforge.so: the preloaded one, else that of ``collforge build`` for mpi4py's MPI library.

    Raises CollforgeError, which names the command that builds it, when there is none.
    """
    for preloaded in os.environ.get("LD_PRELOAD", "").replace(" ", ":").split(":"):
        if Path(preloaded).name == "libcollforge.so":
            return Path(preloaded)
    version = (
        MPI.Get_library_version().split("\0")[0].rstrip()
    )  # Open MPI 5's length includes the final NUL
    for built_with in sorted(home().glob("*/built-with")):
        path = built_with.with_name("libcollforge.so")
        if path.exists() and built_with.read_text(encoding="utf-8") == version:
            return path
    raise CollforgeError(
        f"no libcollforge.so below {home()} is for {version.splitlines()[0]}; "
        "run: collforge build --mpi NAME, or name the library"
    )


class Hybrid:
    """A package: node communicators of a communicator, and memory that exists once per node.

    ``numa``: the memory exists once per NUMA domain instead, for ranks that are each bound to one domain
    (collforge_hybrid_create_numa).
    """

    def __init__(
        self,
        comm: MPI.Intracomm,
        library: str | os.PathLike[str] | None = None,
        *,
        numa: bool = False,
    ) -> None:
        self._library = ctypes.CDLL(str(library or find_library()), mode=ctypes.RTLD_GLOBAL)
        self._package = ctypes.POINTER(_Package)()
        self._pieces: dict[int, int] = {}
        handle = _handle_type(MPI.Comm)(MPI._handleof(comm))
        self._call("create_numa" if numa else "create", handle, ctypes.byref(self._package))

    def _call(self, name: str, *arguments: Any) -> None:
        code = getattr(self._library, f"collforge_hybrid_{name}")(*arguments)
        if code != MPI.SUCCESS:
            raise MPI.Exception(code)

    def __enter__(self) -> Hybrid:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:  # after an exception, the other ranks may never call free
            self.free()

    def free(self) -> None:
        """Frees the package and its memory. Its arrays must not be used afterwards."""
        self._pieces.clear()
        self._call("free", ctypes.byref(self._package))

    def __getattr__(self, name: str) -> int:
        """size, rank, nodes, node, node_size and node_rank."""
        if name not in _NUMBERS or not self._package:
            raise AttributeError(name)
        return int(getattr(self._package.contents, name))

    @property
    def node_of(self) -> list[int]:
        """The node of every rank."""
        return list(self._package.contents.node_of[: self.size])

    @property
    def node_rank_of(self) -> list[int]:
        """The node rank of every rank: its rank among the ranks of its node."""
        return list(self._package.contents.node_rank_of[: self.size])

    # ---- memory --------------------------------------------------------------------------------

    def alloc(self, shape: int | Sequence[int], dtype: Any = float) -> Array:
        """An array that exists once per node; its contents are undefined."""
        kind = np.dtype(dtype)
        length = int(np.prod(shape)) * kind.itemsize
        address = ctypes.c_void_p()
        self._call("alloc", self._package, ctypes.c_ssize_t(length), ctypes.byref(address))
        memory = (ctypes.c_char * length).from_address(address.value or 0)
        array: Array = np.frombuffer(memory, dtype=kind).reshape(shape)
        self._pieces[array.ctypes.data] = address.value or 0
        return array

    def release(self, array: Array) -> None:
        """Frees an array of `alloc`; it must not be used afterwards. Waits for the node's ranks."""
        address = self._pieces.pop(array.ctypes.data, 0)
        self._call("release", self._package, ctypes.c_void_p(address))

    def sync(self) -> None:
        """The ranks of the node wait for each other. Each then sees all earlier stores of the others."""
        self._call("sync", self._package)

    def barrier(self) -> None:
        """As `sync`, for all ranks of the communicator."""
        self._call("barrier", self._package)

    # ---- collectives on arrays of alloc, or on contiguous parts of them ------------------------

    def bcast(self, array: Array, root: int = 0) -> None:
        """Copies the root's array to all nodes."""
        self._call("bcast", *_typed(array), root, self._package)

    def allgather(self, array: Array) -> None:
        """Copies every rank's own block to all nodes. The array has one block for each rank."""
        self._call("allgather", *_typed(array, self.size), self._package)

    def allgatherv(self, array: Array, counts: Sequence[int]) -> None:
        """As `allgather`; the block of rank r has ``counts[r]`` elements. There are no gaps between blocks."""
        address, _, datatype = _typed(array)
        if len(counts) != self.size or sum(counts) > array.size:
            raise ValueError(f"{len(counts)} counts of {sum(counts)} elements for {array.size}")
        self._call(
            "allgatherv", address, (ctypes.c_int * self.size)(*counts), datatype, self._package
        )

    def gather(self, array: Array, root: int = 0) -> None:
        """As `allgather`, to the root's node only."""
        self._call("gather", *_typed(array, self.size), root, self._package)

    def scatter(self, array: Array, root: int = 0) -> None:
        """Copies block r of the root's array to block r of the array on the node of rank r."""
        self._call("scatter", *_typed(array, self.size), root, self._package)

    def allreduce(self, own: Array, array: Array, op: MPI.Op = MPI.SUM) -> None:
        """Combines the ranks' arrays ``own`` into ``array`` on every node."""
        self._reduce("allreduce", own, array, 1, op)

    def reduce(self, own: Array, array: Array, op: MPI.Op = MPI.SUM, root: int = 0) -> None:
        """As `allreduce`, with the result on the root's node only."""
        self._reduce("reduce", own, array, 1, op, root)

    def reduce_scatter_block(self, own: Array, array: Array, op: MPI.Op = MPI.SUM) -> None:
        """Combines the ranks' arrays ``own``. Block r of the result goes to ``array`` on the node of rank r."""
        self._reduce("reduce_scatter_block", own, array, self.size, op)

    def _reduce(
        self, name: str, own: Array, array: Array, blocks: int, op: MPI.Op, *root: int
    ) -> None:
        if (own.size, own.dtype) != (array.size, array.dtype):
            raise ValueError(f"{own.dtype}[{own.size}] is combined to {array.dtype}[{array.size}]")
        source, _, _ = _typed(own)
        operation = _handle_type(MPI.Op)(MPI._handleof(op))
        self._call(name, source, *_typed(array, blocks), operation, *root, self._package)


def _typed(array: Array, blocks: int = 1) -> tuple[Any, int, Any]:
    """Address, elements per block and datatype of a contiguous array that holds ``blocks`` blocks."""
    if not array.flags.c_contiguous or array.size % blocks:
        raise ValueError(f"an array of shape {array.shape} is not {blocks} blocks without gaps")
    if not array.dtype.isnative:
        raise ValueError(f"an array of {array.dtype} has another byte order than this machine")
    datatype = MPI._typedict[array.dtype.char]
    handle = _handle_type(MPI.Datatype)(MPI._handleof(datatype))
    return ctypes.c_void_p(array.ctypes.data), array.size // blocks, handle
