/* The datatypes and operations that calls are made with. */
#include "conformance.h"

#include <string.h>

enum { COLUMN_STRIDE = 1 << 12 };

static struct type type_int = {"int", MPI_DATATYPE_NULL, 1, {WORD_INT}, {0}, 0, 4, 0, false};
static struct type type_double = {"double", MPI_DATATYPE_NULL, 1, {WORD_DOUBLE}, {0}, 0, 8, 0,
                                  false};
static struct type type_byte = {"byte", MPI_DATATYPE_NULL, 1, {WORD_BYTE}, {0}, 0, 1, 0, false};
static struct type type_long = {"long", MPI_DATATYPE_NULL, 1, {WORD_LONG}, {0}, 0, 8, 0, false};
static struct type type_float = {"float", MPI_DATATYPE_NULL, 1, {WORD_FLOAT}, {0}, 0, 4, 0, false};
static struct type type_2int = {"2int", MPI_DATATYPE_NULL, 2, {WORD_INT, WORD_INT}, {0, 4}, 0, 8, 0,
                                false};
static struct type type_double_int = {
    "double_int", MPI_DATATYPE_NULL, 2, {WORD_DOUBLE, WORD_INT}, {0, 8}, 0, 16, 0, true};
static struct type type_pair = {"pair", MPI_DATATYPE_NULL, 2, {WORD_INT, WORD_INT}, {0, 4}, 0, 8, 0,
                                false};
/* A vector, with a hole between its two ints and none behind them. */
static struct type type_vector = {
    "vector", MPI_DATATYPE_NULL, 2, {WORD_INT, WORD_INT}, {0, 12}, 0, 16, 0, false};
/* Its first int is at the higher address; the lower bound is negative and not the true one. */
static struct type type_neglb = {
    "neglb", MPI_DATATYPE_NULL, 2, {WORD_INT, WORD_INT}, {4, -8}, -12, 28, 0, false};
/* A struct of two kinds with holes everywhere and a negative lower bound. */
static struct type type_holed = {
    "holed", MPI_DATATYPE_NULL, 2, {WORD_DOUBLE, WORD_INT}, {0, -8}, -12, 32, 0, false};
/* The C struct { double; int; }. */
static struct type type_record = {
    "record", MPI_DATATYPE_NULL, 2, {WORD_DOUBLE, WORD_INT}, {0, 8}, 0, 16, 0, false};
static struct type type_empty = {"empty", MPI_DATATYPE_NULL, 0, {WORD_INT}, {0}, 0, 0, 0, false};
/* Columns of a matrix: elements interleave, the extent is less than what an element spans. */
static struct type type_column = {
    "column", MPI_DATATYPE_NULL, 2,    {WORD_INT, WORD_INT}, {0, 4 * COLUMN_STRIDE}, 0,
    4,        COLUMN_STRIDE,     false};

const struct shape shape_int = {"int", 1, 1, {&type_int}};
const struct shape shape_double = {"double", 1, 1, {&type_double}};
const struct shape shape_pair = {"pair", 2, 4, {&type_pair, &type_int, &type_vector, &type_neglb}};
const struct shape shape_empty = {"empty", 0, 1, {&type_empty}};
const struct shape shape_column = {"column", 2, 1, {&type_column}};
static const struct shape shape_byte = {"byte", 1, 1, {&type_byte}};
static const struct shape shape_long = {"long", 1, 1, {&type_long}};
static const struct shape shape_float = {"float", 1, 1, {&type_float}};
static const struct shape shape_2int = {"2int", 2, 1, {&type_2int}};
static const struct shape shape_double_int = {"double_int", 2, 1, {&type_double_int}};
static const struct shape shape_vector = {"vector", 2, 1, {&type_vector}};
static const struct shape shape_neglb = {"neglb", 2, 1, {&type_neglb}};
static const struct shape shape_holed = {"holed", 2, 2, {&type_holed, &type_record}};

const struct shape *const shapes[] = {&shape_int,       &shape_double, &shape_vector, &shape_holed,
                                      &shape_pair,      &shape_neglb,  &shape_empty,  &shape_column,
                                      &shape_byte,      &shape_long,   &shape_float,  &shape_2int,
                                      &shape_double_int};
