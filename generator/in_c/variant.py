"""The values of a variant for templates/variant.c.j2."""

from __future__ import annotations

from typing import Any

from .. import proof
from ..expand import NODE_PHASE, NODE_SCAN, OVERLAP
from ..model import Algorithm, Variant
from ..order import fixed_order
from ..predicates import FACTS
from ..scope import Scope
from ..steps import PLACES, STEPS
from .locals import of_call, of_layout
from .memory import buffers, splits, temporaries, views
from .step import is_shared, pipe, step_views
from .wrappers import in_place

FACTS_IN_C = {name: f"facts->{name}" for name in FACTS}


def view(variant: Variant) -> dict[str, Any]:
    """Everything that templates/variant.c.j2 reads."""
    steps = variant.composition.steps
    outer, inner = of_layout(variant), of_call(variant)
    use = Scope([*outer, *inner])
    split_setups, memory = splits(variant, use), buffers(variant, use)
    made = {
        "roles": _roles(variant, use),
        "splits": split_setups,
        "buffers": memory,
        "views": views(variant, use),
        "step_views": step_views(variant, use),
        "pipe": pipe(variant, use),
        "chunks": f"chunks_of({use.at}, {use.parameter})" if variant.is_chunked else "",
    }
    return {
        "name": variant.name,
        "collective": variant.collective,
        "family": variant.family,
        "parameters": variant.parameters,
        "lane_tables": _lane_tables(variant),
        "predicate": variant.composition.predicate.to_c(FACTS_IN_C),
        "example": proof.worked_example(variant),
        "example_layout": proof.example_layout(variant),
        **made,
        "temporaries": temporaries(variant),
        "slots": [s.name.upper() for s in split_setups] + [b.slot for b in memory],
        "node_phase": variant.parameter(NODE_PHASE),
        "node_scan": variant.parameter(NODE_SCAN),
        "overlap": variant.parameter(OVERLAP),
        "is_shared": is_shared(variant),
        "symbols": _symbols(variant),
        "fixed_order": _fixed_order(variant),
        "headers": sorted({STEPS[step.call].header for step in steps} - {""}),
        "in_order": any(STEPS[step.call].in_order for step in steps),
        "declarations": use.declarations(outer),
        "call_declarations": use.declarations(inner),
    }


def _lane_tables(variant: Variant) -> dict[str, list[str]]:
    """The initializers of struct cf_lane_choice for each component collective over a lane, native first."""
    over_lane = [step.call for step in variant.composition.steps if step.get("over") == "lane"]
    calls = dict.fromkeys(over_lane if variant.algorithms else ())
    return {
        call: [f"{{.run = cf_native_{call}}}"]
        + [_lane_choice(algorithm, call) for algorithm in variant.algorithms]
        for call in calls
    }


def _lane_choice(algorithm: Algorithm, call: str) -> str:
    fields = [f".run = cf_{algorithm.name}_{call}"]
    fields += [".pipelined = true"] if algorithm.pipelined else []
    if algorithm.parameters:
        numbers = ", ".join(parameter.name.upper() for parameter in algorithm.parameters)
        fields.append(f".parameters = {{{numbers}}}")
    return f"{{{', '.join(fields)}}}"


def _fixed_order(variant: Variant) -> list[str]:
    """For each parameter a mask of the symbols with which the order of combining is fixed; empty: with none."""
    known = fixed_order(variant)
    if known is None:
        return []
    every = (1 << 64) - 1
    masks = (
        sum(1 << p.values.index(value) for value in known[p.name]) if p.name in known else every
        for p in variant.parameters
    )
    return ["UINT64_MAX" if mask == every else f"0x{mask:x}" for mask in masks]


def _symbols(variant: Variant) -> list[str]:
    """One enumeration for each of the family's own symbolic parameters."""
    own = [p for p in variant.parameters if p in variant.family.parameters and p.name != NODE_PHASE]
    return [
        ", ".join(f"{parameter.name}_{symbol}".upper() for symbol in parameter.symbols)
        for parameter in own
        if parameter.symbols
    ]


def _roles(variant: Variant, use: Scope) -> list[tuple[str, str]]:
    """The initializers of struct cf_roles that are not false or zero."""
    collective = variant.collective
    at_once = any(s.reads == "input" and s.writes == "output" for s in variant.composition.steps)
    names = {"rank": "{at}->rank", "root": "args->root", "size": "{at}->size"}
    result = collective.result
    send_in_place, recv_in_place = in_place(collective, "{at}->rank == args->root")
    varies = collective.varies
    roles = [
        ("moves_nothing", "true" if collective.moves_nothing else ""),
        ("reduces", "true" if collective.has_op else ""),
        ("in_piece", "true" if collective.hybrid else ""),
        ("single_buffer", "true" if collective.single_buffer else ""),
        ("varies", f"CF_VARIES_{varies.upper()}" if varies != "no" else ""),
        ("exchanged", "true" if collective.sized == "exchanged" else ""),
        ("send_side", "true" if collective.block_side == "send" else ""),
        ("send_in_place", send_in_place),
        ("recv_in_place", recv_in_place),
        ("in_blocks", result.in_blocks.to_c(names)),
        ("out_blocks", result.out_blocks.to_c(names)),
        ("in_place_block", result.in_place_block.to_c(names)),
        ("apart", "true" if at_once and result.in_blocks.is_just("size") else ""),
        ("spare", variant.composition.spare.to_c(PLACES) if variant.composition.spare else ""),
    ]
    return [(name, use.fill(value)) for name, value in roles if value not in ("", "0")]
