"""What to measure next, for the page and for the queue of the service."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from invented_tunings import FAST, PLACE, SIZES, Tuning

from collforge.cases import timing_case
from collforge.db import Finding, JobRecord, Learnt, Store, StoredProfile, Verdict
from collforge.generator.manifest import Manifest
from collforge.layout import from_name
from collforge.tuner.decide import profile
from collforge.tuner.site import proposals
from collforge.tuner.site.proposals import Proposal

LATE, LATER = "2099-01-01T00:00:00Z", "2099-01-02T00:00:00Z"
HEAD = ",".join(profile.COLUMNS)


@pytest.fixture
def store(made: Manifest, tmp_path: Path) -> Store:
    return Store(Tuning(made).store(tmp_path / "db"))


def found(store: Store, made: Manifest, kind: str) -> list[Proposal]:
    return [one for one in proposals.read(store, made, store.places()) if one.kind == kind]


def night(made: Manifest, when: str, passed: bool, bytes_: int = SIZES[0]) -> Finding:
    problem = timing_case(made, "bcast", from_name(PLACE.layout), bytes_)
    values = "time", 9.0, "us", 5.0, None, 6.0
    return Finding(
        *(PLACE.system, "batch", PLACE.mpi, when, "77", f"Winner %bytes={bytes_}", str(problem)),
        *values,
        passed,
    )


def test_a_night_that_failed(store: Store, made: Manifest) -> None:
    store.record_findings([night(made, LATE, False), night(made, LATE, False, SIZES[1])])
    (one,) = found(store, made, proposals.REGRESSION)
    assert one.problems == {("bcast", size) for size in SIZES} and one.place == PLACE
    assert one.command == (
        "collforge tune --system cluster --mpi openmpi --layout 4x2 --collective bcast"
        f" --sizes {SIZES[0]},{SIZES[1]} --since {LATE}"
    )
    store.record_findings([night(made, LATER, True)])
    (one,) = found(store, made, proposals.REGRESSION)
    assert one.problems == {("bcast", SIZES[1])}, "the other one is right again"
    store.record_findings([replace(night(made, LATE, True, SIZES[1]), variable="speed_up")])
    assert found(store, made, proposals.REGRESSION) == [one], "another value of the same night"
    store.record_run(replace(Tuning(made).launch(9), started=LATER))
    assert not found(store, made, proposals.REGRESSION), "it was measured again"


@pytest.mark.parametrize("problem", ["", "nonsense", "bcast@9x9,bytes=8", "bcast@4x2,bytes=x"])
def test_a_night_of_what_nobody_knows(store: Store, made: Manifest, problem: str) -> None:
    store.record_findings([replace(night(made, LATE, False), problem=problem)])
    assert not found(store, made, proposals.REGRESSION)


def test_a_winner_that_a_job_dropped(store: Store, made: Manifest) -> None:
    (variant,) = (one for one in Tuning(made).variants("bcast") if FAST in one.name)
    verdict = Verdict(PLACE.layout, variant, SIZES[0], 1.0, 2.0, 6, True, False)
    for again in (False, True):
        one = replace(verdict, again=again)
        store.record_job(JobRecord(f"{again:064}", PLACE.library, "7", LATE, "", (one,)))
        assert len(found(store, made, proposals.REGRESSION)) == again


def test_what_jobs_refuted(store: Store, made: Manifest) -> None:
    (variant,) = (one for one in Tuning(made).variants("bcast") if FAST in one.name)
    one = Learnt("3x2", variant, 1025, False, 0.5, 2, 2, LATE, LATE)
    store.replace_learnt(
        PLACE, [one, replace(one, layout="4x2"), replace(one, layout="5x2", confirmed=True)]
    )
    (proposal,) = found(store, made, proposals.REFUTED)
    assert (proposal.place.layout, proposal.problems) == ("3x2", {("bcast", 1024)})


def test_what_a_profile_calls(store: Store, made: Manifest) -> None:
    """What nobody measured, most seconds first; seconds of what waits are none."""
    rows = [
        ("job", "4x2", 0, 0, 1, 0, "", 1, 8, 0, 0, 800, 0),
        ("bcast", "4x2", 4096, 4870, 1, 10, "world", 1, 8, 0, 40960, 50, 10),
        ("allreduce", "2x2", 4096, 4870, 1, 10, "other", 1, 8, 0, 40960, 90, 10),
        ("bcast", "4x2", SIZES[0], 1217, 1, 10, "world", 1, 8, 0, 10 * SIZES[0], 20, 0),
    ]
    text = "\n".join([HEAD, *(",".join(map(str, row)) for row in rows), ""])
    store.record_profile(StoredProfile("cluster", "app", LATE, text))
    both = found(store, made, proposals.PROFILE)
    assert [(one.place.layout, set(one.problems), one.gain) for one in both] == [
        ("4x2/2x2", {("allreduce", 4096)}, 80),
        ("4x2", {("bcast", 4096)}, 40),
    ]


def test_the_order_is_that_of_kinds(made: Manifest, tmp_path: Path) -> None:
    """Stale winners go before undecided sizes, and these before new layouts."""
    tuning = Tuning(made, fingerprint="abcd1234")
    tuning.store(tmp_path / "db")
    replace(tuning, collectives=("allgather",), day=2, fingerprint="").store(
        tmp_path / "db", launches=1
    )
    with Store(tmp_path / "db") as store:
        kinds = [one.kind for one in proposals.read(store, made, store.places())]
    assert kinds == sorted(kinds, key=proposals.KINDS.index)
    assert {proposals.OPEN, proposals.LAYOUT} <= {*kinds}
