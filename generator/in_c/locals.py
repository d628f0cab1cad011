"""The local variables of a variant's C function: those that its steps use, in order of dependence."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..expand import LANES
from ..model import Variant
from ..steps import PLACES, STEPS


def declarations(variant: Variant, text: str) -> list[str]:
    """The declarations of used locals that depend on layout and root only."""
    full = variant.family.lanes == "full"
    rooted = variant.collective.rooted
    known: list[tuple[str, str, str]] = [
        ("lanes", "const struct cf_lanes *", _lanes(variant)),
        ("root_node", "const int ", "at->node_of[args->root]"),
        ("root_rank", "const int ", "at->node_rank_of[args->root]"),
        (
            "leader",
            "const int ",
            "root_rank < at->min_node_size ? root_rank : 0" if rooted else "0",
        ),
        (
            "carrier",
            "const bool ",
            "at->node_rank < lanes->k" if full else "at->node_rank == leader",
        ),
        ("all_ranks", "const struct cf_ranks ", "{0, at->node_size[at->node]}"),
        ("carriers", "const struct cf_ranks ", "{0, lanes->k}" if full else "{leader, leader + 1}"),
        ("only_root", "const struct cf_ranks ", "{root_rank, root_rank + 1}"),
        ("lane", "const int ", "carrier ? at->node_rank : 0" if full else "0"),
    ]
    text += " " + " ".join(call_declarations(variant, text))
    needed = _needed(known, text)
    if needed and variant.parameter(LANES):
        needed.insert(1, "CF_TRY(lanes == NULL ? MPI_ERR_NO_MEM : MPI_SUCCESS);")
    return needed


def _lanes(variant: Variant) -> str:
    if variant.parameter(LANES):
        return "cf_lanes_of(&comm->layout, parameter[LANES])"
    return "&at->full" if variant.family.lanes == "full" else "&at->single"


def call_declarations(variant: Variant, text: str) -> list[str]:
    """The declarations of used locals that depend on the call's operands."""
    permutes = [step for step in variant.composition.steps if STEPS[step.call].one_buffer]
    condition = permutes[0].where if permutes else None
    kinds = dict.fromkeys(step.call for step in variant.composition.steps)
    units = [
        ("share_units", "carrier ? cf_share_units(at, lanes, lane, at->node, blocks) : 0"),
        ("lane_units", "carrier ? cf_lane_units(at, lanes, lane, blocks) : 0"),
        ("outgoing_units", "carrier ? cf_outgoing_units(at, lanes, lane, blocks) : 0"),
        ("incoming_units", "carrier ? cf_incoming_units(at, lanes, lane, blocks) : 0"),
    ]
    known = [
        ("block", "const int ", "call.block"),
        ("blocks", "const struct cf_blocks *", "&call.blocks"),
        ("row", "const struct cf_blocks ", "cf_row(blocks, at->size, at->rank)"),
        ("column", "const struct cf_blocks ", "cf_column(blocks, at->size, at->rank)"),
        ("own_units", "const int ", "cf_block(blocks, at->rank)"),
        ("all_units", "const int ", _all_units(variant)),
        *((name, "const int ", value) for name, value in units),
        ("permuted", "const bool ", condition.to_c(PLACES) if condition else "false"),
        *((name, *found) for kind in kinds for name, found in STEPS[kind].variables.items()),
    ]
    return _needed(known, text)


def _all_units(variant: Variant) -> str:
    """Space for all blocks of a rank; in an all-to-all, for those it sends and those it receives."""
    if variant.collective.all_to_all:
        return "cf_larger(cf_all_units(at, &row), cf_all_units(at, &column))"
    return "cf_all_units(at, blocks)"


def _needed(known: Sequence[tuple[str, str, str]], text: str) -> list[str]:
    """The declarations of the names that the text uses, each after those that it depends on."""
    needed: list[str] = []
    for name, ctype, value in reversed(known):
        if re.search(rf"(?<!->)(?<!\.)\b{name}\b", text):
            needed.append(f"{ctype}{name} = {value};")
            text += " " + value
    return list(reversed(needed))
