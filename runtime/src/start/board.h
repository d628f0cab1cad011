/*
 * The launcher's notice board: what a process hangs up before MPI_Init, the others can read after
 * it. No message of MPI is sent, so a process without this library takes no part and takes no harm.
 * Known are the boards of MPICH's Hydra (and Intel's), by the lines of PMI-1, and of PMIx, by the
 * library that Open MPI uses.
 */
#ifndef COLLFORGE_BOARD_H_INCLUDED
#define COLLFORGE_BOARD_H_INCLUDED

#include <stdbool.h>

/* With the end; without blanks. */
enum { CF_NOTICE_SIZE = 256 };

enum cf_board {
    CF_NO_BOARD,   /* none that is known; alike on all ranks */
    CF_NOT_POSTED, /* it did not take this process's notice */
    CF_POSTED,
};

/* Hangs up the notice of this process. Before MPI_Init. */
enum cf_board cf_board_post(const char *notice);
/* The notice of a rank of MPI_COMM_WORLD. After MPI_Init. False where it has none, or none came in
 * so many seconds. */
bool cf_board_read(int rank, int seconds, char notice[CF_NOTICE_SIZE]);
/* After the last read, or after an MPI_Init that failed. */
void cf_board_close(void);

#endif
