"""`collforge verify --native`: the MPI library's own collectives are checked by our oracles."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from conftest import Installation, Launch
from test_reframe import run_checks

from collforge import case, cases, layout
from collforge.case import Case
from collforge.generator import manifest
from collforge.records import CaseResult, Job, Output
from collforge.tuner.run import verification
from collforge.tuner.run.jobs import Site

# Cuts a broadcast into segments by counts of elements: Open MPI issue 1763. By default such algorithms
# run on 16 ranks or more only.
SEGMENTS = {
    "OMPI_MCA_coll_tuned_use_dynamic_rules": "1",
    "OMPI_MCA_coll_tuned_bcast_algorithm": "2",
    "OMPI_MCA_coll_tuned_bcast_algorithm_segmentsize": "1000",
}


@pytest.mark.slow
def test_a_right_library_passes(built: Installation, collforge: Launch) -> None:
    mpi = built.library.name
    wanted = ["--mpi", mpi, "--collective", "bcast,barrier,allgatherv", "--layout", "1x3"]
    done = collforge("verify", "--native", *wanted, timeout=280)
    assert done.returncode == 0
    assert re.search(rf"{mpi} 1x3: (\d+) cases, \1 verified, 0 failed\n", done.stdout)
    assert "wrong: none\n0 failed\n" in done.stdout


@pytest.mark.wide
@pytest.mark.parametrize("mpi", ["mpich"], indirect=True)
def test_types_with_holes_are_wrong_in_mpich(built: Installation, collforge: Launch) -> None:
    """MPICH 4.0.2's reduce_scatter of such types is wrong, or crashes: the cases after it are still run."""
    assert built.library.name == "mpich"
    wanted = ["--mpi", "mpich", "--collective", "reduce_scatter,scan", "--layout", "1x4"]
    done = collforge("verify", "--native", *wanted, timeout=280)
    assert done.returncode == 1
    failed = re.findall(r"^FAILED mpich (\S+): (.*)", done.stderr, re.MULTILINE)
    assert len(failed) == verification.ENOUGH
    for text, reason in failed:
        one = case.parse(text)
        assert (one.collective, one.variant, one.options["type"]) == (
            "reduce_scatter",
            "native",
            "strided",
        )
        assert re.match(r"rank \d: |the job ended in this case \(collforge-driver: ", reason), (
            reason
        )
    assert "wrong: reduce_scatter\n3 failed\n" in done.stdout
    total, verified, stopped = re.findall(r"(\d+) (?:cases|verified|were not run)", done.stdout)[:3]
    assert int(total) == int(verified) + 3 + int(stopped)


@pytest.mark.slow
def test_unlike_descriptions_of_a_broadcast_are_wrong_in_open_mpi(collforge: Launch) -> None:
    wanted = ["--mpi", "openmpi", "--collective", "bcast", "--layout", "1x4"]
    done = collforge("verify", "--native", *wanted, timeout=280, **SEGMENTS)
    assert done.returncode == 1
    assert re.search(r"FAILED openmpi bcast:native@1x4,bytes=80044,type=whole\S*: ", done.stderr)
    assert set(re.findall(r"type=(\w+)", done.stderr)) == {"whole"}, "other types are cut alike"


@pytest.mark.slow
def test_it_is_found_in_open_mpi_as_it_is_installed(collforge: Launch) -> None:
    wanted = ["--mpi", "openmpi", "--collective", "bcast", "--tier", "full", "--layout", "1x16"]
    done = collforge("verify", "--native", *wanted, timeout=600)
    assert done.returncode == 1
    assert "FAILED openmpi bcast:native@1x16,bytes=1600036,type=whole" in done.stderr


