#include "data/sizes.h"

#include <pthread.h>

#include "base/chain.h"

struct cf_handle_table cf_types = CF_HANDLE_TABLE_INITIALIZER;

/* Attribute of every derived type in the table, which removes the entry when the type is freed. */
static int type_keyval = MPI_KEYVAL_INVALID;

uint64_t cf_bucket_begin(int bucket) {
    static const uint64_t tops[] = {UINT64_C(1) << 63, CF_QUARTER_1, CF_QUARTER_2, CF_QUARTER_3};
    const uint64_t top = tops[bucket % 4];
    const int shift = 63 - bucket / 4;
    const uint64_t floor = top >> shift;
    return (floor << shift) == top ? floor : floor + 1;
}

/* A private communicator, for MPI calls that may return errors. */
static MPI_Comm probe_comm = MPI_COMM_NULL;

static int forget_type(MPI_Datatype type, int keyval, void *value, void *extra) {
    (void)keyval;
    (void)value;
    (void)extra;
    cf_handle_remove(&cf_types, (uintptr_t)type);
    return MPI_SUCCESS;
}

/* MPI has no query for this. Packing no elements is an error unless the type is committed. */
static bool is_committed(MPI_Datatype type) {
    char nothing = 0;
    int position = 0;
    return PMPI_Pack(&nothing, 0, type, &nothing, 1, &position, probe_comm) == MPI_SUCCESS;
}

/* MPI has no query for this either. MPI_Reduce_local would report errors to the handler of
 * MPI_COMM_WORLD. */
int cf_op_check(MPI_Op op, MPI_Datatype type) {
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    const int nothing = 0;
    int result = 0;
    (void)pthread_mutex_lock(&mutex);
    const int err = PMPI_Allreduce(&nothing, &result, 0, type, op, probe_comm);
    (void)pthread_mutex_unlock(&mutex);
    return err;
}

int cf_envelope_of(MPI_Datatype type, struct cf_envelope *envelope) {
#if MPI_VERSION >= 4
    return PMPI_Type_get_envelope_c(type, &envelope->integers, &envelope->addresses,
                                    &envelope->counts, &envelope->types, &envelope->combiner);
#else
    return PMPI_Type_get_envelope(type, &envelope->integers, &envelope->addresses, &envelope->types,
                                  &envelope->combiner);
#endif
}

bool cf_combiner_is_predefined(int combiner) {
    return combiner == MPI_COMBINER_NAMED || combiner == MPI_COMBINER_F90_REAL ||
           combiner == MPI_COMBINER_F90_COMPLEX || combiner == MPI_COMBINER_F90_INTEGER;
}

static bool is_predefined(MPI_Datatype type) {
    struct cf_envelope envelope;
    return cf_envelope_of(type, &envelope) == MPI_SUCCESS &&
           cf_combiner_is_predefined(envelope.combiner);
}

int cf_named_is_dense(MPI_Datatype type, bool *dense) {
    int size = 0;
    MPI_Aint lb = 0;
    MPI_Aint extent = 0;
    int err = PMPI_Type_size(type, &size);
    if (err == MPI_SUCCESS) {
        err = PMPI_Type_get_extent(type, &lb, &extent);
    }
    *dense = err == MPI_SUCCESS && lb == 0 && extent == size;
    return err;
}

/* The table entry of a predefined type. */
static uintptr_t predefined_entry(MPI_Datatype type, int size) {
    bool dense = false;
    (void)cf_named_is_dense(type, &dense);
    return (uintptr_t)size << CF_TYPE_SIZE_SHIFT | CF_TYPE_PREDEFINED | (dense ? CF_TYPE_DENSE : 0);
}

int64_t cf_type_size_enter(MPI_Datatype type) {
    int size = MPI_UNDEFINED;
    if (type == MPI_DATATYPE_NULL || !is_committed(type) ||
        PMPI_Type_size(type, &size) != MPI_SUCCESS || size == MPI_UNDEFINED) {
        return -1;
    }
    /* The attribute is set first, so that no entry can outlive its type. */
    if (is_predefined(type)) {
        (void)cf_handle_insert(&cf_types, (uintptr_t)type, predefined_entry(type, size));
    } else if (PMPI_Type_set_attr(type, type_keyval, NULL) == MPI_SUCCESS) {
        (void)cf_handle_insert(&cf_types, (uintptr_t)type, (uintptr_t)size << CF_TYPE_SIZE_SHIFT);
    }
    return size;
}

/* The common predefined types. Other types enter at their first use. */
static int enter_common_types(void) {
    /* clang-format off */
    const MPI_Datatype types[] = {
        MPI_CHAR, MPI_SIGNED_CHAR, MPI_UNSIGNED_CHAR, MPI_BYTE, MPI_PACKED, MPI_SHORT, MPI_INT,
        MPI_LONG, MPI_LONG_LONG, MPI_UNSIGNED_SHORT, MPI_UNSIGNED, MPI_UNSIGNED_LONG,
        MPI_UNSIGNED_LONG_LONG, MPI_FLOAT, MPI_DOUBLE, MPI_LONG_DOUBLE, MPI_WCHAR, MPI_C_BOOL,
        MPI_AINT, MPI_OFFSET, MPI_COUNT, MPI_INT8_T, MPI_INT16_T, MPI_INT32_T, MPI_INT64_T,
        MPI_UINT8_T, MPI_UINT16_T, MPI_UINT32_T, MPI_UINT64_T, MPI_C_FLOAT_COMPLEX,
        MPI_C_DOUBLE_COMPLEX, MPI_FLOAT_INT, MPI_DOUBLE_INT, MPI_2INT};
    /* clang-format on */
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        int size = 0;
        CF_TRY(PMPI_Type_size(types[i], &size));
        if (!cf_handle_insert(&cf_types, (uintptr_t)types[i], predefined_entry(types[i], size))) {
            return MPI_ERR_NO_MEM;
        }
    }
    return MPI_SUCCESS;
}

static int start(void) {
    if (type_keyval != MPI_KEYVAL_INVALID) {
        return MPI_SUCCESS;
    }
    CF_TRY(PMPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, forget_type, &type_keyval, NULL));
    CF_TRY(cf_mpi_comm_dup(MPI_COMM_SELF, &probe_comm));
    CF_TRY(PMPI_Comm_set_errhandler(probe_comm, MPI_ERRORS_RETURN));
    return enter_common_types();
}

/* Two threads may create their first hybrid packages at the same time. */
int cf_types_start(void) {
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    (void)pthread_mutex_lock(&mutex);
    const int err = start();
    (void)pthread_mutex_unlock(&mutex);
    return err;
}

/* Types that still exist keep the attribute. Its callback then finds an empty table. */
void cf_types_stop(void) {
    if (type_keyval != MPI_KEYVAL_INVALID) {
        (void)PMPI_Type_free_keyval(&type_keyval);
    }
    if (probe_comm != MPI_COMM_NULL) {
        (void)cf_mpi_comm_free(&probe_comm);
    }
    cf_handle_clear(&cf_types);
}
