/*
 * Every collective by its large-count function, on 4 ranks: on all ranks, then on those with odd
 * ranks while the others call the plain one; with displacements beyond int on one rank, and with
 * counts beyond int of an empty type on one rank. Checks every result; rank 0 prints how often it
 * called which collective, and `done`.
 */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { RANKS = 4, N = 3, ALL = RANKS * N };

/* What is not significant, or is so with an empty type only. */
static const MPI_Count huge = (MPI_Count)1 << 40;

/* Counts on ranks where they are not significant. */
static const MPI_Count *const nowhere = (const MPI_Count *)64;

static int rank;
static int large; /* whether this rank calls the large functions */

/* The blocks have 1, 2, 3, 1 elements, N apart. */
static const int lengths[RANKS] = {1, 2, 3, 1};
static const MPI_Count large_lengths[RANKS] = {1, 2, 3, 1};
static const int places[RANKS] = {0, 3, 6, 9};
static const MPI_Aint large_places[RANKS] = {0, 3, 6, 9};

static struct {
    const char *name;
    int calls;
} counted[32];

static void count(const char *name) {
    int i = 0;
    while (counted[i].name != NULL && strcmp(counted[i].name, name) != 0)
        i++;
    counted[i].name = name;
    counted[i].calls++;
}

static void expect(int line, int holds) {
    if (holds)
        return;
    (void)fprintf(stderr, "rank %d: wrong in line %d, %s\n", rank, line, large ? "large" : "plain");
    (void)MPI_Abort(MPI_COMM_WORLD, 1);
}

