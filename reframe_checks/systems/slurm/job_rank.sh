#!/bin/sh
# job_rank LIBRARY DEVICE COUNT COMMAND...: one MPI process of a job, as `rank` starts it; LIBRARY is preloaded
# into processes of MPICH, after the caller's own.
set -eu
library=$1
shift
# MPICH's process managers set PMI_RANK, Open MPI's also or only PMIX_RANK.
if [ -n "${PMI_RANK:-}" ] && [ -z "${PMIX_RANK:-}" ]; then
    export LD_PRELOAD="${LD_PRELOAD:+$LD_PRELOAD:}$library"
fi
exec "${0%/*}/rank" "$@"
