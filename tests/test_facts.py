"""What commands tell machines: --json, `collforge db export-samples` and `collforge compare`."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from invented_tunings import NATIVE, PLACE, SECONDS, Out, Tuning
from support import TOP

from collforge.generator.manifest import Manifest
from collforge.tuner.cli import main
from collforge.tuner.site import comparison


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory, made: Manifest) -> Path:
    """Open MPI on two days, and MPICH twice as slow."""
    folder = tmp_path_factory.mktemp("facts")
    path = Tuning(made).store(folder / "tuned.db")
    Tuning(made, day=9).store(path)
    slow = {name: 2 * seconds for name, seconds in SECONDS.items()}
    place = replace(PLACE, mpi="mpich", mpi_version="MPICH 5.0.2")
    return Tuning(made, place, seconds=slow).store(path)


def facts(capsys: Out, *words: str | Path) -> dict[str, Any]:
    """What `--json -` prints; all else is on standard error."""
    capsys.readouterr()
    assert main.main([*map(str, words), "--json", "-"]) in (0, 1)
    said = capsys.readouterr()
    document: dict[str, Any] = json.loads(said.out)
    assert "--json" not in document["command"]
    return document


@pytest.mark.parametrize(
    ("words", "keys"),
    [
        ("doctor", {"subject", "found", "fix"}),
        ("mpi list", {"name", "mpicc", "version"}),
        ("report", {"problem", "winner", "others", "reason"}),
        ("report --since 2026-01-01", {"place", "p50", "between_days"}),
        ("report --libraries", {"problem", "libraries", "fastest"}),
        ("db log", {"uuid", "started", "hosts"}),
        ("compare openmpi mpich", {"problem", "ratio", "verdict"}),
    ],
)
def test_commands_tell_facts_as_json(words: str, keys: set[str], tuned: Path, capsys: Out) -> None:
    where = [] if words.startswith("mpi") else ["--db", tuned]
    rows = facts(capsys, *words.split(), *where)["rows"]
    assert rows
    assert keys <= {*rows[0]}


def test_why_tells_what_serves(tuned: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["why", "--system", PLACE.system, "--layout", PLACE.layout, "bcast", "1024"]
    document = facts(capsys, *words, "--db", tuned)
    assert document["collective"] == "bcast"
    assert {row["place"]["system"] for row in document["rows"]} == {PLACE.system}


def test_a_file_of_facts(tuned: Path, tmp_path: Path, capsys: Out) -> None:
    path = tmp_path / "facts.json"
    assert main.main(["db", "check", "--db", str(tuned), "--json", str(path)]) == 0
    assert "sound" in capsys.readouterr().out
    assert json.loads(path.read_text())["rows"] == []


def samples(capsys: Out, *words: str | Path) -> str:
    capsys.readouterr()
    assert main.main(["db", "export-samples", "-", *map(str, words)]) == 0
    return capsys.readouterr().out


def test_samples_are_exported(tuned: Path, capsys: Out) -> None:
    rows = list(csv.DictReader(io.StringIO(samples(capsys, "--db", tuned))))
    assert len(rows) == 3 * 6 * 2 * 3 * 9  # tunings, launches, sizes, variants, samples
    native = [float(row["seconds"]) for row in rows if row["variant"] == NATIVE]
    assert max(native) < 2 * SECONDS[NATIVE] * 1.031
    assert {row["round"] for row in rows} == {str(number) for number in range(9)}


def test_samples_in_the_shape_of_osu(tuned: Path, capsys: Out) -> None:
    text = samples(capsys, "--osu", "--mpi", "mpich", "--db", tuned)
    tables = text.strip().split("\n\n")
    assert len(tables) == 3
    (native,) = [table for table in tables if table.splitlines()[0].endswith(": native")]
    lines = [line.split() for line in native.splitlines() if not line.startswith("#")]
    assert [(line[0], line[4]) for line in lines] == [("1024", "54"), ("65536", "54")]
    assert float(lines[0][1]) == pytest.approx(2e6 * SECONDS[NATIVE], rel=0.01)


def test_the_query_of_the_docs(
    tuned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Out
) -> None:
    text = (TOP / "docs" / "site.md").read_text(encoding="utf-8")
    (query,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (tmp_path / "site.db").symlink_to(tuned)
    monkeypatch.chdir(tmp_path)
    exec(compile(query, "docs/site.md", "exec"), {})
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4  # two libraries, two sizes
    assert lines[0].startswith(f"{PLACE.layout} 1024 full_lane[")


def test_libraries_days_and_databases_are_compared(
    tuned: Path, tmp_path: Path, made: Manifest, capsys: Out
) -> None:
    slow = facts(capsys, "compare", "openmpi", "mpich", "--db", tuned)["rows"]
    assert {row["verdict"] for row in slow} == {"slower"}
    assert {row["what"] for row in slow} == {"native", "tuned"}
    assert all(row["ratio"] == pytest.approx(0.5, rel=0.02) for row in slow)
    days = facts(capsys, "compare", "2026-01-01..2026-01-08", "2026-01-09", "--db", tuned)["rows"]
    assert {row["verdict"] for row in days if row["mpi"] == "openmpi"} == {"same"}
    fast = {name: seconds / 3 for name, seconds in SECONDS.items()}
    other = Tuning(made, seconds=fast).store(tmp_path / "other.db")
    files = facts(capsys, "compare", tuned, other)["rows"]
    assert {(row["mpi"], row["verdict"]) for row in files} == {("openmpi", "faster")}


def test_of_several_versions_the_last_is_compared(
    tmp_path: Path, made: Manifest, capsys: Out
) -> None:
    """Also where native wins now: this is the regression that one looks for."""
    old = Tuning(made).store(tmp_path / "old.db")
    new = Tuning(made).store(tmp_path / "new.db")
    slow = {name: 4 * seconds for name, seconds in SECONDS.items()} | {NATIVE: SECONDS[NATIVE]}
    later = replace(PLACE, mpi_version="Open MPI v5.0.8")
    Tuning(made, later, day=5, seconds=slow).store(new)
    rows = facts(capsys, "compare", old, new)["rows"]
    verdicts = {row["what"]: row["verdict"] for row in rows}
    assert verdicts == {"native": "same", "tuned": "slower"}


@pytest.mark.parametrize(
    ("first", "second", "verdict"),
    [
        ([1.0], [2.0], "cannot tell"),
        ([1.0, 1.1, 1.2], [1.0, 1.15, 1.2], "cannot tell"),
        ([1.0, 1.01, 1.02, 1.01], [1.01, 1.0, 1.02, 1.02], "same"),
        ([1.0, 1.01, 1.02], [2.0, 2.02, 2.01], "slower"),
        ([2.0, 2.02, 2.01], [1.0, 1.01, 1.02], "faster"),
        ([1.0, 1.0], [1.0, 1.0], "same"),
    ],
)
def test_a_verdict(first: list[float], second: list[float], verdict: str) -> None:
    key = ("cluster", "openmpi", 8, "bcast@4x2,bytes=8", comparison.NATIVE)
    row = comparison._compared(key, first, second)
    assert row.verdict == verdict
    assert row.ratio == pytest.approx(
        math.prod(first) ** (1 / len(first)) / math.prod(second) ** (1 / len(second))
    )
