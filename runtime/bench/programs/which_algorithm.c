/*
 * Which of Open MPI's algorithms run: used by collforge export after it has written a rules file.
 *
 *   which_algorithm OUTPUT COLLECTIVE:BYTES...
 *
 * Calls each collective on MPI_COMM_WORLD (doubles, MPI_SUM, root 0, blocks of BYTES). Writes a
 * line of JSON to OUTPUT at the start and one for each call. Release builds of Open MPI do not
 * trace which algorithm coll/tuned chooses. But coll/tuned calls each algorithm through the dynamic
 * linker, as a function of libmpi named ompi_coll_base_COLLECTIVE_intra_ALGORITHM. This program
 * defines functions of the same names, which the linker finds first. Each notes its name and calls
 * libmpi's.
 *
 * Only algorithms of the collective called, on MPI_COMM_WORLD, are noted. Components such as han
 * call the same functions on communicators of their own; these calls are only counted.
 *
 * The fields: "first" is the algorithm entered first; "then" is the next one of the same
 * collective, entered from inside the first, to which that delegated the call; "elsewhere" is the
 * number of algorithms on other communicators; "same" says whether all ranks entered the same
 * algorithms; "failed" says whether the call failed, as an algorithm for two processes does with
 * more.
 */
#include <dlfcn.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The algorithms: the name after ompi_coll_base_, and the index of the communicator argument. */
#define ALGORITHMS(X)                                                                              \
    X(allgather_intra_basic_linear, 6)                                                             \
    X(allgather_intra_bruck, 6)                                                                    \
    X(allgather_intra_k_bruck, 6)                                                                  \
    X(allgather_intra_direct_messaging, 6)                                                         \
    X(allgather_intra_neighborexchange, 6)                                                         \
    X(allgather_intra_recursivedoubling, 6)                                                        \
    X(allgather_intra_ring, 6)                                                                     \
    X(allgather_intra_sparbit, 6)                                                                  \
    X(allgather_intra_two_procs, 6)                                                                \
    X(allreduce_intra_allgather_reduce, 5)                                                         \
    X(allreduce_intra_basic_linear, 5)                                                             \
    X(allreduce_intra_nonoverlapping, 5)                                                           \
    X(allreduce_intra_recursivedoubling, 5)                                                        \
    X(allreduce_intra_redscat_allgather, 5)                                                        \
    X(allreduce_intra_ring, 5)                                                                     \
    X(allreduce_intra_ring_segmented, 5)                                                           \
    X(alltoall_intra_basic_linear, 6)                                                              \
    X(alltoall_intra_bruck, 6)                                                                     \
    X(alltoall_intra_linear_sync, 6)                                                               \
    X(alltoall_intra_pairwise, 6)                                                                  \
    X(alltoall_intra_two_procs, 6)                                                                 \
    X(bcast_intra_basic_linear, 4)                                                                 \
    X(bcast_intra_bintree, 4)                                                                      \
    X(bcast_intra_binomial, 4)                                                                     \
    X(bcast_intra_chain, 4)                                                                        \
    X(bcast_intra_knomial, 4)                                                                      \
    X(bcast_intra_pipeline, 4)                                                                     \
    X(bcast_intra_scatter_allgather, 4)                                                            \
    X(bcast_intra_scatter_allgather_ring, 4)                                                       \
    X(bcast_intra_split_bintree, 4)                                                                \
    X(exscan_intra_linear, 5)                                                                      \
    X(exscan_intra_recursivedoubling, 5)                                                           \
    X(reduce_intra_basic_linear, 6)                                                                \
    X(reduce_intra_binary, 6)                                                                      \
    X(reduce_intra_binomial, 6)                                                                    \
    X(reduce_intra_chain, 6)                                                                       \
    X(reduce_intra_in_order_binary, 6)                                                             \
    X(reduce_intra_knomial, 6)                                                                     \
    X(reduce_intra_pipeline, 6)                                                                    \
    X(reduce_intra_redscat_gather, 6)                                                              \
    X(reduce_scatter_block_basic_linear, 5)                                                        \
    X(reduce_scatter_block_intra_butterfly, 5)                                                     \
    X(reduce_scatter_block_intra_recursivedoubling, 5)                                             \
    X(reduce_scatter_block_intra_recursivehalving, 5)                                              \
    X(scan_intra_linear, 5)                                                                        \
    X(scan_intra_recursivedoubling, 5)

