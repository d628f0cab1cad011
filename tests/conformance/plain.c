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

struct arguments plain_arguments(const struct plain *plain, MPI_Comm comm, int root) {
    return (struct arguments){
        .sendbuf = plain->send,
        .sendcount = plain->counts[0],
        .sendcounts = plain->counts,
        .sdispls = plain->displs,
        .sendtype = MPI_INT,
        .recvbuf = plain->recv,
        .recvcount = plain->counts[0],
        .recvcounts = plain->counts,
        .rdispls = plain->displs,
        .recvtype = MPI_INT,
        .op = MPI_SUM,
        .root = root,
        .comm = comm,
    };
}
