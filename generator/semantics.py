"""Executes a composition symbolically on all ranks of a layout; the proof before any C is generated.

A composition is right if each output cell has exactly the contributions that the collective's definition
demands, in rank order where the op does not commute. The same execution on a small layout gives the worked
example in the generated C.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from .machine import Cells, Machine, Memory, ProofError
from .model import Composition, Family, Step
from .splits import SHAPES
from .steps import STEPS
from .window import Piece, SharedMemory, cells_of


@dataclass(frozen=True)
class Trace:
    """The result of one step: ``after[rank]`` is the buffer that the rank wrote, if it wrote one."""

    step: Step | None
    buffer: str
    after: dict[int, Cells]


def execute(composition: Composition, family: Family, machine: Machine) -> Iterator[Trace]:
    """Runs a composition on all ranks and yields the buffers after each step.

    Raises ProofError if a step reads a buffer that was never written, if ranks of one communicator disagree
    on whether the step runs, or if a buffer overflows its shape. Raises RaceError for races (window.py).
    """
    collective, layout = machine.collective, machine.layout
    inputs = _inputs(machine)
    memory: Memory = {(rank, "input"): cells for rank, cells in inputs.items()}
    if collective.hybrid:
        memory = _share(machine, family, inputs)
    elif collective.single_buffer:
        kept = {r: cells for r, cells in inputs.items() if not machine.has_spare(composition, r)}
        memory.update({(rank, "output"): list(cells) for rank, cells in kept.items()})
    yield Trace(None, "input", inputs)
    for step in composition.steps:
        written = STEPS[step.call].apply(machine, step, memory)
        for rank, cells in written.items():
            shape = family.buffers.get(step.writes)
            if shape and len(cells) > SHAPES[shape].cells(machine, rank):
                raise ProofError(f"{step.writes} holds {len(cells)} cells on rank {rank}: too many")
            if stores_at_root(machine, composition, step, rank):
                raise ProofError(f"{step.call} stores into the root's buffer: declare it spare")
            memory[rank, step.writes] = cells
        if isinstance(memory, SharedMemory):
            _meet(machine, step, memory)
        yield Trace(step, step.writes, written)
    if isinstance(memory, SharedMemory):
        for piece in memory.pieces:
            piece.leave(meets=len(inputs) == layout.size)
        yield Trace(None, "output", {rank: memory.result(rank) for rank in range(layout.size)})


def stores_at_root(machine: Machine, composition: Composition, step: Step, rank: int) -> bool:
    """Whether a broadcast's step, in C, stores into the root's buffer, which may be read-only."""
    collective = machine.collective
    at_root = collective.single_buffer and not collective.hybrid and rank == machine.root
    return (
        at_root
        and step.writes == "output"
        and STEPS[step.call].stores(machine, step)
        and not machine.has_spare(composition, rank)
    )


def _inputs(machine: Machine) -> dict[int, Cells]:
    """The input buffer of each rank that contributes data."""
    inputs: dict[int, Cells] = {}
    for rank in range(machine.layout.size):
        blocks = int(machine.collective.result.in_blocks.evaluate(machine.places(rank)))
        if blocks:
            inputs[rank] = [((rank, cell),) for cell in range(blocks * machine.cells)]
    return inputs


def _share(machine: Machine, family: Family, inputs: Mapping[int, Cells]) -> SharedMemory:
    """The memory of a hybrid collective. If input and output are one buffer, the inputs are stored in it."""
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
            block = int(collective.result.in_place_block.evaluate(machine.places(rank)))
            memory.store(rank, block * machine.cells, cells)
    return memory


def _meet(machine: Machine, step: Step, memory: SharedMemory) -> None:
    """Lets ranks of a node wait for others of that node, if the step says so."""
    met = STEPS[step.call].meeting(step)
    for piece in memory.pieces:
        if met and machine.runs(step, piece.members["all"][0]):
            piece.wait(met.ranks, met.awaited, sees=met.sees)
