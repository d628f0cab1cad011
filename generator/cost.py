"""The rounds and the volume of a composition with the best component collectives known.

Träff and Hunold (2020), section III. Nothing is executed: the sizes follow from the shapes of the buffers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from collforge.layout import Layout

from .machine import Machine
from .model import Step, Variant
from .splits import SHAPES
from .steps import STEPS
from .terms import StepTerm, among, step_cost

BEST = ("rounds", "moved")


@dataclass(frozen=True)
class Cost:
    """Best-case costs. Volumes are in the collective's size: that of a vector, or of one block.

    ``rounds``: communication rounds, one after the other, of which ``lane_rounds`` are between nodes.
    ``node_volume``, ``lane_volume``: what the busiest rank sends, or receives, on its node and on its lane.
    ``off_node``: what the busiest node sends, or receives, over all its lanes.
    """

    rounds: int
    lane_rounds: int
    node_volume: float
    lane_volume: float
    off_node: float

    def beta(self, lanes: int) -> float:
        """The sizes that go over the busiest of k lanes of a node, of which a rank uses one at a time."""
        return max(self.lane_volume, self.off_node / lanes)

    def seconds(self, nbytes: int, lanes: int, rate: float, latency: float) -> float:
        """The least time between nodes in the k-lane model (section V).

        k lanes of ``rate`` bytes/s each; ``latency``: seconds of a round. Steps on the nodes take no time.
        """
        return self.lane_rounds * latency + nbytes * self.beta(lanes) / rate


def cost(variant: Variant, layout: Layout, most_lanes: int = 0, root: int = 0) -> Cost:
    """The cost on a layout. Steps over all ranks count as between nodes."""
    machine = Machine(layout, variant.family.lanes, variant.collective, root, True, most_lanes)
    rounds = lane_rounds = 0
    on_node = on_lane = off_node = 0.0
    for step in variant.composition.steps:
        kind = STEPS[step.call]
        over = str(step.get("over") or getattr(kind, "among", "all"))
        most, moved, every = 0, 0.0, 0.0
        for group in machine.groups(over):
            if len(group) == 1 or not machine.runs(step, group[0]):
                continue
            read = most_cells(variant, machine, step.reads, group)
            written = most_cells(variant, machine, step.writes, group)
            term = StepTerm(step.call, over, "", "", kind.rounds, kind.moved, kind.takes_op)
            known = among(len(group), read, written)
            best = {key: step_cost(term, key, known) for key in BEST}
            most, moved = max(most, int(best["rounds"])), max(moved, best["moved"])
            every += best["moved"]
        rounds += most
        if over == "node":
            on_node += moved
            continue
        lane_rounds += most
        on_lane += moved
        off_node += every if over == "lane" else _crossing(machine, step, moved)
    unit = machine.cells
    return Cost(rounds, lane_rounds, on_node / unit, on_lane / unit, off_node / unit)


def _crossing(machine: Machine, step: Step, moved: float) -> float:
    """What a node sends in a step over all ranks, in which each of its ranks moves so many cells.

    Messages to ranks of the same node do not count. That a tree of the MPI library follows the nodes is not
    assumed: each rank's data come from elsewhere.
    """
    layout = machine.layout
    largest = max(layout.node_sizes)
    outside = (layout.size - largest) / (layout.size - 1)
    return moved * largest * (outside if step.get("split") or step.call == "exchange" else 1.0)


def most_cells(variant: Variant, machine: Machine, buffer: str, ranks: Sequence[int]) -> float:
    """The most cells of a buffer on any of these ranks."""
    return max(_cells(variant, machine, buffer, rank) for rank in ranks)


def _cells(variant: Variant, machine: Machine, buffer: str, rank: int) -> float:
    shape = variant.family.buffers.get(buffer)
    if shape is not None:
        return SHAPES[shape].cells(machine, rank)
    result, places = variant.collective.result, machine.places(rank)
    blocks = result.in_blocks if buffer == "input" else result.out_blocks
    if buffer == "output" and variant.collective.single_buffer:
        return machine.cells
    return int(blocks.evaluate(places)) * machine.cells
