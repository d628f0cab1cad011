/* The sessions model of MPI-4. */
#include "conformance.h"

#if MPI_VERSION >= 4

static MPI_Session session = MPI_SESSION_NULL;

void session_open(void) {
    MPI_Group group = MPI_GROUP_NULL;
    MPI_Comm comm = MPI_COMM_NULL;
    must(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session) == MPI_SUCCESS);
    must(MPI_Group_from_session_pset(session, "mpi://WORLD", &group) == MPI_SUCCESS);
    must(MPI_Comm_create_from_group(group, "conformance", MPI_INFO_NULL, MPI_ERRORS_RETURN,
                                    &comm) == MPI_SUCCESS);
    must(MPI_Group_free(&group) == MPI_SUCCESS);
    program.world = place_of("session", comm);
}

void session_close(void) {
    must(MPI_Comm_free(&program.world.comm) == MPI_SUCCESS);
    must(MPI_Session_finalize(&session) == MPI_SUCCESS);
}

#else

void session_open(void) {
    die("this MPI library has no sessions");
}

void session_close(void) {
}

#endif
