"""The timing driver finds variants that are wrong, hang or crash."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conftest import Installation
from driver import Driver, build_driver, make_driver, progress, results_by_variant

# The driver's own C is the same for both libraries; test_reframe.py and `collforge verify` run it with each.
pytestmark = pytest.mark.either

# An allreduce that is right or wrong as its parameter says. It replaces all variants.
BROKEN = r"""
#include "collectives.h"
#include "data/tmpbuf.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const faults[] = {"none",  "stale",    "word", "order", "guard", "before",
                                     "input", "datatype", "hole", "error", "hang",  "crash", "leftover"};
enum { NONE, STALE, WORD, ORDER, GUARD, BEFORE, INPUT, DATATYPE, HOLE, ERROR, HANG, CRASH, LEFTOVER, NFAULTS };

static bool applicable(const struct cf_facts *facts)
{
    return facts->bytes != 12;
}

/* The ranks in reverse order: wrong for an op that does not commute. */
static int reversed(const struct cf_args *args, const struct cf_layout *at)
{
    MPI_Comm comm = MPI_COMM_NULL;
    int err = PMPI_Comm_split(args->comm, 0, -at->rank, &comm);
    if (err == MPI_SUCCESS)
        err = PMPI_Allreduce(args->sendbuf, args->recvbuf, args->recvcount, args->recvtype,
                             args->op, comm);
    if (comm != MPI_COMM_NULL && PMPI_Comm_free(&comm) != MPI_SUCCESS)
        err = MPI_ERR_OTHER;
    return err;
}

static int run(const struct cf_args *args, struct cf_comm *comm, const int *parameter)
{
    static int calls = 0;
    const int fault = parameter[0];
    const bool last = comm->layout.rank == comm->layout.size - 1;
    char *const result = args->recvbuf;
    MPI_Aint lb = 0, extent = 0;

    int err = PMPI_Type_get_extent(args->recvtype, &lb, &extent);
    if (err != MPI_SUCCESS)
        return err;
    if (fault == STALE && calls++ > 0)
        return MPI_SUCCESS;
    const size_t bytes = (size_t)args->recvcount * (size_t)extent;
    void *kept = cf_tmpbuf(&comm->tmpbufs, 0, bytes);
    if (kept == NULL)
        return MPI_ERR_NO_MEM;
    if (fault == LEFTOVER) {
        memcpy(result, kept, bytes);
        return MPI_SUCCESS;
    }
    if (fault == ORDER)
        return reversed(args, &comm->layout);
    if (fault == HANG && last)
        pause();
    if (fault == CRASH && last)
        abort();
    err = cf_collectives[CF_ALLREDUCE].native(args);
    if (err == MPI_SUCCESS)
        memcpy(kept, result, bytes);
    if (err != MPI_SUCCESS || !last)
        return err;
    if (fault == WORD)
        result[(args->recvcount - 1) * extent]++;
    if (fault == GUARD)
        result[args->recvcount * extent] = 0;
    if (fault == BEFORE)
        result[-1] = 0;
    if (fault == INPUT)
        ((char *)args->sendbuf)[0]++;
    if (fault == HOLE)
        result[4] = 0;
    if (fault == DATATYPE) {
        int pairs[4] = {0};
        return PMPI_Reduce_local(pairs, pairs + 2, 1, MPI_2INT, args->op);
    }
    return fault == ERROR ? MPI_ERR_OTHER : MPI_SUCCESS;
}

static const struct cf_parameter parameters[] = {{"fault", faults, NULL, NFAULTS, 0, 0}};

const struct cf_variant cf_hierarchical_allreduce = {
    .collective = CF_ALLREDUCE,
    .family = "hierarchical",
    .fingerprint = "broken",
    .parameters = parameters,
    .nparameters = 1,
    .applicable = applicable,
    .run = run,
};
"""


@pytest.fixture(scope="session")
def broken_program(mpi: str, built: Installation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A driver whose only variant is the broken allreduce above."""
    folder = tmp_path_factory.mktemp(f"broken-{mpi}")
    return build_driver(built, BROKEN, ["cf_hierarchical_allreduce"], folder)


@pytest.fixture
def broken(mpi: str, broken_program: Path, launch: Any, tmp_path: Path) -> Driver:
    return make_driver(mpi, broken_program, tmp_path, launch)


