"""The timing driver: refused options, output, sampling, and clock."""

from __future__ import annotations

import json
import os
import socket
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import Installation
from driver import RANKS, Driver, make_driver, progress
from support import execute

from collforge.generator.manifest import Manifest
from collforge.layout import from_name

# The driver's own C is the same for both libraries; test_reframe.py and `collforge verify` run it with each.
pytestmark = pytest.mark.either
BENCH = Path(__file__).resolve().parent.parent / "runtime" / "bench"


@pytest.fixture
def driver(mpi: str, built: Installation, launch: Any, tmp_path: Path) -> Driver:
    return make_driver(mpi, built.built.driver_path, tmp_path, launch)


BAD_CASES = {
    "bcast": "not of the form",
    "bcast:native": "not of the form",
    "bcast:native@1x2": "bytes= is missing",
    "unheard:native@1x2,bytes=4": "unknown collective 'unheard'",
    "bcast:unheard@1x2,bytes=4": "unheard",
    "bcast:full_lane[unheard=1]@1x2,bytes=4": "unheard",
    "bcast:full_lane[node_phase=unheard]@1x2,bytes=4": "'unheard'; it has native, shared",
    "bcast:full_lane[lanes=x]@1x2,bytes=4": "'x'; it has 0 and numbers from 1 on",
    "bcast:full_lane[lanes=99]@1x2,bytes=4": "not below min_node_size, here 2: it would run as lanes=0",
    "bcast:full_lane[lanes=2]@1x2,bytes=4": "it would run as lanes=0",
    "bcast:thread_split[threads=2]@1x2,bytes=4": "threads=2 is not below threads, here 1",
    "bcast:native@4x2,bytes=4": "the layout here is 1x2",
    "bcast:native@1x2,bytes=6": "no multiple of 4",
    "bcast:native@1x2,bytes=-4": "no number of bytes",
    "bcast:native@1x2,bytes=99999999999999999999": "no number of bytes",
    "bcast:native@1x2,bytes=8589934592,type=chars": "above INT_MAX",
    "bcast:native@1x2,bytes=4,type=unheard": "unknown type 'unheard'",
    "bcast:native@1x2,bytes=4,op=sum": "has no op",
    "bcast:native@1x2,bytes=4,in_place": "has no MPI_IN_PLACE",
    "bcast:native@1x2,bytes=4,root=2": "no rank of 2",
    "bcast:native@1x2,bytes=4,root": "root needs a value",
    "bcast:native@1x2,bytes=4,bytes=4": "bytes stands twice",
    "bcast:native@1x2,bytes=4,unheard=1": "unknown option 'unheard'",
    "bcast:native@1x2,bytes=4,uneven": "has blocks of one size",
    "alltoallv:native@1x2,bytes=4,uneven=1": "uneven takes no value",
    "allgatherv:native@1x2,bytes=600000000,type=chars": "above INT_MAX",
    "barrier:native@1x2,bytes=4": "moves nothing: bytes=1",
    "barrier:native@1x2,bytes=1,type=int": "has no type",
    "barrier:native@1x2,bytes=1,in_place": "has no MPI_IN_PLACE",
    "allgather:native@1x2,bytes=4,root=0": "has no root",
    "scan:native@1x2,bytes=4,in_place=1": "in_place takes no value",
    "scan:native@1x2,bytes=4,op=unheard": "unknown op 'unheard'",
    "scan:native@1x2,bytes=8,type=pair,op=sum": "no such op",
    "scan:native@1x2,bytes=8,type=mixed": "no such op",
    "scan:native@1x2,bytes=4,type=int,op=affine": "no such op",
    "scan:native@1x2,bytes=4,seed=x": "seed=x",
    "iscan:native@1x2,bytes=4,in_place": "called twice in a row",
    "ialltoallv:native@1x2,bytes=4": "unknown collective 'ialltoallv'",
}


def test_bad_cases_are_named_and_nothing_runs(driver: Driver, tmp_path: Path) -> None:
    code, _, err = driver([*BAD_CASES, "bcast:native@1x2,bytes=4"])
    assert code == 2
    assert not (tmp_path / "output").exists()
    messages = [line for line in err.splitlines() if line.startswith("collforge-driver: case ")]
    assert len(messages) == len(BAD_CASES)
    for (case, why), message in zip(BAD_CASES.items(), messages):
        assert message.startswith(f"collforge-driver: case '{case}': ")
        assert why in message.split("': ", 1)[1]


