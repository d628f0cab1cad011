#!/bin/bash
# Every variant on the buffers of a real CUDA device, and an unmodified program natively and preloaded:
#   tests/gpu/real.sh OUT PREFIX...
# OUT: a folder for what it finds. PREFIX: MPI libraries, each with bin/mpicc and bin/mpirun.
# PYTHON (default: .venv/bin/python) has Collforge's packages. No launch takes longer than LIMIT seconds.
set -u
cd "$(dirname "$0")/../.." || exit
python=$(realpath -s "$(command -v "${PYTHON:-.venv/bin/python}")") || exit
out=$(readlink -f "$1") && shift || exit
limit=${LIMIT:-300}
failed=0
export COLLFORGE_HOME=$PWD/build/gpu COLLFORGE_SITE=$PWD/build/gpu/site.ini PYTHONPATH=$PWD/build/gpu/links:${PYTHONPATH:-}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
export COLLFORGE_START_TIMEOUT=30

# What setup.cfg's package_dir does, without an installation.
rm -rf build/gpu/links && mkdir -p build/gpu/links/collforge
for package in collforge/*.py db generator papers reframe_checks runtime templates toolchain tuner; do
    ln -s "$PWD/$package" build/gpu/links/collforge/
done

launch() { # RANKS COMMAND...: on one machine, with a time limit
    timeout -k 5 "$limit" "$prefix/bin/mpirun" -n "$@"
}

verify() { # LAYOUT RANKS MAP MEMORY
    "$python" tests/gpu/cases.py "$COLLFORGE_HOME/generated/manifest.json" "$1" >"$out/cases"
    COLLFORGE_NODE_MAP=$3 OMP_NUM_THREADS=${5:-1} COLLFORGE_THREAD_MULTIPLE=always \
        launch "$2" "$COLLFORGE_HOME/$name/collforge-driver" --cases "$out/cases" --verify-only --memory "$4" \
        --output "$out/records" >"$out/log" 2>&1
    local rc=$?
    "$python" - "$out/records" "$name $1 $4: exit $rc" <<'END' || { failed=1; tail -3 "$out/log"; }
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])] if __import__("os").path.exists(sys.argv[1]) else []
cases = [row for row in rows if "verified" in row]
wrong = [row for row in cases if not row["verified"] and row.get("detail") != "declined"]
ended = bool(rows) and rows[-1].get("record") == "end"
good = sum(bool(row["verified"]) for row in cases)
print(f"{sys.argv[2]}: {len(cases)} cases, {good} verified, {len(cases) - good - len(wrong)} declined, {len(wrong)} failed")
for row in wrong[:5]:
    print("  ", json.dumps(row)[:300])
sys.exit(not ended or bool(wrong))
END
    rm -f "$out/records"
}

for prefix in "$@"; do
    prefix=$(readlink -f "$prefix")
    name=$(basename "$prefix")
    # From there, because Python looks in this folder first, where collforge is without its subpackages.
    (cd build/gpu && "$python" -m collforge mpi add "$name" "$prefix" && "$python" -m collforge build --mpi "$name") || exit
    verify 2x2 4 2 device
    verify 2x2 4 2 mixed
    verify 1x4 4 map:0,0,0,0 device
    verify 3+1 4 map:0,0,0,1 device
    verify cyclic:2x3 6 map:0,1,0,1,0,1 mixed
    verify 2x2x2 4 2 device 2
    "$prefix/bin/mpicc" -O1 -Wno-pedantic tests/gpu/real.c -o build/gpu/real-"$name" -ldl || exit
    launch 4 build/gpu/real-"$name" >"$out/native-$name" 2>"$out/native-$name.err"
    echo "$name program, native: exit $?: $(tail -1 "$out/native-$name")"
    for family in full_lane hierarchical; do
        LD_PRELOAD=$COLLFORGE_HOME/$name/libcollforge.so COLLFORGE_NODE_MAP=2 COLLFORGE_FORCE="*=$family" \
            COLLFORGE_VERBOSE=1 launch 4 build/gpu/real-"$name" >"$out/$family-$name" 2>"$out/$family-$name.err"
        rc=$?
        echo "$name program, $family: exit $rc: $(tail -1 "$out/$family-$name")"
        [ $rc = 0 ] || { failed=1; tail -3 "$out/$family-$name.err"; }
    done
done
exit $failed
