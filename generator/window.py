"""A node's piece of shared memory, executed symbolically: what each rank may read and write, and when.

Collectives of collforge_hybrid.h work in such pieces. Between two syncs of the node a cell belongs to
whoever wrote it: no other rank may read or write it, unless to write the same, which each may read then; nor
may a cell be overwritten that another rank has read, or may still be reading from before the call. A rank
that others have waited for, but that has waited for nobody, may not use the piece at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from collforge.errors import CollforgeError

from .layout import Lanes

VIEWS = ("slice", "node_slice", "lane_slices", "share", "lane")
"""The parts of a piece that a step reads or writes as a whole (cells_of)."""

Cell = tuple[tuple[int, int], ...]


class RaceError(CollforgeError):
    """Two ranks of a node use one cell of their piece without a sync between."""


class Piece:
    """One node's piece of memory, cell by cell. All ranks of the node may be reading when the call begins."""

    def __init__(
        self, cells: int, ranks: Sequence[int], carriers: Sequence[int], root: int
    ) -> None:
        self.ranks, self.carriers, self.root = ranks, carriers, root
        self.cells: list[Cell | None] = [None] * cells
        self.writers: dict[int, set[int]] = {}
        self.readers: list[set[int]] = [set(ranks) for _ in range(cells)]
        self.stored: dict[int, int] = {}
        self.outside: set[int] = set()  # others go on without these ranks

    def store(self, rank: int, begin: int, cells: Iterable[Cell | None]) -> None:
        """What a rank has in the piece before the call, and may overwrite as soon as it has left."""
        for place, cell in enumerate(cells, begin):
            self.cells[place], self.writers[place], self.stored[place] = cell, {rank}, rank

    def may_read(self, rank: int, place: int) -> bool:
        return rank not in self.outside and rank in self.writers.get(place, {rank})

    def read(self, rank: int, places: Iterable[int]) -> list[Cell | None]:
        found = []
        for place in places:
            self._enter(rank)
            if not self.may_read(rank, place):
                raise RaceError(
                    f"rank {rank} reads what rank {min(self.writers[place])} has written"
                )
            self.readers[place].add(rank)
            found.append(self.cells[place])
        return found

    def write(self, rank: int, places: Iterable[int], cells: Iterable[Cell | None]) -> None:
        for place, cell in zip(places, cells):
            self._enter(rank)
            writers = self.writers.setdefault(place, set())
            others = self.readers[place] | (writers if cell != self.cells[place] else set())
            if others - {rank}:
                raise RaceError(f"rank {rank} writes what rank {min(others - {rank})} may use")
            self.cells[place] = cell
            writers.add(rank)

    def leave(self) -> None:
        """The end of the call."""
        for place, rank in self.stored.items():
            others = self.readers[place] - {rank}
            if others:
                raise RaceError(f"rank {rank} may overwrite what rank {min(others)} still reads")

    def _enter(self, rank: int) -> None:
        if rank in self.outside:
            raise RaceError(f"rank {rank} uses the piece, but has waited for nobody")

    def meet(self) -> None:
        """The carriers have waited for all: no rank is reading any more from before."""
        self.readers = [set() for _ in self.cells]
        self.outside = set(self.ranks) - set(self.carriers)

    def meet_all(self) -> None:
        """All have waited for all."""
        self.meet()
        self.outside = set()

    def sync(self) -> None:
        self.meet_all()
        self.writers = {}

    def await_root(self) -> None:
        """The carriers wait for the root; nobody knows of the others."""
        if self.root not in self.ranks:
            raise RaceError(f"carriers wait for rank {self.root}, which is on another node")
        for writers in self.writers.values():
            if self.root in writers:
                writers.update(self.carriers)

    def fan_in(self) -> None:
        """The carriers wait for all ranks."""
        self.meet()
        self.writers = {}

    def fan_out(self) -> None:
        """All ranks wait for the carriers, and so for whom these have waited for."""
        come = set(self.carriers)
        self.readers = [readers - come for readers in self.readers]
        self.writers = {
            place: writers - come for place, writers in self.writers.items() if writers - come
        }
        self.outside = set()


def cells_of(view: str, lanes: Lanes, lane: int, rank: int, each: int) -> list[int]:
    """The cells of a view, for the rank that carries a lane; none for a negative lane.

    ``each``: cells of a block; of a vector, one for each lane. A ``slice`` is this lane's cell of a vector.
    A ``node_slice`` is this lane's of the blocks of this node, which stand together, cut as one vector;
    ``lane_slices`` are those of all nodes. ``share`` and ``lane`` are the blocks of this node's ranks on
    the lane, and of all ranks on it.
    """
    at = lanes.layout
    if lane < 0:
        return []
    if view == "slice":
        return [lane]
    if view in ("share", "lane"):
        ranks = lanes.share(lane, at.node_of[rank]) if view == "share" else lanes.ranks(lane)
        return [each * r + cell for r in ranks for cell in range(each)]
    nodes = [at.node_of[rank]] if view == "node_slice" else list(range(at.nodes))
    found: list[int] = []
    for node in nodes:
        size = at.node_sizes[node]
        begin = each * at.ranks_on(node)[0] + size * lane
        found += range(begin, begin + size)
    return found


Key = tuple[int, str]


class SharedMemory(dict[Key, list["Cell | None"]]):
    """The buffers of all ranks by (rank, name); views of ``output`` are in the piece of the rank's node."""

    def __init__(self, pieces: Sequence[Piece], cells: Mapping[Key, list[int]]) -> None:
        super().__init__()
        self.pieces = pieces
        self.cells = cells  # those of the views; what is missing is a buffer of the rank's own
        self.piece_of = {rank: piece for piece in pieces for rank in piece.ranks}

    def store(self, rank: int, begin: int, cells: Iterable[Cell | None]) -> None:
        """What a rank has in its node's piece before the call."""
        self.piece_of[rank].store(rank, begin, cells)

    def __getitem__(self, key: Key) -> list[Cell | None]:
        places = self.cells.get(key)
        if places is None:
            return super().__getitem__(key)
        return self.piece_of[key[0]].read(key[0], places)

    def __setitem__(self, key: Key, value: list[Cell | None]) -> None:
        places = self.cells.get(key)
        if places is None:
            super().__setitem__(key, value)
        elif len(places) == len(value):
            self.piece_of[key[0]].write(key[0], places, value)
        else:
            raise RaceError(f"{len(value)} cells do not fit the {len(places)} of {key[1]}")

    def result(self, rank: int) -> list[Cell | None]:
        """The piece as a rank may read it after the call; None for what it may not."""
        piece = self.piece_of[rank]
        return [
            cell if piece.may_read(rank, place) else None for place, cell in enumerate(piece.cells)
        ]