@pytest.mark.parametrize(
    ("cases", "options", "why"),
    [
        ([], [], "there are no cases"),
        (["bcast:native@1x2,bytes=4"] * 2, [], "stands twice in its group"),
        (["bcast:native@1x2,bytes=4"], ["--unheard"], "is no option"),
        (["bcast:native@1x2,bytes=4"], ["--samples", "0"], "'0' is no value"),
        (["bcast:native@1x2,bytes=4"], ["--max-seconds", "x"], "'x' is no value"),
        (["bcast:native@1x2,bytes=4"], ["--memory", "x"], "'x' is no value"),
        (["bcast:native@1x2,bytes=4"], ["--memory", "device"], "needs --verify-only"),
        (["bcast:native@1x2,bytes=4"], ["--output", "/dev/null/x"], "cannot write"),
        (["bcast:native@1x2,bytes=4"], ["--cases", "/dev/null/x"], "cannot read"),
    ],
)
def test_bad_command_lines_end_with_2(
    driver: Driver, cases: list[str], options: list[str], why: str
) -> None:
    code, _, err = driver(cases, *options)
    assert code == 2
    assert sum(why in line for line in err.splitlines()) == 1


def test_a_full_disk_ends_the_job(driver: Driver) -> None:
    code, _, err = driver(["bcast:native@1x2,bytes=4"], "--output", "/dev/full")
    assert code == 4
    assert "cannot write the output: No space left on device" in err


def test_a_hang_before_the_first_case_ends_too(driver: Driver, tmp_path: Path) -> None:
    """Nobody reads the pipe, so rank 0 cannot open it; the others wait for it."""
    os.mkfifo(tmp_path / "pipe")
    where = ["--output", str(tmp_path / "pipe"), "--timeout", "2"]
    code, _, err = driver(["bcast:native@1x2,bytes=4"], *where)
    assert code in (1, 3, 9)
    assert "no end, within the time limit, of reading the cases" in err


FORMS = [
    *(f"bcast:native@2x2,bytes=40,type={t},root=3" for t in ("pair", "strided", "neglb", "mixed")),
    "gather:native@2x2,bytes=40,type=mixed,root=1",
    "gather:native@2x2,bytes=40,root=2,in_place",
    "scatter:native@2x2,bytes=40,type=neglb,root=1",
    "scatter:native@2x2,bytes=40,root=3,in_place",
    "allgather:native@2x2,bytes=7,type=chars,in_place",
    "alltoall:native@2x2,bytes=24,type=mixed",
    "alltoall:native@2x2,bytes=24,type=strided,in_place",
    "reduce:native@2x2,bytes=24,type=neglb,root=2",
    "reduce:native@2x2,bytes=24,type=double,op=max,in_place",
    "allreduce:native@2x2,bytes=24,type=strided,in_place",
    "reduce_scatter_block:native@2x2,bytes=24,type=pair",
    "reduce_scatter_block:native@2x2,bytes=24,in_place",
    "scan:native@2x2,bytes=24,type=pair,in_place",
    "exscan:native@2x2,bytes=24,type=neglb",
    "exscan:native@2x2,bytes=24,type=pair,in_place",
    "allreduce:native@2x2,bytes=0",
    "bcast:native@2x2,bytes=0,type=chars,seed=4294967295",
]


def test_forms_of_native_are_right(driver: Driver) -> None:
    """Checks the oracle against the libraries: types, roots, in place, no data."""
    code, records, _ = driver(FORMS, "--verify-only", ranks=4)
    assert [r["detail"] for r in records[1:-1]] == [""] * len(FORMS)
    assert [r["case"] for r in records[1:-1]] == FORMS
    assert code == 0


def test_records(mpi: str, driver: Driver, built: Installation) -> None:
    cases = [
        "allreduce:full_lane@2x2,bytes=1024,type=double,op=sum",
        "allreduce:hierarchical@2x2,bytes=1024,type=double,op=sum",
        "bcast:hierarchical@2x2,bytes=1024",
        "bcast:native@2x2,bytes=1024",
    ]
    behind = {"SLURM_TOPOLOGY_ADDR": f"s0.s1.{socket.gethostname()}"}
    code, records, _ = driver(cases, "--samples", "4", "--seed", "11", ranks=4, **behind)
    assert code == 0
    job, results, end = records[0], records[1:-1], records[-1]
    manifest = json.loads((built.home / "generated" / "manifest.json").read_text())
    assert (job["ranks"], job["layout"], job["seed"]) == (4, "2x2", 11)
    assert (job["driver"], job["samples"], len(job["hosts"])) == (1, 4, 2)
    assert job["switches"] == ["s0.s1", "s0.s1"]
    assert job["pmi"] == {"openmpi": "pmix", "mpich": "pmi"}[mpi]
    assert job["fingerprint"] == manifest["fingerprint"]
    assert job["library_version"] == built.library.version.splitlines()[0].strip()
    assert (job["clock_domains"], job["clock_error"]) == (1, 0)
    assert (end["cases"], end["failed"]) == (5, 0)
    # Native is added as the first case of a group that does not name it.
    assert [r["case"] for r in results] == ["allreduce:native@" + cases[0].split("@")[1], *cases]
    for result in results:
        assert result["collective"] == result["case"].split(":")[0]
        assert (result["applicable"], result["verified"], result["detail"]) == (True, True, "")
        assert all(sample > 0 for sample in result["samples"])
    for group in (results[:3], results[3:]):
        assert len({len(r["samples"]) for r in group}) == 1
        assert len({(r["late"], r["repeats"], r["start_error"]) for r in group}) == 1
        assert all(max(r["start_errors"]) <= r["start_error"] * 1.01 for r in group)


