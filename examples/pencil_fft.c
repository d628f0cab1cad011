/* mpicc.openmpi -O2 -o build/pencil_fft examples/pencil_fft.c -lm && mpirun.openmpi --oversubscribe -n 4 build/pencil_fft 32 2 2
 * Fourier transforms of n x n x n complex numbers on a grid of rows x columns ranks: plain MPI, which knows nothing of
 * Collforge. Each rank holds pencils. Between the dimensions they are transposed by MPI_Alltoall, first among the ranks
 * of a row, then among those of a column; or, with CHUNKS above 1, by as many MPI_Ialltoall, while the next chunk of
 * pencils is transformed.
 *
 *   collforge cluster run --mpi openmpi -- build/pencil_fft 128 2 4
 *   COLLFORGE_PROFILE=calls.csv LD_PRELOAD=build/openmpi/libcollforge.so collforge cluster run --mpi openmpi -- build/pencil_fft 128 2 4
 *
 * Usage: pencil_fft N ROWS COLUMNS [STEPS [CHUNKS]]; N is a power of two that ROWS and COLUMNS divide. Prints the milliseconds
 * of a transform forth and back on the slowest rank, and of its transposes alone. A plane wave must become one peak,
 * and itself again; else the exit code is 1.
 */
#include <complex.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

typedef double complex number;

static const double pi = 3.14159265358979323846;
static const int wave[3] = {1, 2, 3}; /* the peak's x, y, z */

static struct {
    int n;
    int rows, columns;
    int row, column;   /* of this rank */
    int high, wide;    /* n / rows, n / columns */
    MPI_Comm along[2]; /* this rank's row and column */
    number *data;      /* [high][wide][n] or another order; the last index is the one of the pencil */
    number *send, *receive;
    int chunks;
    double in_transposes;
} grid;

enum { MOST_CHUNKS = 16 };

/* Of n numbers, in place; sign is -1 forth and 1 back. */
static void transform(number *line, int n, int sign) {
    for (int i = 1, j = 0; i < n; i++) {
        int bit = n >> 1;
        for (; j & bit; bit >>= 1) {
            j ^= bit;
        }
        j ^= bit;
        if (i < j) {
            const number other = line[i];
            line[i] = line[j];
            line[j] = other;
        }
    }
    for (int length = 2; length <= n; length *= 2) {
        const number step = cexp(sign * 2 * pi * I / length);
        for (int begin = 0; begin < n; begin += length) {
            number turn = 1;
            for (int k = begin; k < begin + length / 2; k++, turn *= step) {
                const number odd = turn * line[k + length / 2];
                line[k + length / 2] = line[k] - odd;
                line[k] += odd;
            }
        }
    }
}

static void transform_pencils(int sign) {
    for (int i = 0; i < grid.high * grid.wide; i++) {
        transform(&grid.data[(size_t)i * grid.n], grid.n, sign);
    }
}

/*
 * An exchange of the pencils' dimension c for another one, b, of which this rank has `share` values: data[a][b][c], or
 * if `middle` data[b][a][c], becomes data[a][c][b], or data[c][a][b], with all b and `share` values of c. There are
 * `planes` values of a.
 */
struct exchange {
    int planes, share, middle;
};

static number *line_of(const struct exchange *of, int a, int b) {
    return &grid.data[(of->middle ? (size_t)b * of->planes + a : (size_t)a * of->share + b) * grid.n];
}

static void pack(const struct exchange *of, int first, int last, number *send) {
    for (int to = 0; to < grid.n / of->share; to++) {
        for (int a = first; a < last; a++) {
            for (int c = to * of->share; c < (to + 1) * of->share; c++) {
                for (int b = 0; b < of->share; b++) {
                    *send++ = line_of(of, a, b)[c];
                }
            }
        }
    }
}

static void unpack(const struct exchange *of, int first, int last, const number *received) {
    for (int from = 0; from < grid.n / of->share; from++) {
        for (int a = first; a < last; a++) {
            for (int c = 0; c < of->share; c++) {
                for (int b = 0; b < of->share; b++) {
                    line_of(of, a, c)[from * of->share + b] = *received++;
                }
            }
        }
    }
}

/* Transforms the planes of a chunk; MPI makes progress on the exchanges of those before. */
static void transform_planes(const struct exchange *of, int first, int last, int sign, MPI_Request *requests, int n) {
    for (int a = first; a < last; a++) {
        for (int b = 0; b < of->share; b++) {
            transform(line_of(of, a, b), grid.n, sign);
        }
        const double begin = MPI_Wtime();
        int done;
        MPI_Testall(n, requests, &done, MPI_STATUSES_IGNORE);
        grid.in_transposes += MPI_Wtime() - begin;
    }
}

static void transform_and_transpose(MPI_Comm comm, int planes, int share, int middle, int sign) {
    const struct exchange of = {planes, share, middle};
    const MPI_Datatype type = MPI_C_DOUBLE_COMPLEX;
    MPI_Request requests[MOST_CHUNKS];
    int first[MOST_CHUNKS + 1];
    for (int k = 0; k <= grid.chunks; k++) {
        first[k] = planes * k / grid.chunks;
    }
    for (int k = 0; k < grid.chunks; k++) {
        const int block = (first[k + 1] - first[k]) * share * share;
        const size_t at = (size_t)first[k] * share * grid.n;
        transform_planes(&of, first[k], first[k + 1], sign, requests, k);
        pack(&of, first[k], first[k + 1], &grid.send[at]);
        const double begin = MPI_Wtime();
        if (grid.chunks == 1) {
            requests[k] = MPI_REQUEST_NULL;
            MPI_Alltoall(&grid.send[at], block, type, &grid.receive[at], block, type, comm);
        } else {
            MPI_Ialltoall(&grid.send[at], block, type, &grid.receive[at], block, type, comm, &requests[k]);
        }
        grid.in_transposes += MPI_Wtime() - begin;
    }
    for (int k = 0; k < grid.chunks; k++) {
        const double begin = MPI_Wtime();
        MPI_Wait(&requests[k], MPI_STATUS_IGNORE);
        grid.in_transposes += MPI_Wtime() - begin;
        unpack(&of, first[k], first[k + 1], &grid.receive[(size_t)first[k] * share * grid.n]);
    }
}

