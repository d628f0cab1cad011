#include "types.h"

#include <string.h>

#include "report.h"

enum { INT, DOUBLE, PAIR, STRIDED, NEGLB, MIXED, WHOLE, CHARS, NTYPES };

/*
 * strided has a hole between its two ints and one after them. neglb has the type map {(int, 0),
 * (int, -8)} and the bounds -12 and 4. Its lower bound is negative and differs from the true one,
 * and the first int in the packed stream has the higher address. mixed is pair on even ranks, and
 * twice as many ints on odd ranks: one signature described in two ways. So does whole: even ranks
 * pass a block as one element of a type made for it, odd ranks as ints.
 */
static struct element elements[NTYPES] = {
    [INT] = {"int", WORD_INT32, 1, 4, {0}, 0, 4, MPI_DATATYPE_NULL, MPI_DATATYPE_NULL, 1},
    [DOUBLE] = {"double", WORD_DOUBLE, 1, 8, {0}, 0, 8, MPI_DATATYPE_NULL, MPI_DATATYPE_NULL, 1},
    [PAIR] = {"pair", WORD_INT32, 2, 4, {0, 4}, 0, 8, MPI_DATATYPE_NULL, MPI_DATATYPE_NULL, 1},
    [STRIDED] =
        {"strided", WORD_INT32, 2, 4, {0, 8}, 0, 16, MPI_DATATYPE_NULL, MPI_DATATYPE_NULL, 1},
    [NEGLB] =
        {"neglb", WORD_INT32, 2, 4, {0, -8}, -12, 16, MPI_DATATYPE_NULL, MPI_DATATYPE_NULL, 1},
    [MIXED] = {"mixed", WORD_INT32, 2, 4, {0, 4}, 0, 8, MPI_DATATYPE_NULL, MPI_DATATYPE_NULL, 2},
    [WHOLE] = {"whole", WORD_INT32, 1, 4, {0}, 0, 4, MPI_DATATYPE_NULL, MPI_DATATYPE_NULL, 1},
    [CHARS] = {"chars", WORD_BYTE, 1, 1, {0}, 0, 1, MPI_DATATYPE_NULL, MPI_DATATYPE_NULL, 1},
};

static const char *const op_names[] = {
    [OP_NONE] = NULL, [OP_SUM] = "sum", [OP_MAX] = "max", [OP_AFFINE] = "affine"};

static MPI_Op affine = MPI_OP_NULL;
static MPI_Datatype block = MPI_DATATYPE_NULL;
static const struct element *expected = NULL;
static const char *complaint = NULL;

int element_bytes(const struct element *element) {
    return element->lanes * element->word_bytes;
}

/* (a1, b1) o (a2, b2) = (a1 a2, a2 b1 + b2): x -> a1 x + b1, then x -> a2 x + b2. out may be left
 * or right. */
static void compose(const uint32_t left[2], const uint32_t right[2], uint32_t out[2]) {
    const uint32_t slope = left[0] * right[0];
    const uint32_t shift = right[0] * left[1] + right[1];
    out[0] = slope;
    out[1] = shift;
}

/* The user-defined op: inout = in o inout. It must be called with whole elements of the call's
 * datatype. */
static void apply_affine(void *in, void *inout, int *len, MPI_Datatype *datatype) {
    if (expected == NULL || *datatype != expected->type) {
        complaint = "the op was handed another datatype than that of the call";
        return;
    }
    if (*len <= 0) {
        complaint = "the op was handed no elements (len <= 0)";
        return;
    }
    const char *left = in;
    char *right = inout;
    for (int i = 0; i < *len; i++, left += expected->extent, right += expected->extent) {
        uint32_t a[2], b[2];
        for (int lane = 0; lane < 2; lane++) {
            memcpy(&a[lane], left + expected->offset[lane], sizeof a[lane]);
            memcpy(&b[lane], right + expected->offset[lane], sizeof b[lane]);
        }
        compose(a, b, b);
        for (int lane = 0; lane < 2; lane++) {
            memcpy(right + expected->offset[lane], &b[lane], sizeof b[lane]);
        }
    }
}

/* Two ints at the element's offsets, within its bounds. */
static int create_two_ints(struct element *element) {
    const MPI_Aint displacements[2] = {element->offset[0], element->offset[1]};
    MPI_Datatype bare = MPI_DATATYPE_NULL;

    int err = PMPI_Type_create_hindexed_block(2, 1, displacements, MPI_INT, &bare);
    if (err != MPI_SUCCESS) {
        return err;
    }
    err = PMPI_Type_create_resized(bare, element->lb, element->extent, &element->type);
    if (err == MPI_SUCCESS) {
        err = PMPI_Type_commit(&element->type);
    }
    const int freed = PMPI_Type_free(&bare);
    return err == MPI_SUCCESS ? freed : err;
}