def test_nonblocking_calls(driver: Driver, built: Installation) -> None:
    """Chunks cannot be suspended. In MPICH 4.0.2 nothing can without a thread."""
    names = ("native", "hierarchical", "full_lane", "rank_shift")
    cases = [f"iallreduce:{name}@2x2,bytes=64,type=int,op=sum" for name in names]
    cases += ["ibarrier:hierarchical@2x2,bytes=1", "ibcast:full_lane@2x2,bytes=64,root=3"]
    if built.library.flavor == "mpich":
        code, _, err = driver(cases, ranks=4)
        assert code == 2
        assert "nonblocking cases: this MPICH cannot call others" in err
    code, records, _ = driver(cases, "--samples", "2", ranks=4, **progress(built))
    assert code == 0
    *applicable, last = [r for r in records if r.get("collective") == "iallreduce"]
    assert [r["verified"] for r in applicable] == [True] * 3
    assert not last["applicable"]
    assert all(len(r["samples"]) == 2 for r in applicable)
    assert {r["collective"] for r in records[1:-1]} == {"iallreduce", "ibarrier", "ibcast"}


def test_calls_in_a_row(driver: Driver) -> None:
    """Only for a collective in which every rank waits for all; in others a root would run ahead."""
    cases = ["allreduce:native@2x2,bytes=1048576", "bcast:native@2x2,bytes=1048576"]
    code, records, _ = driver(cases, "--samples", "1", "--in-a-row", "40", ranks=4)
    assert code == 0
    allreduce, bcast = records[1:-1]
    assert allreduce["repeats"] == 40  # more repeats than short calls get by default
    assert bcast["repeats"] < 40


def test_costs_are_measured_where_asked_for(driver: Driver) -> None:
    cases = [
        "allgather:native@2x2,bytes=65536",
        "allgather:hierarchical@2x2,bytes=65536",
        "allgather:full_lane@2x2,bytes=65536",
    ]
    _, plain, _ = driver(cases, "--samples", "1", ranks=4)
    assert not any("cpu" in r or "memory" in r for r in plain)
    code, records, _ = driver(cases, "--samples", "1", "--costs", ranks=4)
    assert code == 0
    native, hierarchical, full_lane = records[1:-1]
    assert native["memory"] == 0, "the driver's own buffers are no temporaries"
    for one in (hierarchical, full_lane):
        assert 4 * 65536 <= one["memory"] < 16 * 65536
    assert all(0 < r["cpu"] < 4 * 60 for r in records[1:-1])


def test_temporaries_take_no_more_than_estimated(driver: Driver, made: Manifest) -> None:
    """For every variant with the first values of its parameters, and with lane algorithms."""
    layout, nbytes = "2x2", 65536
    cases = []
    for entry in made.variants:
        shown = made.collective(entry.collective)
        facts = made.facts(entry.collective, from_name(layout), nbytes)
        if shown.hybrid or shown.moves_nothing or not entry.applies(facts):
            continue
        found = [p.values for p in entry.parameters if p.name == "lane_algorithm"]
        names = [f"{entry.family}[lane_algorithm={value}]" for value in sum(found, ())]
        for name in names or [entry.family]:
            cases.append(f"{entry.collective}:{name}@{layout},bytes={nbytes}")
    cases.sort()
    assert len(cases) > 40
    code, records, _ = driver(cases, "--samples", "1", "--costs", ranks=4)
    assert code == 0
    results = [one for one in records if one["record"] == "result" and one["variant"] != "native"]
    assert len(results) == len(cases)
    for one in results:
        sized = made.collective(one["collective"]).sized in ("block", "mean")
        assert not sized or one["memory"] <= one["memory_estimate"] + nbytes / 8, one["case"]


