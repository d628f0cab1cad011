"""Detects races in a node's shared memory during symbolic execution.

Collectives of collforge_hybrid.h work in such a piece of memory. An access by rank A happens before an access
by rank B only if B has since waited for A, directly or through other ranks. A rank may overwrite a cell only
if all reads by other ranks happened before, including reads under way when the call begins. A rank may read a
cell only if the write of another rank happened before. Ranks may write the same value to a cell at any time;
each of them may then read it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from collforge.errors import CollforgeError

from .lanes import Lanes
from .machine import Cell

VIEWS = ("slice", "node_slice", "lane_slices", "share", "lane")
"""The kinds of views: parts of a node's shared memory that a step reads or writes as a whole (cells_of)."""


class RaceError(CollforgeError):
    """Two ranks of a node use one cell of their shared memory, and neither has waited for the other."""


class Piece:
    """One node's piece of shared memory, cell by cell. All its ranks may be reading it when the call begins.

    Time is kept by vector clocks (Mattern, 1989). A rank's clock starts at 1 and counts the waits of others for
    it; time 0 is before the call. For each other rank, a rank knows up to which time its accesses happened
    before. ``members``: the node's ranks by the names that waits use: "all", "carriers", and "root", which is
    empty if the root is on another node.
    """

    def __init__(self, cells: int, members: Mapping[str, Sequence[int]]) -> None:
        self.members = members
        ranks = members["all"]
        self.cells: list[Cell | None] = [None] * cells
        self.now = dict.fromkeys(ranks, 1)
        self.arrived = {
            rank: dict.fromkeys(ranks, -1) for rank in ranks
        }  # latest time known to be over
        self.seen = {
            rank: dict.fromkeys(ranks, -1) for rank in ranks
        }  # latest time whose stores are visible
        self.reads = [dict.fromkeys(ranks, 0) for _ in range(cells)]
        self.writes: list[dict[int, int]] = [{} for _ in range(cells)]

    def store(self, rank: int, begin: int, cells: Iterable[Cell | None]) -> None:
        """Sets cells that a rank stored before the call."""
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
        """The members ``ranks`` wait for the members ``awaited``.

        ``sees``: they then see the stores of those members, and the stores that those members could see.
        """
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
        """The end of the call. Raises RaceError if others may still use what a rank overwrites after leaving.

        ``meets``: each rank must also have waited until all others entered, as in a sync.
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
    """The ranks whose accesses at ``times`` are not known to have happened before."""
    return {rank for rank, time in times.items() if time > known[rank]}


def cells_of(view: str, lanes: Lanes, lane: int, rank: int, each: int) -> list[int]:
    """The indices of a view's cells, for the rank that carries a lane; none for a negative lane.

    ``each``: the cells of a block, or of a vector, which has one for each lane. Views: ``slice``: this lane's
    cell of a vector. ``node_slice``: this lane's cells of the node's blocks, which are contiguous and cut as
    one vector. ``lane_slices``: the node_slices of all nodes. ``share``: the blocks of this node's ranks on
    the lane. ``lane``: the blocks of all ranks on the lane.
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
    """The buffers of all ranks by (rank, name). Views of ``output`` are in the node's shared memory."""

    def __init__(self, pieces: Sequence[Piece], cells: Mapping[Key, list[int]]) -> None:
        super().__init__()
        self.pieces = pieces
        self.cells = (
            cells  # cells of each view; a buffer that is missing here is private to its rank
        )
        self.piece_of = {rank: piece for piece in pieces for rank in piece.members["all"]}

    def store(self, rank: int, begin: int, cells: Iterable[Cell | None]) -> None:
        """Sets cells of the node's shared memory that a rank stored before the call."""
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
        """The cells that a rank may read after the call; None for a cell that it may not read."""
        piece = self.piece_of[rank]
        return [
            cell if piece.may_read(rank, place) else None for place, cell in enumerate(piece.cells)
        ]