const int nshapes = sizeof shapes / sizeof *shapes;

struct operation operations[NOPERATIONS] = {
    {"sum", SUM, 1, false, true, MPI_OP_NULL},
    {"affine", AFFINE, 2, true, false, MPI_OP_NULL},
    {"modular", MODULAR, 1, true, true, MPI_OP_NULL},
    {"maxloc", MAXLOC, 2, false, true, MPI_OP_NULL},
    {"first", FIRST, 1, true, false, MPI_OP_NULL},
    {"max", MAXIMUM, 1, false, true, MPI_OP_NULL},
    {"min", MINIMUM, 1, false, true, MPI_OP_NULL},
    {"prod", PRODUCT, 1, false, true, MPI_OP_NULL},
    {"land", AND, 1, false, true, MPI_OP_NULL},
    {"lor", OR, 1, false, true, MPI_OP_NULL},
    {"bxor", XOR, 1, false, true, MPI_OP_NULL},
    {"minloc", MINLOC, 2, false, true, MPI_OP_NULL},
};

static _Thread_local const struct type *expected_type = NULL;
static _Thread_local bool expected_some = false;
static _Thread_local const char *complaint = NULL;

/* ---- words ---------------------------------------------------------------------------------- */

size_t word_bytes(enum word_kind kind) {
    static const size_t bytes[] = {
        [WORD_BYTE] = 1, [WORD_INT] = 4, [WORD_LONG] = 8, [WORD_FLOAT] = 4, [WORD_DOUBLE] = 8};
    return bytes[kind];
}

size_t shape_bytes(const struct shape *shape) {
    size_t bytes = 0;
    for (int w = 0; w < shape->types[0]->words; w++)
        bytes += word_bytes(shape->types[0]->kinds[w]);
    return bytes;
}

void word_put(enum word_kind kind, int64_t word, void *at) {
    const unsigned char byte = (unsigned char)word;
    const int32_t integer = (int32_t)word;
    const float single = (float)word;
    const double number = (double)word;
    const void *const from[] = {[WORD_BYTE] = &byte,
                                [WORD_INT] = &integer,
                                [WORD_LONG] = &word,
                                [WORD_FLOAT] = &single,
                                [WORD_DOUBLE] = &number};
    memcpy(at, from[kind], word_bytes(kind));
}

int64_t word_get(enum word_kind kind, const void *at) {
    int32_t integer;
    int64_t word;
    float single;
    double number;

    switch (kind) {
    case WORD_BYTE:
        return *(const unsigned char *)at;
    case WORD_INT:
        memcpy(&integer, at, sizeof integer);
        return integer;
    case WORD_LONG:
        memcpy(&word, at, sizeof word);
        return word;
    case WORD_FLOAT:
        memcpy(&single, at, sizeof single);
        return (int64_t)single;
    default:
        memcpy(&number, at, sizeof number);
        return (int64_t)number;
    }
}

static int64_t narrow(enum word_kind kind, uint64_t word) {
    if (kind == WORD_BYTE)
        return (unsigned char)word;
    return kind == WORD_LONG ? (int64_t)word : (int32_t)word;
}

static int64_t any_word(enum word_kind kind, uint64_t random) {
    return kind == WORD_FLOAT ? (int64_t)(random & 0xffffff) : narrow(kind, random);
}

int64_t word_from(const struct operation *op, enum word_kind kind, int place, uint64_t random) {
    static const int factors[] = {1, -1, 2, 3};
    const bool exact = kind == WORD_FLOAT || kind == WORD_DOUBLE;

    if (op == NULL || op->combination == FIRST)
        return any_word(kind, random);
    switch (op->combination) {
    case PRODUCT:
        return factors[random % 4];
    case AND:
        return random % 8 != 0;
    case OR:
        return random % 8 == 0;
    case XOR:
        return any_word(kind, random);
    case MAXLOC:
    case MINLOC:
        return place % 2 == 0 ? (int64_t)(random % 5) : (int64_t)(random % 97);
    case AFFINE:
        /* Odd slopes, so that no product of them vanishes. */
        return any_word(kind, place % 2 == 0 ? random | 1 : random);
    case MODULAR:
        if (!exact)
            return any_word(kind, random);
        break;
    default:
        break;
    }
    return kind == WORD_BYTE ? (int64_t)(random % 12) : (int64_t)(random % 2001) - 1000;
}

