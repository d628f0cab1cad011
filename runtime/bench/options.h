/* The driver's command line. */
#ifndef COLLFORGE_BENCH_OPTIONS_H_INCLUDED
#define COLLFORGE_BENCH_OPTIONS_H_INCLUDED

#include "bench.h"

/* Parses the command line. Returns false, with the reason in why, if it is invalid. */
bool options_read(int argc, char **argv, struct options *options, char *why, size_t size);
void options_help(FILE *file);

#endif
