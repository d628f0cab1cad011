"""The steps of a composition as terms of the manifest: what runs on regular nodes, and how much data it has.

The sizes of buffers are products of powers of nodes, ranks per node and lanes. Their powers are read off from
small layouts, and checked on another.
"""

from __future__ import annotations

from collforge.layout import from_name

from .cost import most_cells
from .machine import Machine
from .model import Step, Variant
from .proof import applies
from .steps import STEPS
from .terms import StepTerm, power_product

SHAPES = ((3, 4, 2), (6, 4, 2), (3, 8, 2), (3, 4, 4), (6, 8, 4))
"""Nodes, ranks per node and lanes, as `power_product` takes them."""
SINGLE = ((3, 4, 1), (6, 4, 1), (3, 8, 1), (3, 4, 1), (6, 8, 1))
ALONE = ((3, 1, 1), (6, 1, 1), (3, 1, 1), (3, 1, 1), (12, 1, 1))


def step_terms(variant: Variant) -> tuple[StepTerm, ...]:
    """Of a collective of the MPI standard whose calls are served by the size of a block; else none."""
    collective = variant.collective
    if collective.hybrid or collective.moves_nothing or collective.sized != "block":
        return ()
    family = variant.family
    on_nodes, alone = (applies(variant.composition, from_name(name)) for name in ("3x4", "3x1"))
    shapes = SHAPES if family.lanes == "full" else SINGLE
    if alone and not on_nodes:
        shapes = ALONE
    machines = {
        shape: Machine(
            from_name(f"{shape[0]}x{shape[1]}"), family.lanes, collective, 0, True, shape[2]
        )
        for shape in shapes
    }
    return tuple(
        _term(variant, step, machines)
        for step in variant.composition.steps
        if _runs(step, next(iter(machines.values())))
    )


def _runs(step: Step, machine: Machine) -> bool:
    kind = STEPS[step.call]
    moves = kind.stores(machine, step) or kind.call != "move"
    return moves and any(machine.runs(step, rank) for rank in range(machine.layout.size))


def _term(variant: Variant, step: Step, machines: dict[tuple[int, int, int], Machine]) -> StepTerm:
    kind = STEPS[step.call]
    over = str(step.get("over") or getattr(kind, "among", "all" if kind.in_order else ""))
    read, written = (
        power_product(
            {
                shape: max(
                    most_cells(variant, machine, buffer, [rank])
                    for rank in range(machine.layout.size)
                )
                / machine.cells
                for shape, machine in machines.items()
            },
            f"{variant.name}: {buffer}",
        )
        for buffer in (step.reads, step.writes)
    )
    return StepTerm(step.call, over, read, written, kind.rounds, kind.moved, kind.takes_op)
