#!/bin/sh
# rank DEVICE COUNT COMMAND...: one MPI process, whose messages leave by one of DEVICE0, DEVICE1, ...
# (COUNT of them). The node's ranks take them in turn. The caller's own values take precedence.
set -eu
local_rank=${OMPI_COMM_WORLD_LOCAL_RANK:-${MPI_LOCALRANKID:?is not set, so mpirun did not start this}}
device=$1$((local_rank % $2))
shift 2
export OMPI_MCA_btl_tcp_if_include="${OMPI_MCA_btl_tcp_if_include:-$device}"
export UCX_NET_DEVICES="${UCX_NET_DEVICES:-$device}"
exec "$@"
