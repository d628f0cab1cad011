#include "overlap_search.h"

#include <math.h>
#include <stdlib.h>

enum { MOST_CALLS = 64, LEAST_ROUNDS = 3 };

/* Logarithms: sizes and times span orders of magnitude. */
struct point {
    double size;
    double seconds;
};

static long clip(double size, const struct search_goal *goal) {
    const double rounded = floor(size + 0.5);
    if (rounded <= (double)goal->least) {
        return goal->least;
    }
    return rounded >= (double)goal->most ? goal->most : (long)rounded;
}

/* Moves the points whose times are nearest to the target to the front; at most three. */
static int nearest(struct point *points, int n, double target) {
    const int wanted = n < 3 ? n : 3;
    for (int i = 0; i < wanted; i++) {
        for (int j = i + 1; j < n; j++) {
            if (fabs(points[j].seconds - target) < fabs(points[i].seconds - target)) {
                const struct point nearer = points[j];
                points[j] = points[i];
                points[i] = nearer;
            }
        }
    }
    return wanted;
}

/* The size at the target on the polynomial size(seconds) through n points; NAN where two have one
 * time. */
static double interpolate(const struct point *points, int n, double target) {
    double size = 0;
    for (int i = 0; i < n; i++) {
        double term = points[i].size;
        for (int j = 0; j < n; j++) {
            const double apart = points[i].seconds - points[j].seconds;
            if (j != i && fabs(apart) < 1e-9) {
                return NAN;
            }
            if (j != i) {
                term *= (target - points[j].seconds) / apart;
            }
        }
        size += term;
    }
    return size;
}

/* From one side only: by the order of the cost, but not too far, as small sizes take a latency. */
static long step(const struct search_goal *goal, long size, double seconds) {
    double factor = pow(goal->seconds / seconds, 1 / goal->order);
    if (seconds < goal->seconds) {
        factor = fmin(fmax(factor, 1.2), 8);
    } else {
        factor = fmax(fmin(factor, 1 / 1.2), 1.0 / 64);
    }
    const long next = clip((double)size * factor, goal);
    if (next == size) {
        return clip((double)size + (seconds < goal->seconds ? 1 : -1), goal);
    }
    return next;
}

/* Between two sizes, exclusively: interpolated where that stays off both ends, else the geometric
 * mean. */
static long between(const struct search_goal *goal, struct point *points, int n,
                    const long *bounds) {
    const double low = log((double)bounds[0]);
    const double high = log((double)bounds[1]);
    const double margin = 0.02 * (high - low);
    const double target = log(goal->seconds);
    double size = interpolate(points, nearest(points, n, target), target);
    if (!(size > low + margin && size < high - margin)) {
        size = (low + high) / 2;
    }
    long next = clip(exp(size), goal);
    next = next <= bounds[0] ? bounds[0] + 1 : next;
    return next >= bounds[1] ? bounds[1] - 1 : next;
}

/* The bounds are so near that sizes between them cannot help: times were not repeated. */
static bool closed(const struct search_goal *goal, const long *bounds) {
    return bounds[1] - bounds[0] <= 1 ||
           (double)bounds[1] < (double)bounds[0] * (1 + goal->tolerance / 10);
}

struct search_found search_size(const struct search_goal *goal, search_cost *cost, void *context) {
    struct point points[MOST_CALLS];
    struct search_found found = {.size = clip((double)goal->first, goal)};
    long bounds[2] = {0, 0}; /* the sizes next to the target on either side; 0: none is known */
    long size = found.size;
    int n = 0;     /* points */
    int stuck = 0; /* at the least or the largest size */
    double error = INFINITY;

    while (found.calls < goal->calls && found.calls < MOST_CALLS && stuck < 2) {
        const double seconds = cost(size, context);
        found.calls++;
        points[n++] = (struct point){log((double)size), log(seconds)};
        if (fabs(log(seconds / goal->seconds)) < error) {
            error = fabs(log(seconds / goal->seconds));
            found.size = size;
            found.seconds = seconds;
        }
        found.converged = fabs(found.seconds - goal->seconds) <= goal->tolerance * goal->seconds;
        if (found.converged) {
            break;
        }
        const int side = seconds > goal->seconds;
        bounds[side] = size;
        if (bounds[0] > 0 && bounds[1] > 0 && closed(goal, bounds)) {
            bounds[0] = bounds[1] = n = 0;
        }
        const bool both = bounds[0] > 0 && bounds[1] > 0;
        const long next = both ? between(goal, points, n, bounds) : step(goal, size, seconds);
        stuck = next == size ? stuck + 1 : 0;
        size = next;
    }
    return found;
}

int search_rounds(double seconds, int most) {
    const double rounds = fmin(fmax(1 / seconds, LEAST_ROUNDS), most);
    return (int)rounds;
}

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

double search_median(double *values, int n) {
    qsort(values, (size_t)n, sizeof *values, ascending);
    return n % 2 != 0 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}
