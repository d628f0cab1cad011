#include "parts.h"

#include <stdio.h>

#include "comm/comm.h"
#include "report.h"

/* Reads NxR; false for anything else. */
static bool read_shape(const char *text, int *nodes, int *ranks) {
    char rest = '\0';
    return sscanf(text, "%dx%d%c", nodes, ranks, &rest) == 2 && *nodes > 0 && *ranks > 0;
}

static bool is_regular(const struct cf_layout *layout) {
    return layout->consecutive && layout->min_node_size == layout->max_node_size;
}

/* Whether all parts have the same name, so that all ranks read the cases alike. */
static bool are_alike(const struct bench *bench) {
    const int own = (int)bench->tested.state->layout.sockets;
    int ends[2] = {own, -own};
    must(PMPI_Allreduce(MPI_IN_PLACE, ends, 2, MPI_INT, MPI_MAX, bench->comm), "MPI_Allreduce");
    return ends[0] == -ends[1];
}

bool parts_create(struct bench *bench, char *why, size_t size) {
    const struct cf_layout *job = &bench->world->layout;
    const char *text = bench->options.parts;
    struct tested *tested = &bench->tested;
    char name[CF_LAYOUT_NAME_SIZE];
    int nodes = 0;
    int ranks = 0;

    cf_layout_placement(job, name, sizeof name);
    if (!read_shape(text, &nodes, &ranks) || !is_regular(job) || job->nodes % nodes != 0 ||
        job->max_node_size % ranks != 0) {
        snprintf(why, size, "a job of layout %s cannot be divided into parts of %s", name, text);
        return false;
    }
    const int node = bench->rank / job->max_node_size;
    const int node_rank = bench->rank % job->max_node_size;
    tested->part = node / nodes * (job->max_node_size / ranks) + node_rank / ranks;
    must(PMPI_Comm_split(MPI_COMM_WORLD, tested->part, bench->rank, &tested->comm),
         "MPI_Comm_split");
    must(PMPI_Comm_rank(tested->comm, &tested->rank), "MPI_Comm_rank");
    must(PMPI_Comm_size(tested->comm, &tested->size), "MPI_Comm_size");
    must(cf_comm_get(tested->comm, &tested->state), "cf_comm_get");
    if (tested->state == NULL) {
        fail(EXIT_TROUBLE, "a part has no layout");
    }
    if (!are_alike(bench)) {
        snprintf(why, size, "parts of %s lie on the sockets in different ways", text);
        return false;
    }
    const int used = snprintf(bench->layout, sizeof bench->layout, "%s/", name);
    cf_layout_name(&tested->state->layout, bench->layout + used,
                   sizeof bench->layout - (size_t)used);
    return true;
}

void parts_free(struct bench *bench) {
    if (bench->tested.comm != MPI_COMM_WORLD) {
        must(PMPI_Comm_free(&bench->tested.comm), "MPI_Comm_free");
    }
}
