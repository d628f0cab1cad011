/* mpicc.openmpi -O3 -o build/bpmf_mpi papers/kernels/bpmf_mpi.c -lm && mpirun.openmpi --oversubscribe -n 4 build/bpmf_mpi
 * A sampler in the manner of BPMF with MPI alone; compiled with -fopenmp, with OpenMP threads in each rank.
 *
 * Bayesian probabilistic matrix factorization (R. Salakhutdinov, A. Mnih, ICML 2008), simplified:
 * what it computes is similar, the data moves as in the kernel BPMF of Zhou et al. (2020),
 * section 5.3.3.
 *
 *   bpmf_mpi [ITEMS [ITERATIONS]]   so many compounds and as many targets
 *
 * A sparse matrix of ratings of compounds on targets is to be the product of two thin matrices, one
 * row of K factors for each compound and for each target. An iteration draws the rows of all
 * compounds, given those of the targets, then those of the targets, then predicts the ratings. Each
 * rank draws the rows of its own items. After each side all ranks gather three things from each
 * other: the rows (80 bytes an item; 80 000 from each of 8 ranks where there are 8000 items), their
 * second moments (800 bytes) and their squared norms (8 bytes). The latter two make the prior of
 * this side's next draw and the weight of a rating; BPMF draws these as well, here they are
 * computed. Ratings and random numbers depend on what they are for alone, so that the result is the
 * same on any number of ranks, but for the rounding of sums.
 */
#include <math.h>

#include "kernel.h"

enum { K = 10, RATINGS = 8 };
enum { SEED_FACTORS, SEED_OFFSET, SEED_RATING, SEED_CHECK, SEED_DRAW };

/* Compounds or targets: their gathered data, the blocks of the ranks one behind the other. */
struct side {
    int number;          /* 0: compounds, 1: targets */
    double *factors;     /* [items][K] */
    double *moments;     /* [size][K][K], stand behind the factors */
    double *norms;       /* [size], stand behind the moments */
    double prior[K * K]; /* the precision of a row without ratings */
    double weight;       /* the precision of a rating */
};

struct sampler {
    int items, first, own; /* of each side, and which of them are this rank's */
    int rank, size;
    int offset[RATINGS]; /* compound i has rated the targets i + offset, modulo items */
    struct side sides[2];
    double error; /* of this rank's predictions */
};

/* Room for what all ranks gather. */
static void open_side(const struct sampler *s, struct side *side) {
    const size_t count = (size_t)s->items * K + (size_t)s->size * (K * K + 1);

    side->factors = kernel_allocate(count);
    side->moments = side->factors + (size_t)s->items * K;
    side->norms = side->moments + (size_t)s->size * K * K;
}

/* Of the item's r-th rating: who or what is at its other end. */
static int partner(const struct sampler *s, const struct side *side, int item, int r) {
    return (item + (side->number == 0 ? s->offset[r] : s->items - s->offset[r])) % s->items;
}

static double rating(const struct side *side, int item, int other) {
    const int compound = side->number == 0 ? item : other;

    return kernel_input(SEED_RATING, (uint64_t)compound, (uint64_t)(item + other - compound));
}

/* About normal, of variance 1: the sum of four uniform numbers of variance 1/12. */
static double draw(const struct side *side, int iteration, int item, int k) {
    const uint64_t seed = SEED_DRAW + (uint64_t)(2 * iteration + side->number);
    double sum = -2;

    for (int i = 0; i < 4; i++) {
        sum += kernel_input(seed, (uint64_t)item, (uint64_t)(4 * k + i));
    }
    return sum * 1.7320508075688772;
}

/* Replaces the lower triangle of p by that of L, where p = L * transposed L. */
static void factorize(double *p) {
    for (int i = 0; i < K; i++) {
        for (int j = 0; j <= i; j++) {
            double sum = p[i * K + j];
            for (int k = 0; k < j; k++) {
                sum -= p[i * K + k] * p[j * K + k];
            }
            p[i * K + j] = i == j ? sqrt(sum) : sum / p[j * K + j];
        }
    }
}

static void solve_lower(const double *l, double *x) {
    for (int i = 0; i < K; i++) {
        for (int k = 0; k < i; k++) {
            x[i] -= l[i * K + k] * x[k];
        }
        x[i] /= l[i * K + i];
    }
}

static void solve_transposed(const double *l, double *x) {
    for (int i = K - 1; i >= 0; i--) {
        for (int k = i + 1; k < K; k++) {
            x[i] -= l[k * K + i] * x[k];
        }
        x[i] /= l[i * K + i];
    }
}

/* Draws an item's row: normal with precision P = L * transposed L and mean P^-1 * x, which is what
 * the transposed L makes of L^-1 * x plus numbers of variance 1. */
static void sample_item(const struct sampler *s, const struct side *side, int item, int iteration) {
    const struct side *other = &s->sides[1 - side->number];
    double *x = side->factors + (size_t)item * K;
    double p[K * K];

    memcpy(p, side->prior, sizeof p);
    memset(x, 0, K * sizeof *x);
    for (int r = 0; r < RATINGS; r++) {
        const int rated = partner(s, side, item, r);
        const double *v = other->factors + (size_t)rated * K;
        const double value = rating(side, item, rated);
        for (int i = 0; i < K; i++) {
            for (int j = 0; j <= i; j++) {
                p[i * K + j] += side->weight * v[i] * v[j];
            }
            x[i] += side->weight * value * v[i];
        }
    }
    factorize(p);
    solve_lower(p, x);
    for (int k = 0; k < K; k++) {
        x[k] += draw(side, iteration, item, k);
    }
    solve_transposed(p, x);
}