/* ---- combining ------------------------------------------------------------------------------ */

/* x -> l0 x + l1, then x -> r0 x + r1. */
static void compose(int64_t *left, const int64_t *right) {
    const uint32_t slope = (uint32_t)left[0] * (uint32_t)right[0];
    const uint32_t shift = (uint32_t)right[0] * (uint32_t)left[1] + (uint32_t)right[1];
    left[0] = (int32_t)slope;
    left[1] = (int32_t)shift;
}

/* The extreme value and, among equals, the lowest index. */
static void locate(int64_t *left, const int64_t *right, bool right_wins) {
    if (right_wins || (left[0] == right[0] && right[1] < left[1]))
        memcpy(left, right, 2 * sizeof *left);
}

void combine(const struct operation *op, enum word_kind kind, int64_t *left, const int64_t *right) {
    switch (op->combination) {
    case SUM:
    case MODULAR:
        left[0] = narrow(kind, (uint64_t)left[0] + (uint64_t)right[0]);
        break;
    case PRODUCT:
        left[0] = narrow(kind, (uint64_t)left[0] * (uint64_t)right[0]);
        break;
    case MAXIMUM:
        left[0] = left[0] < right[0] ? right[0] : left[0];
        break;
    case MINIMUM:
        left[0] = left[0] > right[0] ? right[0] : left[0];
        break;
    case AND:
        left[0] = left[0] && right[0];
        break;
    case OR:
        left[0] = left[0] || right[0];
        break;
    case XOR:
        left[0] ^= right[0];
        break;
    case MAXLOC:
        locate(left, right, right[0] > left[0]);
        break;
    case MINLOC:
        locate(left, right, right[0] < left[0]);
        break;
    case AFFINE:
        compose(left, right);
        break;
    case FIRST:
        break;
    }
}

/* ---- user-defined operations ---------------------------------------------------------------- */

void operations_expect(const struct type *type, bool strict) {
    expected_type = type;
    expected_some = strict;
    complaint = NULL;
}

const char *operations_complaint(void) {
    return complaint;
}

/* inout = in o inout, element by element of the call's datatype. */
static void apply(enum combination combination, const char *in, char *inout, int length,
                  MPI_Datatype datatype) {
    const struct type *type = expected_type;
    const struct operation op = {.combination = combination};
    const int width = combination == AFFINE ? 2 : 1;

    if (type == NULL || datatype != type->handle) {
        complaint = "the op was handed another datatype than that of the call";
        return;
    }
    if (length < 0 || (length == 0 && expected_some))
        complaint = "the op was handed no elements";
    for (int i = 0; i < length; i++, in += type->extent, inout += type->extent) {
        for (int w = 0; w + width <= type->words; w += width) {
            int64_t left[MAX_WIDTH], right[MAX_WIDTH];
            for (int k = 0; k < width; k++) {
                left[k] = word_get(type->kinds[w + k], in + type->offsets[w + k]);
                right[k] = word_get(type->kinds[w + k], inout + type->offsets[w + k]);
            }
            combine(&op, type->kinds[w], left, right);
            for (int k = 0; k < width; k++)
                word_put(type->kinds[w + k], left[k], inout + type->offsets[w + k]);
        }
    }
}

static void apply_affine(void *in, void *inout, int *length, MPI_Datatype *datatype) {
    apply(AFFINE, in, inout, *length, *datatype);
}

static void apply_modular(void *in, void *inout, int *length, MPI_Datatype *datatype) {
    apply(MODULAR, in, inout, *length, *datatype);
}

static void apply_first(void *in, void *inout, int *length, MPI_Datatype *datatype) {
    apply(FIRST, in, inout, *length, *datatype);
}

bool operation_fits(const struct operation *op, const struct shape *shape) {
    const struct type *type = shape->types[0];
    const bool plain = type == &type_int || type == &type_long || type == &type_byte;
    const bool real = type == &type_double || type == &type_float;

    switch (op->combination) {
    case MAXLOC:
    case MINLOC:
        return type == &type_2int || type == &type_double_int;
    case AFFINE:
        return type->words == 2 && type->kinds[0] == WORD_INT;
    case MODULAR:
    case FIRST:
        return true;
    case AND:
    case OR:
    case XOR:
        return plain;
    case PRODUCT:
        return real || (plain && type != &type_byte);
    default:
        return plain || real;
    }
}