/*
 * No algorithm has more arguments; all are pointers or integers. In every calling convention that
 * Open MPI was ported to, a function may be called with more arguments than it takes, so one type
 * fits all.
 */
enum { ARGUMENTS = 12 };
#define PARAMETERS                                                                                 \
    intptr_t a0, intptr_t a1, intptr_t a2, intptr_t a3, intptr_t a4, intptr_t a5, intptr_t a6,     \
        intptr_t a7, intptr_t a8, intptr_t a9, intptr_t a10, intptr_t a11
typedef int algorithm(PARAMETERS);

struct notes {
    const char *collective; /* being called; NULL between calls */
    const char *first;
    const char *then;
    int depth;
    int elsewhere;
};

static struct notes notes;

/* Whether the algorithm called "allgather_intra_ring" is one of this collective's. */
static int is_of(const char *name, const char *collective) {
    const size_t length = strlen(collective);
    return strncmp(name, collective, length) == 0 && (strncmp(name + length, "_intra_", 7) == 0 ||
                                                      strcmp(name + length, "_basic_linear") == 0);
}

static int note(const char *name, intptr_t comm, algorithm *real, const intptr_t *a) {
    const int here = comm == (intptr_t)MPI_COMM_WORLD;
    if (notes.collective != NULL && !here) {
        notes.elsewhere++;
    } else if (notes.collective != NULL && is_of(name, notes.collective)) {
        if (notes.depth == 0 && notes.first == NULL) {
            notes.first = name;
        } else if (notes.then == NULL) {
            notes.then = name;
        }
    }
    notes.depth++;
    const int err = real(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11]);
    notes.depth--;
    return err;
}

static algorithm *find(const char *symbol) {
    void *found = dlsym(RTLD_NEXT, symbol);
    algorithm *real = NULL;
    if (found == NULL) {
        fprintf(stderr, "collforge: libmpi has no %s\n", symbol);
        abort();
    }
    memcpy(&real, &found, sizeof real);
    return real;
}