@pytest.mark.parametrize("nodes", ["5", "4,5", "map:0,1,1,0,1,0,0,1"])
def test_any_number_of_lanes(driver: Driver, made: Manifest, nodes: str) -> None:
    """At every root. On 4 and 5 ranks, 3 lanes have shares of unlike sizes, and some roots carry no lane."""
    name = {"5": "2x5", "4,5": "4+5"}.get(nodes, nodes.replace(",", "."))
    layout = from_name(name)
    cases = []
    for entry in made.variants:
        shown = made.collective(entry.collective)
        facts = made.facts(entry.collective, layout, 12)
        chosen = "lanes" in {p.name for p in entry.parameters} and not shown.hybrid
        if not chosen or not entry.applies(facts):
            continue
        tail = "1" if shown.moves_nothing else "12,type=int"
        tail += ",op=sum" if shown.has_op else ""
        roots = [f",root={root}" for root in range(layout.size)] if shown.rooted else [""]
        for lanes in range(1, min(layout.node_sizes)):
            variant = f"{entry.collective}:{entry.family}[lanes={lanes}]"
            cases += [f"{variant}@{name},bytes={tail}{root}" for root in roots]
    families = {case.split(":")[1].split("[")[0] for case in cases}
    wanted = {"full_lane", "root_reduce"} | ({"zero_copy"} if nodes == "5" else set())
    assert families == wanted
    where = {"ranks": layout.size, "COLLFORGE_NODE_MAP": nodes}
    code, records, said = driver(cases, "--verify-only", **where)
    assert code == 0 and all(one["verified"] for one in records[1:-1]), said
    assert len(records) == len(cases) + 2


def test_lane_algorithms_on_an_odd_number_of_nodes(driver: Driver, made: Manifest) -> None:
    """At every root and with each kind of radix: results, and temporaries within the estimate."""
    layout, nbytes = "7x1", 4096
    cases = []
    for entry in made.variants:
        shown = made.collective(entry.collective)
        if entry.family != "flat" or shown.varies != "no":
            continue
        domains = {p.name: p for p in entry.parameters}
        has_radix = domains["radix"].requires["lane_algorithm"] if "radix" in domains else ()
        roots = [f",root={root}" for root in range(7)] if shown.rooted else [""]
        for name in domains["lane_algorithm"].values[1:]:
            for radix in (",radix=2", ",radix=3", ",radix=8") if name in has_radix else ("",):
                variant = f"{entry.collective}:flat[lane_algorithm={name}{radix}]"
                cases += [f"{variant}@{layout},bytes={nbytes}{root}" for root in roots]
    where = {"ranks": 7, "COLLFORGE_NODE_MAP": "1"}
    code, records, said = driver(cases, "--samples", "1", "--costs", **where)
    assert code == 0 and len(records) >= len(cases) + 2, said
    for one in records[1:-1]:
        assert one["verified"], one
        assert one["variant"] == "native" or one["memory"] <= one["memory_estimate"] + nbytes, one


@pytest.mark.parametrize("ranks", [8, 11])
def test_bine_butterflies(driver: Driver, made: Manifest, ranks: int) -> None:
    """Three steps: the halves that ranks keep there follow from the distances of all steps."""
    offers = [
        one.collective
        for one in made.variants
        for parameter in one.parameters
        if one.family == "flat"
        and parameter.name == "lane_algorithm"
        and "bine" in parameter.values
    ]
    cases = [
        f"{name}:flat[lane_algorithm=bine]@{ranks}x1,bytes={nbytes},type={kind}"
        for name in offers
        for nbytes in (8, 4096)
        for kind in ("int", "double")
        if made.collective(name).varies == "no"
    ]
    assert len(cases) == 4 * 3
    where = {"ranks": ranks, "COLLFORGE_NODE_MAP": "1"}
    code, records, said = driver(cases, "--verify-only", **where)
    assert code == 0 and all(one["verified"] for one in records[1:-1]), said
    assert len(records) == len(cases) + 2


def test_max_seconds_ends_a_group_after_two_samples(driver: Driver) -> None:
    options = ["--samples", "1000", "--max-seconds", "0.000001"]
    code, records, _ = driver(["allgather:native@1x2,bytes=4096"], *options)
    assert code == 0
    assert len(records[1]["samples"]) == 2


