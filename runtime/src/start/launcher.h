/*
 * Notices in the launcher's key-value store. A process posts one before MPI_Init, and the others
 * can read it afterwards. No MPI message is sent, so a process without this library is not
 * disturbed. Supported are Hydra (MPICH's and Intel's), by PMI-1, and PMIx, through the library
 * that the MPI library uses.
 */
#ifndef COLLFORGE_LAUNCHER_H_INCLUDED
#define COLLFORGE_LAUNCHER_H_INCLUDED

#include <stdbool.h>

/* Including the final 0; a notice has no blanks. */
enum { CF_NOTICE_SIZE = 256 };

enum cf_posted {
    CF_NOWHERE,    /* no supported store; equal on all ranks that one launcher started alike */
    CF_NOT_POSTED, /* the store refused this process's notice */
    CF_POSTED,
};

/* Posts the notice of this process, or has MPI_Init post it. Call before MPI_Init. */
void cf_launcher_post(const char *notice);
/* What became of it. Call after MPI_Init. */
enum cf_posted cf_launcher_posted(void);
/* Reads the notice of a rank of MPI_COMM_WORLD. Call after MPI_Init. False if there is none, or
 * none arrived within this many seconds. */
bool cf_launcher_read(int rank, int seconds, char notice[CF_NOTICE_SIZE]);
/* Call after the last read, or after a failed MPI_Init. */
void cf_launcher_close(void);

#endif
