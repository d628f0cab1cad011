"""The page of `collforge report --html`: its rows, its charts, and that nothing in a database can act in it."""

from __future__ import annotations

import json
import math
import re
import shlex
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import vl_convert
from conftest import Installation
from invented_tunings import PLACE, Tuning

from collforge.db import Finding, JobUse, Learnt, NativeBest, Store, StoredProfile, Tree
from collforge.generator.manifest import Manifest
from collforge.tuner.cli import main
from collforge.tuner.decide import profile
from collforge.tuner.page import charts, facts, render
from collforge.variant import NATIVE

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
MOST_BYTES = 3e6


@pytest.fixture(scope="module")
def database(made: Manifest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two libraries on two layouts and days; a system whose name is HTML."""
    path = tmp_path_factory.mktemp("page") / "winners.db"
    one = Tuning(made)
    one.store(path)
    replace(one, day=2, seconds={**one.seconds, NATIVE: 4e-3}).store(path)
    replace(one, day=3, place=replace(PLACE, layout="2x2")).store(path)
    replace(one, place=replace(PLACE, mpi="mpich", mpi_version="MPICH 5.0.2")).store(path)
    replace(one, place=replace(PLACE, system=EVIL), collectives=["allreduce"]).store(path)
    with Store(path) as store:
        store.record_tree(Tree(f"/apps/{EVIL}", "1", "1", "openmpi", 64 * "a", "2026-11-28"))
        store.record_use(JobUse("2026-11", 7, 3, 900, 800, 36000.0))
    return path


@pytest.fixture(scope="module")
def found(made: Manifest, database: Path) -> facts.Facts:
    with Store(database, create=False) as store:
        return facts.read(store, made, store.places())


@pytest.fixture(scope="module")
def page(found: facts.Facts) -> str:
    return render.page(found, f"Collforge: {EVIL}")


def embedded(page: str, name: str) -> Any:
    (text,) = re.findall(rf'<script type="application/json" id="{name}">(.*?)</script>', page, re.S)
    return json.loads(text)


def rows(columns: dict[str, Any]) -> list[dict[str, Any]]:
    """As rowsOf in page.js."""
    values = {
        name: [column["of"][at] for at in column["at"]] if isinstance(column, dict) else column
        for name, column in columns.items()
    }
    return [dict(zip(values, row)) for row in zip(*values.values())]


def test_rows_survive_the_page(found: facts.Facts, page: str) -> None:
    told = rows(embedded(page, "data")["winners"])
    assert len(told) == len(found.winners)
    measured = [pair for pair in zip(told, found.winners) if "tuned_us" in pair[1]]
    assert len(measured) == 8
    for row, stored in measured:
        assert row["variant"] == stored["variant"]
        assert row["bytes"] == stored["bytes"]
        assert row["ratio"] == pytest.approx(stored["ratio"], rel=1e-3)
        assert row["tuned_us"] == pytest.approx(stored["tuned_us"], rel=1e-3)
        assert len(row["runs"]) == len(row["native_us"])


def test_columns() -> None:
    told = facts.columns([{"a": "x", "b": 1.23456}, {"b": math.inf, "c": [2.0, None]}, {"a": "x"}])
    assert told == {
        "a": {"of": ["x", ""], "at": [0, 1, 0]},
        "b": [1.235, None, None],
        "c": [None, [2, None], None],
    }


def test_what_the_rows_say(made: Manifest, found: facts.Facts) -> None:
    at = {"system": PLACE.system, "layout": "4x2", "collective": "bcast", "bytes": 1024}
    (one,) = [
        row for row in found.winners if at.items() <= row.items() and "openmpi" in row["library"]
    ]
    assert one["ratio"] == pytest.approx(3, rel=0.4)  # 2 and 4 on two days
    assert one["low"] < one["ratio"] < one["high"]
    assert len(one["runs"]) == 12
    assert {found.runs[run]["day"] for run in one["runs"]} == {"2026-01-01", "2026-01-02"}
    assert all(native > tuned for native, tuned in zip(one["native_us"], one["tuned_us"]))
    (place,) = [
        row for row in found.places if row["library"].startswith("mpich") and row["layout"] == "4x2"
    ]
    assert (place["problems"], place["decided"], place["faster"]) == (2, 2, 2)
    assert place["gain"] == pytest.approx(2, rel=0.1)
    compared = {(one["layout"], one["library"][:5]): one for one in found.libraries}
    assert [*compared] == [("4x2", "mpich"), ("4x2", "openm")]  # 2x2 has one library
    assert {one["sizes"] for one in compared.values()} == {2}
    assert all(1 <= one["slower"] < 1.05 for one in compared.values())
    assert sum(one["fastest"] for one in compared.values()) < 2  # the same times, but for noise
    worst = found.violations[0]
    assert worst["lost"] == pytest.approx(worst["native"] - worst["seconds"])


def test_what_production_told(made: Manifest, tmp_path: Path) -> None:
    """What jobs learnt, nights that failed, node-hours and stored profiles."""
    one = Tuning(made)
    variant = next(v for v in one.variants("bcast") if not v.is_native)
    rows = [
        ("job", "4x2", 0, 0, 1, 0, "", 1, 8, 0, 0, 800, 0),
        ("bcast", "4x2", 1024, 1217, 1, 10, "world", 1, 8, 0, 10240, 50, 10),
    ]
    text = "\n".join(",".join(map(str, row)) for row in (profile.COLUMNS, *rows))
    with Store(one.store(tmp_path / "db")) as store:
        store.record_run(replace(one.launch(9), uuid="x", scheduler_job="7", seconds=900))
        told = Learnt(
            "3x2", variant, 1024, True, 3.0, 4, 2, "2026-11-11T00:00:00Z", "2026-11-25T00:00:00Z"
        )
        store.replace_learnt(PLACE, [told, replace(told, bytes=2048, confirmed=False)])
        value = "time", 9.0, "us", 5.0, None, 6.0
        night = PLACE.system, "batch", "openmpi", "2026-11-26T01:00:00Z", "77", EVIL, ""
        store.record_findings([Finding(*night, *value, False)])
        store.record_native_best([NativeBest(PLACE, "bcast", 1024, "chain", 1.5e-3)])
        store.record_profile(StoredProfile(PLACE.system, "app", "2026-11-26T01:00:00Z", text))
        shown = facts.read(store, made, store.places())
    learnt = [row for row in shown.winners if row["evidence"] == "learnt"]
    assert [(row["layout"], row["variant"]) for row in learnt] == [
        ("3x2", variant.name),
        ("3x2", NATIVE),
    ]
    best = [(row["best"], row["algorithm"]) for row in shown.winners if "best" in row]
    assert best == [(1.5e-3, "chain")]
    assert [row["hours"] for row in shown.places] == [1.0]
    assert [(row["value"], row["accepted"], row["job"]) for row in shown.findings] == [
        ("9 us", "5 (at most 6)", "77")
    ]
    assert [(row["collective"], row["time"]) for row in shown.profiles] == [("bcast", 0.05)]
    assert any(row["what"].startswith("1 expected winners refuted by 4 jobs") for row in shown.todo)
    assert EVIL not in render.page(shown, "production")


def test_launches_of_the_same_second_are_two(made: Manifest, tmp_path: Path) -> None:
    one = Tuning(made)
    path = one.store(tmp_path / "db")
    with Store(path) as store:
        store.record_run(replace(one.launch(0), uuid="another"))
    one.decide(path)
    with Store(path, create=False) as store:
        shown = facts.read(store, made, store.places())
    assert [len(row["runs"]) for row in shown.winners if "runs" in row] == [7, 7]
    assert len(shown.runs) == 7


def test_two_versions_that_are_short_alike(made: Manifest, tmp_path: Path) -> None:
    """Each has its own rows."""
    ours, theirs = ("Open MPI v4.1.4, package: Debian", "Open MPI v4.1.4, package: theirs")
    for day, version in enumerate((ours, theirs), 1):
        place = replace(PLACE, mpi_version=version)
        path = Tuning(made, place, day, collectives=["bcast", "reduce"][:day]).store(
            tmp_path / "db"
        )
    with Store(path, create=False) as store:
        shown = facts.read(store, made, store.places())
    assert {row["library"]: row["problems"] for row in shown.places} == {
        f"openmpi: {ours}": 2,
        f"openmpi: {theirs}": 4,
    }


def test_what_to_do_next(made: Manifest, database: Path, found: facts.Facts) -> None:
    """Stale winners, of code without any variant; and a layout that is near to nothing measured."""
    with Store(database, create=False) as store:
        stale = facts.read(store, replace(made, variants=()), store.places()).todo
    again = [one["command"] for one in stale if "stale" in one["what"]]
    assert len(again) == 4
    words = shlex.split(again[-1])
    assert words[words.index("--sizes") + 1] == "1024,65536"
    for one in [*again, *(row["command"] for row in found.todo)]:
        main.build_parser()[0].parse_args(shlex.split(one)[1:])
    assert not [one for one in found.todo if "stale" in one["what"]]


def test_the_links_limit_is_below_what_was_measured(made: Manifest, tmp_path: Path) -> None:
    place = replace(PLACE, system="emulated-2x1gbit-tied")
    path = Tuning(made, place=place).store(tmp_path / "db")
    with Store(path, create=False) as store:
        shown = facts.read(store, made, store.places())
    limits = [row["limit"] for row in shown.winners if row["evidence"] == "decided"]
    assert limits
    assert all(0 < limit < 2e-3 for limit in limits)
    assert "--rails 2 --rate 1gbit" in shown.winners[0]["tune"]


PROFILE = f"""\
{",".join(profile.COLUMNS)}
job,4x2,0,0,1,1,world,1,8,0,0,10.0,0.0
bcast,4x2,64,128,1,100,world,1,8,0,6400,1.0,0.5
bcast,4x2,1024,1218,1,100,world,1,8,0,102400,4.0,1.0
scan,4x2,8,9,1,10,world,1,8,0,80,3.0,0.0
"""


def test_a_profile_in_the_page(
    made: Manifest, database: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Waiting apart; a winner that is twice as fast saves half of the rest."""
    calls = tmp_path / "calls.csv"
    calls.write_text(PROFILE)
    with Store(database, create=False) as store:
        place = replace(PLACE, mpi="mpich", mpi_version="MPICH 5.0.2")
        first, *others = facts.read(store, made, [place], profile.read([calls])).profiles
    assert (first["collective"], first["bytes"], first["calls"]) == ("bcast", 1024, 100)
    assert (first["time"], first["waiting"]) == pytest.approx((0.3, 0.1))
    assert first["saved"] == pytest.approx(0.15, rel=0.1)
    assert first["by"].startswith("full_lane")
    assert [(one["collective"], one["saved"]) for one in others] == [("scan", 0), ("bcast", 0)]
    page = tmp_path / "page.html"
    words = ["report", "--db", str(database), "--profile", str(calls)]
    assert main.main(words) == 2
    assert "--profile needs --html" in capsys.readouterr().err
    assert main.main([*words, "--html", str(page)]) == 0
    assert "<td>30.0%</td><td>10.0%</td>" in page.read_text()


class _Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))


