/*
 * Component collectives of the MPI library over a node or a lane communicator (over): the regular
 * form where the split is uniform and the library serves it correctly, else the v form. shared.h
 * has the same functions for a node, without over. Lane algorithms have their parameters in its
 * place.
 */
#ifndef COLLFORGE_COMPONENT_H_INCLUDED
#define COLLFORGE_COMPONENT_H_INCLUDED

#include "data/split.h"
#include "data/unit.h"

int cf_scatter(struct cf_comm *comm, const void *from, const struct cf_split *split, void *to,
               const struct cf_unit *unit, int root, MPI_Comm over);
int cf_gather(struct cf_comm *comm, const void *from, void *to, const struct cf_split *split,
              const struct cf_unit *unit, int root, MPI_Comm over);
int cf_allgather(struct cf_comm *comm, const void *from, void *to, const struct cf_split *split,
                 const struct cf_unit *unit, MPI_Comm over);
int cf_alltoall(struct cf_comm *comm, const void *from, const struct cf_split *send, void *to,
                const struct cf_split *receive, const struct cf_unit *unit, bool regular,
                MPI_Comm over);
int cf_bcast(struct cf_comm *comm, void *data, int count, const struct cf_unit *unit, int root,
             MPI_Comm over);
int cf_reduce(struct cf_comm *comm, const void *from, void *to, int count,
              const struct cf_unit *unit, MPI_Op op, int root, MPI_Comm over);
int cf_allreduce(struct cf_comm *comm, const void *from, void *to, int count,
                 const struct cf_unit *unit, MPI_Op op, MPI_Comm over);
int cf_reduce_scatter(struct cf_comm *comm, const void *from, void *to,
                      const struct cf_split *split, const struct cf_unit *unit, MPI_Op op,
                      MPI_Comm over);
/* In place if from == to. */
int cf_scan(struct cf_comm *comm, const void *from, void *to, int count, const struct cf_unit *unit,
            MPI_Op op, MPI_Comm over);
int cf_exscan(struct cf_comm *comm, const void *from, void *to, int count,
              const struct cf_unit *unit, MPI_Op op, MPI_Comm over);
int cf_barrier(struct cf_comm *comm, MPI_Comm over);

#endif
