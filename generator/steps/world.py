"""Steps among all ranks."""

from __future__ import annotations

from ..lanes import Lanes
from ..machine import Cells, Machine, Memory, read
from ..model import Step
from .kind import MOVE, InC, StepKind

_EXCHANGE = """\
const struct cf_exchange exchange = {{
    .comm = comm,
    .from = {source},
    .send = {split},
    .to = {target},
    .receive = {receive_split},
    .unit = {unit},
    .over = {at}->order_comm,
    .order = {at}->single.order,
    .n = {at}->size,
    .me = {at}->rank,
    .segment = cf_segment_units({parameter}[SEGMENT_BYTES], {unit}),
    .window = {parameter}[WINDOW],
}};
CF_TRY(cf_exchange_run(&exchange));"""


class Permute(StepKind):
    """Permutes data between rank order and node order."""

    call = "permute"
    keys = {"direction": ("to_node_order", "to_rank_order"), **MOVE}
    sentence = "Where needed, bring {reads} into the order of the {order} as {writes}."
    whole = True
    one_buffer = "permuted"

    def apply(self, m: Machine, step: Step, memory: Memory) -> dict[int, Cells]:
        order = Lanes(m.layout, 1).order if m.runs(step, 0) else list(range(m.layout.size))
        pairs = list(enumerate(order))
        if step["direction"] == "to_rank_order":
            pairs = [(holder, rank) for rank, holder in pairs]
        held = {target: memory.get((source, step.reads)) for source, target in pairs}
        return {target: list(cells) for target, cells in held.items() if cells is not None}

    def to_c(self, c: InC) -> str:
        arguments = f"comm, {c.source}, {c.target}, {c.units}, {c.use.unit}"
        return f"CF_TRY(cf_permute_{c.step['direction']}({arguments}));"


class Exchange(StepKind):
    """Sends a block from every rank to every other rank."""

    call = "exchange"
    sentence = "Exchange {reads} with all ranks, pair by pair, into {writes}."
    in_order = True
    rounds = "p - 1"
    moved = "read - read / p"

    def apply(self, m: Machine, step: Step, memory: Memory) -> dict[int, Cells]:
        ranks = range(m.layout.size)
        return {r: [read(memory, source, step.reads)[r] for source in ranks] for r in ranks}

    def splits(self, step: Step) -> list[str]:
        return ["targets", "sources"]

    def to_c(self, c: InC) -> str:
        words = {"source": c.source, "target": c.target}
        return c.use.fill(_EXCHANGE, split=c.split, receive_split=c.receive_split, **words)
