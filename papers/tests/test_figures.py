"""`collforge reproduce`: the registry of figures, and what it says of measurements."""

from __future__ import annotations

import argparse
import csv
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import Installation, Launch

from collforge.errors import CollforgeError
from collforge.mpi_library import MpiLibrary
from collforge.papers import figures
from collforge.papers.commands import reproduce
from collforge.papers.commands.reproduce import Measured
from collforge.papers.figures import Drawn, Figure, drawing
from collforge.papers.figures.claims import Claim
from collforge.papers.figures.rows import Row
from collforge.tuner.cli import main, plots
from collforge.tuner.run.pictures import LinePicture

FIGURES = figures.read()


@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.parametrize("quick", [True, False])
def test_the_command_of_a_figure_parses(name: str, quick: bool) -> None:
    figure = FIGURES[name]
    if figure.none:
        assert not figure.words
        return
    parser, _ = main.build_parser()
    for layout in figure.over or [figure.layout]:
        parser.parse_args(figure.command(layout, ["--mpi", "openmpi", "--rails", "2"], quick))


def test_an_unknown_figure_is_refused() -> None:
    with pytest.raises(CollforgeError, match="unknown figure 'multi-lane 99'"):
        figures.find("multi-lane", "99")


def test_of_the_cases_quick_takes_the_ends() -> None:
    figure = FIGURES["multi-lane 7"]
    sizes = {
        case.split("bytes=")[1] for case in figure.command("2x2", [], True) if "bytes=" in case
    }
    assert {int(size.split(",")[0]) for size in sizes} == {min(figure.bytes), max(figure.bytes)}


@pytest.mark.parametrize(
    ("largest", "fitted"),
    [
        (None, ["2x2", "4x2", "8x2"]),
        ("32x4", ["2x4", "4x4", "8x4", "16x4", "32x4"]),
        ("4x1", ["2x1", "4x1"]),
        ("4x4-cyclic", ["2x4-cyclic", "4x4-cyclic"]),
    ],
)
def test_the_layouts_that_a_site_has(largest: str | None, fitted: list[str]) -> None:
    figure = Figure("p", "1", "s", "shows", layout="4x2", over=("2x2", "4x2", "8x2"))
    assert reproduce.layouts(figure, largest) == fitted

    def of(layout: str, largest: str) -> list[str]:
        return reproduce.layouts(Figure("p", "1", "s", "shows", layout=layout), largest)

    assert of("4x1x2", "2x2") == ["2x1x2"] and of("4x2", "36x32") == ["36x32"]
    assert of("2x4", "36x32") == ["2x32"]
    assert reproduce.layouts(FIGURES["multi-lane 2"], "36x32") == ["36x32"]
    assert of("2x1", "36x32") == ["2x1"] and of("1x2", "36x32") == ["1x32"]
    assert of("2x2,4x2,4x4", "2x1") == ["2x1"] and of("", "2x2") == [""]
    with pytest.raises(CollforgeError, match="name nodes and ranks"):
        of("4x2", "3+1")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"command": "x"}', "\xff"])
def test_a_part_of_a_result_is_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / "one.json"
    path.write_text(text, encoding="latin-1")
    assert reproduce._stored(path) is None and reproduce._stored(tmp_path / "none") is None


ROWS = [
    Row({"n": n, "who": who, "up": n}, {"v": [n * f, n * f * 1.1, n * f], "w": [1.0, 2.0, 3.0]})
    for n in (1, 2, 4)
    for who, f in (("native", 2.0), ("ours", 1.0))
]


@pytest.mark.parametrize("gap", [True, False])
def test_lines_over_native(tmp_path: Path, gap: bool) -> None:
    drawn = Drawn("lines", "x", "v", across="n", series=("who",), over={"who": "native"}, gap=gap)
    picture = drawing.draw(drawn, {"MPI": ROWS})
    assert isinstance(picture, LinePicture)
    ((title, (line,)),) = picture.panels.items()
    assert (title, line.label, picture.linear) == ("MPI", "ours", gap)
    assert line.points == [(n, pytest.approx(-50.0 if gap else 0.5)) for n in (1, 2, 4)]
    assert all(one.low <= one.median <= one.high for one in line.intervals)
    plots.draw(picture, tmp_path / "lines.svg")
    assert "ours" in (tmp_path / "lines.svg").read_text()


@pytest.mark.parametrize(
    ("drawn", "shown"),
    [
        (Drawn("bars", "s", "v", across="n", series=("who",)), ["native", "ours"]),
        (
            Drawn("stacked", "s", values=("v", "w"), across="n", series=("who",)),
            ["native", "ours", "<!-- v -->", "<!-- w -->"],
        ),
        (Drawn("map", "s", "v", across="n", up="up", panels=("who",)), ["MPI, ours"]),
        (Drawn("histogram", "s", "v", series=("who",)), ["native", "launches"]),
        (Drawn("table", "s", "v", across="n", series=("who",)), ["4 n", "native"]),
        (Drawn("lines", "s", "v", across="n", series=("who",), where={"n": [2, 4]}), ["ours"]),
    ],
)
def test_every_kind_of_picture(drawn: Drawn, shown: list[str], tmp_path: Path) -> None:
    """Drawn with matplotlib, with the words that a reader needs."""
    path = tmp_path / "figure.svg"
    plots.draw(drawing.draw(drawn, {"MPI": ROWS}), path)
    assert all(word in path.read_text() for word in shown)


def test_colours_do_not_repeat() -> None:
    for count in (3, 12, 30):
        assert len(set(plots._colours(map(str, range(count))).values())) == count


