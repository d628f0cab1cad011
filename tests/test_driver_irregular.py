"""The timing driver on collectives whose block sizes differ, and on those that move no data."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import pytest
from conftest import Installation
from driver import Driver, build_driver, make_driver

from collforge.generator import load
from collforge.generator.model import Collective

# The driver's own C is the same for both libraries; test_reframe.py and `collforge verify` run it with each.
pytestmark = pytest.mark.either
RANKS = 4
COLLECTIVES = {one.name: one for one in load.load_specs(load.SPECS).standard}
IRREGULAR = {name: one for name, one in COLLECTIVES.items() if one.varies != "no"}
SILENT = {name: one for name, one in COLLECTIVES.items() if one.moves_nothing}
FAULTS = ["none", "even", "word", "gap", "declines", "declines_changed", "declines_here"]
FAULTS += ["declines_later", "open", "leader", "open_later"]

# Every collective calls native, and is right or wrong as its parameter says. EVEN: elements of an even block.
STUB = r"""
#include "collectives.h"
#include <stdlib.h>

enum { EVEN = 6, MAX_RANKS = 8, MAX_COLLECTIVES = 32 };
enum fault { FAULTS, NFAULTS };
static const char *const faults[] = { NAMES };
static const struct cf_parameter parameters[] = {{"fault", faults, NULL, NFAULTS, 0, 0}};

/* The first int of a block of the result that is not empty, on ranks that have one. */
static int *first_word(const struct cf_args *args, const struct cf_layout *at, int collective)
{
    const struct cf_collective_info *info = &cf_collectives[collective];
    int *const result = args->recvbuf;

    if (info->varies == CF_VARIES_NO)
        return NULL;
    if (info->varies == CF_VARIES_TARGET) {
        const int count = info->rooted ? args->recvcount : args->recvcounts[at->rank];
        return count > 0 ? result : NULL;
    }
    for (int i = 0; i < at->size && !(info->rooted && at->rank != args->root); i++) {
        if (args->recvcounts[i] > 0)
            return result + args->rdispls[i];
    }
    return NULL;
}

/* The first int between the blocks of the result, where their places say that there is one. */
static int *first_gap(const struct cf_args *args, const struct cf_layout *at, int collective)
{
    const bool root_only = cf_collectives[collective].rooted;
    int lowest = -1;

    if (args->rdispls == NULL || (root_only && at->rank != args->root))
        return NULL;
    for (int i = 0; i < at->size; i++) {
        if (args->recvcounts[i] > 0 && (lowest < 0 || args->rdispls[i] < args->rdispls[lowest]))
            lowest = i;
    }
    return lowest >= 0 && args->rdispls[lowest] > 0 ? (int *)args->recvbuf : NULL;
}

/* As if all blocks were even. */
static int run_even(struct cf_args args, int collective)
{
    static int counts[MAX_RANKS], displs[MAX_RANKS];

    for (int i = 0; i < MAX_RANKS; i++) {
        counts[i] = EVEN;
        displs[i] = i * EVEN;
    }
    args.sendcount = args.recvcount = EVEN;
    args.sendcounts = args.recvcounts = counts;
    args.sdispls = args.rdispls = displs;
    return cf_collectives[collective].native(&args);
}

static int run(const struct cf_args *args, struct cf_comm *comm, enum fault fault, int collective)
{
    static int calls[MAX_COLLECTIVES][NFAULTS];
    const bool again = calls[collective][fault]++ > 0;
    int *spoiled = NULL;
    int one = 1;

    if (fault == declines || (fault == declines_later && again))
        return CF_DECLINED;
    if (fault == open || (fault == open_later && again))
        return MPI_SUCCESS;
    if (fault == leader)
        return PMPI_Bcast(&one, 1, MPI_INT, 0, args->comm);
    if (fault == even)
        return run_even(*args, collective);
    const int err = cf_collectives[collective].native(args);
    if (fault == word || fault == declines_changed)
        spoiled = first_word(args, &comm->layout, collective);
    if (fault == gap)
        spoiled = first_gap(args, &comm->layout, collective);
    if (spoiled != NULL)
        ++*spoiled;
    if (fault == declines_changed || (fault == declines_here && comm->layout.rank == 1))
        return CF_DECLINED;
    return err;
}
"""

# One variant.
VARIANT = r"""
static int run_%(name)s(const struct cf_args *args, struct cf_comm *comm, const int *parameter)
{
    return run(args, comm, (enum fault)parameter[0], %(index)s);
}

static bool applicable_%(name)s(const struct cf_facts *facts)
{
    return facts->bytes >= 0;
}

static const struct cf_variant stub_%(name)s = {
    .collective = %(index)s,
    .family = "stub",
    .fingerprint = "stub",
    .parameters = parameters,
    .nparameters = 1,
    .applicable = applicable_%(name)s,
    .run = run_%(name)s,
};
"""


@pytest.fixture(scope="session")
def stub_program(mpi: str, built: Installation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A driver whose only variants are the stubs."""
    names = [*IRREGULAR, *SILENT]
    code = STUB.replace("FAULTS, NFAULTS", f"{', '.join(FAULTS)}, NFAULTS")
    code = code.replace("NAMES", ", ".join(f'"{fault}"' for fault in FAULTS))
    code += "".join(VARIANT % {"name": n, "index": f"CF_{n.upper()}"} for n in names)
    folder = tmp_path_factory.mktemp(f"irregular-{mpi}")
    return build_driver(built, code, [f"stub_{name}" for name in names], folder)


