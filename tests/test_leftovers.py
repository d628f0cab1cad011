"""Results of killed tuners: they are stored once, and not while another tuner holds the lock."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from collforge.db import Store
from collforge.place import Place
from collforge.tuner.run import leftovers

PLACE = Place("local", "openmpi", "Open MPI v4.1.4", "2x2")
HEADER = {
    "record": "job",
    "driver": 1,
    "version": "0.1.0",
    "mpi": "openmpi",
    "library_version": "Open MPI v4.1.4",
    "ranks": 4,
    "layout": "2x2",
    "hosts": ["a", "a"],
    "seed": 7,
}


def result(variant: str) -> dict[str, object]:
    return {
        "record": "result",
        "case": f"bcast:{variant}@2x2,bytes=8,type=double",
        "collective": "bcast",
        "variant": variant,
        "fingerprint": "" if variant == "native" else "ab12",
        "applicable": True,
        "verified": True,
        "detail": "",
        "samples": [1.0, 2.0],
        "start_errors": [0.1, 0.2],
        "late": 0,
    }


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    folder = tmp_path / "runs"
    (folder / "20260101T000000-tune-abc" / "stage" / "deep").mkdir(parents=True)
    return folder


def leave(runs: Path, database: Path, text: str) -> Path:
    """Makes the folder of a job whose results ``text`` were never stored; returns it."""
    (folder,) = runs.iterdir()

    class Died(Exception):
        pass

    with pytest.raises(Died), leftovers.claimed(folder, PLACE, database):
        (folder / "stage" / "deep" / "results.jsonl").write_text(text)
        assert leftovers.take_in(runs, database, quiet=0.0) == 0, "its tuner is alive"
        raise Died
    return folder


def lines(*records: dict[str, object]) -> str:
    return "".join(json.dumps(one) + "\n" for one in records)


def test_what_was_written_is_stored_once(runs: Path, tmp_path: Path) -> None:
    database = tmp_path / "t.db"
    whole = lines(HEADER, result("native"), result("hierarchical"))
    folder = leave(runs, database, whole + '{"record":"result","case":"bcast:full')
    assert leftovers.take_in(runs, tmp_path / "other.db", quiet=0.0) == 0
    assert leftovers.take_in(runs, database, quiet=0.0) == 2
    assert leftovers.take_in(runs, database, quiet=0.0) == 0
    with Store(database) as store:
        native, other = store.measurements(PLACE)
    assert (native.run, native.samples, native.start_errors) == (
        folder.name,
        (1.0, 2.0),
        (0.1, 0.2),
    )
    assert other.variant.family == "hierarchical"
    (folder / leftovers.STORED).unlink()
    assert leftovers.take_in(runs, database, quiet=0.0) == 0, "by its name it is known"


@pytest.mark.parametrize("text", ["", lines(HEADER), '{"record":"jo'])
def test_a_job_that_wrote_nothing_leaves_nothing(runs: Path, tmp_path: Path, text: str) -> None:
    folder = leave(runs, tmp_path / "t.db", text)
    assert leftovers.take_in(runs, tmp_path / "t.db", quiet=0.0) == 0
    assert (folder / leftovers.STORED).exists(), "it is not looked at again"
    (folder / leftovers.JOB).write_text('{"data')
    (folder / leftovers.STORED).unlink()
    assert leftovers.take_in(runs, tmp_path / "t.db", quiet=0.0) == 0


def test_a_job_that_was_stored_is_done_with(runs: Path, tmp_path: Path) -> None:
    (folder,) = runs.iterdir()
    with leftovers.claimed(folder, PLACE, tmp_path / "t.db"):
        (folder / "stage" / "results.jsonl").write_text(lines(HEADER, result("native")))
    assert leftovers.take_in(runs, tmp_path / "t.db", quiet=0.0) == 0