def test_losers_are_pruned_and_keep_what_they_have(driver: Driver) -> None:
    """Segments of 64 bytes are many times slower than one of 256 KiB; native is never pruned."""
    chain = "full_lane[lane_algorithm=chain,segment_bytes={}]"
    variants = ("native", chain.format(262144), chain.format(64))
    cases = [f"bcast:{variant}@2x2,bytes=262144" for variant in variants]
    for options, last in ((["--prune"], 3), ([], 9)):
        code, records, _ = driver(cases, "--samples", "9", *options, ranks=4)
        assert code == 0
        native, fast, slow = (len(r["samples"]) for r in records[1:-1])
        assert slow == last
        assert native >= fast >= 3, "the base of all ratios is there as long as anybody is"
        assert native == 9 or (options and fast < 9)
        for result in records[1:-1]:
            assert len(result["start_errors"]) == len(result["samples"])
            assert all(error >= 0 for error in result["start_errors"])


SLOW = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <unistd.h>

int PMPI_Bcast(void *data, int count, MPI_Datatype type, int root, MPI_Comm comm)
{
    int (*real)(void *, int, MPI_Datatype, int, MPI_Comm) = NULL;
    *(void **)&real = dlsym(RTLD_NEXT, "PMPI_Bcast");
    usleep(20000);
    return real(data, count, type, root, comm);
}
"""


def test_a_slow_native_stays(driver: Driver, built: Installation, tmp_path: Path) -> None:
    source, library = tmp_path / "slow.c", tmp_path / "slow.so"
    source.write_text(SLOW)
    command = [str(built.library.mpicc), "-shared", "-fPIC", "-o", str(library), str(source)]
    assert execute([*command, "-ldl"]).returncode == 0
    variants = ("native", "full_lane[lane_algorithm=chain,node_phase=shared]")
    cases = [f"bcast:{variant}@2x2,bytes=65536" for variant in variants]
    code, records, _ = driver(cases, "--samples", "6", "--prune", ranks=4, LD_PRELOAD=str(library))
    assert code == 0
    assert [len(one["samples"]) for one in records[1:-1]] == [6, 6]
    assert min(records[1]["samples"]) > 0.015 > min(records[2]["samples"])


# Each allreduce of data takes 5 ms more. Rank 1 comes 4 ms late to every third timing window: the
# driver agrees on a window's begin by the maximum of one double.
LATE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <unistd.h>

int PMPI_Allreduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    int (*real)(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm) = NULL;
    static int windows = 0;
    int rank = 0;
    *(void **)&real = dlsym(RTLD_NEXT, "PMPI_Allreduce");
    const int err = real(in, out, count, type, op, comm);
    PMPI_Comm_rank(comm, &rank);
    if (count > 1000)
        usleep(5000);
    else if (count == 1 && type == MPI_DOUBLE && op == MPI_MAX && rank == 1 && ++windows % 3 == 0)
        usleep(4000);
    return err;
}
"""


def test_late_windows_are_discarded_and_calls_in_a_row_divided(
    driver: Driver, built: Installation, tmp_path: Path
) -> None:
    source, library = tmp_path / "late.c", tmp_path / "late.so"
    source.write_text(LATE)
    command = [str(built.library.mpicc), "-shared", "-fPIC", "-o", str(library), str(source)]
    assert execute([*command, "-ldl"]).returncode == 0
    cases = ["allreduce:native@1x2,bytes=65536"]
    began = time.monotonic()
    code, records, _ = driver(cases, "--samples", "20", "--in-a-row", "8", LD_PRELOAD=str(library))
    wall = time.monotonic() - began
    assert code == 0
    (timed,) = records[1:-1]
    assert timed["repeats"] == 8
    assert sum(timed["samples"]) * timed["repeats"] < wall, "more than the job took"
    assert timed["late"] > 0
    assert max(timed["start_errors"]) * timed["repeats"] <= timed["start_error"] * 1.01


def test_clocks_of_separate_domains_agree(driver: Driver) -> None:
    """Ranks of one machine share a clock, so the synchronisation of separate clocks must find them equal."""
    code, records, _ = driver(["allreduce:native@1x2,bytes=8"], "--own-clocks", "--samples", "2")
    assert code == 0
    assert records[0]["clock_domains"] == RANKS
    assert 0 < records[0]["clock_error"] < 0.05
    assert all(sample > 0 for sample in records[1]["samples"])


def test_help_names_every_option(mpi: str, built: Installation, launch: Any) -> None:
    done = launch(mpi, 1, [str(built.built.driver_path), "--help"], timeout=60)
    assert done.returncode == 0
    source = (BENCH / "options.c").read_text()
    options = [part.split('"')[0] for part in source.split('{"')[1:]]
    assert len(options) >= 10
    for option in options:
        assert option == "help" or f"--{option}" in done.stdout