const struct operation *operation_for(const struct shape *shape, unsigned index) {
    const struct operation *fitting[NOPERATIONS];
    unsigned n = 0;
    for (int i = 0; i < NOPERATIONS; i++)
        if (operation_fits(&operations[i], shape))
            fitting[n++] = &operations[i];
    return fitting[index % n];
}

/* ---- handles -------------------------------------------------------------------------------- */

/* The type with this map; lower bound and extent as it says. */
static void create_resized(struct type *type) {
    static const MPI_Datatype plain[] = {[WORD_INT] = MPI_INT, [WORD_DOUBLE] = MPI_DOUBLE};
    const int lengths[MAX_WORDS] = {1, 1};
    MPI_Datatype parts[MAX_WORDS];
    MPI_Datatype bare = MPI_DATATYPE_NULL;
    for (int w = 0; w < type->words; w++)
        parts[w] = plain[type->kinds[w]];
    must(MPI_Type_create_struct(type->words, lengths, type->offsets, parts, &bare) == MPI_SUCCESS);
    must(MPI_Type_create_resized(bare, type->lb, type->extent, &type->handle) == MPI_SUCCESS);
    must(MPI_Type_free(&bare) == MPI_SUCCESS);
}

static struct type *const derived[] = {&type_pair,   &type_vector, &type_neglb, &type_holed,
                                       &type_record, &type_empty,  &type_column};
enum { NDERIVED = sizeof derived / sizeof *derived };

void types_create(void) {
    MPI_Aint lb = 0, extent = 0;
    type_int.handle = MPI_INT;
    type_double.handle = MPI_DOUBLE;
    type_byte.handle = MPI_UNSIGNED_CHAR;
    type_long.handle = MPI_INT64_T;
    type_float.handle = MPI_FLOAT;
    type_2int.handle = MPI_2INT;
    type_double_int.handle = MPI_DOUBLE_INT;
    must(MPI_Type_contiguous(2, MPI_INT, &type_pair.handle) == MPI_SUCCESS);
    must(MPI_Type_vector(2, 1, 3, MPI_INT, &type_vector.handle) == MPI_SUCCESS);
    must(MPI_Type_contiguous(0, MPI_INT, &type_empty.handle) == MPI_SUCCESS);
    create_resized(&type_neglb);
    create_resized(&type_holed);
    create_resized(&type_record);
    create_resized(&type_column);
    for (int i = 0; i < NDERIVED; i++) {
        must(MPI_Type_commit(&derived[i]->handle) == MPI_SUCCESS);
        must(MPI_Type_get_extent(derived[i]->handle, &lb, &extent) == MPI_SUCCESS);
        must(lb == derived[i]->lb && extent == derived[i]->extent);
    }
    static const MPI_Op predefined[] = {
        [SUM] = MPI_SUM,     [PRODUCT] = MPI_PROD,  [MAXIMUM] = MPI_MAX,
        [MINIMUM] = MPI_MIN, [AND] = MPI_LAND,      [OR] = MPI_LOR,
        [XOR] = MPI_BXOR,    [MAXLOC] = MPI_MAXLOC, [MINLOC] = MPI_MINLOC};
    static MPI_User_function *const functions[] = {
        [AFFINE] = apply_affine, [MODULAR] = apply_modular, [FIRST] = apply_first};
    for (int i = 0; i < NOPERATIONS; i++) {
        struct operation *op = &operations[i];
        if (op->user)
            must(MPI_Op_create(functions[op->combination], op->commutative, &op->handle) ==
                 MPI_SUCCESS);
        else
            op->handle = predefined[op->combination];
    }
}

void types_free(void) {
    for (int i = 0; i < NDERIVED; i++)
        must(MPI_Type_free(&derived[i]->handle) == MPI_SUCCESS);
    for (int i = 0; i < NOPERATIONS; i++)
        if (operations[i].user)
            must(MPI_Op_free(&operations[i].handle) == MPI_SUCCESS);
}
