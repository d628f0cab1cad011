/* What the environment of world rank 0 asks for. */
#ifndef COLLFORGE_SETTINGS_H_INCLUDED
#define COLLFORGE_SETTINGS_H_INCLUDED

#include <stdint.h>

#include "winners/winners.h"

/* Broadcast by world rank 0; the winners follow. */
struct cf_settings {
    int wanted;    /* 0: stay inactive */
    int pretended; /* COLLFORGE_NODE_MAP is set; hybrid packages use it, too */
    int verbose;
    int profile;
    int report_seconds; /* COLLFORGE_REPORT */
    int report_signal;
    int gpu_native; /* COLLFORGE_GPU=native: native if any rank has a GPU runtime */
    int guard;
    int mode;  /* enum cf_mode, if wanted */
    int tuned; /* variants may serve calls */
    int tells; /* what the library did for the job, on world rank 0 */
    int reproducible;
    int split_ops;
    int nonblocking;
    int check_ops;
    int nwinners;
    int nlayouts;
    int64_t memory;
    double guard_after;
};

/* On world rank 0: reads the environment, and the winners that it names. Every failure means a
 * warning and fewer winners, never an error. */
void cf_settings_read(struct cf_settings *settings, struct cf_winners *winners);

#endif
