/*
 * The conformance program: an MPI application that calls every collective in every way the standard
 * allows and compares each byte of each buffer with the collective's definition. It is to be run as
 * it is, natively and with libcollforge.so preloaded: nothing may differ.
 *
 * The collectives under test are called as MPI_*; what the program itself needs to communicate goes
 * through PMPI_*, over a communicator of its own.
 */
#ifndef CONFORMANCE_H_INCLUDED
#define CONFORMANCE_H_INCLUDED

#include <mpi.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if MPI_VERSION >= 4 || (defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5)
#define INIT(name) MPI_##name##_init
#else /* Open MPI 4's extension */
#include <mpi-ext.h>
#define INIT(name) MPIX_##name##_init
#endif

#include "arguments.h" /* struct cf_args, generated from the roles of arguments */

/* ---- collectives: generated from the specs (collectives.c.j2) -------------------------------- */

/* Legal values of all arguments that are no buffers, counts or arrays. */
extern const struct cf_args plain_values;

enum in_place { IN_PLACE_NONE, IN_PLACE_SEND_ALL, IN_PLACE_SEND_ROOT, IN_PLACE_RECV_ROOT };
enum sized { SIZED_BLOCK, SIZED_MEAN, SIZED_EXCHANGED, SIZED_NONE };
enum varies { VARIES_NO, VARIES_SOURCE, VARIES_TARGET, VARIES_PAIR };

/*
 * Block b of the result on a rank combines, in rank order, block source_block of the inputs of the
 * ranks first <= q < last; an empty range leaves it undefined.
 */
struct collective {
    const char *name;
    bool rooted;
    bool reduces;
    bool single_buffer;
    bool single_type;   /* one datatype, significant on all ranks, describes both sides */
    bool moves_nothing; /* barrier */
    bool prefix; /* a reduction whose ranks depend on the caller's: not for intercommunicators */
    bool send_displs;
    bool recv_displs;
    bool send_counts;
    bool recv_counts; /* an array in recvcounts, of either side's blocks when there is one type */
    enum in_place in_place;
    enum varies varies;
    enum sized sized; /* the bytes by which the runtime chooses, for collforge_choice */
    int (*call)(const struct cf_args *arguments);                        /* MPI_* */
    int (*start)(const struct cf_args *arguments, MPI_Request *request); /* MPI_I* */
    int (*init)(const struct cf_args *arguments, MPI_Request *request);  /* MPI_*_init */
    int (*native)(const struct cf_args *arguments);                      /* PMPI_* */
    int (*in_blocks)(int rank, int root, int size);
    int (*out_blocks)(int rank, int root, int size);
    int (*first)(int rank, int block, int root, int size);
    int (*last)(int rank, int block, int root, int size);
    int (*source_block)(int rank, int block, int root, int size);
    int (*in_place_block)(int rank, int root, int size);
};

extern const struct collective collectives[];
extern const int ncollectives;

/* ---- types and operations (types.c) ---------------------------------------------------------- */

enum word_kind { WORD_BYTE, WORD_INT, WORD_LONG, WORD_FLOAT, WORD_DOUBLE };
enum { MAX_WORDS = 2, MAX_TYPES = 4, MAX_WIDTH = 2 };

/* A datatype as the sequence of words that its elements put into the stream. */
struct type {
    const char *name;
    MPI_Datatype handle;
    int words;
    enum word_kind kinds[MAX_WORDS];
    MPI_Aint offsets[MAX_WORDS];
    MPI_Aint lb;
    MPI_Aint extent;
    int most;    /* elements that a buffer may have without overlap; 0: any number */
    bool padded; /* a predefined type whose padding MPI may touch */
};

/* Datatypes of one signature: ranks and sides of a call differ in the one that they pass. */
struct shape {
    const char *name;
    int words; /* of the largest of them: what counts count */
    int ntypes;
    const struct type *types[MAX_TYPES];
};

enum combination {
    SUM,
    PRODUCT,
    MAXIMUM,
    MINIMUM,
    AND,
    OR,
    XOR,
    MAXLOC,
    MINLOC,
    AFFINE,
    MODULAR,
    FIRST
};

