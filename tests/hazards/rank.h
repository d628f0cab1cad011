/* The rank before MPI_Init, from the launcher; -1 if it does not say. */
#include <stdlib.h>

static int rank_by_launcher(void) {
    const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK"};
    for (int i = 0; i < 2; i++)
        if (getenv(names[i]) != NULL)
            return atoi(getenv(names[i]));
    return -1;
}
