"""Layouts (the node of each rank of a communicator) and their names, as cf_layout_name (runtime/src)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, repeat
from typing import Optional

from collforge.errors import CollforgeError


class LayoutError(CollforgeError):
    """A layout's name cannot be read."""


@dataclass(frozen=True)
class Layout:
    """``node_of[rank]`` is the node of a rank. Nodes are numbered by first appearance.

    ``threads``: how many threads of a process may be inside MPI at once. ``job``: the layout of a job that is
    divided into communicators of this layout, which all call at once, such as the rows of a grid; None: the
    communicator has the nodes to itself. Both are regular then, and the job's nodes, and its ranks on each,
    are multiples of these. ``sockets``: how the ranks of each node lie on its sockets, one of `SOCKETS`; "":
    as the launcher has it.
    """

    node_of: tuple[int, ...]
    threads: int = 1
    job: Optional[Layout] = None  # noqa: UP045 (msgspec evaluates it, on Python 3.9, too)
    sockets: str = ""

    @property
    def size(self) -> int:
        return len(self.node_of)

    @property
    def nodes(self) -> int:
        return max(self.node_of) + 1

    def ranks_on(self, node: int) -> list[int]:
        return [rank for rank, at in enumerate(self.node_of) if at == node]

    def node_rank(self, rank: int) -> int:
        return self.node_of[:rank].count(self.node_of[rank])

    @property
    def node_sizes(self) -> list[int]:
        found = Counter(self.node_of)
        return [found[node] for node in range(len(found))]

    @property
    def consecutive(self) -> bool:
        """Whether every node holds an interval of ranks."""
        return list(self.node_of) == sorted(self.node_of)

    @property
    def even(self) -> bool:
        """Whether all nodes have the same size."""
        return len(set(self.node_sizes)) == 1

    @property
    def regular(self) -> bool:
        """Whether the layout is consecutive and all nodes have the same size."""
        return self.consecutive and self.even

    @property
    def alone(self) -> Layout:
        """The same layout of a communicator that has the nodes to itself."""
        return replace(self, job=None)

    @property
    def launched(self) -> Layout:
        """The layout of the whole job."""
        return replace(self.job or self, threads=self.threads, sockets=self.sockets)

    @property
    def sharing(self) -> int:
        """How many communicators that call at once have ranks on the same node."""
        return self.job.node_sizes[0] // self.node_sizes[0] if self.job else 1

    def facts(self) -> dict[str, int]:
        """The uniform facts of the layout that predicates may read."""
        sizes = self.node_sizes
        return {
            "size": self.size,
            "nodes": self.nodes,
            "min_node_size": min(sizes),
            "max_node_size": max(sizes),
            "consecutive": self.consecutive,
            "threads": self.threads,
        }

    @property
    def name(self) -> str:
        """The canonical name: ``4x2``, ``3+1``, ``cyclic:2x3`` or ``map:0.1.1.0``; with threads ``4x2x8``.

        ``4x2-packed`` and ``4x2-cyclic`` tell how the ranks lie on the sockets.
        ``4x2/4x1`` is a job of layout 4x2, divided into communicators of layout 4x1. A name that would be too
        long is ``map#`` and a hash; `from_name` cannot read it.
        """
        threads = f"x{self.threads}" if self.threads > 1 else ""
        return self.key + threads + (f"-{self.sockets}" if self.sockets else "")

    @property
    def key(self) -> str:
        """The name without the threads and the sockets."""
        return f"{self.job.placement}/{self.placement}" if self.job else self.placement

    @property
    def placement(self) -> str:
        """The name without the threads, the sockets and the job."""
        sizes = self.node_sizes
        regular = f"{self.nodes}x{sizes[0]}"
        if self.regular:
            return regular
        if self.node_of == from_name(f"cyclic:{regular}").node_of:
            return f"cyclic:{regular}"
        blocks, spelled = "+".join(map(str, sizes)), ".".join(map(str, self.node_of))
        if self.consecutive and len(blocks) <= _LONGEST:
            return blocks
        if self.size <= _SPELLED_RANKS and len(spelled) <= _LONGEST:
            return f"map:{spelled}"
        return f"map#{_fnv1a(spelled):016x}"

    @property
    def node_map(self) -> str:
        """The value of COLLFORGE_NODE_MAP that pretends this layout."""
        return "map:" + ",".join(map(str, self.node_of))


def from_nodes(labels: Sequence[int], threads: int = 1) -> Layout:
    """The layout in which rank r is on the node called ``labels[r]``."""
    numbers: dict[int, int] = {}
    return Layout(tuple(numbers.setdefault(label, len(numbers)) for label in labels), threads)