struct operation {
    const char *name;
    enum combination combination;
    int width; /* words combined as one */
    bool user;
    bool commutative;
    MPI_Op handle;
};

enum { NOPERATIONS = 12 };
extern struct operation operations[NOPERATIONS];
extern const struct shape *const shapes[];
extern const int nshapes;
extern const struct shape shape_int, shape_double, shape_pair, shape_empty, shape_column;

void types_create(void);
void types_free(void);
size_t word_bytes(enum word_kind kind);
void word_put(enum word_kind kind, int64_t word, void *at);
int64_t word_get(enum word_kind kind, const void *at);
/* The word of a random number that no combination of a few ranks overflows. */
int64_t word_from(const struct operation *op, enum word_kind kind, int place, uint64_t random);
/* left = left o right, width words. */
void combine(const struct operation *op, enum word_kind kind, int64_t *left, const int64_t *right);
bool operation_fits(const struct operation *op, const struct shape *shape);
/* An operation for a shape: operation number index of those that fit. */
const struct operation *operation_for(const struct shape *shape, unsigned index);
/* What a user-defined op on this thread must be handed, and (strict) at least one of it; what it
 * complained about since, or NULL. */
void operations_expect(const struct type *type, bool strict);
const char *operations_complaint(void);

/* ---- one call, verified (call.c, verify.c) --------------------------------------------------- */

/* A communicator and who this process is in it. */
struct place {
    const char *name;
    MPI_Comm comm;
    int rank;
    int size;
};

enum spread { SPREAD_EVEN, SPREAD_RAGGED, SPREAD_SINGLE, NSPREADS };
enum placement { PLACED_PACKED, PLACED_GAPS, PLACED_REVERSED, PLACED_NEGATIVE, NPLACEMENTS };
/* What stands in arguments that are not significant on this rank. */
enum garbage { GARBAGE_SANE, GARBAGE_NULL, GARBAGE_WILD, NGARBAGES };

/* All ranks describe a call by the same values. */
struct call {
    const struct collective *collective;
    const struct place *place;
    const struct shape *shape;
    const struct operation *op; /* NULL: the collective has none */
    int count;                  /* elements of a block; the most that one has where they vary */
    int root;
    bool in_place;
    enum spread spread;
    enum placement placement;
    enum garbage garbage;
    bool strict; /* a user-defined op may not be handed no elements */
    unsigned seed;
};

enum { CASE_SIZE = 320 };

/* One side of a call on this rank. Positions and counts are in elements of its type. */
struct side {
    const struct type *type;
    int blocks;
    int *counts;
    int *positions;
    int *displs;
    int capacity; /* of the arrays */
    int elements; /* of the whole region */
    int origin;   /* the element that the buffer argument points to */
};

struct image {
    char *work;
    char *expected;
    size_t bytes;
    size_t capacity;
    size_t base; /* of element 0 */
};

/* What one thread needs to make calls. */
struct engine {
    struct side send, recv;
    struct image send_image, recv_image;
    char text[CASE_SIZE]; /* the case under way; empty between calls */
    struct engine *next;
};

void call_describe(const struct call *call, char *text, size_t size);
/* Elements, of the shape's largest type, of the block from source to target. */
int call_block(const struct call *call, int source, int target);
/* Lays the blocks of both sides out; false, on all ranks, when the types cannot hold them. */
bool call_lay_out(const struct call *call, struct side *send, struct side *recv);
bool call_is_in_place(const struct call *call);
/* Bytes of the stream of one element of the shape. */
size_t shape_bytes(const struct shape *shape);

struct engine *engine_create(void);
void engine_free(struct engine *engine);
/* The call, or with --nonblocking most as a start and a completion (nonblocking.c). Returns its
 * error. */
int make_call(const struct call *call, const struct cf_args *arguments);
/* Makes the call and compares all it may and may not have changed. Counts it; false (and a line)
 * when something is wrong. */
bool verify(struct engine *engine, const struct call *call);

