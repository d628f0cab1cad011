"""Proves compositions on small layouts: compares every output cell with the collective's definition."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from collforge.layout import Layout, from_name

from .expand import LANES
from .machine import Cell, Machine, ProofError
from .model import Collective, Composition, Variant
from .semantics import Trace, execute
from .window import RaceError

SMALL_LAYOUTS = (
    "2x2",
    "1x2",
    "1x3",
    "1x4",
    "3x2",
    "2x3",
    "4x2",
    "3+1",
    "1+3",
    "2+3+2",
    "2x1",
    "3x1",
    "4x1",
    "cyclic:2x3",
    "cyclic:3x2",
    "map:0.1.1.0",
    "map:0.1.2.1.0.1",
    "2x2x2",
    "1+3x2",
    "cyclic:2x3x2",
)


def prove(variant: Variant, layouts: Iterable[str] = SMALL_LAYOUTS) -> int:
    """Executes a variant's composition symbolically on each layout it applies to.

    It does so with every root, and with every number of lanes if that is a parameter. Returns the number
    of cases. Raises ProofError for the first wrong case.
    """
    proven = 0
    for name in layouts:
        layout = from_name(name)
        for commutative in (True, False) if variant.collective.has_op else (True,):
            if not applies(variant.composition, layout, commutative):
                continue
            roots = range(layout.size if variant.collective.rooted else 1)
            for root, most_lanes in itertools.product(roots, lane_numbers(variant, layout)):
                machine = Machine(
                    layout,
                    variant.family.lanes,
                    variant.collective,
                    root,
                    commutative,
                    most_lanes,
                )
                try:
                    _prove_one(variant, machine)
                except (ProofError, RaceError) as error:
                    lanes = f", {most_lanes} lanes" if most_lanes else ""
                    message = f"{variant.name} on {name}, root {root}{lanes}: {error}"
                    raise ProofError(message) from error
                proven += 1
    return proven


def lane_numbers(variant: Variant, layout: Layout) -> range:
    """The numbers of lanes that a variant may have on a layout; 0 stands for the default."""
    chosen = any(parameter.name == LANES for parameter in variant.parameters)
    return range(min(layout.node_sizes) if chosen else 1)


def applies(composition: Composition, layout: Layout, commutative: bool = True) -> bool:
    """Whether the predicate holds on a layout for a small message."""
    facts = {**layout.facts(), "bytes": 8, "total_bytes": 8, "commutative": commutative}
    return bool(composition.predicate.evaluate(facts))


def _prove_one(variant: Variant, machine: Machine) -> None:
    collective = variant.collective
    output: dict[int, list[Cell | None]] = {}
    ordered = collective.has_op and not machine.commutative
    for trace in execute(variant.composition, variant.family, machine):
        at_start = trace.step is None and trace.buffer == "input"
        if trace.buffer == "output" or (at_start and collective.single_buffer):
            output.update(trace.after)
    for rank in range(machine.layout.size):
        for index, expected in enumerate(expected_cells(collective, machine, rank)):
            if expected is None:
                continue
            got = output.get(rank, [])
            cell = got[index] if index < len(got) else None
            if cell != expected and (ordered or sorted(cell or ()) != list(expected)):
                raise ProofError(f"rank {rank}, cell {index} is {cell}, should be {expected}")


def expected_cells(collective: Collective, machine: Machine, rank: int) -> list[Cell | None]:
    """The cells of a rank's output by definition; None where the standard leaves a cell undefined."""
    result, cells, places = collective.result, machine.cells, machine.places(rank)
    out: list[Cell | None] = []
    for block in range(int(result.out_blocks.evaluate(places))):
        here = {**places, "block": block}
        ranks = range(int(result.first.evaluate(here)), int(result.last.evaluate(here)))
        source = int(result.source_block.evaluate(here))
        for cell in range(cells):
            out.append(tuple((q, source * cells + cell) for q in ranks) or None)
    return out


def example_layout(variant: Variant) -> Layout:
    """The first small layout that the variant applies to; if there is none, the first of all."""
    known = [from_name(name) for name in SMALL_LAYOUTS]
    return next((layout for layout in known if applies(variant.composition, layout)), known[0])


def worked_example(variant: Variant, root: int = 0) -> list[str]:
    """The buffers after each step on `example_layout`, one line per step, for a C comment."""
    lines = []
    layout = example_layout(variant)
    machine = Machine(layout, variant.family.lanes, variant.collective, root)
    traces = execute(variant.composition, variant.family, machine)
    for number, trace in enumerate(traces):
        title = trace.buffer if trace.step is None else f"{number}. {trace.buffer}"
        lines.append(f"{title:<17} {_show(trace)}".rstrip())
    return lines


def _show(trace: Trace) -> str:
    ranks = []
    for rank, cells in sorted(trace.after.items()):
        text = " ".join(_show_cell(cell) for cell in cells)
        ranks.append(f"{rank}: {text or '-'}")
    return " | ".join(ranks)


def _show_cell(cell: Cell | None) -> str:
    if cell is None:
        return "?"
    return "".join("abcdefgh"[rank] for rank, _ in cell) + str(cell[0][1])
