/*
 * Communicators that the program does not know of: how many there may be, and how a communicator's
 * ranks make some together.
 */
#ifndef COLLFORGE_PREPARE_H_INCLUDED
#define COLLFORGE_PREPARE_H_INCLUDED

#include "base/cf.h"

/*
 * Of one process, windows included: half of those that MPICH has numbers for. The program's own
 * come first.
 */
enum { CF_MOST_HIDDEN = 1024 };

/*
 * As MPI_Comm_split, with errors returned by the new communicator, which counts as hidden. All
 * ranks take part in each, whatever happened before; false on the rank that gets none.
 */
bool cf_split(MPI_Comm comm, int color, int key, MPI_Comm *out);
/* Frees what cf_split has made; nothing happens to MPI_COMM_NULL. */
void cf_unsplit(MPI_Comm *comm);
/* Whether this process may have so many more. */
bool cf_may_hide(int more);
/* Counts so many more, which cf_split has not made. */
void cf_count_hidden(int more);

/*
 * Runs a collective part of a preparation that makes so many hidden communicators, if all ranks may
 * make them. *done is alike on all ranks. Returns an MPI error class.
 */
int cf_prepare_part(struct cf_comm *comm, int hidden, bool (*part)(struct cf_comm *, const void *),
                    const void *wanted, bool *done);
/* The same for what only some variants need: at the first call that finds it neither there nor
 * refused, which is for good. */
int cf_prepare_once(struct cf_comm *comm, int hidden, bool (*part)(struct cf_comm *, const void *),
                    const void *wanted, bool there, bool *refused);

#endif
