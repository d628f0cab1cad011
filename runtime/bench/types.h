/*
 * The datatypes and ops a case can ask for, and how their elements lie in memory.
 *
 * An element holds one or two words: 32-bit integers, doubles or single bytes. The driver computes
 * with words (uint32_t each, in the order of the type map) and knows for each type where in memory
 * they go.
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
    int lanes;             /* words of an element */
    int word_bytes;        /* of one word in memory */
    int offset[MAX_LANES]; /* bytes from the element's address to each word */
    int lb;                /* the element owns the bytes from lb to lb + extent */
    int extent;
    MPI_Datatype type;     /* one element; on odd ranks, too, unless odd_types is not 1 */
    MPI_Datatype odd_type; /* what odd ranks pass instead ... */
    int odd_types;         /* ... this many for each element */
};

/* The bytes of one element in the type signature. */
int element_bytes(const struct element *element);

enum operation { OP_NONE, OP_SUM, OP_MAX, OP_AFFINE };

/* Creates the MPI datatypes and ops, after MPI_Init. Return an MPI error class. */
int types_create(void);
int types_free(void);

/* The type with this name (length bytes), or NULL. */
const struct element *types_find(const char *name, size_t length);
/* The op with this name (length bytes), or OP_NONE. */
enum operation types_find_op(const char *name, size_t length);
/* What an op case does when it names no op; OP_NONE: the type is for collectives without one. */
enum operation types_default_op(const struct element *element);
/* Whether the standard defines the op on the type. */
bool types_op_fits(const struct element *element, enum operation op);
MPI_Op types_op_handle(enum operation op);

/* The word of this element that stands there. */
double types_word(const struct element *element, const char *at);

/* left[i] = left[i] op right[i], for count elements as words. What the MPI library must come to,
 * without it. */
void types_combine(const struct element *element, enum operation op, uint32_t *left,
                   const uint32_t *right, size_t count);

/* The affine op may from now on be handed this element's type only; forgets earlier complaints. */
void types_expect(const struct element *element);
/* What was wrong with a call of the affine op since types_expect, or NULL. */
const char *types_complaint(void);

#endif
