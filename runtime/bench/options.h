/* The driver's command line. */
#ifndef COLLFORGE_BENCH_OPTIONS_H_INCLUDED
#define COLLFORGE_BENCH_OPTIONS_H_INCLUDED

#include "bench.h"

/* Returns false for a command line that cannot be meant and puts the reason into why. */
bool options_read(int argc, char **argv, struct options *options, char *why, size_t size);
void options_help(FILE *file);

#endif