/* [z][y][x] -> [z][x][y] -> [y][x][z]; back, the same exchanges lead to [z][y][x] again. */
static void forth(void) {
    transform_and_transpose(grid.along[0], grid.high, grid.wide, 0, -1);
    transform_and_transpose(grid.along[1], grid.wide, grid.high, 1, -1);
    transform_pencils(-1);
}

static void back(void) {
    transform_and_transpose(grid.along[1], grid.wide, grid.high, 1, 1);
    transform_and_transpose(grid.along[0], grid.high, grid.wide, 0, 1);
    transform_pencils(1);
}

/* [z][y][x] before, [y][x][z] after the transform. */
static number expected(int peaks, int outer, int middle, int inner) {
    const int n = grid.n;
    if (peaks) {
        const int y = grid.row * grid.high + outer;
        const int x = grid.column * grid.wide + middle;
        return x == wave[0] && y == wave[1] && inner == wave[2] ? (double)n * n * n : 0;
    }
    const int z = grid.row * grid.high + outer;
    const int y = grid.column * grid.wide + middle;
    return cexp(2 * pi * I * (wave[0] * inner + wave[1] * y + wave[2] * z) / n);
}

/* Fills the data, or returns its largest difference from what is expected times `scale`. */
static double compare(int fills, int peaks, double scale) {
    double most = 0;
    size_t at = 0;
    for (int outer = 0; outer < grid.high; outer++) {
        for (int middle = 0; middle < grid.wide; middle++) {
            for (int inner = 0; inner < grid.n; inner++, at++) {
                const number right = scale * expected(peaks, outer, middle, inner);
                if (fills) {
                    grid.data[at] = right;
                }
                const double off = cabs(grid.data[at] - right);
                most = off <= most ? most : isnan(off) ? HUGE_VAL : off;
            }
        }
    }
    return most / scale;
}

static void start(int argc, char **argv) {
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    grid.n = argc > 1 ? atoi(argv[1]) : 32;
    grid.rows = argc > 2 ? atoi(argv[2]) : 1;
    grid.columns = argc > 3 ? atoi(argv[3]) : size;
    if (grid.n < 4 || (grid.n & (grid.n - 1)) != 0 || grid.rows < 1 || grid.columns < 1 ||
        grid.rows * grid.columns != size || grid.n % grid.rows != 0 || grid.n % grid.columns != 0) {
        if (rank == 0) {
            fprintf(stderr, "usage: pencil_fft N ROWS COLUMNS [STEPS [CHUNKS]]; ROWS * COLUMNS is the number of ranks, and both "
                            "divide N, a power of two from 4 on\n");
        }
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    grid.chunks = argc > 5 ? atoi(argv[5]) : 1;
    grid.chunks = grid.chunks < 1 ? 1 : grid.chunks > MOST_CHUNKS ? MOST_CHUNKS : grid.chunks;
    grid.high = grid.n / grid.rows;
    grid.wide = grid.n / grid.columns;
    grid.row = rank / grid.columns;
    grid.column = rank % grid.columns;
    MPI_Comm_split(MPI_COMM_WORLD, grid.row, grid.column, &grid.along[0]);
    MPI_Comm_split(MPI_COMM_WORLD, grid.column, grid.row, &grid.along[1]);
    const size_t count = (size_t)grid.high * grid.wide * grid.n;
    grid.data = calloc(count, sizeof *grid.data);
    grid.send = calloc(count, sizeof *grid.send);
    grid.receive = calloc(count, sizeof *grid.receive);
    if (grid.data == NULL || grid.send == NULL || grid.receive == NULL) {
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
}

int main(int argc, char **argv) {
    int rank;
    double times[2] = {0}, slowest[2];

    MPI_Init(&argc, &argv);
    start(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const int steps = argc > 4 && atoi(argv[4]) > 0 ? atoi(argv[4]) : 10;
    const double volume = pow(grid.n, 3);
    double wrong = 0, most;
    compare(1, 0, 1);
    for (int step = -1; step < steps; step++) { /* the first one warms up */
        grid.in_transposes = 0;
        const double begin = MPI_Wtime();
        forth();
        const double middle = MPI_Wtime();
        wrong = fmax(wrong, compare(0, 1, 1) / volume);
        const double second = MPI_Wtime();
        back();
        for (size_t i = 0; i < (size_t)grid.high * grid.wide * grid.n; i++) {
            grid.data[i] /= volume;
        }
        times[0] += step < 0 ? 0 : middle - begin + MPI_Wtime() - second;
        times[1] += step < 0 ? 0 : grid.in_transposes;
        wrong = fmax(wrong, compare(0, 0, 1));
    }
    MPI_Reduce(times, slowest, 2, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Allreduce(&wrong, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("%s %10.3f ms, transposes %10.3f ms\n", most < 1e-9 ? "right" : "WRONG", 1e3 * slowest[0] / steps,
               1e3 * slowest[1] / steps);
    }
    MPI_Comm_free(&grid.along[0]);
    MPI_Comm_free(&grid.along[1]);
    free(grid.data);
    free(grid.send);
    free(grid.receive);
    MPI_Finalize();
    return most < 1e-9 ? 0 : 1;
}