#define EXPECT(holds) expect(__LINE__, holds)
/* One call: both functions take the same arguments, or each its own. */
#define CALL(name, function, ...) CALL_EACH(name, function, (__VA_ARGS__), (__VA_ARGS__))
#define CALL_EACH(name, function, plain_arguments, large_arguments)                                \
    (count(name),                                                                                  \
     EXPECT((large ? function##_c large_arguments : function plain_arguments) == MPI_SUCCESS))

/* Element i of block b of a rank. */
static int value(int source, int b, int i) {
    return 10000 * (source + 1) + 100 * b + i;
}

static int total(int first, int last, int b, int i) {
    int sum = 0;
    for (int source = first; source <= last; source++)
        sum += value(source, b, i);
    return sum;
}

static void fill(int *blocks, int source, int first, int n) {
    for (int b = 0; b < n; b++)
        for (int i = 0; i < N; i++)
            blocks[b * N + i] = value(source, first + b, i);
}

static void clear(int *blocks) {
    for (int i = 0; i < ALL; i++)
        blocks[i] = -1;
}

/* Block s is the first n[s] elements of block b of rank s; what is beyond them is untouched. */
static int is_from(const int *blocks, int b, const int *n) {
    int good = 1;
    for (int s = 0; s < RANKS; s++)
        for (int i = 0; i < N; i++)
            good = good && blocks[s * N + i] == (i < n[s] ? value(s, b, i) : -1);
    return good;
}

static const int whole[RANKS] = {N, N, N, N};

static void movements(void) {
    int own[N];
    int departing[ALL];
    int arriving[ALL];
    const MPI_Comm world = MPI_COMM_WORLD;

    fill(own, 2, 0, 1);
    if (rank != 2)
        memset(own, 0, sizeof own);
    CALL("bcast", MPI_Bcast, own, N, MPI_INT, 2, world);
    EXPECT(own[0] == value(2, 0, 0) && own[N - 1] == value(2, 0, N - 1));

    fill(own, rank, 0, 1);
    fill(departing, rank, 0, RANKS);
    clear(arriving);
    CALL("allgather", MPI_Allgather, own, N, MPI_INT, arriving, N, MPI_INT, world);
    EXPECT(is_from(arriving, 0, whole));
    clear(arriving);
    fill(arriving + rank * N, rank, 0, 1);
    CALL_EACH("allgather", MPI_Allgather, (MPI_IN_PLACE, -1, MPI_INT, arriving, N, MPI_INT, world),
              (MPI_IN_PLACE, huge, MPI_INT, arriving, N, MPI_INT, world));
    EXPECT(is_from(arriving, 0, whole));

    clear(arriving);
    CALL("alltoall", MPI_Alltoall, departing, N, MPI_INT, arriving, N, MPI_INT, world);
    EXPECT(is_from(arriving, rank, whole));

    clear(arriving);
    if (rank == 1) {
        fill(arriving + N, rank, 0, 1);
        CALL_EACH("gather", MPI_Gather, (MPI_IN_PLACE, 0, MPI_INT, arriving, N, MPI_INT, 1, world),
                  (MPI_IN_PLACE, huge, MPI_INT, arriving, N, MPI_INT, 1, world));
        EXPECT(is_from(arriving, 0, whole));
    } else {
        CALL_EACH("gather", MPI_Gather, (own, N, MPI_INT, NULL, -1, MPI_INT, 1, world),
                  (own, N, MPI_INT, NULL, huge, MPI_INT, 1, world));
    }

    clear(arriving);
    if (rank == 3)
        CALL_EACH("scatter", MPI_Scatter,
                  (departing, N, MPI_INT, MPI_IN_PLACE, 0, MPI_INT, 3, world),
                  (departing, N, MPI_INT, MPI_IN_PLACE, huge, MPI_INT, 3, world));
    else
        CALL_EACH("scatter", MPI_Scatter, (NULL, -1, MPI_INT, arriving, N, MPI_INT, 3, world),
                  (NULL, huge, MPI_INT, arriving, N, MPI_INT, 3, world));
    EXPECT(rank == 3 || arriving[N - 1] == value(3, rank, N - 1));
}

static void irregular_movements(void) {
    int departing[ALL];
    int arriving[ALL];
    int same[RANKS];
    MPI_Count large_same[RANKS];
    const int mine = lengths[rank];
    const MPI_Comm world = MPI_COMM_WORLD;

    for (int i = 0; i < RANKS; i++)
        large_same[i] = same[i] = mine;
    fill(departing, rank, 0, RANKS);
    clear(arriving);
    CALL_EACH("allgatherv", MPI_Allgatherv,
              (departing, mine, MPI_INT, arriving, lengths, places, MPI_INT, world),
              (departing, mine, MPI_INT, arriving, large_lengths, large_places, MPI_INT, world));
    EXPECT(is_from(arriving, 0, lengths));

    clear(arriving);
    CALL_EACH("gatherv", MPI_Gatherv,
              (departing, mine, MPI_INT, arriving, lengths, places, MPI_INT, 1, world),
              (departing, mine, MPI_INT, arriving, rank == 1 ? large_lengths : nowhere,
               rank == 1 ? large_places : NULL, MPI_INT, 1, world));
    EXPECT(rank != 1 || is_from(arriving, 0, lengths));

    clear(arriving);
    CALL_EACH("scatterv", MPI_Scatterv,
              (departing, lengths, places, MPI_INT, arriving, mine, MPI_INT, 2, world),
              (departing, rank == 2 ? large_lengths : nowhere, rank == 2 ? large_places : NULL,
               MPI_INT, arriving, mine, MPI_INT, 2, world));
    EXPECT(arriving[mine - 1] == value(2, rank, mine - 1) && arriving[mine] == -1);

    /* A rank sends lengths[r] elements to rank r, and gets as many from each as its own length. */
    clear(arriving);
    CALL_EACH("alltoallv", MPI_Alltoallv,
              (departing, lengths, places, MPI_INT, arriving, same, places, MPI_INT, world),
              (departing, large_lengths, large_places, MPI_INT, arriving, large_same, large_places,
               MPI_INT, world));
    EXPECT(is_from(arriving, rank, same));
}

static void reductions(void) {
    int all[ALL];
    int own[N];
    int got[N] = {0};
    const int mine = lengths[rank];
    const MPI_Comm world = MPI_COMM_WORLD;
    int begin = 0;

    fill(own, rank, 0, 1);
    CALL("reduce", MPI_Reduce, own, got, N, MPI_INT, MPI_SUM, 1, world);
    EXPECT(rank != 1 || got[N - 1] == total(0, RANKS - 1, 0, N - 1));
    CALL("allreduce", MPI_Allreduce, own, got, N, MPI_INT, MPI_SUM, world);
    EXPECT(got[N - 1] == total(0, RANKS - 1, 0, N - 1));
    CALL("scan", MPI_Scan, own, got, N, MPI_INT, MPI_SUM, world);
    EXPECT(got[N - 1] == total(0, rank, 0, N - 1));
    CALL("exscan", MPI_Exscan, own, got, N, MPI_INT, MPI_SUM, world);
    EXPECT(rank == 0 || got[N - 1] == total(0, rank - 1, 0, N - 1));

    fill(all, rank, 0, RANKS);
    CALL("reduce_scatter_block", MPI_Reduce_scatter_block, all, got, N, MPI_INT, MPI_SUM, world);
    EXPECT(got[N - 1] == total(0, RANKS - 1, rank, N - 1));
    CALL_EACH("reduce_scatter", MPI_Reduce_scatter,
              (MPI_IN_PLACE, all, lengths, MPI_INT, MPI_SUM, world),
              (MPI_IN_PLACE, all, large_lengths, MPI_INT, MPI_SUM, world));
    for (int r = 0; r < rank; r++)
        begin += lengths[r];
    EXPECT(all[0] == total(0, RANKS - 1, begin / N, begin % N));
    begin += mine - 1;
    EXPECT(all[mine - 1] == total(0, RANKS - 1, begin / N, begin % N));
}

/* Blocks of a few bytes far apart in the memory of rank 1, of which hardly a page is touched. */
static void far_apart(void) {
    const size_t bytes = (size_t)5 << 30;
    const int far = rank == 1;
    const MPI_Comm world = MPI_COMM_WORLD;
    MPI_Aint begins[RANKS];
    MPI_Count counts[RANKS];
    char letters[RANKS];
    char *sparse = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    EXPECT(sparse != MAP_FAILED);
    for (int r = 0; r < RANKS; r++) {
        begins[r] = far ? ((MPI_Aint)1 << 30) * (r + 1) : r;
        counts[r] = 1;
        letters[r] = (char)('a' + RANKS * rank + r);
    }
    count("allgatherv");
    MPI_Allgatherv_c(letters, 1, MPI_CHAR, sparse, counts, begins, MPI_CHAR, world);
    for (int r = 0; r < RANKS; r++)
        EXPECT(sparse[begins[r]] == 'a' + RANKS * r);
    count("gatherv");
    MPI_Gatherv_c(letters + 1, 1, MPI_CHAR, sparse, counts, begins, MPI_CHAR, 1, world);
    for (int r = 0; r < RANKS && far; r++)
        EXPECT(sparse[begins[r]] == 'a' + RANKS * r + 1);
    count("alltoallv");
    for (int r = 0; r < RANKS; r++)
        sparse[begins[r]] = letters[r];
    MPI_Alltoallv_c(MPI_IN_PLACE, NULL, NULL, MPI_DATATYPE_NULL, sparse, counts, begins, MPI_CHAR,
                    world);
    for (int r = 0; r < RANKS; r++)
        EXPECT(sparse[begins[r]] == 'a' + RANKS * r + rank);
    count("scatterv");
    MPI_Scatterv_c(sparse, counts, begins, MPI_CHAR, letters, 1, MPI_CHAR, 1, world);
    EXPECT(letters[0] == 'a' + RANKS * rank + 1);
    EXPECT(munmap(sparse, bytes) == 0);
}

/*
 * More elements than an int can count, of no bytes: on rank 2, while the others have one. (With
 * none they would wait for ever: MPICH leaves out messages of no elements. On all ranks in
 * allgatherv, where MPICH decides by the counts.)
 */
static void beyond_int(void) {
    const MPI_Comm world = MPI_COMM_WORLD;
    const MPI_Count n = rank == 2 ? huge : 1;
    const MPI_Count counts[RANKS] = {n, n, n, n};
    const MPI_Count large_counts[RANKS] = {huge, huge, huge, huge};
    const MPI_Aint begins[RANKS] = {0};
    MPI_Datatype empty = MPI_DATATYPE_NULL;
    char out[1] = {'x'};
    char in[1] = {'x'};

    EXPECT(MPI_Type_contiguous(0, MPI_INT, &empty) == MPI_SUCCESS);
    EXPECT(MPI_Type_commit(&empty) == MPI_SUCCESS);
    count("bcast");
    EXPECT(MPI_Bcast_c(in, n, empty, 2, world) == MPI_SUCCESS);
    EXPECT(MPI_Allgatherv_c(out, huge, empty, in, large_counts, begins, empty, world) ==
           MPI_SUCCESS);
    count("gatherv");
    EXPECT(MPI_Gatherv_c(out, n, empty, in, counts, begins, empty, 2, world) == MPI_SUCCESS);
    count("scatterv");
    EXPECT(MPI_Scatterv_c(out, counts, begins, empty, in, n, empty, 2, world) == MPI_SUCCESS);
    count("alltoallv");
    EXPECT(MPI_Alltoallv_c(out, counts, begins, empty, in, counts, begins, empty, world) ==
           MPI_SUCCESS);
    EXPECT(in[0] == 'x');
    EXPECT(MPI_Type_free(&empty) == MPI_SUCCESS);
}

/* Types made with large counts, of which only the large inquiry functions can tell. */
static void large_types(void) {
    const MPI_Count begins[2] = {0, 2};
    int memory[8] = {0};
    MPI_Datatype types[3];

    EXPECT(MPI_Type_create_indexed_block_c(2, 1, begins, MPI_INT, &types[0]) == MPI_SUCCESS);
    EXPECT(MPI_Type_contiguous_c(2, MPI_INT, &types[1]) == MPI_SUCCESS);
    EXPECT(MPI_Type_contiguous_c(1, types[0], &types[2]) == MPI_SUCCESS);
    for (int i = 0; i < 3; i++) {
        const int last = i == 1 ? 1 : 2; /* the second int of an element */
        memory[0] = rank == 1 ? 5 + i : 0;
        memory[last] = rank == 1 ? 7 + i : 0;
        EXPECT(MPI_Type_commit(&types[i]) == MPI_SUCCESS);
        EXPECT(MPI_Bcast(memory, 1, types[i], 1, MPI_COMM_WORLD) == MPI_SUCCESS);
        count("bcast");
        EXPECT(memory[0] == 5 + i && memory[last] == 7 + i);
    }
    for (int i = 0; i < 3; i++)
        EXPECT(MPI_Type_free(&types[i]) == MPI_SUCCESS);
}

/* Illegal counts end in the error of the MPI library. */
static void errors(void) {
    const MPI_Count counts[RANKS] = {1, -1, 1, 1};
    int memory[RANKS] = {0};
    MPI_Comm comm;

    EXPECT(MPI_Comm_dup(MPI_COMM_WORLD, &comm) == MPI_SUCCESS);
    EXPECT(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN) == MPI_SUCCESS);
    EXPECT(MPI_Bcast_c(memory, -huge, MPI_INT, 0, comm) != MPI_SUCCESS);
    EXPECT(MPI_Allgatherv_c(memory, 1, MPI_INT, memory, counts, large_places, MPI_INT, comm) !=
           MPI_SUCCESS);
    EXPECT(MPI_Comm_free(&comm) == MPI_SUCCESS);
}

int main(void) {
    int ranks = 0;

    EXPECT(MPI_Init(NULL, NULL) == MPI_SUCCESS);
    EXPECT(MPI_Comm_rank(MPI_COMM_WORLD, &rank) == MPI_SUCCESS);
    EXPECT(MPI_Comm_size(MPI_COMM_WORLD, &ranks) == MPI_SUCCESS);
    EXPECT(ranks == RANKS);
    for (int mixed = 0; mixed < 2; mixed++) {
        large = !mixed || rank % 2 == 1;
        movements();
        irregular_movements();
        reductions();
    }
    far_apart();
    beyond_int();
    large_types();
    errors();
    for (int i = 0; rank == 0 && counted[i].name != NULL; i++)
        (void)printf("%s %d\n", counted[i].name, counted[i].calls);
    if (rank == 0)
        (void)puts("done");
    return MPI_Finalize() == MPI_SUCCESS ? EXIT_SUCCESS : EXIT_FAILURE;
}
