#!/bin/sh
# rank DEVICE COUNT COMMAND...: one MPI process, whose messages leave by one of DEVICE0, DEVICE1, ...
# (COUNT of them). The node's ranks take them in turn. The caller's own values take precedence.
set -eu
# In a Slurm job mpirun starts its own processes by srun, so ranks of mpirun have a SLURM_LOCALID, too: not theirs.
local_rank=${OMPI_COMM_WORLD_LOCAL_RANK:-${MPI_LOCALRANKID:-${SLURM_LOCALID:?is not set: neither mpirun nor srun did this}}}
device=$1$((local_rank % $2))
shift 2
export OMPI_MCA_btl_tcp_if_include="${OMPI_MCA_btl_tcp_if_include:-$device}"
export UCX_NET_DEVICES="${UCX_NET_DEVICES:-$device}"
export FI_TCP_IFACE="${FI_TCP_IFACE:-$device}"
exec "$@"
