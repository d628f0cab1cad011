"""Component collectives, over a node, a lane or all ranks: MPI's collectives of these names."""

from __future__ import annotations

from collections.abc import Sequence

from ..machine import Cells, Machine, ProofError, combine, cut, join
from ..model import Step
from ..splits import SPLITS, received, sent
from .kind import (
    BUFFER,
    CUTS,
    MOVE,
    OVER,
    ROOTS,
    GroupStep,
    InC,
    Meeting,
    Reader,
)

Group = Sequence[int]


def _parts(m: Machine, step: Step, group: Group, data: Reader) -> list[Cells]:
    """The part of each member, whose size must be that of the split."""
    counts = sent(step["split"], m, group, group[0])
    parts = [data(rank) if count else [] for rank, count in zip(group, counts)]
    if [len(part) for part in parts] != counts:
        raise ProofError(f"{step.call} expects {counts} cells, gets {[len(p) for p in parts]}")
    return parts


def _total(group: Group, data: Reader) -> Cells:
    return combine([data(rank) for rank in group])


class Scatter(GroupStep):
    call = "scatter"
    keys = {"over": OVER, "root": ROOTS, "split": CUTS, **MOVE}
    sentence = "Scatter {reads} from {root} over {over} into {writes}."
    in_pipe = "splits"
    rounds = "doublings"
    moved = "read - read / p"

    def on_group(self, m: Machine, step: Step, group: Group, data: Reader) -> dict[int, Cells]:
        root = m.member(group, step["root"])
        return dict(zip(group, cut(data(root), sent(step["split"], m, group, root))))

    def to_c(self, c: InC) -> str:
        return c.component(
            {"from": c.source, "parts": c.split, "to": c.target, "unit": c.use.unit, "root": c.root}
        )


class Gather(GroupStep):
    call = "gather"
    keys = Scatter.keys
    sentence = "Gather {reads} over {over} at {root} into {writes}."
    in_pipe = "assembles"
    rounds = "doublings"
    moved = "written - written / p"

    def on_group(self, m: Machine, step: Step, group: Group, data: Reader) -> dict[int, Cells]:
        return {m.member(group, step["root"]): join(_parts(m, step, group, data))}

    def to_c(self, c: InC) -> str:
        return c.component(
            {"from": c.source, "to": c.target, "parts": c.split, "unit": c.use.unit, "root": c.root}
        )


class Allgather(GroupStep):
    call = "allgather"
    keys = {"over": OVER, "split": CUTS, **MOVE}
    sentence = "Allgather {reads} over {over} into {writes}."
    in_pipe = "assembles"
    rounds = "doublings"
    moved = "written - written / p"

    def on_group(self, m: Machine, step: Step, group: Group, data: Reader) -> dict[int, Cells]:
        everything = join(_parts(m, step, group, data))
        return {rank: list(everything) for rank in group}

    def to_c(self, c: InC) -> str:
        return c.component({"from": c.source, "to": c.target, **c.extent, "unit": c.use.unit})


class Alltoall(GroupStep):
    call = "alltoall"
    keys = Allgather.keys
    sentence = "Exchange {reads} all-to-all over {over} into {writes}."
    rounds = "p - 1"
    moved = "read - read / p"

    def splits(self, step: Step) -> list[str]:
        found = super().splits(step)
        return [name for kind in found for name in (kind, SPLITS[kind].receiving or kind)]

    def on_group(self, m: Machine, step: Step, group: Group, data: Reader) -> dict[int, Cells]:
        split = step["split"]
        parts = {rank: cut(data(rank), sent(split, m, group, rank)) for rank in group}
        out = {}
        for index, rank in enumerate(group):
            arrived = [parts[source][index] for source in group]
            if [len(part) for part in arrived] != received(split, m, group, rank):
                raise ProofError(
                    f"alltoall: rank {rank} expects sizes that differ from the sent ones"
                )
            out[rank] = join(arrived)
        return out

    def to_c(self, c: InC) -> str:
        if c.way == "chunks":
            return c.component({"from": c.source, "to": c.target, **c.extent, "unit": c.use.unit})
        at, on_node = c.use.at, c.step["over"] == "node"
        full = f" && {c.use.lanes}->k == {at}->max_node_size" if on_node else ""
        return c.component(
            {
                "from": c.source,
                "parts": c.split,
                "to": c.target,
                "arriving": c.receive_split,
                "unit": c.use.unit,
                "regular": f"cf_is_regular({at}, {c.use.blocks}){full}",
            }
        )


