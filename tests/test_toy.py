"""Adding a collective and a family edits no other file: a toy of each, in a temporary folder, goes all the way.

The toy collective is MPIX_Fan_in (the ranks' vectors combined, on rank 0), an extension function that the "MPI
library" of this test brings along. The toy family serves it, and allreduce, with a parameter of its own.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import mostly_one_library

from collforge import runtime
from collforge.generator import load, render

RUNTIME = Path(runtime.__file__).parent

COLLECTIVE = """
name = "fan_in"
function = "MPIX_Fan_in"
summary = "The ranks' vectors combined elementwise in rank order, on rank 0."
standard = "an extension"
signature = [
    ["const void *", "sendbuf", "send_buffer"],
    ["void *", "recvbuf", "recv_buffer"],
    ["int", "count", "count"],
    ["MPI_Datatype", "datatype", "datatype"],
    ["MPI_Op", "op", "op"],
    ["MPI_Comm", "comm", "comm"],
]
in_place = "none"
total = "bytes"
bound = "bytes"

[result]
in_blocks = "1"
out_blocks = "1 if rank == 0 else 0"
first = "0"
last = "size"
source_block = "0"
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
values = [1, 2]

[buffers]
partial = "vector"
whole = "vector"

[fan_in]
predicate = "commutative or consecutive"
steps = [
    { call = "reduce", over = "node", root = "leader", from = "input", to = "partial" },
    { call = "allreduce", over = "lane", from = "partial", to = "whole" },
    { call = "copy", from = "whole", to = "output", where = "rank == 0" },
]

[allreduce]
predicate = "commutative or consecutive"
steps = [
    { call = "reduce", over = "node", root = "leader", from = "input", to = "partial" },
    { call = "allreduce", over = "lane", from = "partial", to = "output" },
    { call = "bcast", over = "node", root = "leader", data = "output" },
]
"""

TEMPLATE = """{% extends "variant.c.j2" %}
{% block about %}
 * A toy.
{% endblock %}
"""

LIBRARY = """
#include <mpi.h>

int PMPIX_Fan_in(const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype, MPI_Op op,
                 MPI_Comm comm);

int PMPIX_Fan_in(const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype, MPI_Op op,
                 MPI_Comm comm)
{
    return PMPI_Reduce(sendbuf, recvbuf, count, datatype, op, 0, comm);
}
"""

CASES = """\
fan_in:toy[detour=2]@2x2,bytes=4000,type=double,op=max
fan_in:toy[detour=1]@2x2,bytes=808,type=pair,op=affine
allreduce:toy[detour=1]@2x2,bytes=4004,in_place
bcast:full_lane[lane_algorithm=chain,segment_bytes=1024]@2x2,bytes=4001,type=chars,root=3
"""


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    """Copies of the specs and templates with three files added, and none edited."""
    specs = Path(shutil.copytree(load.SPECS, tmp_path / "specs"))
    (specs / "collectives" / "fan_in.toml").write_text(COLLECTIVE)
    (specs / "families" / "toy.toml").write_text(FAMILY)
    families = tmp_path / "templates" / "families"
    families.mkdir(parents=True)
    (families / "toy.c.j2").write_text(TEMPLATE)
    return tmp_path


@mostly_one_library
def test_a_toy_collective_and_a_toy_family_need_no_other_edit(toy: Path, mpi: str) -> None:
    out, generated = toy / "out", toy / "generated"
    made = render.generate(generated, toy / "specs", toy / "templates")
    assert {"fan_in", "allreduce"} == {v.collective for v in made.variants if v.family == "toy"}
    (toy / "library.c").write_text(LIBRARY)
    shared = f"mpicc.{mpi} -shared -fPIC -o libfanin.so library.c".split()
    subprocess.run(shared, cwd=toy, check=True, timeout=60)
    subprocess.run(
        [
            *("make", "-s", "-j2", "-C", str(RUNTIME)),
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
    results = verify(mpi, toy, out / "collforge-driver")
    by_case = {r["case"]: r for r in results if r["record"] == "result"}
    for case in CASES.split():
        assert by_case[case]["applicable"] and by_case[case]["verified"], by_case[case]


def verify(mpi: str, toy: Path, driver: Path) -> list[dict[str, object]]:
    """Runs the cases on four pretended-node ranks and returns the driver's records."""
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
    subprocess.run(command, check=True, timeout=120, env=env)
    return [json.loads(line) for line in (toy / "results").read_text().splitlines()]
