/* The MPI library's component collectives, as lane algorithms. */
#include "data/component.h"
#include "lane/lane.h"

int cf_native_bcast(const struct cf_lane_call *call) {
    return cf_bcast(call->comm, call->to, call->count, call->unit, call->root, call->over.comm);
}

int cf_native_reduce(const struct cf_lane_call *call) {
    return cf_reduce(call->comm, call->from, call->to, call->count, call->unit, call->op,
                     call->root, call->over.comm);
}

int cf_native_allreduce(const struct cf_lane_call *call) {
    return cf_allreduce(call->comm, call->from, call->to, call->count, call->unit, call->op,
                        call->over.comm);
}

int cf_native_exscan(const struct cf_lane_call *call) {
    return cf_exscan(call->comm, call->from, call->to, call->count, call->unit, call->op,
                     call->over.comm);
}

int cf_native_gather(const struct cf_lane_call *call) {
    return cf_gather(call->comm, call->from, call->to, call->parts, call->unit, call->root,
                     call->over.comm);
}

int cf_native_scatter(const struct cf_lane_call *call) {
    return cf_scatter(call->comm, call->from, call->parts, call->to, call->unit, call->root,
                      call->over.comm);
}

int cf_native_allgather(const struct cf_lane_call *call) {
    return cf_allgather(call->comm, call->from, call->to, call->parts, call->unit, call->over.comm);
}

int cf_native_alltoall(const struct cf_lane_call *call) {
    return cf_alltoall(call->comm, call->from, call->parts, call->to, call->arriving, call->unit,
                       call->regular, call->over.comm);
}

int cf_native_reduce_scatter(const struct cf_lane_call *call) {
    return cf_reduce_scatter(call->comm, call->from, call->to, call->parts, call->unit, call->op,
                             call->over.comm);
}
