/* What a user can see of a communicator is what the user put there. */
#include "conformance.h"

#include <string.h>

static int handled = 0;
static int copied = 0;
static int deleted = 0;

static void handle(MPI_Comm *comm, int *code, ...) {
    (void)comm;
    (void)code;
    handled++;
}

static int copy(MPI_Comm comm, int keyval, void *extra, void *in, void *out, int *flag) {
    (void)comm;
    (void)keyval;
    (void)extra;
    *(void **)out = in;
    *flag = 1;
    copied++;
    return MPI_SUCCESS;
}

static int forget(MPI_Comm comm, int keyval, void *value, void *extra) {
    (void)comm;
    (void)keyval;
    (void)value;
    (void)extra;
    deleted++;
    return MPI_SUCCESS;
}

static void expect_handler(MPI_Comm comm, MPI_Errhandler handler) {
    MPI_Errhandler found = MPI_ERRHANDLER_NULL;
    must(MPI_Comm_get_errhandler(comm, &found) == MPI_SUCCESS);
    expect(found == handler, "error handler");
    must(MPI_Errhandler_free(&found) == MPI_SUCCESS);
}

static void expect_attribute(MPI_Comm comm, int keyval, const void *value) {
    void *found = NULL;
    int flag = 0;
    must(MPI_Comm_get_attr(comm, keyval, &found, &flag) == MPI_SUCCESS);
    expect(flag && found == value, "attribute");
}

/* The panel, without the error handler that place_of sets. */
static void use(MPI_Comm comm, MPI_Errhandler handler) {
    const struct place place = place_of("decorated", comm);
    if (handler != MPI_ERRHANDLER_NULL)
        must(MPI_Comm_set_errhandler(comm, handler) == MPI_SUCCESS);
    panel(program.engine, &place, 2, 17);
}

static void handlers(MPI_Comm comm) {
    MPI_Errhandler own = MPI_ERRHANDLER_NULL;
    must(MPI_Comm_create_errhandler(handle, &own) == MPI_SUCCESS);
    use(comm, own);
    expect_handler(comm, own);
    use(comm, MPI_ERRORS_ARE_FATAL);
    expect_handler(comm, MPI_ERRORS_ARE_FATAL);
    use(comm, MPI_ERRORS_RETURN);
    expect_handler(comm, MPI_ERRORS_RETURN);
    expect(handled == 0, "the user's error handler");
    must(MPI_Errhandler_free(&own) == MPI_SUCCESS);
}

static void attributes(MPI_Comm comm) {
    static int value, other;
    MPI_Comm twin = MPI_COMM_NULL;
    int keyval = MPI_KEYVAL_INVALID;
    int flag = 0;
    int *bound = NULL, *bound_after = NULL;
    if (program.world_model)
        must(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &bound, &flag) == MPI_SUCCESS);
    must(MPI_Comm_create_keyval(copy, forget, &keyval, NULL) == MPI_SUCCESS);
    must(MPI_Comm_set_attr(comm, keyval, &value) == MPI_SUCCESS);
    use(comm, MPI_ERRHANDLER_NULL);
    expect_attribute(comm, keyval, &value);
    must(MPI_Comm_dup(comm, &twin) == MPI_SUCCESS);
    expect(copied == 1, "copy callback");
    expect_attribute(twin, keyval, &value);
    must(MPI_Comm_set_attr(twin, keyval, &other) == MPI_SUCCESS);
    expect(deleted == 1, "delete callback of the value that was replaced");
    use(twin, MPI_ERRHANDLER_NULL);
    expect_attribute(twin, keyval, &other);
    expect_attribute(comm, keyval, &value);
    must(MPI_Comm_free(&twin) == MPI_SUCCESS);
    expect(deleted == 2, "delete callback of the freed communicator");
    must(MPI_Comm_delete_attr(comm, keyval) == MPI_SUCCESS);
    must(MPI_Comm_free_keyval(&keyval) == MPI_SUCCESS);
    expect(deleted == 3, "delete callback");
    if (program.world_model)
        must(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &bound_after, &flag) == MPI_SUCCESS);
    expect(bound == NULL || (flag && *bound == *bound_after), "MPI_TAG_UB");
}

static void identity(MPI_Comm comm) {
    char name[MPI_MAX_OBJECT_NAME] = "";
    int length = 0, result = 0, topology = 0, flag = 0;
    must(MPI_Comm_set_name(comm, "of the user") == MPI_SUCCESS);
    use(comm, MPI_ERRHANDLER_NULL);
    must(MPI_Comm_get_name(comm, name, &length) == MPI_SUCCESS);
    expect(strcmp(name, "of the user") == 0, "name");
    must(MPI_Comm_compare(comm, program.world.comm, &result) == MPI_SUCCESS);
    expect(result == MPI_CONGRUENT, "compare");
    must(MPI_Topo_test(comm, &topology) == MPI_SUCCESS);
    expect(topology == MPI_UNDEFINED, "topology");
    must(MPI_Comm_test_inter(comm, &flag) == MPI_SUCCESS);
    expect(!flag, "inter");
}

void check_state(void) {
    MPI_Comm comm = MPI_COMM_NULL;
    int initialized = 0, finalized = 1;
    handled = copied = deleted = 0;
    must(MPI_Comm_dup(program.world.comm, &comm) == MPI_SUCCESS);
    handlers(comm);
    attributes(comm);
    identity(comm);
    must(MPI_Comm_free(&comm) == MPI_SUCCESS);
    must(MPI_Initialized(&initialized) == MPI_SUCCESS);
    must(MPI_Finalized(&finalized) == MPI_SUCCESS);
    expect(initialized == program.world_model && !finalized, "initialized");
}
