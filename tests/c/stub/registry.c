/* A registry for testing the runtime alone: variants that count, fail or apply rarely. */
#include <limits.h>
#include <time.h>

#include "base/cf.h"
#include "collectives.h"
#include "winners/rules.h"

int stub_runs = 0;
int stub_parameter = 0;
int stub_native_ms = 0;
int stub_variant_ms = 0;

static void pause_for(int milliseconds) {
    const struct timespec time = {.tv_nsec = milliseconds * 1000000L};
    if (milliseconds > 0)
        (void)nanosleep(&time, NULL);
}

static int native_bcast(const struct cf_args *args) {
    pause_for(stub_native_ms);
    return PMPI_Bcast(args->recvbuf, args->recvcount, args->recvtype, args->root, args->comm);
}

static int native_allreduce(const struct cf_args *args) {
    return PMPI_Allreduce(args->sendbuf, args->recvbuf, args->recvcount, args->recvtype, args->op,
                          args->comm);
}

static int native_gather(const struct cf_args *args) {
    return PMPI_Gather(args->sendbuf, args->sendcount, args->sendtype, args->recvbuf,
                       args->recvcount, args->recvtype, args->root, args->comm);
}

const struct cf_collective_info cf_collectives[] = {
    {.name = "bcast", .function = "MPI_Bcast", .form = CF_IBCAST, .rooted = true, .native = native_bcast},
    {.name = "allreduce",
     .collective = 1,
     .function = "MPI_Allreduce",
     .has_op = true,
     .native = native_allreduce},
    {.name = "gather",
     .collective = 2,
     .function = "MPI_Gather",
     .rooted = true,
     .total_is_size_blocks = true,
     .native = native_gather},
    {.name = "ibcast", .function = "MPI_Ibcast", .rooted = true},
};
const int cf_ncollectives = 4;
const int cf_map_needs[] = {0, 0, CF_NEEDS_EVEN, 0};
const char cf_fingerprint[] = "stub";

static bool on_several_nodes(const struct cf_facts *facts) {
    return facts->nodes > 1;
}

static bool on_several_nodes_commutative(const struct cf_facts *facts) {
    return facts->nodes > 1 && facts->commutative;
}

/* Uses node_comm and lane_comm, so that a wrong one shows. */
static int count_run(struct cf_comm *comm, const int *parameter) {
    int one = 1;
    int on_node = 0;
    const int err = PMPI_Allreduce(&one, &on_node, 1, MPI_INT, MPI_SUM, comm->layout.node_comm);
    stub_runs++;
    stub_parameter = parameter[0];
    if (err == MPI_SUCCESS && on_node != comm->layout.node_size[comm->layout.node])
        return MPI_ERR_INTERN;
    return err;
}

static int run_bcast(const struct cf_args *args, struct cf_comm *comm, const int *parameter) {
    const int err = count_run(comm, parameter);
    pause_for(stub_variant_ms);
    return err == MPI_SUCCESS
               ? PMPI_Bcast(args->recvbuf, args->recvcount, args->recvtype, args->root, args->comm)
               : err;
}

static int run_allreduce(const struct cf_args *args, struct cf_comm *comm, const int *parameter) {
    const int err = count_run(comm, parameter);
    return err == MPI_SUCCESS ? native_allreduce(args) : err;
}

static int run_gather(const struct cf_args *args, struct cf_comm *comm, const int *parameter) {
    const int err = count_run(comm, parameter);
    return err == MPI_SUCCESS ? native_gather(args) : err;
}

static int run_failing(const struct cf_args *args, struct cf_comm *comm, const int *parameter) {
    (void)args;
    (void)comm;
    (void)parameter;
    return MPI_ERR_TRUNCATE;
}

static const char *const algorithms[] = {"native", "chain", "ring"};
static const int segments[] = {4096, 16384};
static const struct cf_parameter lane_parameters[] = {
    {"lane_algorithm", algorithms, NULL, 3, 0, 0},
    {"segment_bytes", NULL, segments, 2, 64, INT_MAX},
};

static const struct cf_variant bcast_lane = {
    .collective = CF_BCAST,
    .family = "full_lane",
    .fingerprint = "b1",
    .parameters = lane_parameters,
    .nparameters = 2,
    .applicable = on_several_nodes,
    .run = run_bcast,
};
static const struct cf_variant bcast_leader = {
    .collective = CF_BCAST,
    .family = "hierarchical",
    .fingerprint = "b2",
    .applicable = on_several_nodes,
    .run = run_bcast,
};
static const struct cf_variant bcast_failing = {
    .collective = CF_BCAST,
    .family = "failing",
    .fingerprint = "b3",
    .only_blocking = true,
    .applicable = on_several_nodes,
    .run = run_failing,
};
static const struct cf_variant allreduce_lane = {
    .collective = CF_ALLREDUCE,
    .family = "full_lane",
    .fingerprint = "a1",
    .parameters = lane_parameters,
    .nparameters = 2,
    .applicable = on_several_nodes_commutative,
    .run = run_allreduce,
};
static const struct cf_variant gather_leader = {
    .collective = CF_GATHER,
    .family = "hierarchical",
    .fingerprint = "g2",
    .applicable = on_several_nodes,
    .run = run_gather,
};

const struct cf_variant *const cf_variants[] = {&bcast_lane, &bcast_leader, &bcast_failing,
                                                &allreduce_lane, &gather_leader};
const int cf_nvariants = 5;
