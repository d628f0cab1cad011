#!/bin/sh
# job_rank LIBRARY COMMAND...: one MPI process of a job; LIBRARY is preloaded into processes of MPICH, after the
# caller's own.
set -eu
library=$1
shift
# MPICH's process managers, srun's among them, talk to a rank through PMI_FD. PMIX_RANK may be that of hydra's own
# step.
if [ -n "${PMI_FD:-}" ] && [ -z "${OMPI_COMM_WORLD_RANK:-}" ]; then
    export LD_PRELOAD="${LD_PRELOAD:+$LD_PRELOAD:}$library"
fi
exec "$@"
