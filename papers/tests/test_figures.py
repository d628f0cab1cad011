"""`collforge reproduce`: the registry of figures, and what it says of measurements."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from conftest import Installation, Launch

from collforge.errors import CollforgeError
from collforge.papers import figures
from collforge.papers.commands import reproduce
from collforge.papers.commands.reproduce import Measured
from collforge.papers.figures import Figure
from collforge.tuner.cli import main
from collforge.tuner.decide.evidence import Interval
from collforge.tuner.run import pictures
from collforge.tuner.run.pictures import DotPicture, Dots, Line, LinePicture

FIGURES = figures.read()


@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.parametrize("quick", [True, False])
def test_the_command_of_a_figure_parses(name: str, quick: bool) -> None:
    figure = FIGURES[name]
    if figure.none:
        assert not figure.words and figure.at_least is None and figure.at_most is None
        return
    parser, _ = main.build_parser()
    for layout in figure.over or [figure.layout]:
        parser.parse_args(figure.command(layout, ["--mpi", "openmpi", "--rails", "2"], quick))
    assert (figure.at_least is None) != (figure.at_most is None)


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
    ("bounds", "said"),
    [
        (("largest", 3.0, None), "largest a.b 3.50: same trend (at least 3 expected)"),
        (("largest", 4.0, None), "largest a.b 3.50: another trend (at least 4 expected)"),
        (("smallest", None, 2.0), "smallest a.b 1.50: same trend (at most 2 expected)"),
        (("median", None, 2.0), "median a.b 2.50: another trend (at most 2 expected)"),
    ],
)
def test_the_verdict(bounds: tuple[str, float | None, float | None], said: str) -> None:
    """Rows without the value, and those that `where` excludes, do not count."""
    rows = [{"k": 1, "a": {"b": value}} for value in (1.5, 3.5)]
    rows += [{"k": 2, "a": {"b": 9.0}}, {"k": 1, "a": {}}, {"k": 1, "a": {"b": None}}]
    take, at_least, at_most = bounds
    figure = Figure(
        *("p", "1", "s", "shows", "finding"),
        value="a.b",
        take=take,
        at_least=at_least,
        at_most=at_most,
        where={"k": 1},
    )
    assert reproduce.verdict(figure, found(rows)) == said
    assert "nothing can be said" in reproduce.verdict(figure, found(rows[3:]))
    other = msgspec.structs.replace(figure, mpi="mpich")
    assert "about mpich" in reproduce.verdict(other, found(rows))


def found(rows: Sequence[Mapping[str, Any]]) -> Measured:
    return Measured("Open MPI", "openmpi", rows, LinePicture({}))


def test_a_quotient_of_members_named_by_a_pattern() -> None:
    figure = Figure(
        *("p", "1", "s", "shows", "finding"),
        value="variants.*=shared*",
        divided_by="variants.*=native*",
        take="largest",
        at_least=1.0,
    )
    rows = [{"variants": {"a[x=native]": 2.0, "a[x=shared]": 3.0}}, {"variants": {}}]
    assert figure.measured(rows) == 1.5


def test_a_picture_over_nodes() -> None:
    """A panel for each size; a line has a point for each number of nodes."""
    drawn = {
        nodes: LinePicture(
            {
                "bcast": [
                    Line("native", "o-", [(8, nodes), (64, 2 * nodes)], [Interval(nodes, 0, 9)])
                ]
            }
        )
        for nodes in (2, 4)
    }
    over = pictures.across("nodes", drawn)
    assert list(over.panels) == ["bcast, 8 B", "bcast, 64 B"]
    (first,), (second,) = over.panels.values()
    assert first.points == [(2, 2), (4, 4)] and second.points == [(2, 4), (4, 8)]
    assert [one.median for one in first.intervals] == [2, 4] and not second.intervals
    stored = json.loads(json.dumps(msgspec.to_builtins(over)))
    assert pictures.read(stored) == over


def test_dots_over_nodes_become_lines() -> None:
    """A panel for each row of dots and unit."""
    drawn = {
        nodes: DotPicture({"seconds": [Dots("mpi", {"summa": Interval(nodes, 1, 9)})]})
        for nodes in (2, 4)
    }
    over = pictures.across("nodes", drawn)
    ((title, (line,)),) = over.panels.items()
    assert title == "summa, seconds" and over.unit == "" and over.scale == 1.0
    assert line.label == "mpi" and line.points == [(2, 2), (4, 4)]
    assert line.intervals == [Interval(2, 1, 9), Interval(4, 1, 9)]


def test_a_figure_is_measured_once(built: Installation, collforge: Launch) -> None:
    """On this machine; a second call reads what the first one left."""
    words = ["multi-lane", "7", "--mpi", built.library.name, "--system", "local", "--layout", "2x2"]
    first = collforge("reproduce", *words, "--quick", timeout=300)
    assert first.returncode == 0, first.stderr
    assert "Paper: With MPICH" in first.stdout
    assert f"Ours, {built.library.short_version}: median families.full_lane" in first.stdout
    folder = Path(os.environ["COLLFORGE_HOME"], "figures", "multi-lane-7-local-quick")
    path = folder / f"{built.library.name}-2x2.json"
    rows = json.loads(path.read_text())["rows"]
    with (folder / "figure.csv").open() as lines:
        assert len(list(csv.DictReader(lines))) == len(rows) == 2
    drawn = (folder / "figure.svg").read_text()
    assert f"{built.library.short_version}: allreduce" in drawn and "full_lane" in drawn
    assert (folder / "figure.pdf").exists() and (folder / "figure.png").exists()
    before = path.stat().st_mtime_ns
    second = collforge("reproduce", *words, "--quick", timeout=60)
    assert second.returncode == 0 and path.stat().st_mtime_ns == before
    assert second.stdout.splitlines()[-2] == first.stdout.splitlines()[-2]


@pytest.mark.slow
def test_all_figures_of_a_paper(
    built: Installation, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A figure that cannot be measured does not end the others, and is in the --json file, too."""
    measured, failing = FIGURES["vci 4"], FIGURES["vci 10"]
    no_command, other_paper = FIGURES["vci 2"], FIGURES["overlap 6"]
    chosen = {one.name: one for one in (no_command, failing, measured, other_paper)}
    monkeypatch.setattr(figures, "read", lambda: chosen)
    library = built.library.short_version
    picture = LinePicture({"init": [Line("ours", "o-", [(1, 1.0)])]})

    def measure(figure: Figure, *_: object) -> Measured:
        if figure is failing:
            raise CollforgeError("no cluster")
        row = {figure.value: 1.5, **figure.where}
        return Measured(library, built.library.flavor, [row], picture)

    monkeypatch.setattr(reproduce, "_measure", measure)
    path = tmp_path / "found.json"
    words = ["reproduce", "vci", "--mpi", built.library.name, "--system", "local", "--quick"]
    assert main.main([*words, "--json", str(path)]) == 1
    document = json.loads(path.read_text())
    assert document["command"] == "collforge " + " ".join(words)
    rows = [(row["figure"], row["mpi"], row["value"]) for row in document["rows"]]
    assert rows == [("vci, Fig. 10", "", None), ("vci, Fig. 4", library, 1.5)]
    assert document["mpi"] == library
    assert [row["said"].split(":")[0] for row in document["rows"]] == [
        "not measured",
        "median over_one 1.50" if measured.take == "median" else f"{measured.take} over_one 1.50",
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [([], "name a paper and a figure, or --all"), (["papers"], "unknown paper 'papers'")],
)
def test_what_is_not_a_figure(
    capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert main.main(["reproduce", *words, "--mpi", "mpich"]) == main.USER_ERROR
    assert said in capsys.readouterr().err
