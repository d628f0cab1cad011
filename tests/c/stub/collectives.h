/* What the generator would write for three collectives. */
#ifndef COLLFORGE_COLLECTIVES_H_INCLUDED
#define COLLFORGE_COLLECTIVES_H_INCLUDED

enum cf_collective { CF_BCAST, CF_ALLREDUCE, CF_GATHER, CF_IBCAST };

/* How many times a variant has run in this process, and the first parameter of the last one. */
extern int stub_runs;
extern int stub_parameter;

/* Milliseconds by which the native bcast, if not called by the wrapper, and its variants are slowed
 * down. */
extern int stub_native_ms;
extern int stub_variant_ms;

#endif
