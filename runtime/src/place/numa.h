/* Where in its node a process runs. */
#ifndef COLLFORGE_NUMA_H_INCLUDED
#define COLLFORGE_NUMA_H_INCLUDED

/*
 * The NUMA domain that the calling thread is bound to, by its number on the node. 0 where it is
 * bound to none or to several, and where hwloc, which knows, was not there when this was compiled
 * or is not there now.
 */
int cf_numa_domain(void);

#endif
