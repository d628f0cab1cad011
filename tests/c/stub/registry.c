/* A registry for testing the runtime alone: variants that count, fail or apply rarely. */
#include "cf.h"
#include "collectives.h"

int stub_runs = 0;
int stub_parameter = 0;

static int native_bcast(const struct cf_args *args) {
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
    {.name = "bcast", .function = "MPI_Bcast", .rooted = true, .native = native_bcast},
    {.name = "allreduce", .function = "MPI_Allreduce", .has_op = true, .native = native_allreduce},
    {.name = "gather",
     .function = "MPI_Gather",
     .rooted = true,
     .total_is_size_blocks = true,
     .native = native_gather},
};
const int cf_ncollectives = 3;
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
    return err == MPI_SUCCESS ? native_bcast(args) : err;
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
    {"lane_algorithm", algorithms, NULL, 3, 0},
    {"segment_bytes", NULL, segments, 2, 64},
};

static const struct cf_variant bcast_lane = {CF_BCAST, "full_lane",      "b1", lane_parameters,
                                             2,        on_several_nodes, NULL, run_bcast};
static const struct cf_variant bcast_leader = {CF_BCAST, "hierarchical",   "b2", NULL,
                                               0,        on_several_nodes, NULL, run_bcast};
static const struct cf_variant bcast_failing = {CF_BCAST, "failing",        "b3", NULL,
                                                0,        on_several_nodes, NULL, run_failing};
static const struct cf_variant allreduce_lane = {
    CF_ALLREDUCE, "full_lane",  "a1", lane_parameters, 2, on_several_nodes_commutative,
    NULL,         run_allreduce};
static const struct cf_variant gather_leader = {CF_GATHER, "hierarchical",   "g2", NULL,
                                                0,         on_several_nodes, NULL, run_gather};

const struct cf_variant *const cf_variants[] = {&bcast_lane, &bcast_leader, &bcast_failing,
                                                &allreduce_lane, &gather_leader};
const int cf_nvariants = 5;
