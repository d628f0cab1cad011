"""Steps among the ranks of a node: messages to and from carriers, or access to the node's shared memory."""

from __future__ import annotations

from collections.abc import Sequence

from ..machine import Cells, Machine, cut, join
from ..model import Step
from .kind import BUFFER, MEMBERS, MOVE, GroupStep, InC, Meeting, RankStep, Reader

Group = Sequence[int]


class Fold(GroupStep):
    call = "fold"
    sentence = "Hand {reads} to the rank that carries my lane, as {writes}."
    rounds = "read != written"
    moved = "(read - written) * (2 * (read > written) - 1)"

    def splits(self, step: Step) -> list[str]:
        return ["columns" if step.get("blocks") == "size" else "blocks"]

    def on_group(self, m: Machine, step: Step, group: Group, data: Reader) -> dict[int, Cells]:
        k = m.lanes.k
        return {group[lane]: join([data(rank) for rank in group[lane::k]]) for lane in range(k)}

    def to_c(self, c: InC) -> str:
        arguments = f"comm, {c.use.lanes}, {c.source}, {c.target}, {c.split}, {c.use.unit}"
        return f"CF_TRY(cf_{self.call}({arguments}));"


class Unfold(Fold):
    call = "unfold"
    keys = {"blocks": ("size",), **MOVE}
    sentence = "Hand {reads} back to the ranks whose lane I carry, as {writes}."

    def on_group(self, m: Machine, step: Step, group: Group, data: Reader) -> dict[int, Cells]:
        each = m.layout.size if step.get("blocks") == "size" else 1
        out: dict[int, Cells] = {}
        for lane in range(m.lanes.k):
            members = group[lane :: m.lanes.k]
            out.update(zip(members, cut(data(group[lane]), [each] * len(members))))
        return out


class Release(GroupStep):
    """The carriers let the other ranks continue; no data are moved."""

    call = "release"
    sentence = "Release the ranks whose lane I carry."

    def on_group(self, m: Machine, step: Step, group: Group, data: Reader) -> dict[int, Cells]:
        return {rank: list(data(group[index % m.lanes.k])) for index, rank in enumerate(group)}

    def to_c(self, c: InC) -> str:
        return f"CF_TRY(cf_release(comm, {c.use.lanes}));"


class Move(GroupStep):
    call = "move"
    keys = {"source": ("root", "leader"), "target": ("root", "leader"), **MOVE}
    sentence = "Move {reads} from {source} to {target} into {writes}."
    whole = True
    rounds = "1"
    moved = "read"

    def on_group(self, m: Machine, step: Step, group: Group, data: Reader) -> dict[int, Cells]:
        return {m.member(group, step["target"]): list(data(m.member(group, step["source"])))}

    def stores(self, m: Machine, step: Step) -> bool:
        node = m.layout.ranks_on(m.layout.node_of[m.root])
        return m.member(node, step["source"]) != m.member(node, step["target"])

    def to_c(self, c: InC) -> str:
        ranks, data = f"{c.mover}, {c.receiver}", f"{c.source}, {c.target}, {c.units}"
        return f"CF_TRY(cf_move(comm, {ranks}, {data}, {c.use.unit}));"


class Wait(GroupStep):
    """Some ranks of the node wait for others and then see their earlier stores."""

    call = "wait"
    keys = {"ranks": MEMBERS, "for": MEMBERS, "data": BUFFER}
    sentence = "Wait ({ranks} for {for}) to see earlier stores."

    def on_group(self, m: Machine, step: Step, group: Group, data: Reader) -> dict[int, Cells]:
        return {}

    def meeting(self, step: Step) -> Meeting | None:
        return Meeting(step["ranks"], step["for"], sees=True)

    def to_c(self, c: InC) -> str:
        chosen = c.chosen_sync
        by_barrier = f"{c.use.parameter}[SYNC] == SYNC_BARRIER" if chosen else "false"
        return f"CF_TRY(cf_node_wait(comm, {c.waiting}, {c.awaited}, {by_barrier}));"


class Collect(RankStep):
    """Copies blocks out of the node's shared memory."""

    call = "collect"
    sentence = "Copy {reads} out of the node's shared memory to {writes}."

    def to_c(self, c: InC) -> str:
        use = c.use
        arguments = (
            f"comm, {use.lanes}, {use.lane}, {c.source}, {c.target}, {use.blocks}, {use.unit}"
        )
        return f"CF_TRY(cf_{self.call}_{c.part_of}({arguments}));"


class Place(Collect):
    """Copies blocks into the node's shared memory."""

    call = "place"
    sentence = "Copy {reads} to {writes} in the node's shared memory."
