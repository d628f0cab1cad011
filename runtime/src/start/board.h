/*
 * The launcher's key-value store, here called notice board. A process posts a notice before
 * MPI_Init, and the others can read it afterwards. No MPI message is sent, so a process without
 * this library is not disturbed. Supported are MPICH's Hydra (and Intel's), by PMI-1, and PMIx,
 * through the library that Open MPI uses.
 */
#ifndef COLLFORGE_BOARD_H_INCLUDED
#define COLLFORGE_BOARD_H_INCLUDED

#include <stdbool.h>

/* Including the final 0; a notice has no blanks. */
enum { CF_NOTICE_SIZE = 256 };

enum cf_board {
    CF_NO_BOARD,   /* no supported board; equal on all ranks that one launcher started alike */
    CF_NOT_POSTED, /* the board refused this process's notice */
    CF_POSTED,
};

/* Posts the notice of this process. Call before MPI_Init. */
enum cf_board cf_board_post(const char *notice);
/* Reads the notice of a rank of MPI_COMM_WORLD. Call after MPI_Init. False if there is none, or
 * none arrived within this many seconds. */
bool cf_board_read(int rank, int seconds, char notice[CF_NOTICE_SIZE]);
/* Call after the last read, or after a failed MPI_Init. */
void cf_board_close(void);

#endif