/* The moments and the norm of this rank's rows. */
static void summarize(const struct sampler *s, const struct side *side) {
    double *moments = side->moments + (size_t)s->rank * K * K;
    double norm = 0;

    memset(moments, 0, K * K * sizeof *moments);
    for (int item = s->first; item < s->first + s->own; item++) {
        const double *v = side->factors + (size_t)item * K;
        for (int i = 0; i < K; i++) {
            for (int j = 0; j < K; j++) {
                moments[i * K + j] += v[i] * v[j];
            }
            norm += v[i] * v[i];
        }
    }
    side->norms[s->rank] = norm;
}

/* What the next draw of this side begins with. Read here and not there: by then other ranks may be
 * about to replace their parts. */
static void update_prior(const struct sampler *s, struct side *side) {
    double norm = 0;

    memset(side->prior, 0, sizeof side->prior);
    for (int rank = 0; rank < s->size; rank++) {
        for (int i = 0; i < K * K; i++) {
            side->prior[i] += side->moments[(size_t)rank * K * K + i] / s->items;
        }
        norm += side->norms[rank] / s->items;
    }
    for (int i = 0; i < K; i++) {
        side->prior[i * K + i] += 1;
    }
    side->weight = 2 / (1 + norm);
}

static void finish_side(const struct sampler *s, struct side *side) {
    summarize(s, side);
    KERNEL_TIMED(MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, side->factors, s->own * K,
                               MPI_DOUBLE, MPI_COMM_WORLD));
    KERNEL_TIMED(MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, side->moments, K * K, MPI_DOUBLE,
                               MPI_COMM_WORLD));
    KERNEL_TIMED(MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, side->norms, 1, MPI_DOUBLE,
                               MPI_COMM_WORLD));
    update_prior(s, side);
}

/* Adds the squared errors of the ratings by this rank's compounds. */
static void predict(struct sampler *s) {
    double error = 0;

#pragma omp parallel for reduction(+ : error)
    for (int item = s->first; item < s->first + s->own; item++) {
        for (int r = 0; r < RATINGS; r++) {
            const int target = partner(s, &s->sides[0], item, r);
            double missing = rating(&s->sides[0], item, target);
            for (int k = 0; k < K; k++) {
                missing -= s->sides[0].factors[(size_t)item * K + k] *
                           s->sides[1].factors[(size_t)target * K + k];
            }
            error += missing * missing;
        }
    }
    s->error += error;
}

static void iterate(struct sampler *s, int iteration) {
    for (int number = 0; number < 2; number++) {
#pragma omp parallel for
        for (int item = s->first; item < s->first + s->own; item++) {
            sample_item(s, &s->sides[number], item, iteration);
        }
        finish_side(s, &s->sides[number]);
    }
    predict(s);
}

static void open_sampler(struct sampler *s, int items) {
    MPI_Comm_rank(MPI_COMM_WORLD, &s->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &s->size);
    kernel_need(items % s->size == 0, "ITEMS that are a multiple of the ranks");
    s->items = items;
    s->own = items / s->size;
    s->first = s->rank * s->own;
    for (int r = 0; r < RATINGS; r++) {
        s->offset[r] = (int)(kernel_input(SEED_OFFSET, (uint64_t)r, 0) * items);
    }
    for (int number = 0; number < 2; number++) {
        struct side *side = &s->sides[number];
        side->number = number;
        open_side(s, side);
        for (int i = s->first * K; i < (s->first + s->own) * K; i++) {
            side->factors[i] = kernel_input(SEED_FACTORS, (uint64_t)number, (uint64_t)i) - 0.5;
        }
        finish_side(s, side);
    }
}

static void close_sampler(struct sampler *s) {
    free(s->sides[0].factors);
    free(s->sides[1].factors);
}

/* Weighted, so that rows in wrong places change it. */
static double checksum(const struct sampler *s) {
    double sum = s->error;

    for (int number = 0; number < 2; number++) {
        for (int i = s->first * K; i < (s->first + s->own) * K; i++) {
            sum += kernel_input(SEED_CHECK, (uint64_t)number, (uint64_t)i) *
                   s->sides[number].factors[i];
        }
    }
    return sum;
}

int main(int argc, char **argv) {
    struct sampler s = {0};

    kernel_init(&argc, &argv);
    const int items = kernel_argument(argc, argv, 1, 8000);
    const int iterations = kernel_argument(argc, argv, 2, 10);
    open_sampler(&s, items);
    const double start = kernel_start();
    for (int i = 0; i < iterations; i++) {
        iterate(&s, i);
    }
    const double seconds = MPI_Wtime() - start;
    kernel_report(seconds, checksum(&s));
    close_sampler(&s);
    return MPI_Finalize() == MPI_SUCCESS ? EXIT_SUCCESS : EXIT_FAILURE;
}
