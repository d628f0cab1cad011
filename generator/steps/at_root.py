"""Steps of a reduce whose root combines the vectors of its node (Träff and Hunold, 2020, section III-C)."""

from __future__ import annotations

from collections.abc import Sequence

from ..machine import Cells, Machine, Memory, combine, read
from ..model import Step
from .kind import MOVE, GroupStep, InC, RankStep, Reader


class OwnSlice(RankStep):
    """A rank's own slice of its vector, for its lane. It is not combined with those of the other ranks."""

    call = "own_slice"
    sentence = "Copy the slice of my lane from {reads} to {writes}."

    def splits(self, step: Step) -> list[str]:
        return ["slices"]

    def on_rank(self, m: Machine, step: Step, rank: int, memory: Memory) -> Cells:
        cells = read(memory, rank, step.reads)
        return [cells[m.lane(rank)]] if m.carrier(rank) else []

    def to_c(self, c: InC) -> str:
        return f"CF_TRY(cf_own_slice(comm, {c.source}, {c.target}, {c.split}, {c.use.unit}));"


class ReduceRest(GroupStep):
    """Combines what the ranks of the root's node have not given to their lanes. The op commutes."""

    call = "reduce_rest"
    keys = {"root": ("root",), **MOVE}
    sentence = "Combine at {root}, in {writes}, all of {reads} but the slices copied before."
    takes_op = True
    keeps_order = False  # each slice lacks the operand of another rank
    scratch = "vector"
    rounds = "p - 1"
    moved = "(p - 1) * read"

    def splits(self, step: Step) -> list[str]:
        return ["slices"]

    def on_group(
        self, m: Machine, step: Step, group: Sequence[int], data: Reader
    ) -> dict[int, Cells]:
        vectors = [data(rank) for rank in group]
        rest: Cells = []
        for slice_ in range(m.cells):
            given = [[v[slice_]] for rank, v in enumerate(vectors) if rank != slice_]
            rest += combine(given)
        return {m.member(group, "root"): rest}

    def to_c(self, c: InC) -> str:
        arguments = f"comm, {c.source}, {c.target}, {c.split}, {c.use.unit}, args->op, {c.root}"
        return f"CF_TRY(cf_reduce_rest({arguments}));"
