/* Shared by the lane algorithms: the binomial tree and recursive doubling. */
#include "lane/lane.h"

int cf_tree_units(const struct cf_split *parts, int position) {
    return cf_split_units(parts, position, position + cf_tree_span(position, parts->n));
}

/* The message between a rank and its child `below` positions further: the parts of the child's
 * subtree, at their displacement in held. */
static struct cf_message message_below(const struct cf_layout *at, void *held,
                                       const struct cf_split *parts, const struct cf_unit *unit,
                                       int root, int below) {
    const int position = cf_position(at, root);
    return (struct cf_message){
        cf_at(unit, held, cf_split_units(parts, position, position + below)),
        cf_tree_units(parts, position + below),
        cf_node_at(at, root, position + below),
    };
}

int cf_tree_scatter(struct cf_comm *comm, void *held, const struct cf_split *parts,
                    const struct cf_unit *unit, int root) {
    const struct cf_layout *at = &comm->layout;
    const int position = cf_position(at, root);
    const int span = cf_tree_span(position, at->nodes);
    MPI_Request send[CF_MAX_CHILDREN];
    int sends = 0;

    if (position > 0) {
        CF_TRY(cf_receive(held, cf_tree_units(parts, position), unit,
                          cf_node_at(at, root, position - span), 0, at->lane_comm));
    }
    for (int below = span / 2; below > 0; below /= 2) {
        if (position + below < at->nodes) {
            const struct cf_message to = message_below(at, held, parts, unit, root, below);
            CF_TRY_OR_END(
                NULL, send, sends,
                PMPI_Isend(to.data, to.count, unit->type, to.rank, 0, at->lane_comm, &send[sends]));
            sends++;
        }
    }
    return cf_requests_wait(send, sends);
}

int cf_tree_gather(struct cf_comm *comm, void *held, const struct cf_split *parts,
                   const struct cf_unit *unit, int root) {
    const struct cf_layout *at = &comm->layout;
    const int position = cf_position(at, root);
    const int span = cf_tree_span(position, at->nodes);
    MPI_Request receive[CF_MAX_CHILDREN];
    int receives = 0;

    for (int below = 1; below < span && position + below < at->nodes; below *= 2) {
        const struct cf_message from = message_below(at, held, parts, unit, root, below);
        CF_TRY_OR_END(receive, NULL, receives,
                      PMPI_Irecv(from.data, from.count, unit->type, from.rank, 0, at->lane_comm,
                                 &receive[receives]));
        receives++;
    }
    CF_TRY(cf_requests_end(receive, NULL, receives, MPI_SUCCESS));
    if (position == 0) {
        return MPI_SUCCESS;
    }
    return cf_send(held, cf_tree_units(parts, position), unit,
                   cf_node_at(at, root, position - span), 0, at->lane_comm);
}

struct cf_doubling cf_doubling_of(int rank, int n) {
    struct cf_doubling who = {.active = 1};

    while (who.active <= n / 2) {
        who.active *= 2;
    }
    who.surplus = n - who.active;
    who.stands_for_two = rank < 2 * who.surplus && rank % 2 == 1;
    if (rank >= 2 * who.surplus) {
        who.index = rank - who.surplus;
    } else {
        who.index = who.stands_for_two ? rank / 2 : -1;
    }
    return who;
}

int cf_exchange_sums(struct cf_comm *comm, int partner, void *sums[2], int count,
                     const struct cf_unit *unit, MPI_Op op) {
    const struct cf_layout *at = &comm->layout;
    void *own = sums[0];

    CF_TRY(cf_send_receive((struct cf_message){own, count, partner},
                           (struct cf_message){sums[1], count, partner}, unit, at->lane_comm));
    if (partner < at->node) {
        return cf_combine(comm, sums[1], own, count, unit, op);
    }
    CF_TRY(cf_combine(comm, own, sums[1], count, unit, op));
    sums[0] = sums[1];
    sums[1] = own;
    return MPI_SUCCESS;
}

int cf_lane_run(struct cf_lane_call *call, const struct cf_lane_choice *choice,
                const int *parameter) {
    int own[CF_MAX_PARAMETERS];

    for (int i = 0; i < CF_MAX_PARAMETERS; i++) {
        own[i] = parameter[choice->parameters[i]];
    }
    call->parameter = own;
    return choice->run(call);
}
