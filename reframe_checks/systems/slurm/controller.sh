#!/bin/sh
# controller HOST...: runs munged, slurmctld and a slurmd on each host until the cluster ends.
# Says "ready" when all hosts are idle; else it says which daemon ended, with the end of its log, and ends.
set -eu
cluster=${0%/*}
export SLURM_CONF="$cluster/slurm.conf"
mkdir "$cluster/log" "$cluster/state"

start() { # NAME COMMAND...: in the background
    name=$1
    shift
    {
        "$@" </dev/null >"$cluster/log/$name" 2>&1 || true
        : >"$cluster/log/$name.ended"
    } >/dev/null 2>&1 &
}

await() { # COMMAND...: until it succeeds
    tries=0
    until "$@"; do
        for ended in "$cluster"/log/*.ended; do
            [ -e "$ended" ] && fail "$(basename "$ended" .ended)" "ended"
        done
        tries=$((tries + 1))
        [ $tries -lt 300 ] || fail slurmctld "did not get all nodes within a minute"
        sleep 0.2
    done
}

fail() { # NAME REASON
    echo "$1 $2; the last lines of its log:"
    tail -n 8 "$cluster/log/$1"
    exit 1
}

all_idle() {
    # Without a controller to ask, sinfo would wait for ten seconds.
    [ "$(timeout 2 sinfo --noheader --Node --format %t 2>/dev/null | grep -c '^idle$')" = "$hosts" ]
}

(umask 077 && head -c 1024 /dev/urandom >"$cluster/munge.key")
start munged munged --foreground --force --socket "$cluster/munge.socket" --key-file "$cluster/munge.key" \
    --pid-file "$cluster/munged.pid" --seed-file "$cluster/munge.seed"
await test -S "$cluster/munge.socket"
start slurmctld slurmctld -D
hosts=$#
for host in "$@"; do
    mkdir "$cluster/spool.$host"
    start "slurmd.$host" "$cluster/agent" "$host" slurmd -D -N "$host"
done
await all_idle
echo ready
exec >/dev/null 2>&1 sleep infinity
