"""`collforge reproduce`: the registry of figures, and what it says of measurements."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path

import pytest
from conftest import Installation, Launch

from collforge.errors import CollforgeError
from collforge.tuner import cli, figures
from collforge.tuner.commands import reproduce
from collforge.tuner.figures import Figure

FIGURES = figures.read()


@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.parametrize("quick", [True, False])
def test_the_command_of_a_figure_parses(name: str, quick: bool) -> None:
    figure = FIGURES[name]
    parser, _ = cli.build_parser()
    words = figure.command(figure.layout, quick)
    parser.parse_args([*words, "--mpi", "openmpi", "--system", "emulated"])
    assert (figure.at_least is None) != (figure.at_most is None)


def test_an_unknown_figure_is_refused() -> None:
    with pytest.raises(CollforgeError, match="unknown figure 'multi-lane 99'"):
        figures.find("multi-lane", "99")


def test_of_the_cases_quick_takes_the_ends() -> None:
    figure = FIGURES["multi-lane 7"]
    sizes = {case.split("bytes=")[1] for case in figure.command("2x2", True) if "bytes=" in case}
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
    texts = ("p", "1", "s", "shows", "finding", "2x2", ("bench",), "a.b")
    figure = Figure(*texts, *bounds, where={"k": 1})
    assert reproduce.verdict(figure, rows) == said
    assert "nothing can be said" in reproduce.verdict(figure, rows[3:])


def test_a_figure_is_measured_once(built: Installation, collforge: Launch) -> None:
    """On this machine; a second call reads what the first one left."""
    words = ["multi-lane", "7", "--mpi", built.library.name, "--system", "local", "--layout", "2x2"]
    first = collforge("reproduce", *words, "--quick", timeout=300)
    assert first.returncode == 0, first.stderr
    assert "Paper: With MPICH" in first.stdout and "trend (at least" in first.stdout
    folder = Path(os.environ["COLLFORGE_HOME"], "figures", "multi-lane-7-local-quick")
    path = folder / f"{built.library.name}.json"
    rows = json.loads(path.read_text())["rows"]
    with path.with_suffix(".csv").open() as lines:
        assert len(list(csv.DictReader(lines))) == len(rows) == 2
    assert path.with_suffix(".svg").read_text().startswith("<?xml")
    before = path.stat().st_mtime_ns
    second = collforge("reproduce", *words, "--quick", timeout=60)
    assert second.returncode == 0 and path.stat().st_mtime_ns == before
    assert second.stdout.splitlines()[-2] == first.stdout.splitlines()[-2]
