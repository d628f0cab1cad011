"""The local variables that a variant's C function may have."""

from __future__ import annotations

from ..expand import LANES
from ..model import Variant
from ..scope import Local
from ..steps import PLACES, STEPS


def of_layout(variant: Variant) -> list[Local]:
    """Those that depend on layout and root only. ``parameter`` is a parameter of the function."""
    full = variant.family.lanes == "full"
    rooted = variant.collective.rooted
    leader = "{root_rank} < {at}->min_node_size ? {root_rank} : 0" if rooted else "0"
    carrier = "{at}->node_rank < {lanes}->k" if full else "{at}->node_rank == {leader}"
    carriers = "{{0, {lanes}->k}}" if full else "{{{leader}, {leader} + 1}}"
    return [
        Local("at", "const struct cf_layout *", "&comm->layout"),
        Local("parameter", "", "parameter", unused="(void)parameter;"),
        _lanes(variant),
        Local("root_node", "const int ", "{at}->node_of[args->root]"),
        Local("root_rank", "const int ", "{at}->node_rank_of[args->root]"),
        Local("leader", "const int ", leader),
        Local("carrier", "const bool ", carrier),
        Local("all_ranks", "const struct cf_ranks ", "{{0, {at}->node_size[{at}->node]}}"),
        Local("carriers", "const struct cf_ranks ", carriers),
        Local("only_root", "const struct cf_ranks ", "{{{root_rank}, {root_rank} + 1}}"),
        Local("lane", "const int ", "{carrier} ? {at}->node_rank : 0" if full else "0"),
    ]


def _lanes(variant: Variant) -> Local:
    ctype = "const struct cf_lanes *"
    if variant.parameter(LANES):
        found = "cf_lanes_of(&comm->layout, {parameter}[LANES])"
        return Local("lanes", ctype, found, "CF_TRY(lanes == NULL ? MPI_ERR_NO_MEM : MPI_SUCCESS);")
    return Local(
        "lanes", ctype, "&{at}->full" if variant.family.lanes == "full" else "&{at}->single"
    )


def of_call(variant: Variant) -> list[Local]:
    """Those that depend on the call's operands."""
    all_to_all = variant.collective.all_to_all
    steps = variant.composition.steps
    permutes = [step for step in steps if STEPS[step.call].one_buffer == "permuted"]
    condition = permutes[0].where if permutes else None
    shared = "{parameter}[NODE_PHASE] == SHARED && comm->shared != NULL"
    # Space for all blocks of a rank; in an all-to-all, for those it sends and those it receives.
    most = "cf_larger(cf_all_units({at}, {blocks}), cf_all_units({at}, &{column}))"
    on_lane = "{carrier} ? cf_lane_units({at}, {lanes}, {lane}, {blocks}) : 0"
    pairs = "{{.lanes = {lanes}, .blocks = {blocks}}}"
    share = "{carrier} ? cf_share_units({at}, {lanes}, {lane}, {at}->node, {blocks}) : 0"
    return [
        Local("shared", "const bool ", shared),
        Local("by_lane", "const bool ", "{parameter}[NODE_SCAN] == LANE"),
        Local("unit", "const struct cf_unit *", "&call.unit"),
        Local("block", "const int ", "call.block"),
        Local("blocks", "const struct cf_blocks *", "&call.blocks"),
        Local("column", "const struct cf_blocks ", "cf_column({blocks}, {at}->size)"),
        Local("pairs", "struct cf_pairs ", pairs, "CF_TRY(cf_pairs_begin(&pairs, comm));"),
        Local("received_blocks", "", "&{column}" if all_to_all else "{blocks}"),
        Local("own_units", "const int ", "cf_block({blocks}, {at}->rank)"),
        Local("all_units", "const int ", most if all_to_all else "cf_all_units({at}, {blocks})"),
        Local("share_units", "const int ", share),
        Local("lane_units", "const int ", on_lane),
        Local("outgoing_units", "const int ", "cf_outgoing_units(&{pairs})"),
        Local("incoming_units", "const int ", "cf_incoming_units(&{pairs})"),
        Local("fewer_lanes", "const bool ", "{lanes}->k < {at}->max_node_size"),
        Local("permuted", "const bool ", condition.to_c(PLACES) if condition else "false"),
    ]
