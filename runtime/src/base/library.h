/*
 * The MPI library that this library is built for. What is particular to one of them, its bugs
 * included, is told by a struct cf_library in a file of its own, library_NAME.c, which the
 * libraries derived from it share. No other file asks which library it is built for. The file of
 * the library in <mpi.h> defines cf_library; without one, linking fails.
 */
#ifndef COLLFORGE_LIBRARY_H_INCLUDED
#define COLLFORGE_LIBRARY_H_INCLUDED

#include <mpi.h>
#include <stdbool.h>

#include "base/runtime.h"

struct cf_library {
    const char *name;  /* for `collforge tune --mpi` */
    const char *title; /* for messages */
    /* Whether MPI_Get_library_version of this library, or of one derived from it, returns this. */
    bool (*wrote)(const char *version);

    /* ---- communicators and groups ---- */

    /* MPI_Group_translate_ranks searches the second group from its beginning for each rank: p² / 2
     * steps for p ranks. */
    bool searches_groups;
    /* MPI_Comm_create_group copies attributes, too, although the new communicator may have other
     * ranks or another order. A true duplicate has the same group object as the original, so group
     * handles tell them apart. */
    bool create_group_copies_attributes;
    /* When MPI_Comm_free returns, all delete callbacks have run. Handles are addresses, so an entry
     * for this one might never be replaced. */
    bool freed_on_return;
    /*
     * The ranks agree on the id of a new communicator in several steps, and hang if they run these
     * for two communicators in different orders. Returns whether a call of the program that makes
     * one may still be under way on this rank. NULL: communicators may be made at any time.
     */
    bool (*may_be_making)(void);

    /* ---- progress ---- */

    /* Has advance called whenever the library makes progress, until it returns -1; NULL: only asks
     * whether that is possible. May be called again after that. NULL: it is not. */
    bool (*call_in_progress)(int (*advance)(void));
    /* Whether a request has completed, without making progress, which advance must not. NULL: it
     * may. */
    bool (*has_completed)(MPI_Request request);

    /* ---- windows ---- */

    /* The folder with the memory of MPI_Win_allocate_shared. Call after MPI_Init. */
    const char *(*shared_folder)(void);
    /* The user's choice of what makes windows, which ranks may have set differently; "": none.
     * NULL: there is no choice, and process numbers do not matter. */
    const char *(*windows_by)(void);

    /* ---- threads ---- */

    /* With MPI_THREAD_MULTIPLE, windows cannot be created on networks without RDMA (osc/pt2pt). */
    bool refuses_windows_of_threads;

    /* ---- collectives ---- */

    /* The Fortran routines call PMPI, so this library defines them, too (wrappers_fortran.c). */
    bool has_fortran_of_its_own;
    /* In MPI_Gather and MPI_Scatter ranks forward parts as bytes: of types with numbers of several
     * kinds, long parts are cut off ("message truncated"). */
    bool cuts_forwarded_parts;

    /* ---- time ---- */

    /* Lets time pass, where it does not by itself: in a simulation, whose processes take turns.
     * NULL: it does. */
    void (*pass)(double seconds);

    /* ---- the launcher (start/launcher.h) ---- */

    /* MPI_Init speaks PMI-1 with Hydra. */
    bool speaks_pmi;
    /* The first communicator of a session takes the place of MPI_Init in the exchange with the
     * launcher. */
    bool exchanges_in_sessions;
    /* Loads the library's own PMIx library before MPI_Init; NULL if there is none, or if it may not
     * be used. The member is NULL if it never may. */
    void *(*open_pmix)(void);
    /* MPI_Init fails if PMIx was initialised before, but calls PMIx_Commit through this library. */
    bool commits;
};

/* Called before MPI_Waitall if it is not NULL, where a library's fails for generalized requests
 * that are under way. */
CF_HIDDEN extern void (*cf_before_waitall)(int n, const MPI_Request *requests);

/* Called before PMIx_Commit if it is not NULL, where a library commits. */
CF_HIDDEN extern void (*cf_before_commit)(void);

CF_HIDDEN extern const struct cf_library cf_library;

/*
 * Whether the program uses the MPI library that this library was built for, so that handles have
 * the same meaning. Must be called before the first call with a handle; may be called before
 * MPI_Init. Warns once if not.
 */
bool cf_library_is_ours(void);

/*
 * Ends the process with a message if the caller of MPI_Init is linked with another MPI library, as
 * a plugin may be. Its calls would crash: the library that this one is linked with comes first.
 */
void cf_library_check_caller(const void *caller);

/* The loaded file with the program's MPI functions; NULL if unknown. */
const char *cf_library_file(void);

#endif