static int create_strided(struct element *element) {
    MPI_Datatype vector = MPI_DATATYPE_NULL;

    int err = PMPI_Type_vector(2, 1, 2, MPI_INT, &vector);
    if (err != MPI_SUCCESS) {
        return err;
    }
    err = PMPI_Type_create_resized(vector, element->lb, element->extent, &element->type);
    if (err == MPI_SUCCESS) {
        err = PMPI_Type_commit(&element->type);
    }
    const int freed = PMPI_Type_free(&vector);
    return err == MPI_SUCCESS ? freed : err;
}

int types_create(void) {
    elements[INT].type = MPI_INT;
    elements[DOUBLE].type = MPI_DOUBLE;
    elements[CHARS].type = MPI_BYTE;
    elements[WHOLE].type = MPI_INT;
    elements[WHOLE].whole = true;
    int err = PMPI_Type_contiguous(2, MPI_INT, &elements[PAIR].type);
    if (err == MPI_SUCCESS) {
        err = PMPI_Type_commit(&elements[PAIR].type);
    }
    if (err == MPI_SUCCESS) {
        err = create_strided(&elements[STRIDED]);
    }
    if (err == MPI_SUCCESS) {
        err = create_two_ints(&elements[NEGLB]);
    }
    if (err == MPI_SUCCESS) {
        err = PMPI_Op_create(apply_affine, 0, &affine);
    }
    elements[MIXED].type = elements[PAIR].type;
    for (int i = 0; i < NTYPES; i++) {
        elements[i].odd_type = i == MIXED ? MPI_INT : elements[i].type;
    }
    return err;
}

static void free_block(void) {
    if (block != MPI_DATATYPE_NULL) {
        must(PMPI_Type_free(&block), "MPI_Type_free");
    }
}

MPI_Datatype types_block(const struct element *element, int count) {
    free_block();
    must(PMPI_Type_contiguous(count, element->type, &block), "MPI_Type_contiguous");
    must(PMPI_Type_commit(&block), "MPI_Type_commit");
    return block;
}

int types_free(void) {
    int err = PMPI_Op_free(&affine);
    free_block();
    for (int i = PAIR; i <= NEGLB; i++) {
        const int freed = PMPI_Type_free(&elements[i].type);
        err = err == MPI_SUCCESS ? freed : err;
    }
    return err;
}

const struct element *types_find(const char *name, size_t length) {
    for (int i = 0; i < NTYPES; i++) {
        if (strlen(elements[i].name) == length && memcmp(elements[i].name, name, length) == 0) {
            return &elements[i];
        }
    }
    return NULL;
}

enum operation types_find_op(const char *name, size_t length) {
    for (enum operation op = OP_SUM; op <= OP_AFFINE; op++) {
        if (strlen(op_names[op]) == length && memcmp(op_names[op], name, length) == 0) {
            return op;
        }
    }
    return OP_NONE;
}

enum operation types_default_op(const struct element *element) {
    if (element == &elements[MIXED] || element->whole || element == &elements[CHARS]) {
        return OP_NONE;
    }
    return element->lanes == 2 ? OP_AFFINE : OP_SUM;
}

bool types_op_fits(const struct element *element, enum operation op) {
    const enum operation native = types_default_op(element);
    return native != OP_NONE && (native == OP_AFFINE) == (op == OP_AFFINE);
}

MPI_Op types_op_handle(enum operation op) {
    if (op == OP_AFFINE) {
        return affine;
    }
    return op == OP_SUM ? MPI_SUM : op == OP_MAX ? MPI_MAX : MPI_OP_NULL;
}

void types_combine(const struct element *element, enum operation op, uint32_t *left,
                   const uint32_t *right, size_t count) {
    const size_t nwords = count * (size_t)element->lanes;

    switch (op) {
    case OP_SUM:
        for (size_t i = 0; i < nwords; i++) {
            left[i] += right[i];
        }
        break;
    case OP_MAX:
        for (size_t i = 0; i < nwords; i++) {
            left[i] = (int32_t)left[i] < (int32_t)right[i] ? right[i] : left[i];
        }
        break;
    case OP_AFFINE:
        for (size_t i = 0; i < nwords; i += 2) {
            compose(&left[i], &right[i], &left[i]);
        }
        break;
    case OP_NONE:
        break;
    }
}

void types_expect(const struct element *element) {
    expected = element;
    complaint = NULL;
}

const char *types_complaint(void) {
    return complaint;
}

double types_word(const struct element *element, const char *at) {
    double number = 0;
    int32_t integer = 0;

    switch (element->kind) {
    case WORD_DOUBLE:
        memcpy(&number, at, sizeof number);
        return number;
    case WORD_BYTE:
        return *(const unsigned char *)at;
    default:
        memcpy(&integer, at, sizeof integer);
        return integer;
    }
}
