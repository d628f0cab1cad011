"""What `collforge publish` writes. The runtime's reader: faults/test_loader.py, test_faults.py."""

from __future__ import annotations

import hashlib
import stat
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import Launch
from faults import databases
from support import execute

from collforge.db import Choice, MapPoint, PublishedOnly, Result, RunRecord, Store, Unverified
from collforge.db.published import Section, counts, render, sections
from collforge.errors import CollforgeError
from collforge.place import Place
from collforge.toolchain import build
from collforge.tuner.cli import main
from collforge.tuner.site import publishing
from collforge.variant import Variant

PLACE = Place("here", "openmpi", "Open MPI v4.1.4", "4x2")
RING = Variant("bcast", "full_lane", "lane_algorithm=ring", "ab12")
LEADER = Variant("gather", "hierarchical", "", "cd34")
NATIVE = Variant("bcast")
# The text for `make`; BYTES<tab>VARIANT lines are for the layout above them.
TEXT = """\
collforge winners 1
system\there\tnode[0-9]+
variant\tbcast\tfull_lane[lane_algorithm=ring]\tab12
variant\tbcast\tnative\t
variant\tgather\thierarchical\tcd34
winners\there\tOpen MPI v4.1.4
layout\t2x2
64\t0
layout\t4x2
8\t1\ttie
64\t0
1024\t1
8\t2
layout\t~4x2
32\t2
end\t6
"""


def choice(variant: Variant, size: int, evidence: str = "decided") -> Choice:
    return Choice(size, variant, 1.5, 1.4, 1.6, 3, evidence)


def record(store: Store, place: Place, *variants: Variant) -> None:
    results = tuple(Result(one, f"{one.collective}@x", 8, True, "", (1.0,)) for one in variants)
    when = f"2026-01-0{1 + len(store.places())}T00:00:00Z"
    run = RunRecord(f"{place}", place, 4, 8, when, "1", "4", ("a",), 7, results)
    assert store.record_run(run)


def make(path: Path, layouts: tuple[str, ...] = ("4x2", "2x2")) -> Path:
    """Winners on two layouts, stored in this order, and one point of the map."""
    with Store(path) as store:
        store.describe_system("here", "node[0-9]+")
        for layout in layouts:
            place = Place("here", "openmpi", "Open MPI v4.1.4", layout)
            record(store, place, *((RING, LEADER) if layout == "4x2" else (LEADER, RING)))
            bcast = [choice(NATIVE, 8, "tie"), choice(RING, 64), choice(NATIVE, 1024)]
            store.replace_winners(place, "bcast", bcast if layout == "4x2" else bcast[1:2])
            if layout == "4x2":
                store.replace_winners(place, "gather", [choice(LEADER, 8)])
        point = MapPoint(4, 2, 32, LEADER, 1.5, 1.2, "predicted", ("4x2",))
        store.replace_map(PLACE, [point])
    return path


def published(path: Path) -> str:
    with Store(path, create=False) as store:
        return render(sections(store))


def test_the_text(tmp_path: Path) -> None:
    assert published(make(tmp_path / "db")) == TEXT


def test_times_follow_variants_alone(tmp_path: Path) -> None:
    """A library of before reads only what it knows: it takes "tie" beside other words for nothing."""
    path = make(tmp_path / "db")
    with Store(path) as store:
        bcast = [replace(one.choice, seconds=2e-5) for one in store.winners_at(PLACE)]
        bcast = [one for one in bcast if one.variant.collective == "bcast"]
        store.replace_winners(PLACE, "bcast", bcast)
    timed = "8\t1\ttie\n64\t0\t20000\t30000\t28000\t32000\n1024\t1\n"
    assert published(path) == TEXT.replace("8\t1\ttie\n64\t0\n1024\t1\n", timed)


def test_the_same_winners_give_the_same_bytes(tmp_path: Path) -> None:
    """Whenever, and in whatever order, they were measured and stored."""
    assert published(make(tmp_path / "db", ("2x2", "4x2"))) == TEXT


def test_publish_writes_a_read_only_file_with_its_checksum(
    tmp_path: Path, collforge: Launch
) -> None:
    database, path = make(tmp_path / "db"), tmp_path / "winners.txt"
    build.current_manifest()
    for _ in range(2):  # the second time over the first
        done = collforge("publish", "--db", str(database), "--output", str(path))
        assert done.returncode == 0, done.stderr
        assert "here, openmpi (Open MPI v4.1.4): 5 winners, 1 on the map" in done.stdout
        assert path.read_text() == TEXT
        assert done.stdout.splitlines()[-1].split()[0] == hashlib.sha256(TEXT.encode()).hexdigest()
        assert stat.S_IMODE(path.stat().st_mode) == 0o444
        assert execute(["sha256sum", "--check", f"{path}.sha256"], cwd=tmp_path).returncode == 0
    assert {one.name for one in tmp_path.iterdir()} == {"db", "winners.txt", "winners.txt.sha256"}
    assert "measured with other generated code" in done.stderr, "the variants are inventions"