def test_every_fault_is_found(broken: Driver) -> None:
    faults = {
        "none": "",
        "word": "rank 1: receive buffer: block 0, element 2, lane 0: expected ",
        "order": "rank 0: receive buffer: block 0, element 0, lane 1: expected ",
        "guard": "rank 1: receive buffer: overwritten 1 bytes behind it",
        "before": "rank 1: receive buffer: overwritten 1 bytes before it",
        "input": "rank 1: send buffer: block 0, element 0, lane 0: expected ",
        "hole": "rank 1: receive buffer: block 0, element 0: the hole in it is overwritten",
        "datatype": "rank 1: the op was handed another datatype than that of the call",
        "error": "rank 1: the call returned error ",
    }
    problem = "@1x2,bytes=24,type=strided"
    cases = [f"allreduce:hierarchical[fault={fault}]{problem}" for fault in faults]
    code, records, _ = broken(cases, "--verify-only")
    assert code == 1
    assert records[-1]["failed"] == len(faults) - 1
    # Native is not added if nothing is timed.
    assert [r["case"] for r in records[1:-1]] == cases
    found = results_by_variant(records)
    for fault, detail in faults.items():
        result = found[f"hierarchical[fault={fault}]"]
        assert result["applicable"]
        assert result["verified"] == (fault == "none")
        assert result["detail"].startswith(detail)
        assert result["fingerprint"] == "broken"


def test_the_drop_in_collective_stands_for_native(broken: Driver) -> None:
    """Native of a hybrid collective is then the drop-in one by winners, or by force; here it is wrong."""
    cases = ["hybrid_allreduce:native@1x2,bytes=64"]
    forced = {"COLLFORGE_FORCE": "allreduce=hierarchical[fault=word]"}
    assert broken(cases, "--verify-only", **forced)[0] == 0
    code, records, _ = broken(cases, "--verify-only", "--drop-in", **forced)
    assert code == 1
    assert records[1]["detail"].startswith("rank 1: receive buffer: block 0")


def test_a_variant_that_is_right_only_once_is_found(broken: Driver) -> None:
    cases = [f"allreduce:hierarchical[fault={f}]@1x2,bytes=64" for f in ("stale", "none")]
    assert broken(cases, "--verify-only")[0] == 0
    code, records, _ = broken(cases, "--samples", "3")
    found = results_by_variant(records)
    assert code == 1
    stale = found["hierarchical[fault=stale]"]
    assert (stale["verified"], stale["samples"]) == (False, [])
    assert stale["detail"].startswith("rank 0: receive buffer: block 0, element 0, lane 0")
    for variant in ("native", "hierarchical[fault=none]"):
        assert found[variant]["verified"]
        assert found[variant]["samples"]


def test_a_variant_that_finds_its_result_in_a_temporary_is_found(broken: Driver) -> None:
    """The previous variant has left the right result in the temporary."""
    cases = [f"allreduce:hierarchical[fault={f}]@1x2,bytes=64" for f in ("none", "leftover")]
    code, records, _ = broken(cases, "--verify-only")
    found = results_by_variant(records)
    assert code == 1
    assert found["hierarchical[fault=none]"]["verified"]
    assert not found["hierarchical[fault=leftover]"]["verified"]


def test_what_is_not_applicable_is_no_failure(broken: Driver) -> None:
    code, records, _ = broken(["allreduce:hierarchical[fault=word]@1x2,bytes=12"])
    assert code == 0
    result = results_by_variant(records)["hierarchical[fault=word]"]
    assert (result["applicable"], result["verified"], result["samples"]) == (False, False, [])


def test_a_hang_ends_with_3_and_the_case(broken: Driver) -> None:
    case = "allreduce:hierarchical[fault=hang]@1x2,bytes=64"
    code, _, err = broken([case], "--timeout", "2")
    # Rare, on a busy machine: Hydra returns 1 if it sees a rank's socket close before it has reaped the rank,
    # and 9 if it has killed that rank.
    assert code in (1, 3, 9)
    assert f"no end, within the time limit, of {case}" in err


def test_a_crash_names_the_case(broken: Driver) -> None:
    case = "allreduce:hierarchical[fault=crash]@1x2,bytes=64"
    code, _, err = broken([case])
    assert code not in (0, 1, 2, 3)
    assert f"collforge-driver: rank 1: abort in {case}" in err


def test_a_fault_in_a_nonblocking_call_is_found(broken: Driver, built: Installation) -> None:
    faults = ("none", "word")
    cases = [f"iallreduce:hierarchical[fault={name}]@1x2,bytes=24,type=int" for name in faults]
    code, records, _ = broken(cases, "--samples", "1", **progress(built))
    assert code == 1
    details = {r["variant"]: r["detail"] for r in records[1:-1]}
    assert details.pop("hierarchical[fault=word]").startswith("rank 1: receive buffer: block 0")
    assert set(details.values()) == {""}