class Bcast(GroupStep):
    call = "bcast"
    keys = {"over": OVER, "root": ROOTS, "data": BUFFER}
    sentence = "Broadcast {reads} from {root} over {over}."
    whole = True
    rounds = "doublings"
    moved = "written"

    def on_group(self, m: Machine, step: Step, group: Group, data: Reader) -> dict[int, Cells]:
        root = m.member(group, step["root"])
        # The root has the data already and writes nothing.
        return {rank: list(data(root)) for rank in group if rank != root}

    def to_c(self, c: InC) -> str:
        return c.component({"to": c.target, "count": c.units, "unit": c.use.unit, "root": c.root})


class Reduction(GroupStep):
    """A component collective that combines whole vectors by the call's op."""

    whole = True
    takes_op = True
    rounds = "doublings"
    moved = "read"

    def to_c(self, c: InC) -> str:
        given = {
            "from": c.source,
            "to": c.target,
            "count": c.units,
            "unit": c.use.unit,
            "op": "args->op",
        }
        return c.component({**given, "root": c.root} if c.root else given)


class Reduce(Reduction):
    call = "reduce"
    keys = {"over": OVER, "root": ROOTS, **MOVE}
    sentence = "Reduce {reads} over {over} to {root} into {writes}."

    def on_group(self, m: Machine, step: Step, group: Group, data: Reader) -> dict[int, Cells]:
        return {m.member(group, step["root"]): _total(group, data)}


class Allreduce(Reduction):
    call = "allreduce"
    keys = {"over": OVER, **MOVE}
    sentence = "Allreduce {reads} over {over} into {writes}."
    rounds = "2 * doublings"
    moved = "2 * (read - read / p)"

    def on_group(self, m: Machine, step: Step, group: Group, data: Reader) -> dict[int, Cells]:
        total = _total(group, data)
        return {rank: list(total) for rank in group}

    def meeting(self, step: Step) -> Meeting | None:
        return None if step["over"] == "lane" else Meeting("all", "all", sees=False)


class ReduceScatter(GroupStep):
    call = "reduce_scatter"
    keys = Allgather.keys
    sentence = "Reduce {reads} over {over} and scatter the sum into {writes}."
    takes_op = True
    in_pipe = "splits"
    rounds = "doublings"
    moved = "read - read / p"

    def on_group(self, m: Machine, step: Step, group: Group, data: Reader) -> dict[int, Cells]:
        return dict(zip(group, cut(_total(group, data), sent(step["split"], m, group, group[0]))))

    def meeting(self, step: Step) -> Meeting | None:
        # A rank that gets no part waits for no other rank.
        return None if step["over"] == "lane" else Meeting("carriers", "all", sees=False)

    def to_c(self, c: InC) -> str:
        given = {"from": c.source, "to": c.target, **c.extent, "unit": c.use.unit, "op": "args->op"}
        return c.component(given)


class Scan(Reduction):
    call = "scan"
    keys = Allreduce.keys
    sentence = "Scan {reads} over {over} into {writes}."
    in_pipe = "elementwise"
    by_lane = True
    inclusive = 1

    def on_group(self, m: Machine, step: Step, group: Group, data: Reader) -> dict[int, Cells]:
        return {
            rank: _total(group[: index + self.inclusive], data)
            for index, rank in enumerate(group)
            if index + self.inclusive
        }


class Exscan(Scan):
    call = "exscan"
    sentence = "Exclusive scan of {reads} over {over} into {writes}."
    inclusive = 0


class Barrier(GroupStep):
    call = "barrier"
    keys = Allreduce.keys
    sentence = "Wait for all of {over}."
    rounds = "doublings"

    def on_group(self, m: Machine, step: Step, group: Group, data: Reader) -> dict[int, Cells]:
        met = sorted({c for rank in group for cell in data(rank) for c in cell or ()})
        return {rank: [tuple(met)] for rank in group}

    def to_c(self, c: InC) -> str:
        return c.component({})