def test_only_what_is_asked_for(tmp_path: Path) -> None:
    database = make(tmp_path / "db")
    other = Place("there", "mpich", "MPICH Version:\t4.0.2\nand more", "4x2")
    with Store(database) as store:
        record(store, other, RING)
        store.replace_winners(other, "bcast", [choice(RING, 64)])
        assert [one.place.system for one in sections(store)] == ["here", "there"]
        assert render(sections(store, "here")) == render(sections(store, "", ["openmpi"])) == TEXT
        text = render(sections(store, "there"))
        pattern = sections(store, "here")[0].host_pattern
    assert counts(text) == {("there", "MPICH Version:\t4.0.2"): (1, 0)}
    assert "systems there: " in publishing.caution(publishing.read_sections(database, ""))
    with Store(database) as store:  # two without a pattern
        store.describe_system("here", "")
    assert "systems here, there: " in publishing.caution(publishing.read_sections(database, ""))
    with Store(database) as store:
        store.describe_system("here", pattern)
    with Store(database) as store:
        store.describe_system("there", pattern)
    with pytest.raises(CollforgeError, match="here, there apart"):
        publishing.read_sections(database, "")
    assert len(publishing.read_sections(database, "there")) == 1
    assert not publishing.caution(publishing.read_sections(database, "there"))
    assert "system\tthere\t\n" in text
    assert "winners\tthere\tMPICH Version:\t4.0.2\nlayout" in text


@pytest.mark.parametrize(
    ("words", "fix"),
    [
        (["--system", "hree"], "did you mean here?"),
        (["--mpi", "mpich"], "known: openmpi"),
        (["--output", "/nowhere/x"], "no folder /nowhere"),
        (["--db", "/tmp/nowhere.db"], "collforge tune"),
    ],
)
def test_what_cannot_be_published(
    tmp_path: Path, words: list[str], fix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--db", str(make(tmp_path / "db")), "--output", str(tmp_path / "x"), *words]
    try:
        assert main.main(["publish", *arguments]) == main.USER_ERROR
    except SystemExit as error:
        assert error.code == main.USER_ERROR
    assert fix in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


def test_a_database_without_winners(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Store(tmp_path / "db").close()
    arguments = ["--db", str(tmp_path / "db"), "--output", str(tmp_path / "x")]
    assert main.main(["publish", *arguments]) == main.USER_ERROR
    assert "run `collforge tune`" in capsys.readouterr().err


def test_nothing_unverified_is_published(tmp_path: Path) -> None:
    database = make(tmp_path / "db")
    databases.rewrite(database, "UPDATE verification SET passed = 0 WHERE variant = 1")
    with Store(database) as store, pytest.raises(Unverified, match="bcast full_lane"):
        sections(store)


def test_points_without_winners_are_published(tmp_path: Path) -> None:
    database = databases.rewrite(make(tmp_path / "db"), "DELETE FROM winner")
    text = published(database)
    assert "~4x2" in text
    found = publishing.read_sections(database, "here", "openmpi")
    assert render(found) == text
    empty = databases.rewrite(database, "DELETE FROM point")
    with pytest.raises(CollforgeError, match="has no winners yet"):
        publishing.read_sections(empty, "here")


def test_an_unverified_point_of_the_map_is_left_out(tmp_path: Path) -> None:
    database = make(tmp_path / "db")
    script = "DELETE FROM winner WHERE collective = 'gather';"
    script += "UPDATE verification SET passed = 0 WHERE variant IN (SELECT variant FROM point)"
    assert "~4x2" not in published(databases.rewrite(database, script))


def test_a_name_that_would_break_a_line_is_refused() -> None:
    section = Section(Place("a\tb", "openmpi", "1", ""), "", {"1x2": [choice(RING, 8)]}, {})
    with pytest.raises(CollforgeError, match="tab"):
        render([section])


def test_commands_name_the_database_that_they_need(tmp_path: Path) -> None:
    path = tmp_path / "winners.txt"
    with Store(make(tmp_path / "db")) as store:
        publishing.publish(sections(store), path)
    for create in (True, False):
        with pytest.raises(PublishedOnly, match="--db"):
            Store(path, create=create)
    assert path.read_text() == TEXT