@pytest.mark.slow
def test_as_a_check(tmp_path: Path) -> None:
    session = run_checks(tmp_path, "local:mpich", "^Correctness.*=reduce_scatter:native$")
    assert session.code == 1
    assert "reduce_scatter:native@2x2,bytes=8,type=strided,op=affine" in session.test["fail_reason"]
    (tmp_path / "b").mkdir()
    session = run_checks(tmp_path / "b", "local:mpich", "^Correctness.*=bcast:native$")
    assert session.code == 0, session.said
    assert session.perfvalues["cases_verified"] > 20


@pytest.mark.parametrize("tier", cases.TIERS)
def test_every_collective_of_the_library_is_checked(made: manifest.Manifest, tier: str) -> None:
    at = layout.from_name("1x5")
    for entry in made.collectives:
        found = [case.parse(one) for one in cases.native_cases(made, entry.name, at, tier)]
        assert len({one.problem for one in found}) == len(found)
        assert bool(found) == (not entry.hybrid)
        if entry.hybrid or entry.moves_nothing:
            continue
        types = {one.options.get("type", "int") for one in found}
        assert {"strided", "neglb"} <= types
        assert ("whole" in types) == (not entry.has_op and entry.varies == "no")
        blocks = entry.total_bytes(at.size, 1)
        assert any(one.bytes >= cases.HUGE // blocks * 4 for one in found) == (tier != "small")


ENDED = "x: sanity error: the driver ended after 3 results (collforge-driver: abort) (see y)"

# ---- launches that end early -----------------------------------------------------------------


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The cases of each launch of a library that is wrong in ``bad`` and crashes in ``ugly``."""
    seen: list[list[str]] = []

    def launch(_: Site, at: str, part: Sequence[Case], seed: int) -> tuple[Output, list[str]]:
        seen.append([one.collective for one in part])
        results = []
        job = Job("", "", 2, at, (), seed)
        for one in part:
            if one.collective == "none":
                return Output(), ["the launcher is missing"]
            if one.collective == "ugly":
                return Output(job, tuple(results)), [ENDED]
            results.append(CaseResult(str(one), "", True, one.collective != "bad", "no", (), 0))
        wrong = any(one.collective == "bad" for one in part)
        return Output(job, tuple(results)), ["x: some failed"] if wrong else []

    monkeypatch.setattr(verification, "_launch", launch)
    return seen


def verdict_on(*names: str) -> verification.Verdict:
    wanted = [Case(name, "native", "1x2", number) for number, name in enumerate(names)]
    return verification.verify_native(Site("local", "toy"), "1x2", wanted, 7)


def test_what_follows_a_failure_is_run_again(launches: list[list[str]]) -> None:
    found = verdict_on("a", "bad", "b", "ugly", "c")
    assert launches == [["a", "bad", "b", "ugly", "c"], ["b", "ugly", "c"], ["c"]]
    assert str(found) == "3 verified, 2 failed"
    assert found.failures == [
        "toy bad:native@1x2,bytes=1: no",
        "toy ugly:native@1x2,bytes=3: the job ended in this case (collforge-driver: abort) (see y)",
    ]


def test_a_collective_that_keeps_failing_is_left(launches: list[list[str]]) -> None:
    found = verdict_on(*["bad"] * 5, "a")
    assert launches[-1] == ["a"]
    assert str(found) == "1 verified, 3 failed, 2 were not run"


def test_a_library_that_does_not_start_is_not_tried_again(launches: list[list[str]]) -> None:
    found = verdict_on("none", "a", "b")
    assert len(launches) == 1
    assert str(found) == "0 verified, 0 failed, 3 were not run"
    assert found.failures == ["toy 1x2: the launcher is missing"]


def test_a_launch_of_variants_that_ends_early_fails(launches: list[list[str]]) -> None:
    wanted = [Case(name, "toy", "1x2", n) for n, name in enumerate(("a", "ugly", "b"))]
    found = verification.verify_variants(Site("local", "toy"), "1x2", wanted, 7)
    assert str(found) == "1 verified, 0 failed, 2 were not run"
    assert found.failures[-1] == "toy ugly:toy@1x2,bytes=1: the job ended in this case"