PACKED, CYCLIC = "packed", "cyclic"
SOCKETS = (PACKED, CYCLIC)
"""Packed: consecutive ranks of a node share a socket, as far as it has cores. Cyclic: each is on another socket
than the one before."""

_LONGEST = 263 - len("map:x2147483647-packed") - 2
"""The most characters of the spelled part of a name (CF_LAYOUT_NAME_SIZE in C, which adds two final NULs)."""
MOST_RANKS = 1 << 20
"""Of a layout that is named; names come from files of strangers, too."""
MOST_NAMED = 4 * MOST_RANKS
"""Of all layouts in a file."""
_SPELLED_RANKS = 64


def _fnv1a(text: str) -> int:
    """64-bit FNV-1a."""
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


_NUMBER = r"[1-9]\d{0,4}"
_NAME = re.compile(
    rf"(?:(?P<cyclic>cyclic:)?(?P<nodes>{_NUMBER})x(?P<ranks>{_NUMBER})"
    rf"|(?P<sizes>{_NUMBER}(\+{_NUMBER})+)|map:(?P<map>\d{{1,5}}(\.\d{{1,5}})*))"
    rf"(?:x(?P<threads>{_NUMBER}))?(?:-(?P<sockets>{'|'.join(SOCKETS)}))?"
)


def from_name(name: str) -> Layout:
    """Reads a layout's name. Raises LayoutError, which lists the valid forms, for anything else."""
    job, divided, part = name.rpartition("/")
    if divided:
        return _divided(name, from_name(job), from_name(part))
    read = _NAME.fullmatch(name)
    if not read:
        raise LayoutError(
            f"layout {name!r} is not one of NODESxRANKS (4x2), SIZE+SIZE+... (3+1), "
            "cyclic:NODESxRANKS (cyclic:2x3) or map:NODE.NODE... (map:0.1.1.0), with xTHREADS (4x2x8), "
            "then -packed or -cyclic for ranks on sockets (4x8-cyclic), behind, or JOB/PART (4x2/4x1) is a job "
            "that is divided into communicators which all call at once"
        )
    at = replace(_placement(read), threads=int(read["threads"] or 1), sockets=read["sockets"] or "")
    if at.sockets and max(at.node_sizes) == 1:
        raise LayoutError(f"layout {name!r}: a node with one rank has none to place on sockets")
    return at


def _placement(read: re.Match[str]) -> Layout:
    """The layout of a matched name, without what is behind."""
    if read["map"]:
        return from_nodes([int(node) for node in read["map"].split(".")])
    sizes = _sizes(read)
    if read["cyclic"]:
        return Layout(tuple(range(len(sizes))) * sizes[0])
    return Layout(tuple(chain.from_iterable(repeat(node, size) for node, size in enumerate(sizes))))


def _sizes(read: re.Match[str]) -> list[int]:
    """Of the nodes of a matched name that is no map. Raises LayoutError for too many ranks."""
    if read["sizes"]:
        sizes = [int(size) for size in read["sizes"].split("+")]
    else:
        sizes = [int(read["ranks"])] * int(read["nodes"])
    if sum(sizes) > MOST_RANKS:
        raise LayoutError(f"layout {read[0]!r} has more than {MOST_RANKS} ranks")
    return sizes


def check_names(names: Iterable[str]) -> None:
    """Raises LayoutError if these names together have so many ranks that reading them takes seconds.

    For files of strangers. Names that `from_name` refuses count nothing.
    """
    ranks = 0
    for part in {part for name in names for part in name.split("/")}:
        read = _NAME.fullmatch(part)
        if read and not read["map"]:
            with suppress(LayoutError):
                ranks += sum(_sizes(read))
    if ranks > MOST_NAMED:
        raise LayoutError(f"its layouts have {ranks} ranks together, more than {MOST_NAMED}")


def _divided(name: str, job: Layout, part: Layout) -> Layout:
    """Raises LayoutError if such parts do not fill the job."""
    fits = (
        job.regular
        and part.regular
        and not job.job
        and job.threads == 1
        and not job.sockets
        and job.nodes % part.nodes == 0
        and job.node_sizes[0] % part.node_sizes[0] == 0
    )
    if not fits or job.size == part.size:
        raise LayoutError(
            f"layout {name!r}: a job NODESxRANKS is divided into parts NODESxRANKS whose nodes, and whose "
            "ranks on each, are divisors of the job's, as in 4x2/4x1"
        )
    return replace(part, job=job)
