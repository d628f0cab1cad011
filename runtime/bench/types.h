/*
 * The datatypes and ops of cases, and the memory layout of their elements.
 *
 * An element has one or two words: 32-bit integers, doubles or single bytes. The driver computes
 * with words (uint32_t each, in type-map order), and knows their displacements for each type.
 */
#ifndef COLLFORGE_BENCH_TYPES_H_INCLUDED
#define COLLFORGE_BENCH_TYPES_H_INCLUDED

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum word_kind { WORD_INT32, WORD_DOUBLE, WORD_BYTE };

enum { MAX_LANES = 2 };

struct element {
    const char *name; /* as in a case string */
    enum word_kind kind;
    int lanes;             /* words in an element */
    int word_bytes;        /* of one word in memory */
    int offset[MAX_LANES]; /* bytes from the element's address to each word */
    int lb;                /* the element's bytes are [lb, lb + extent) */
    int extent;
    MPI_Datatype type;     /* one element; also on odd ranks, unless odd_types is not 1 */
    MPI_Datatype odd_type; /* the type that odd ranks pass instead ... */
    int odd_types;         /* ... this many of it per element */
    bool whole;            /* even ranks pass one element of a type for a whole block instead */
};

/* The bytes of one element in the type signature. */
int element_bytes(const struct element *element);

enum operation { OP_NONE, OP_SUM, OP_MAX, OP_AFFINE };

/* Create the MPI datatypes and ops (after MPI_Init), and free them. Both return an MPI error
 * class. */
int types_create(void);
int types_free(void);

/* A type of count > 0 elements, valid until the next call. */
MPI_Datatype types_block(const struct element *element, int count);

/* The type with this name (length bytes), or NULL. */
const struct element *types_find(const char *name, size_t length);
/* The op with this name (length bytes), or OP_NONE. */
enum operation types_find_op(const char *name, size_t length);
/* The op of a case that names none; OP_NONE: the type has no ops. */
enum operation types_default_op(const struct element *element);
/* Whether the standard defines the op on the type. */
bool types_op_fits(const struct element *element, enum operation op);
MPI_Op types_op_handle(enum operation op);

/* The word of this element at an address. */
double types_word(const struct element *element, const char *at);

/* left[i] = left[i] op right[i], for count elements as words. The expected result, computed without
 * MPI. */
void types_combine(const struct element *element, enum operation op, uint32_t *left,
                   const uint32_t *right, size_t count);

/* From now on the affine op must be called with this element's type only. Clears the complaint. */
void types_expect(const struct element *element);
/* What was wrong with a call of the affine op since types_expect, or NULL. */
const char *types_complaint(void);

#endif