@pytest.fixture
def stub(mpi: str, stub_program: Path, launch: Any, tmp_path: Path) -> Driver:
    return make_driver(mpi, stub_program, tmp_path, launch)


def forms(one: Collective) -> list[str]:
    """Native cases: types, in place or not, even and uneven blocks, small and large, each root."""
    operands = ["type=int,op=sum", "type=double,op=max", "type=pair,op=affine"]
    if not one.has_op:
        operands = [f"type={t}" for t in ("int", "pair", "strided", "neglb", "mixed")]
    places = ["", ",in_place"] if one.in_place != "none" else [""]
    return [
        f"{one.name}:native@2x2,bytes={nbytes},{operand}"
        f"{f',root={seed}' if one.rooted else ''}{place}{uneven},seed={seed}"
        for operand, place, uneven, (seed, nbytes) in itertools.product(
            operands, places, ("", ",uneven"), enumerate((8, 40, 8000, 0))
        )
    ]


def test_forms_of_native_are_right(stub: Driver) -> None:
    """Checks the oracle against the libraries."""
    cases = [case for one in IRREGULAR.values() for case in forms(one)]
    code, records, _ = stub(cases, "--verify-only", ranks=RANKS)
    assert [r["case"] for r in records[1:-1]] == cases
    assert [f"{r['case']}: {r['detail']}" for r in records[1:-1] if r["detail"]] == []
    assert code == 0


Found = dict[str, dict[str, Any]]
"""The results of a problem by fault, and native's under ``native``."""


def run_faults(stub: Driver, problems: list[str], *options: str) -> list[Found]:
    """Runs every fault on each of the problems, in one launch."""
    cases = [
        problem.replace("@", f":stub[fault={fault}]@") for problem in problems for fault in FAULTS
    ]
    _, records, _ = stub(cases, *options, ranks=RANKS)
    found: dict[str, Found] = {problem: {} for problem in problems}
    for result in records[1:-1]:
        variant = result["variant"]
        fault = variant.removeprefix("stub[fault=").removesuffix("]")
        found[result["case"].replace(f":{variant}", "")][fault] = result
    return list(found.values())


def test_wrong_blocks_are_found(stub: Driver) -> None:
    problems = [
        f"{name}@2x2,bytes=24{form},seed=1" for name in IRREGULAR for form in ("", ",uneven")
    ]
    found = run_faults(stub, problems, "--verify-only")
    for one, even, uneven in zip(IRREGULAR.values(), found[::2], found[1::2]):
        assert even["none"]["verified"] and uneven["none"]["verified"], one.name
        assert even["even"]["verified"], "without the option blocks are of one size, in a row"
        wrong = uneven["even"]
        assert wrong["applicable"] and not wrong["verified"], one.name
        for of_form in (even, uneven):
            assert re.fullmatch(
                r"rank \d: receive buffer: block \d, element 0, lane 0: expected .*, got .*",
                of_form["word"]["detail"],
            )
        gaps = one.has("recv_displs")
        assert even["gap"]["verified"], one.name
        assert uneven["gap"]["verified"] == (not gaps), one.name
        assert ("between the blocks, at element 0" in uneven["gap"]["detail"]) == gaps


def test_declining_is_no_failure_where_all_do_and_nothing_is_touched(stub: Driver) -> None:
    problems = [f"{name}@2x2,bytes=24,uneven,seed=1" for name in IRREGULAR]
    problems += [f"{name}@2x2,bytes=1" for name in SILENT]
    for problem, found in zip(problems, run_faults(stub, problems, "--samples", "2")):
        assert not found["declines"]["applicable"], problem
        assert (found["declines"]["detail"], found["declines"]["samples"]) == ("declined", [])
        for fault in ("declines_here", "declines_later"):
            one = found[fault]
            assert one["applicable"] and not one["verified"], problem
            assert "declined a call that was served on other ranks or before" in one["detail"]
            assert one["samples"] == []
        if "uneven" in problem:
            assert found["declines_changed"]["applicable"], problem
            assert "receive buffer" in found["declines_changed"]["detail"]


@pytest.mark.parametrize("clocks", [[], ["--own-clocks"]], ids=["one_clock", "own_clocks"])
def test_nobody_may_leave_before_the_last_has_entered(stub: Driver, clocks: list[str]) -> None:
    problems = [f"{name}@2x2,bytes=1,seed={seed}" for name in SILENT for seed in range(RANKS)]
    for problem, found in zip(problems, run_faults(stub, problems, "--verify-only", *clocks)):
        assert found["none"]["verified"], problem
        assert not found["open"]["verified"], "nobody waits"
        assert re.fullmatch(
            r"rank \d: left \S+ s before the last rank entered", found["open"]["detail"]
        )
        # All ranks wait for rank 0 only.
        assert found["leader"]["verified"] == problem.endswith("seed=0")


def test_an_order_kept_only_once_is_found(stub: Driver) -> None:
    problems = [f"{name}@2x2,bytes=1,seed=0" for name in SILENT]
    for found in run_faults(stub, problems, "--samples", "2"):
        for right in ("native", "none"):
            assert found[right]["verified"]
            assert len(found[right]["samples"]) == 2
        for wrong in ("open_later", "leader"):
            assert (found[wrong]["verified"], found[wrong]["samples"]) == (False, [])