def test_a_figure_is_measured_once(built: Installation, collforge: Launch) -> None:
    """On this machine; a second call reads what the first one left."""
    # A figure of its own for each library, because a figure has one folder.
    number, panel, rows_of = {"openmpi": ("7", "allreduce", 3), "mpich": ("6", "bcast", 10)}[
        built.library.flavor
    ]
    words = ["multi-lane", number, "--mpi", built.library.name, "--system", "local"]
    words += ["--layout", "2x2"]
    first = collforge("reproduce", *words, "--quick", timeout=300)
    assert first.returncode == 0, first.stderr
    assert "1 launch, 3 are needed" in first.stdout or "more threads than" in first.stdout
    folder = Path(os.environ["COLLFORGE_HOME"], "figures", f"multi-lane-{number}-local-quick")
    path = folder / f"{built.library.name}-2x2.json"
    with (folder / "figure.csv").open() as lines:
        found = list(csv.DictReader(lines))
    assert len(found) == 2 * rows_of  # sizes; native and variants of each collective
    assert all(float(row["seconds"]) > 0 for row in found)
    drawn = (folder / "figure.svg").read_text()
    assert f"{built.library.short_version}, {panel}" in drawn and "full_lane" in drawn
    assert (folder / "figure.pdf").exists() and (folder / "figure.png").exists()
    before = path.stat().st_mtime_ns
    second = collforge("reproduce", *words, "--quick", timeout=60)
    assert second.returncode == 0 and path.stat().st_mtime_ns == before


def test_a_library_of_which_no_claim_speaks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is left out of a paper's figures; who names the figure gets it."""
    drawn = Drawn("lines", "s", "v", across="n", series=("who",))
    claim = Claim("", "v", of={"who": "native"}, at_least=1, mpi="mpich")
    only = Figure("p", "1", "s", "shows", picture=drawn, claims=(claim,), words=("bench",))
    monkeypatch.setattr(figures, "read", lambda: {"p 1": only})
    monkeypatch.setattr(reproduce, "_measure", lambda *_: Measured("Open MPI", "openmpi", ROWS))
    words = ["--mpi", "openmpi", "--system", "local", "--quick"]
    assert main.main(["reproduce", "p", *words]) == 0
    assert "Left out: the paper's claims" in capsys.readouterr().out
    assert main.main(["reproduce", "p", "1", *words]) == 0
    assert "JSON, CSV and the picture" in capsys.readouterr().out


def test_all_figures_of_a_paper(
    built: Installation,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A figure that cannot be measured does not end the others."""
    drawn = Drawn("lines", "s", "v", across="n", series=("who",))
    of, over = {"who": "native"}, {"who": "ours"}
    claim = Claim("Native is slower.", "v", of=of, over=over, at_least=1.5)
    some = {"picture": drawn, "claims": (claim,), "words": ("bench",)}
    failing = Figure("p", "1", "s", "shows", **some)
    measured = Figure("p", "2", "s", "shows", **some)
    no_command = Figure("p", "3", "s", "shows", none="a drawing")
    other_paper = Figure("q", "1", "s", "shows", **some)
    chosen = {one.name: one for one in (no_command, failing, measured, other_paper)}
    monkeypatch.setattr(figures, "read", lambda: chosen)
    library = built.library.short_version

    def measure(figure: Figure, *_: object) -> Measured:
        if figure is failing:
            raise CollforgeError("no cluster")
        return Measured(library, built.library.flavor, ROWS)

    monkeypatch.setattr(reproduce, "_measure", measure)
    path = tmp_path / "found.json"
    words = ["reproduce", "p", "--mpi", built.library.name, "--system", "local", "--quick"]
    assert main.main([*words, "--json", str(path)]) == 1
    document = json.loads(path.read_text())
    assert document["command"] == "collforge " + " ".join(words)
    (row,) = document["rows"]
    assert (row["figure"], row["mpi"], row["verdict"]) == ("p 2", library, "holds")
    assert "Fig. 1 cannot be shown" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [([], "name a paper and a figure, or --all"), (["papers"], "unknown paper 'papers'")],
)
def test_what_is_not_a_figure(
    capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert main.main(["reproduce", *words, "--mpi", "mpich"]) == main.USER_ERROR
    assert said in capsys.readouterr().err


def test_a_library_on_one_rail_tells_nothing_of_rails(monkeypatch: pytest.MonkeyPatch) -> None:
    """MPICH 5.0.2 on the emulated cluster; on a site nothing is known against it."""
    row = Row({"x": 1}, {"seconds": [1.0]})
    monkeypatch.setattr(reproduce, "_run", lambda *_: Path())
    monkeypatch.setattr(reproduce.rows, "read", lambda *_: [row, replace(row, doubt="other")])
    of_rails, other = (
        Figure("p", "1", "", "", layout="2x2", words=("bench",), rails=rails)
        for rails in (True, False)
    )
    library = MpiLibrary("mpich5", Path(), Path(), "", True)
    links = {"rails": 2, "rate": "100mbit", "rail_model": "tied"}
    for figure, version, system, doubt in (
        (of_rails, "5.0.2", "emulated", "MPICH 5.0.2 uses one rail of the emulated cluster"),
        (of_rails, "4.0.2", "emulated", ""),
        (of_rails, "5.0.2", "cluster", ""),
        (other, "5.0.2", "emulated", ""),
    ):
        asked = {"system": system, "config": None, "layout": "2x2", "quick": False, "again": False}
        args = argparse.Namespace(**asked, **links)
        its = replace(library, version=f"MPICH Version: {version}")
        found = reproduce._measure(figure, its, args, Path())
        assert [row.doubt for row in found.rows] == [doubt, "other"]