/* ---- the program (main.c) -------------------------------------------------------------------- */

struct program {
    MPI_Comm control; /* for the program's own use, by PMPI_* */
    int rank;
    int size;
    unsigned seed;
    int provided;          /* thread level */
    double seconds;        /* of the fuzz check, */
    long calls;            /* which makes about so many calls instead if not 0 */
    bool nonblocking;      /* most calls are */
    const char *only;      /* the collective named by --collective, or NULL */
    const char *skip;      /* cases that check errors leaves out, comma on both sides */
    struct engine *engine; /* of the main thread */
    struct place world;    /* all processes: MPI_COMM_WORLD or a session's */
    bool world_model;      /* MPI_Init was called: MPI_COMM_WORLD and MPI_COMM_SELF are there */
};

extern struct program program;
extern atomic_long program_calls, program_failures, program_skipped;

/* Ends the program for a reason that is not the library under test. */
_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));
#define must(holds) ((holds) ? (void)0 : die("%s:%d: %s", __FILE__, __LINE__, #holds))
void *xmalloc(size_t bytes);

/* A wrong result: counted, and printed unless there were many. */
void fail(const char *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same for what is not a verified call: counts it as a call. */
#define expect(holds, text)                                                                        \
    (atomic_fetch_add(&program_calls, 1),                                                          \
     (holds) ? (void)0 : fail(text, "%s:%d: not so: %s", __FILE__, __LINE__, #holds))
/* Lets the watchdog name what this engine is at, and no more. */
void engine_register(struct engine *engine);
void engine_forget(struct engine *engine);
/* Starts the watchdog anew; text is what it names when the time is over. */
void watch(struct engine *engine, const char *text);

uint64_t mix(uint64_t x);
/* The next of a sequence of random numbers, alike wherever state is. */
unsigned draw(uint64_t *state, unsigned below);

/* Sets MPI_ERRORS_RETURN, so that an error names its case. */
struct place place_of(const char *name, MPI_Comm comm);
bool collective_wanted(const struct collective *collective);
/* Whether the native library cannot be asked for this call (defects.c). */
bool is_hit_by_defect(const struct call *call);
bool is_hit_when_huge(const struct collective *collective);
void print_defects(void);
/* What the preloaded runtime says it takes for this call; false where there is none. */
bool runtime_choice(MPI_Comm comm, const char *collective, size_t bytes, char *name, size_t size);

/* ---- plain calls: no more than arguments of the right size (plain.c) ------------------------- */

/* Buffers of enough ints for every collective; results are to be compared, not known. */
struct plain {
    int *send, *recv;
    int *counts, *displs; /* [size]: all count; one behind the other */
    size_t words;         /* of each buffer */
};

/* count ints a block, for a communicator (or group of an intercommunicator) of size. */
void plain_create(struct plain *plain, int count, int size);
void plain_free(struct plain *plain);
/* Own numbers in send, a pattern in recv. */
void plain_fill(struct plain *plain, unsigned seed);
struct cf_args plain_arguments(const struct plain *plain, MPI_Comm comm, int root);

/* ---- checks ---------------------------------------------------------------------------------- */

/* Every collective on this place, `calls` times each with drawn types, counts and roots. */
void panel(struct engine *engine, const struct place *place, int calls, unsigned seed);
/* A random call on the place. */
struct call random_call(const struct collective *collective, const struct place *place,
                        uint64_t *state, int most);

void check_data(void);
void check_signatures(void);
void check_in_place(void);
void check_insignificant(void);
void check_irregular(void);
void check_operations(void);
void check_bits(void);
void check_communicators(void);
void check_handles(void);
void check_intercommunicators(void);
void check_barrier(void);
void check_messages(void);
void check_state(void);
void check_attributes(void); /* arms callbacks that run in MPI_Finalize */
void attributes_finalized(void);
void check_threads(void);
void check_huge(void);
void check_errors(void);
void check_fuzz(void);
/* Opens a session and makes program.world of it (sessions.c). */
void session_open(void);
void session_close(void);

#endif
