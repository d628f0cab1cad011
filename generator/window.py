"""A node's piece of shared memory, executed symbolically: what each rank may read and write, and when.

Collectives of collforge_hybrid.h work in such pieces. What a rank does there has happened before what another
one does only where that other has waited for it since, or for a third one that had. A rank may overwrite what
others have read, or were reading before the call, and read what others have written, only when all that has
happened before; ranks may write the same at any time, which each of them may read then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from collforge.errors import CollforgeError

from .lanes import Lanes
from .machine import Cell

VIEWS = ("slice", "node_slice", "lane_slices", "share", "lane")
"""The parts of a piece that a step reads or writes as a whole (cells_of)."""


class RaceError(CollforgeError):
    """Two ranks of a node use one cell of their piece, and neither has waited for the other."""


class Piece:
    """One node's piece of memory, cell by cell, which all its ranks may be reading when the call begins.

    Time goes by as in vector clocks (Mattern, 1989): every rank counts the times that others have waited for
    it, from 1 on, and knows of each other rank up to which of its times all has happened before; 0 is what it
    did before the call. ``members``: the node's ranks by the names that waits call them: "all" of them, its
    "carriers", and the "root" where it is one of them.
    """

    def __init__(self, cells: int, members: Mapping[str, Sequence[int]]) -> None:
        self.members = members
        ranks = members["all"]
        self.cells: list[Cell | None] = [None] * cells
        self.now = dict.fromkeys(ranks, 1)
        self.arrived = {rank: dict.fromkeys(ranks, -1) for rank in ranks}  # what is over
        self.seen = {rank: dict.fromkeys(ranks, -1) for rank in ranks}  # whose stores are visible
        self.reads = [dict.fromkeys(ranks, 0) for _ in range(cells)]
        self.writes: list[dict[int, int]] = [{} for _ in range(cells)]

    def store(self, rank: int, begin: int, cells: Iterable[Cell | None]) -> None:
        """What a rank has in the piece before the call."""
        for place, cell in enumerate(cells, begin):
            self.cells[place], self.writes[place] = cell, {rank: 1}

    def may_read(self, rank: int, place: int) -> bool:
        writes = self.writes[place]
        return rank in writes or not _unknown(writes, self.seen[rank])

    def read(self, rank: int, places: Iterable[int]) -> list[Cell | None]:
        found = []
        for place in places:
            if not self.may_read(rank, place):
                raise RaceError(
                    f"rank {rank} reads what rank {min(self.writes[place])} has written"
                )
            self.reads[place][rank] = self.now[rank]
            found.append(self.cells[place])
        return found

    def write(self, rank: int, places: Iterable[int], cells: Iterable[Cell | None]) -> None:
        for place, cell in zip(places, cells):
            others = _unknown(self.reads[place], self.arrived[rank])
            if cell != self.cells[place]:
                others |= _unknown(self.writes[place], self.seen[rank])
                self.writes[place] = {}
            if others - {rank}:
                raise RaceError(f"rank {rank} writes what rank {min(others - {rank})} may use")
            self.cells[place] = cell
            self.writes[place][rank] = self.now[rank]

    def wait(self, ranks: str, awaited: str, sees: bool = True) -> None:
        """These members wait until those have come; and see what they, and whom they knew of, have written."""
        if not self.members[ranks] or not self.members[awaited]:
            raise RaceError(f"{ranks} wait for {awaited}: the root is on another node")
        for knows in (self.arrived, self.seen) if sees else (self.arrived,):
            told = [{**knows[one], one: self.now[one]} for one in self.members[awaited]]
            for rank in self.members[ranks]:
                for other in self.members["all"]:
                    knows[rank][other] = max([knows[rank][other], *(one[other] for one in told)])
        for one in self.members[awaited]:
            self.now[one] += 1

    def leave(self, meets: bool) -> None:
        """The end of the call: whoever has left may overwrite what was read and written in it.

        ``meets``: each rank has also waited until all others had come, as in a sync.
        """
        for rank, known in self.arrived.items():
            unmet = {other for other, time in known.items() if time < 0} - {rank}
            if meets and unmet:
                raise RaceError(f"rank {rank} may leave before rank {min(unmet)} has come")
            for reads in self.reads:
                others = {other for other in _unknown(reads, known) if reads[other] > 0} - {rank}
                if others:
                    raise RaceError(
                        f"rank {rank} may overwrite what rank {min(others)} still reads"
                    )
            for writes in self.writes:
                others = _unknown(writes, known) - {rank}
                if others:
                    raise RaceError(
                        f"rank {rank} may lose what it stores to rank {min(others)}, which still writes"
                    )


def _unknown(times: Mapping[int, int], known: Mapping[int, int]) -> set[int]:
    """The ranks that did something at these times of which a rank does not know."""
    return {rank for rank, time in times.items() if time > known[rank]}


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
        self.piece_of = {rank: piece for piece in pieces for rank in piece.members["all"]}

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