#define DEFINE(name, index)                                                                        \
    algorithm ompi_coll_base_##name;                                                               \
    int ompi_coll_base_##name(PARAMETERS) {                                                        \
        static algorithm *real;                                                                    \
        const intptr_t a[ARGUMENTS] = {a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11};          \
        if (real == NULL)                                                                          \
            real = find("ompi_coll_base_" #name);                                                  \
        return note(#name, a[index], real, a);                                                     \
    }
ALGORITHMS(DEFINE)

/* Calls the collective once. Both buffers hold a block of count doubles for each rank. */
static int call(const char *name, double *in, double *out, int count) {
    const MPI_Comm comm = MPI_COMM_WORLD;
    const MPI_Datatype type = MPI_DOUBLE;
    if (strcmp(name, "allgather") == 0) {
        return PMPI_Allgather(in, count, type, out, count, type, comm);
    }
    if (strcmp(name, "allreduce") == 0) {
        return PMPI_Allreduce(in, out, count, type, MPI_SUM, comm);
    }
    if (strcmp(name, "alltoall") == 0) {
        return PMPI_Alltoall(in, count, type, out, count, type, comm);
    }
    if (strcmp(name, "bcast") == 0) {
        return PMPI_Bcast(in, count, type, 0, comm);
    }
    if (strcmp(name, "exscan") == 0) {
        return PMPI_Exscan(in, out, count, type, MPI_SUM, comm);
    }
    if (strcmp(name, "reduce") == 0) {
        return PMPI_Reduce(in, out, count, type, MPI_SUM, 0, comm);
    }
    if (strcmp(name, "reduce_scatter_block") == 0) {
        return PMPI_Reduce_scatter_block(in, out, count, type, MPI_SUM, comm);
    }
    if (strcmp(name, "scan") == 0) {
        return PMPI_Scan(in, out, count, type, MPI_SUM, comm);
    }
    fprintf(stderr, "collforge: which_algorithm cannot call %s\n", name);
    return MPI_ERR_ARG;
}

/* Whether every rank entered the same algorithms. Names are compared as text, because addresses
 * differ between ranks. */
static int same_everywhere(void) {
    enum { LENGTH = 128 };
    char mine[LENGTH] = "", roots[LENGTH] = "";
    (void)snprintf(mine, sizeof mine, "%s %s", notes.first ? notes.first : "",
                   notes.then ? notes.then : "");
    memcpy(roots, mine, sizeof roots);
    int same = 0;
    if (PMPI_Bcast(roots, LENGTH, MPI_CHAR, 0, MPI_COMM_WORLD) != MPI_SUCCESS) {
        return 0;
    }
    const int equal = strcmp(mine, roots) == 0;
    if (PMPI_Allreduce(&equal, &same, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD) != MPI_SUCCESS) {
        return 0;
    }
    return same;
}

static int run(char *word, FILE *output) {
    int rank = 0, size = 0;
    char *colon = strchr(word, ':');
    const long bytes = colon ? strtol(colon + 1, NULL, 10) : 0;
    const size_t count = bytes > 0 ? ((size_t)bytes + sizeof(double) - 1) / sizeof(double) : 0;
    if (count == 0 || PMPI_Comm_rank(MPI_COMM_WORLD, &rank) ||
        PMPI_Comm_size(MPI_COMM_WORLD, &size)) {
        fprintf(stderr, "collforge: '%s' is not of the form COLLECTIVE:BYTES\n", word);
        return 1;
    }
    *colon = '\0';
    double *in = calloc(count * (size_t)size, sizeof *in);
    double *out = calloc(count * (size_t)size, sizeof *out);
    int err = 1, failed = 0;
    if (in != NULL && out != NULL && PMPI_Barrier(MPI_COMM_WORLD) == MPI_SUCCESS) {
        /* Twice: in its first call han creates its communicators, by collectives on this
         * communicator. */
        failed = call(word, in, out, (int)count) != MPI_SUCCESS;
        notes = (struct notes){.collective = word};
        failed = call(word, in, out, (int)count) != MPI_SUCCESS || failed;
        notes.collective = NULL;
        err = 0;
    }
    if (!err) {
        const int same = same_everywhere();
        if (output != NULL) {
            fprintf(output,
                    "{\"collective\": \"%s\", \"bytes\": %ld, \"first\": \"%s\", \"then\": \"%s\", "
                    "\"elsewhere\": %d, \"same\": %s, \"failed\": %s}\n",
                    word, bytes, notes.first ? notes.first : "", notes.then ? notes.then : "",
                    notes.elsewhere, same ? "true" : "false", failed ? "true" : "false");
        }
    }
    free(in);
    free(out);
    return err;
}

int main(int argc, char **argv) {
    int rank = 0, err = 1;
    FILE *output = NULL;
    if (PMPI_Init(&argc, &argv) != MPI_SUCCESS) {
        return 1;
    }
    if (argc < 3 || PMPI_Comm_rank(MPI_COMM_WORLD, &rank) != MPI_SUCCESS) {
        goto cleanup;
    }
    if (rank == 0) {
        output = fopen(argv[1], "w");
        if (output == NULL) {
            perror(argv[1]);
            goto cleanup;
        }
        fprintf(output, "{\"started\": true}\n");
    }
    err = PMPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN) != MPI_SUCCESS;
    for (int i = 2; i < argc && !err; i++) {
        err = run(argv[i], output);
        if (output != NULL) {
            (void)fflush(output);
        }
    }

cleanup:
    if (output != NULL && fclose(output) != 0) {
        err = 1;
    }
    if (err) {
        (void)PMPI_Abort(MPI_COMM_WORLD, 1);
    }
    return PMPI_Finalize() != MPI_SUCCESS;
}
