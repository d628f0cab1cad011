/* The user's own operations are pending on the communicator while collectives run on it. */
#include "conformance.h"

enum { WORDS = 50, PENDING = 2, TAG = 4321 };

/* What a library sends for a collective is no message that a user's probe or receive may see. */
static void probe(const struct place *place) {
    int flag = 0;
    expect(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, place->comm, &flag, MPI_STATUS_IGNORE) ==
                   MPI_SUCCESS &&
               !flag,
           "probe");
}

static void receive_while_pending(const struct place *place) {
    const int right = (place->rank + 1) % place->size;
    const int left = (place->rank + place->size - 1) % place->size;
    int got[PENDING][WORDS] = {{0}}, sent[PENDING][WORDS];
    MPI_Request requests[2 * PENDING];
    MPI_Status statuses[2 * PENDING];

    for (int i = 0; i < PENDING; i++)
        must(MPI_Irecv(got[i], WORDS, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, place->comm,
                       &requests[i]) == MPI_SUCCESS);
    panel(program.engine, place, 2, 91);
    for (int i = 0; i < PENDING; i++) {
        for (int w = 0; w < WORDS; w++)
            sent[i][w] = 100 * place->rank + i;
        must(MPI_Issend(sent[i], WORDS, MPI_INT, right, TAG + i, place->comm,
                        &requests[PENDING + i]) == MPI_SUCCESS);
    }
    /* Sends and receives may match now, or only when this has run. */
    panel(program.engine, place, 1, 92);
    watch(NULL, "pending messages");
    must(MPI_Waitall(2 * PENDING, requests, statuses) == MPI_SUCCESS);
    for (int i = 0; i < PENDING; i++) {
        int count = 0;
        must(MPI_Get_count(&statuses[i], MPI_INT, &count) == MPI_SUCCESS);
        expect(count == WORDS && statuses[i].MPI_SOURCE == left, "pending receive");
        expect(statuses[i].MPI_TAG == TAG + i, "pending receive");
        expect(got[i][0] == 100 * left + i && got[i][WORDS - 1] == got[i][0], "pending receive");
    }
}

static void collect_while_pending(const struct place *place) {
    const int root = place->size - 1;
    int data[WORDS], mine[WORDS], sums[WORDS];
    MPI_Request requests[3];
    MPI_Status statuses[3];
    for (int w = 0; w < WORDS; w++) {
        data[w] = place->rank == root ? w : -1;
        mine[w] = place->rank + w;
    }
    must(MPI_Ibcast(data, WORDS, MPI_INT, root, place->comm, &requests[0]) == MPI_SUCCESS);
    panel(program.engine, place, 1, 93);
    must(MPI_Iallreduce(mine, sums, WORDS, MPI_INT, MPI_SUM, place->comm, &requests[1]) ==
         MPI_SUCCESS);
    panel(program.engine, place, 1, 94);
    must(MPI_Ibarrier(place->comm, &requests[2]) == MPI_SUCCESS);
    panel(program.engine, place, 1, 95);
    watch(NULL, "pending collectives");
    must(MPI_Waitall(3, requests, statuses) == MPI_SUCCESS);
    for (int w = 0; w < WORDS; w++) {
        expect(data[w] == w, "pending bcast");
        expect(sums[w] == place->size * w + place->size * (place->size - 1) / 2,
               "pending allreduce");
    }
}

void check_messages(void) {
    MPI_Comm comm = MPI_COMM_NULL;
    /* On one rank MPICH 4.0.2's alltoall sends itself what the user's wildcard then receives. */
    if (program.world.size == 1)
        return;
    must(MPI_Comm_dup(program.world.comm, &comm) == MPI_SUCCESS);
    const struct place place = place_of("pending", comm);
    probe(&place);
    panel(program.engine, &place, 1, 90);
    probe(&place);
    receive_while_pending(&place);
    collect_while_pending(&place);
    probe(&place);
    must(MPI_Comm_free(&comm) == MPI_SUCCESS);
}
