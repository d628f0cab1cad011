/* The pairwise exchange on a lane (specs/algorithms/pairwise.toml). */
#include "lane/lane.h"
#include "lane_algorithms.h"

/* With 4 nodes, node 0 sends one segment each to 1, 2 and 3 in turn, while it receives from 3, 2
 * and 1. */
int cf_pairwise_alltoall(const struct cf_lane_call *call) {
    const struct cf_exchange exchange = {
        .comm = call->comm,
        .from = call->from,
        .send = call->parts,
        .to = call->to,
        .receive = call->arriving,
        .unit = call->unit,
        .over = call->over.comm,
        .n = call->over.size,
        .me = call->over.rank,
        .segment = cf_segment_units(call->parameter[CF_PAIRWISE_SEGMENT_BYTES], call->unit),
        .window = call->parameter[CF_PAIRWISE_WINDOW],
    };

    return cf_exchange_run(&exchange);
}
