"""A collective, a family, a lane algorithm, a step or a role can be added without editing other files.

A toy of each is added to a copy of the package, and is proven, generated, compiled and verified. The toy
collective is MPIX_Fan_in (the ranks' vectors combined, on rank 0), an extension function that this test's MPI
library has. Two of its arguments have new roles, of which the toy step uses one. The toy family serves it and
allreduce, with its own parameter and the toy step, which copies a rank's data. The toy lane algorithm is a
bcast from node to node.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE

import pytest
from conformance.build import render_tables

import collforge
from collforge import generator, runtime, templates
from collforge.generator import load, manifest

COLLECTIVE = """
name = "fan_in"
function = "MPIX_Fan_in"
summary = "The ranks' vectors combined elementwise in rank order, on rank 0."
standard = "an extension"
signature = [
    ["sendbuf", "send_buffer"],
    ["recvbuf", "recv_buffer"],
    ["count", "count"],
    ["datatype", "datatype"],
    ["op", "op"],
    ["priority", "priority"],
    ["info", "info"],
    ["comm", "comm"],
]
in_place = "none"
has_blocks = false
bound = "bytes"

[result]
in_blocks = "1"
out_blocks = "1 if rank == 0 else 0"
first = "0"
last = "size"
source_block = "0"
"""

ROLES = """
[priority]
kind = "value"
type = "int"
plain = "7"

[info]
kind = "value"
type = "MPI_Info"
plain = "MPI_INFO_NULL"
"""

FAMILY = """
name = "toy"
title = "Toy"
summary = "Leaders combine what their nodes have; rank 0 keeps it."
source = "the test that adds it"
lanes = "single"
predicate = "nodes > 1"

[[parameter]]
name = "detour"
summary = "Nothing."
values = [1, 2]

[buffers]
partial = "vector"
whole = "vector"

[fan_in]
predicate = "commutative or consecutive"
steps = [
    { call = "reduce", over = "node", root = "leader", from = "input", to = "partial" },
    { call = "allreduce", over = "lane", from = "partial", to = "whole" },
    { call = "keep", from = "whole", to = "output", where = "rank == 0" },
]

[allreduce]
predicate = "commutative or consecutive"
steps = [
    { call = "reduce", over = "node", root = "leader", from = "input", to = "partial" },
    { call = "allreduce", over = "lane", from = "partial", to = "output" },
    { call = "bcast", over = "node", root = "leader", data = "output" },
]
"""

ALGORITHM = """
name = "line"
title = "Line"
summary = "Every node hands the vector on to the next, a few units at once."
source = "the test that adds it"
calls = ["bcast"]

[[parameter]]
name = "at_once"
summary = "Units of a segment."
values = [7, 100000]
minimum = 1
"""

ALGORITHM_IN_C = """
#include <stdio.h>

#include "lane/lane.h"
#include "lane_algorithms.h"

int cf_line_bcast(const struct cf_lane_call *call) {
    const struct cf_over *at = &call->over;
    const int position = cf_position(at, call->root);
    const int segment = call->parameter[CF_LINE_AT_ONCE];

    (void)fprintf(stderr, "line: %d at once\\n", segment);
    for (int s = 0; s < cf_segments(call->count, segment); s++) {
        void *data = cf_at(call->unit, call->to, (MPI_Aint)s * segment);
        const int units = cf_segment_count(s, segment, call->count);
        if (position > 0) {
            CF_TRY(cf_receive(data, units, call->unit, cf_rank_at(at, call->root, position - 1), 0,
                              at->comm));
        }
        if (position < at->size - 1) {
            CF_TRY(cf_send(data, units, call->unit, cf_rank_at(at, call->root, position + 1), 0,
                           at->comm));
        }
    }
    return MPI_SUCCESS;
}
"""

STEP = """
from .kind import InC, RankStep


class Keep(RankStep):
    call = "keep"
    sentence = "Keep {reads} as {writes}."
    header = "data/keep.h"
    whole = True

    def to_c(self, c: InC) -> str:
        return f"CF_TRY(cf_keep(comm, {c.source}, {c.target}, {c.units}, {c.use.unit}, args->priority));"
"""

STEP_IN_C = """
#include <stdio.h>

#include "data/unit.h"

static inline int cf_keep(struct cf_comm *comm, const void *from, void *to, int count,
                          const struct cf_unit *unit, int priority) {
    (void)fprintf(stderr, "keep: priority %d\\n", priority);
    return cf_copy(comm, to, from, count, unit);
}
"""

LIBRARY = """
#include <mpi.h>

int PMPIX_Fan_in(const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype, MPI_Op op,
                 int priority, MPI_Info info, MPI_Comm comm);

