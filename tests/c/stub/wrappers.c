#include "collectives.h"
#include "serve/fast.h"

static int run(const struct cf_choice *choice, int collective, const struct cf_args *args,
               struct cf_call *call) {
    const int err = cf_attempt(choice, collective, args, call);
    return err == CF_DECLINED ? cf_ended(cf_collectives[collective].native(args), call) : err;
}

COLLFORGE_PUBLIC int MPI_Bcast(void *buffer, int count, MPI_Datatype datatype, int root,
                               MPI_Comm comm) {
    struct cf_call call;
    const struct cf_choice *choice = cf_choose(CF_BCAST, comm, count, datatype, &call);
    if (choice == NULL)
        return cf_ended(PMPI_Bcast(buffer, count, datatype, root, comm), &call);
    const struct cf_args args = {.sendcount = count,
                                 .sendtype = datatype,
                                 .recvbuf = buffer,
                                 .recvcount = count,
                                 .recvtype = datatype,
                                 .root = root,
                                 .comm = comm};
    return run(choice, CF_BCAST, &args, &call);
}

COLLFORGE_PUBLIC int MPI_Allreduce(const void *sendbuf, void *recvbuf, int count,
                                   MPI_Datatype datatype, MPI_Op op, MPI_Comm comm) {
    struct cf_call call;
    const struct cf_choice *choice = cf_choose(CF_ALLREDUCE, comm, count, datatype, &call);
    if (choice == NULL)
        return cf_ended(PMPI_Allreduce(sendbuf, recvbuf, count, datatype, op, comm), &call);
    const struct cf_args args = {.sendbuf = sendbuf,
                                 .sendcount = count,
                                 .sendtype = datatype,
                                 .recvbuf = recvbuf,
                                 .recvcount = count,
                                 .recvtype = datatype,
                                 .op = op,
                                 .comm = comm};
    return run(choice, CF_ALLREDUCE, &args, &call);
}

COLLFORGE_PUBLIC int MPI_Gather(const void *sendbuf, int sendcount, MPI_Datatype sendtype,
                                void *recvbuf, int recvcount, MPI_Datatype recvtype, int root,
                                MPI_Comm comm) {
    struct cf_call call;
    const bool in_place = sendbuf == MPI_IN_PLACE;
    const struct cf_choice *choice = cf_choose(CF_GATHER, comm, in_place ? recvcount : sendcount,
                                               in_place ? recvtype : sendtype, &call);
    if (choice == NULL)
        return cf_ended(PMPI_Gather(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm), &call);
    const struct cf_args args = {.sendbuf = sendbuf,
                                 .sendcount = sendcount,
                                 .sendtype = sendtype,
                                 .recvbuf = recvbuf,
                                 .recvcount = recvcount,
                                 .recvtype = recvtype,
                                 .root = root,
                                 .comm = comm};
    return run(choice, CF_GATHER, &args, &call);
}
