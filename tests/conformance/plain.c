/* Calls whose results are compared with each other. */
#include "conformance.h"

#include <stdlib.h>

void plain_create(struct plain *plain, int count, int size) {
    plain->words = (size_t)count * (size_t)size;
    plain->send = xmalloc(plain->words * sizeof(int));
    plain->recv = xmalloc(plain->words * sizeof(int));
    plain->counts = xmalloc((size_t)size * sizeof(int));
    plain->displs = xmalloc((size_t)size * sizeof(int));
    for (int i = 0; i < size; i++) {
        plain->counts[i] = count;
        plain->displs[i] = i * count;
    }
}

void plain_free(struct plain *plain) {
    free(plain->send);
    free(plain->recv);
    free(plain->counts);
    free(plain->displs);
}

void plain_fill(struct plain *plain, unsigned seed) {
    for (size_t i = 0; i < plain->words; i++) {
        plain->send[i] = (int)(mix(seed + i) % 1000);
        plain->recv[i] = -1;
    }
}

struct cf_args plain_arguments(const struct plain *plain, MPI_Comm comm, int root) {
    struct cf_args args = plain_values;
    args.sendbuf = plain->send;
    args.recvbuf = plain->recv;
    args.sendcount = args.recvcount = plain->counts[0];
    args.sendcounts = args.recvcounts = plain->counts;
    args.sdispls = args.rdispls = plain->displs;
    args.sendtype = args.recvtype = MPI_INT;
    args.op = MPI_SUM;
    args.root = root;
    args.comm = comm;
    return args;
}