def test_nothing_in_a_database_acts_in_the_page(page: str) -> None:
    """Names of systems are text in it, and it loads nothing."""
    parser = _Elements()
    parser.feed(page)
    assert [tag for tag, _ in parser.seen].count("script") == 4
    assert not [tag for tag, _ in parser.seen if tag in ("img", "iframe", "object", "embed")]
    for _, attributes in parser.seen:
        assert not [name for name in attributes if name.startswith("on")]
        for name in ("src", "href"):
            assert (attributes.get(name) or "#").startswith(("#", "data:,"))
    assert EVIL in {row["system"] for row in rows(embedded(page, "data")["winners"])}


POINT = {
    "bytes": 1024, "size": "1 KiB", "seconds": 1e-3, "low": 9e-4, "high": 2e-3, "what": "tuned", "library": "a",
    "collective": "bcast", "layout": "4x2", "order": 0, "ratio": 2.0, "gain": 2.0, "sign": "=",
    "day": "2026-01-01", "problems": 3, "evidence": "decided",
}  # fmt: skip


@pytest.mark.parametrize("name", charts.all_of_them())
def test_charts_draw(name: str) -> None:
    """Each draws its points, with the library that the page has in it."""
    spec = charts.all_of_them()[name]
    points = [POINT, {**POINT, "bytes": 4096, "size": "4 KiB", "day": "2026-01-02", "library": "b"}]
    drawn = [
        vl_convert.vegalite_to_svg({**spec, "width": 400, "datasets": {name: points[:count]}})
        for count in (1, 2)
    ]
    marks = [text.count("aria-roledescription") for text in drawn]
    assert 0 < marks[0] < marks[1]


def test_the_command(
    built: Installation, database: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "report.html"
    words = ["report", "--db", str(database), "--html", str(page), "--mpi", "mpich"]
    assert main.main(words) == 0
    assert str(page) in capsys.readouterr().out
    text = page.read_text()
    assert len(text) < MOST_BYTES
    for more, said in (
        (["--html", str(database)], "is a database: name another file"),
        (["--html", str(page), "--json", str(tmp_path / "x.json")], "leave out --json"),
        (["--html", str(page), "--collective", "bcast"], "leave out --collective"),
    ):
        assert main.main(["report", "--db", str(database), *more]) == 2
        assert said in capsys.readouterr().err
    assert {row["library"] for row in rows(embedded(text, "data")["winners"])} == {
        "mpich: MPICH 5.0.2"
    }
