#!/bin/sh
# agent HOST WORD...: what ssh does for mpirun: have HOST's shell run the words.
set -eu
cluster=${0%/*}
host=$1
shift
exec nsenter --target "$(cat "$cluster/$host/pid")" --net --uts --ipc --mount -- /bin/sh -c "$*"