int PMPIX_Fan_in(const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype, MPI_Op op,
                 int priority, MPI_Info info, MPI_Comm comm)
{
    if (priority != 7 || info != MPI_INFO_NULL)
        return MPI_ERR_ARG;
    return PMPI_Reduce(sendbuf, recvbuf, count, datatype, op, 0, comm);
}
"""

CASES = """\
fan_in:native@2x2,bytes=4000,type=double,op=max
fan_in:toy[detour=2]@2x2,bytes=4000,type=double,op=max
fan_in:toy[detour=1]@2x2,bytes=808,type=pair,op=affine
allreduce:toy[detour=1]@2x2,bytes=4004,in_place
bcast:full_lane[lane_algorithm=chain,segment_bytes=1024]@2x2,bytes=4001,type=chars,root=3
bcast:full_lane[lane_algorithm=line,at_once=7]@2x2,bytes=4000,type=double,root=3
bcast:hierarchical[lane_algorithm=line,at_once=100000]@2x2,bytes=4000,type=double,root=2
"""


ADDED = {
    "generator/specs/collectives/fan_in.toml": COLLECTIVE,
    "generator/specs/families/toy.toml": FAMILY,
    "generator/specs/algorithms/line.toml": ALGORITHM,
    "runtime/src/lane/algorithms/line.c": ALGORITHM_IN_C,
    "generator/steps/keep.py": STEP,
    "runtime/src/data/keep.h": STEP_IN_C,
}
GENERATE = "import sys; from pathlib import Path; from collforge.generator import render; "
GENERATE += "render.generate(Path(sys.argv[1]))"


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    """A copy of the package with added files; no file is edited but the table of roles."""
    package = tmp_path / "collforge"
    for module in (collforge, generator, runtime, templates):
        name = module.__name__.partition(".")[2]
        folder = Path(str(module.__file__)).parent
        shutil.copytree(folder, package / name, dirs_exist_ok=True)
    for name, text in ADDED.items():
        assert not (package / name).exists()
        (package / name).write_text(text)
    with (package / "generator/specs/roles.toml").open("a") as table:
        table.write(ROLES)
    return tmp_path


@pytest.mark.wide
@pytest.mark.either
def test_what_is_added_needs_no_other_edit(toy: Path, mpi: str) -> None:
    out, generated = toy / "out", toy / "generated"
    command = [sys.executable, "-c", GENERATE, str(generated)]
    environment = {**os.environ, "PYTHONPATH": str(toy)}
    subprocess.run(command, check=True, timeout=300, cwd=toy, env=environment)
    made = manifest.load(generated / "manifest.json")
    assert {"fan_in", "allreduce"} == {v.collective for v in made.variants if v.family == "toy"}
    (toy / "library.c").write_text(LIBRARY)
    shared = f"mpicc.{mpi} -shared -fPIC -o libfanin.so library.c".split()
    subprocess.run(shared, cwd=toy, check=True, timeout=60)
    subprocess.run(
        [
            *("make", "-s", "-j2", "-C", str(toy / "collforge" / "runtime")),
            *(f"MPICC=mpicc.{mpi}", f"GENERATED={generated}", f"OUT={out}"),
            f"LDFLAGS=-L{toy} -lfanin -Wl,-rpath,{toy}",
        ],
        check=True,
        timeout=300,
    )
    exported = subprocess.run(
        ["nm", "-D", "--defined-only", str(out / "libcollforge.so")],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout
    assert "MPIX_Fan_in" in exported
    (toy / "cases").write_text(CASES)
    results, log = verify(mpi, toy, out / "collforge-driver")
    by_case = {r["case"]: r for r in results if r["record"] == "result"}
    for case in CASES.split():
        assert by_case[case]["applicable"] and by_case[case]["verified"], by_case[case]
    # The named algorithm runs with the named parameters, and the step has the argument of a new role.
    lines = {"line: 7 at once", "line: 100000 at once", "keep: priority 7"}
    assert lines <= set(log.splitlines())


def test_the_conformance_program_passes_arguments_of_new_roles(tmp_path: Path) -> None:
    specs = Path(shutil.copytree(load.SPECS, tmp_path / "specs"))
    (specs / "collectives" / "fan_in.toml").write_text(COLLECTIVE)
    with (specs / "roles.toml").open("a") as table:
        table.write(ROLES)
    made = render_tables(specs)
    assert "int priority;" in made["arguments.h"] and "MPI_Info info;" in made["arguments.h"]
    assert ".priority = 7," in made["collectives.c"]
    assert "args->op, args->priority, args->info, args->comm)" in made["collectives.c"]


def verify(mpi: str, toy: Path, driver: Path) -> tuple[list[dict[str, object]], str]:
    """Runs the cases on four ranks with pretended nodes; returns the driver's records and the ranks' output."""
    launch = {
        "openmpi": "--oversubscribe --mca pml ob1 --mca btl vader,self --mca mpi_yield_when_idle 1",
        "mpich": "",
    }[mpi]
    env = {
        **os.environ,
        "COLLFORGE_NODE_MAP": "2",
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    }
    command = [f"mpirun.{mpi}", *launch.split(), "-n", "4", str(driver), "--verify-only"]
    command += ["--cases", str(toy / "cases"), "--output", str(toy / "results")]
    done = subprocess.run(command, check=True, timeout=120, env=env, stderr=PIPE, text=True)
    return [json.loads(line) for line in (toy / "results").read_text().splitlines()], done.stderr
