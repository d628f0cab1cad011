/*
 * The functions of MPI that make communicators. A nonblocking collective can be served only where
 * the communicator is set up, which a start cannot do (comm/under_way.h): so it is done here, where
 * all its ranks are. Wrapped under both names, because Open MPI's Fortran routines call PMPI's; the
 * runtime itself calls neither.
 */
#include "base/cf.h"
#include "base/chain.h"
#include "comm/under_way.h"

#define MAKER(name, parameters, made, ...)                                                         \
    __attribute__((weak)) COLLFORGE_PUBLIC int PMPI_##name parameters;                             \
    static CF_OWN(own_##name, PMPI_##name, parameters, __VA_ARGS__) static int(*next_##name)       \
        parameters = PMPI_##name;                                                                  \
    __attribute__((constructor)) static void chain_##name(void) {                                  \
        cf_chain("MPI_" #name, &next_##name);                                                      \
    }                                                                                              \
    COLLFORGE_PUBLIC int MPI_##name parameters {                                                   \
        const int err = next_##name(__VA_ARGS__);                                                  \
        cf_under_way_set_up(err == MPI_SUCCESS ? *(made) : MPI_COMM_NULL);                         \
        return err;                                                                                \
    }                                                                                              \
    int PMPI_##name parameters {                                                                   \
        const int err = own_##name(__VA_ARGS__);                                                   \
        cf_under_way_set_up(err == MPI_SUCCESS ? *(made) : MPI_COMM_NULL);                         \
        return err;                                                                                \
    }

MAKER(Comm_dup, (MPI_Comm comm, MPI_Comm *out), out, comm, out)
MAKER(Comm_split, (MPI_Comm comm, int color, int key, MPI_Comm *out), out, comm, color, key, out)
MAKER(Comm_split_type, (MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *out), out, comm,
      type, key, info, out)
MAKER(Comm_create, (MPI_Comm comm, MPI_Group group, MPI_Comm *out), out, comm, group, out)
MAKER(Comm_create_group, (MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *out), out, comm, group,
      tag, out)
MAKER(Intercomm_merge, (MPI_Comm comm, int high, MPI_Comm *out), out, comm, high, out)
MAKER(Cart_create,
      (MPI_Comm comm, int n, const int dims[], const int periods[], int reorder, MPI_Comm *out),
      out, comm, n, dims, periods, reorder, out)
MAKER(Cart_sub, (MPI_Comm comm, const int remain[], MPI_Comm *out), out, comm, remain, out)
MAKER(Graph_create,
      (MPI_Comm comm, int n, const int index[], const int edges[], int reorder, MPI_Comm *out), out,
      comm, n, index, edges, reorder, out)
