#!/bin/sh
# node NAME: make the new namespaces this runs in a node of the cluster, and keep them.
# Says "ready" when done.
set -eu
cluster=${0%/*}
own=$cluster/$1

hostname "$1"
mount -t sysfs sysfs /sys # UCX looks here for network devices; those of the mounter show
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mount -t tmpfs -o mode=1777 tmpfs "$cluster/tmp"
mount --bind "$cluster/hosts" /etc/hosts

while read -r key value; do
    echo "$value" >"/proc/sys/$key"
done <"$own/sysctls"
ip -batch "$own/links"
tc -batch "$own/shaping"

echo $$ >"$own/pid"
echo ready
exec sleep infinity
