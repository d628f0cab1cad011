"""What the steps of a composition mean, executed symbolically: the proof that comes before any C.

Every rank's buffer is a list of cells; a cell is the sequence of contributions (rank, index) that were
combined into it. A composition is right when each output cell holds exactly the contributions that the
collective's definition asks for, in rank order wherever the placement promises it. The same execution
on 2 x 2 ranks is the worked example in the generated C.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Optional

from collforge.errors import CollforgeError
from collforge.layout import Layout

from .lanes import Lanes
from .model import Collective, Composition, Family, Step
from .window import Cell, Piece, SharedMemory, cells_of

Cells = list[Optional[Cell]]  # None: undefined (exscan on the first rank)


class ProofError(CollforgeError):
    """A composition does not compute its collective; the message names the step, layout, root, rank."""


class Machine:
    """All ranks of one layout, seen through a family's lanes. Leaders share the root's node rank.

    ``most_lanes``: of a full-lane family, 0: all.
    """

    def __init__(
        self,
        layout: Layout,
        lanes: str,
        collective: Collective,
        root: int,
        commutative: bool = True,
        most_lanes: int = 0,
    ) -> None:
        self.layout = layout
        self.collective = collective
        self.root = root
        self.commutative = commutative
        smallest = min(layout.node_sizes)
        self.lanes = Lanes(layout, min(most_lanes or smallest, smallest) if lanes == "full" else 1)
        root_rank = layout.node_rank(root)
        self.leader = root_rank if collective.rooted and root_rank < smallest else 0
        self.full = lanes == "full"
        # A vector is cut into one cell a lane; a block stays whole, unless its node's are cut together.
        vector = not collective.has_blocks and not collective.moves_nothing
        self.cells = self.lanes.k if vector or collective.hybrid else 1

    def carrier(self, rank: int) -> bool:
        node_rank = self.layout.node_rank(rank)
        return node_rank < self.lanes.k if self.full else node_rank == self.leader

    def lane(self, rank: int) -> int:
        return self.layout.node_rank(rank) if self.full else 0

    def groups(self, over: str) -> list[list[int]]:
        """The members of each communicator: a node's ranks, a lane's carriers in node order, or all ranks."""
        nodes = [self.layout.ranks_on(node) for node in range(self.layout.nodes)]
        if over == "node":
            return nodes
        if over == "all":
            return [list(range(self.layout.size))]
        carriers = [[rank for rank in node if self.carrier(rank)] for node in nodes]
        return [list(lane) for lane in zip(*carriers)]

    def member(self, group: Sequence[int], name: str) -> int:
        """The rank called root, leader or root_node in a group, else -1."""
        if name == "root":
            return self.root if self.root in group else -1
        if name == "root_node":
            place = self.layout.node_of[self.root]
            return next(rank for rank in group if self.layout.node_of[rank] == place)
        return group[self.leader]

    def facts(self, rank: int) -> dict[str, int]:
        return {
            "node": self.layout.node_of[rank],
            "nodes": self.layout.nodes,
            "node_rank": self.layout.node_rank(rank),
            "rank": rank,
            "root": self.root,
            "root_node": self.layout.node_of[self.root],
            "carrier": self.carrier(rank),
            "consecutive": self.layout.facts()["consecutive"],
            "commutative": self.commutative,
        }

    def blocks(self, ranks: Sequence[int]) -> int:
        """The cells of one block of each of these ranks."""
        return len(ranks) * self.cells

    def split(self, name: str, group: Sequence[int], me: int) -> tuple[list[int], list[int]]:
        """Cells that ``me`` sends to and receives from each member; they differ for all-to-alls only."""
        at, lanes = self.layout, self.lanes
        if name in ("blocks", "ranks"):
            return [1] * len(group), [1] * len(group)
        if name in ("rows", "columns"):
            return [at.size] * len(group), [at.size] * len(group)
        if name == "slices":
            counts = [1 if q < lanes.k else 0 for q in range(len(group))]
            return counts, counts
        if name == "lanes":
            counts = [self.blocks(lanes.ranks(q)) if q < lanes.k else 0 for q in range(len(group))]
            return counts, [counts[group.index(me)]] * len(group)
        lane, sizes = self.lane(me), at.node_sizes
        if name == "lane_slices":
            return sizes, sizes
        shares = [self.blocks(lanes.share(lane, node)) for node in range(at.nodes)]
        if name == "shares":
            return shares, shares
        mine = at.node_of[me]
        return [sizes[mine] * share for share in shares], [size * shares[mine] for size in sizes]

    def shape(self, shape: str, rank: int) -> int:
        """The cells that a buffer of this shape has room for on a rank."""
        at, carries = self.layout, self.carrier(rank)
        on_lane = self.blocks(self.lanes.ranks(self.lane(rank))) if carries else 0
        share = self.blocks(self.lanes.share(self.lane(rank), at.node_of[rank])) if carries else 0
        return {
            "vector": self.cells,
            "slice": 1 if carries else 0,
            "share": share,
            "lane": on_lane,
            "all": self.blocks(range(at.size)),
            "outgoing": at.node_sizes[at.node_of[rank]] * on_lane,
            "incoming": at.size * share,
        }[shape]


# The shapes of temporaries: the C variable that holds their units (see Machine.shape for the cells).
SHAPES: dict[str, str] = {
    "vector": "block",
    "slice": "slices.counts[at->node_rank]",
    "share": "share_units",
    "lane": "lane_units",
    "all": "all_units",
    "outgoing": "outgoing_units",
    "incoming": "incoming_units",
}


def combine(parts: Sequence[Cells]) -> Cells:
    """Cells combined elementwise, in the order given."""
    out: Cells = []
    for cells in zip(*parts):
        out.append(tuple(c for cell in cells for c in (cell or ())) or None)
    return out


def cut(cells: Cells, counts: Sequence[int]) -> list[Cells]:
    if len(cells) != sum(counts):
        raise ProofError(f"{len(cells)} cells cannot be split into {list(counts)}")
    parts, begin = [], 0
    for count in counts:
        parts.append(cells[begin : begin + count])
        begin += count
    return parts


def join(parts: Sequence[Cells]) -> Cells:
    return [cell for part in parts for cell in part]


@dataclass(frozen=True)
class Trace:
    """The buffers after one step: ``after[rank]`` is the written buffer, where it was written."""

    step: Step | None
    buffer: str
    after: dict[int, Cells]


Memory = dict[tuple[int, str], Cells]


def execute(composition: Composition, family: Family, machine: Machine) -> Iterator[Trace]:
    """Runs a composition on every rank at once and yields the buffers after each step.

    Raises ProofError when a step reads what was never written, when ranks of one communicator disagree
    on whether it runs, or when a buffer overflows its shape; RaceError for what window.py forbids.
    """
    collective, layout = machine.collective, machine.layout
    inputs = _inputs(machine)
    memory: Memory = {(rank, "input"): cells for rank, cells in inputs.items()}
    if collective.hybrid:
        memory = _share(machine, family, inputs)
    elif collective.single_buffer:
        memory.update({(rank, "output"): list(cells) for rank, cells in inputs.items()})
    yield Trace(None, "input", inputs)
    for step in composition.steps:
        written = _apply(machine, step, memory)
        for rank, cells in written.items():
            shape = family.buffers.get(step.writes)
            if shape and len(cells) > machine.shape(shape, rank):
                raise ProofError(f"{step.writes} holds {len(cells)} cells on rank {rank}: too many")
            memory[rank, step.writes] = cells
        if isinstance(memory, SharedMemory):
            _meet(machine, step, memory)
        yield Trace(step, step.writes, written)
    if isinstance(memory, SharedMemory):
        for piece in memory.pieces:
            piece.leave(meets=len(inputs) == layout.size)
        yield Trace(None, "output", {rank: memory.result(rank) for rank in range(layout.size)})


def _inputs(machine: Machine) -> dict[int, Cells]:
    """What each rank contributes, of those that do."""
    inputs: dict[int, Cells] = {}
    for rank in range(machine.layout.size):
        places = {"rank": rank, "root": machine.root, "size": machine.layout.size}
        blocks = int(machine.collective.result.in_blocks.evaluate(places))
        if blocks:
            inputs[rank] = [((rank, cell),) for cell in range(blocks * machine.cells)]
    return inputs


def _share(machine: Machine, family: Family, inputs: Mapping[int, Cells]) -> SharedMemory:
    """The memory of a hybrid collective: a single buffer has the inputs at their places of it."""
    layout, collective = machine.layout, machine.collective
    blocks = layout.size if collective.has_blocks else 1
    pieces = []
    for ranks in machine.groups("node"):
        members = {
            "all": ranks,
            "carriers": [rank for rank in ranks if machine.carrier(rank)],
            "root": [rank for rank in ranks if rank == machine.root],
        }
        pieces.append(Piece(blocks * machine.cells, members))
    views: dict[tuple[int, str], list[int]] = {}
    for rank in range(layout.size):
        views[rank, "output"] = list(range(blocks * machine.cells))
        lane = machine.lane(rank) if machine.carrier(rank) else -1
        for name, view in family.views.items():
            views[rank, name] = cells_of(view, machine.lanes, lane, rank, machine.cells)
    memory = SharedMemory(pieces, views)
    for rank, cells in inputs.items():
        memory[rank, "input"] = cells
        if collective.single_buffer:
            places = {"rank": rank, "root": machine.root, "size": layout.size}
            begin = int(collective.result.in_place_block.evaluate(places)) * machine.cells
            memory.store(rank, begin, cells)
    return memory


def _runs(machine: Machine, step: Step, rank: int) -> bool:
    return step.where is None or bool(step.where.evaluate(machine.facts(rank)))


def _apply(machine: Machine, step: Step, memory: Memory) -> dict[int, Cells]:
    def read(rank: int, name: str = "") -> Cells:
        try:
            return memory[rank, name or step.reads]
        except KeyError:
            raise ProofError(f"rank {rank} reads {step.reads}, which it never got") from None

    def runs(rank: int) -> bool:
        return _runs(machine, step, rank)

    size = machine.layout.size
    if step.call == "permute":
        return _permute(machine, step, memory, runs(0))
    if step.call == "exchange":
        return {r: [read(source)[r] for source in range(size)] for r in range(size)}
    if step.call in _LOCAL:
        apply_local = _LOCAL[step.call]
        return {r: apply_local(machine, step, r, read) for r in range(size) if runs(r)}
    written: dict[int, Cells] = {}
    for group in machine.groups(step.get("over") or "node"):
        taking_part = {runs(rank) for rank in group}
        if len(taking_part) > 1:
            raise ProofError(
                f"ranks {group} disagree on {step.call} where {step.where}: a deadlock"
            )
        if taking_part == {True}:
            written.update(_GROUP[step.call](machine, step, group, read))
    return written


Read = Callable[..., Cells]

# Reductions of a node in which ranks wait for others, whose stores need not be seen then; what such a step
# writes it may write before it has waited. (Who gets no part waits for nobody.)
_ARRIVALS = {"reduce_scatter": ("carriers", "all"), "allreduce": ("all", "all")}


def _meet(m: Machine, step: Step, memory: SharedMemory) -> None:
    waits = step.call == "wait"
    if not waits and (step.call not in _ARRIVALS or step["over"] == "lane"):
        return
    ranks, awaited = (step["ranks"], step["for"]) if waits else _ARRIVALS[step.call]
    for piece in memory.pieces:
        if _runs(m, step, piece.members["all"][0]):
            piece.wait(ranks, awaited, sees=waits)


def _permute(m: Machine, step: Step, memory: Memory, moves: bool) -> dict[int, Cells]:
    """The data of rank v to the v-th rank in the order of the nodes, or back."""
    order = Lanes(m.layout, 1).order if moves else list(range(m.layout.size))
    pairs = list(enumerate(order))
    if step["direction"] == "to_rank_order":
        pairs = [(holder, rank) for rank, holder in pairs]
    held = {target: memory.get((source, step.reads)) for source, target in pairs}
    return {target: list(cells) for target, cells in held.items() if cells is not None}


def _scatter(m: Machine, step: Step, group: list[int], read: Read) -> dict[int, Cells]:
    root = m.member(group, step["root"])
    return dict(zip(group, cut(read(root), m.split(step["split"], group, root)[0])))


def _checked_parts(m: Machine, step: Step, group: list[int], read: Read) -> list[Cells]:
    counts = m.split(step["split"], group, group[0])[0]
    parts = [read(rank) if count else [] for rank, count in zip(group, counts)]
    if [len(part) for part in parts] != counts:
        raise ProofError(f"{step.call} expects {counts} cells, gets {[len(p) for p in parts]}")
    return parts


def _gather(m: Machine, step: Step, group: list[int], read: Read) -> dict[int, Cells]:
    return {m.member(group, step["root"]): join(_checked_parts(m, step, group, read))}


def _allgather(m: Machine, step: Step, group: list[int], read: Read) -> dict[int, Cells]:
    everything = join(_checked_parts(m, step, group, read))
    return {rank: list(everything) for rank in group}


def _alltoall(m: Machine, step: Step, group: list[int], read: Read) -> dict[int, Cells]:
    parts = {rank: cut(read(rank), m.split(step["split"], group, rank)[0]) for rank in group}
    out = {}
    for index, rank in enumerate(group):
        received = [parts[source][index] for source in group]
        if [len(part) for part in received] != m.split(step["split"], group, rank)[1]:
            raise ProofError(f"alltoall: rank {rank} expects other sizes than are sent")
        out[rank] = join(received)
    return out


def _bcast(m: Machine, step: Step, group: list[int], read: Read) -> dict[int, Cells]:
    root = m.member(group, step["root"])
    data = read(root)
    return {rank: list(data) for rank in group if rank != root}  # nothing is stored at the root


def _reduce(m: Machine, step: Step, group: list[int], read: Read) -> dict[int, Cells]:
    return {m.member(group, step["root"]): combine([read(rank) for rank in group])}


def _allreduce(m: Machine, step: Step, group: list[int], read: Read) -> dict[int, Cells]:
    total = combine([read(rank) for rank in group])
    return {rank: list(total) for rank in group}


def _reduce_scatter(m: Machine, step: Step, group: list[int], read: Read) -> dict[int, Cells]:
    total = combine([read(rank) for rank in group])
    return dict(zip(group, cut(total, m.split(step["split"], group, group[0])[0])))


def _barrier(m: Machine, step: Step, group: list[int], read: Read) -> dict[int, Cells]:
    met = sorted({c for rank in group for cell in read(rank) for c in cell or ()})
    return {rank: [tuple(met)] for rank in group}


def _scan(m: Machine, step: Step, group: list[int], read: Read) -> dict[int, Cells]:
    inclusive = 1 if step.call == "scan" else 0
    return {
        rank: combine([read(r) for r in group[: index + inclusive]])
        for index, rank in enumerate(group)
        if index + inclusive
    }


def _wait(m: Machine, step: Step, group: list[int], read: Read) -> dict[int, Cells]:
    return {}  # writes nothing: see _meet


def _fold(m: Machine, step: Step, group: list[int], read: Read) -> dict[int, Cells]:
    k = m.lanes.k
    return {group[lane]: join([read(rank) for rank in group[lane::k]]) for lane in range(k)}


def _unfold(m: Machine, step: Step, group: list[int], read: Read) -> dict[int, Cells]:
    each = m.layout.size if step.get("blocks") == "size" else 1
    out: dict[int, Cells] = {}
    for lane in range(m.lanes.k):
        members = group[lane :: m.lanes.k]
        out.update(zip(members, cut(read(group[lane]), [each] * len(members))))
    return out


def _release(m: Machine, step: Step, group: list[int], read: Read) -> dict[int, Cells]:
    return {rank: list(read(group[index % m.lanes.k])) for index, rank in enumerate(group)}


def _move(m: Machine, step: Step, group: list[int], read: Read) -> dict[int, Cells]:
    return {m.member(group, step["target"]): list(read(m.member(group, step["source"])))}


def _reorder(m: Machine, step: Step, rank: int, read: Read) -> Cells:
    each = m.cells
    blocks = cut(read(rank), [each] * m.layout.size)
    direction = step["direction"]
    order = Lanes(m.layout, 1).order if direction == "nodes_to_ranks" else m.lanes.order
    if direction == "to_lanes":
        return join([blocks[r] for r in order])
    places = {r: position for position, r in enumerate(order)}
    return join([blocks[places[r]] for r in range(m.layout.size)])


def _regroup(m: Machine, step: Step, rank: int, read: Read) -> Cells:
    data, at, lane = read(rank), m.layout, m.lane(rank)
    if step["direction"] == "by_target_rank":
        members = len(m.lanes.share(lane, at.node_of[rank]))
        return [data[source * members + q] for q in range(members) for source in range(at.size)]
    on_lane, sources = len(m.lanes.ranks(lane)), at.node_sizes[at.node_of[rank]]
    out: Cells = []
    begin = 0
    for node in range(at.nodes):
        share = len(m.lanes.share(lane, node))
        for source in range(sources):
            out += data[source * on_lane + begin : source * on_lane + begin + share]
        begin += share
    return out


def _copy(m: Machine, step: Step, rank: int, read: Read) -> Cells:
    return list(read(rank))


def _combine(m: Machine, step: Step, rank: int, read: Read) -> Cells:
    return combine([read(rank), read(rank, step.writes)])


_GROUP: dict[str, Callable[[Machine, Step, list[int], Read], dict[int, Cells]]] = {
    "scatter": _scatter,
    "gather": _gather,
    "allgather": _allgather,
    "alltoall": _alltoall,
    "bcast": _bcast,
    "reduce": _reduce,
    "allreduce": _allreduce,
    "reduce_scatter": _reduce_scatter,
    "scan": _scan,
    "exscan": _scan,
    "barrier": _barrier,
    "wait": _wait,
    "fold": _fold,
    "unfold": _unfold,
    "release": _release,
    "move": _move,
}
_LOCAL: dict[str, Callable[[Machine, Step, int, Read], Cells]] = {
    "reorder": _reorder,
    "regroup": _regroup,
    "copy": _copy,
    "collect": _copy,
    "place": _copy,
    "combine": _combine,
}
