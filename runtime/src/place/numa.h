/* The NUMA domain of a process. */
#ifndef COLLFORGE_NUMA_H_INCLUDED
#define COLLFORGE_NUMA_H_INCLUDED

/*
 * The number, on its node, of the NUMA domain that the calling thread is bound to. 0 if it is bound
 * to none or to several, and if hwloc is missing, now or at compile time.
 */
int cf_numa_domain(void);

#endif
