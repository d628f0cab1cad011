/* How lane algorithms are run, and what they share: butterflies and the tree. */
#include "lane/lane.h"

struct cf_butterfly cf_butterfly_of(int rank, int n, int radix) {
    struct cf_butterfly who = {.radix = radix, .active = 1};

    while (who.active <= n / radix) {
        who.active *= radix;
    }
    who.active *= n / who.active;
    who.surplus = n - who.active;
    who.stands_for_two = rank < 2 * who.surplus && rank % 2 == 1;
    if (rank >= 2 * who.surplus) {
        who.index = rank - who.surplus;
    } else {
        who.index = who.stands_for_two ? rank / 2 : -1;
    }
    return who;
}

void cf_tree_of(struct cf_tree *tree, const struct cf_over *at, int root, int radix) {
    const int n = at->size;
    const int position = cf_position(at, root);
    const int span = cf_tree_span(position, n, radix);

    tree->position = position;
    tree->span = span;
    tree->parent = position - (position / span % radix) * span;
    tree->nchildren = 0;
    for (int below = 1; below < span; below *= radix) {
        for (int child = position + below; child < position + radix * below && child < n;
             child += below) {
            tree->children[tree->nchildren++] = child;
        }
    }
}

int cf_tree_units(const struct cf_split *parts, int position, int radix) {
    return cf_split_units(parts, position, position + cf_tree_span(position, parts->n, radix));
}

/* The message between a rank and a child: the parts of the child's subtree, at their displacement
 * in held. */
static struct cf_message message_of(const struct cf_over *at, void *held,
                                    const struct cf_split *parts, const struct cf_unit *unit,
                                    int root, int radix, int child) {
    return (struct cf_message){
        cf_at(unit, held, cf_split_units(parts, cf_position(at, root), child)),
        cf_tree_units(parts, child, radix),
        cf_rank_at(at, root, child),
    };
}

int cf_tree_scatter(const struct cf_over *at, void *held, const struct cf_split *parts,
                    const struct cf_unit *unit, int root, int radix) {
    MPI_Request send[CF_MAX_CHILDREN];
    struct cf_tree tree;
    int sends = 0;

    cf_tree_of(&tree, at, root, radix);
    if (tree.position > 0) {
        CF_TRY(cf_receive(held, cf_tree_units(parts, tree.position, radix), unit,
                          cf_rank_at(at, root, tree.parent), 0, at->comm));
    }
    for (int i = tree.nchildren - 1; i >= 0; i--) {
        const struct cf_message to =
            message_of(at, held, parts, unit, root, radix, tree.children[i]);
        CF_TRY_OR_END(
            NULL, send, sends,
            PMPI_Isend(to.data, to.count, unit->type, to.rank, 0, at->comm, &send[sends]));
        sends++;
    }
    return cf_requests_wait(send, sends);
}

int cf_tree_gather(const struct cf_over *at, void *held, const struct cf_split *parts,
                   const struct cf_unit *unit, int root, int radix) {
    MPI_Request receive[CF_MAX_CHILDREN];
    struct cf_tree tree;

    cf_tree_of(&tree, at, root, radix);
    for (int i = 0; i < tree.nchildren; i++) {
        const struct cf_message from =
            message_of(at, held, parts, unit, root, radix, tree.children[i]);
        CF_TRY_OR_END(
            receive, NULL, i,
            PMPI_Irecv(from.data, from.count, unit->type, from.rank, 0, at->comm, &receive[i]));
    }
    CF_TRY(cf_requests_end(receive, NULL, tree.nchildren, MPI_SUCCESS));
    if (tree.position == 0) {
        return MPI_SUCCESS;
    }
    return cf_send(held, cf_tree_units(parts, tree.position, radix), unit,
                   cf_rank_at(at, root, tree.parent), 0, at->comm);
}

static int run_over(struct cf_over over, struct cf_lane_call *call,
                    const struct cf_lane_choice *choice, const int *parameter) {
    int own[CF_MAX_PARAMETERS];

    for (int i = 0; i < CF_MAX_PARAMETERS; i++) {
        own[i] = parameter[choice->parameters[i]];
    }
    call->over = over;
    call->parameter = own;
    return choice->run(call);
}

int cf_lane_run(struct cf_lane_call *call, const struct cf_lane_choice *choice,
                const int *parameter) {
    const struct cf_layout *at = &call->comm->layout;

    return run_over((struct cf_over){at->lane_comm, at->node, at->nodes}, call, choice, parameter);
}

int cf_node_exscan(struct cf_lane_call *call, const struct cf_lane_choice *exscan,
                   const int *parameter) {
    const struct cf_layout *at = &call->comm->layout;
    const struct cf_over node = {at->node_comm, at->node_rank, at->node_size[at->node]};

    /* On lanes the two buffers are never the same. */
    if (call->from == call->to) {
        CF_TRY(cf_copy_apart(call->comm, CF_SLOT_OPERAND, &call->from, call->count, call->unit));
    }
    return run_over(node, call, exscan, parameter);
}

int cf_node_scan(struct cf_lane_call *call, const struct cf_lane_choice *exscan,
                 const int *parameter) {
    void *result = call->to;
    void *prefix = cf_temp(call->comm, CF_SLOT_OPERAND, call->count, call->unit);

    CF_TRY_MEMORY(prefix);
    call->to = prefix;
    CF_TRY(cf_node_exscan(call, exscan, parameter));
    CF_TRY(cf_copy(call->comm, result, call->from, call->count, call->unit));
    return call->comm->layout.node_rank == 0
               ? MPI_SUCCESS
               : cf_combine(call->comm, prefix, result, call->count, call->unit, call->op);
}
