"""The reader of the timing driver's records."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from collforge import records
from collforge.records import CaseResult, End, Job, Output

JOB: dict[str, Any] = {
    "record": "job",
    "driver": 1,
    "version": "0.1.0",
    "library_version": "Open MPI v4.1.4",
    "ranks": 4,
    "layout": "2x2",
    "hosts": ["node0", "node1"],
    "seed": 7,
    "clock_domains": 1,
}
RESULT: dict[str, Any] = {
    "record": "result",
    "case": "bcast:native@2x2,bytes=64",
    "fingerprint": "",
    "applicable": True,
    "verified": True,
    "detail": "",
    "samples": [1.5, 2],
    "late": 1,
}
END: dict[str, Any] = {"record": "end", "cases": 1, "failed": 0, "seconds": {"timing": 0.5}}
READ_JOB = Job("0.1.0", "Open MPI v4.1.4", 4, "2x2", ("node0", "node1"), 7)
READ = CaseResult("bcast:native@2x2,bytes=64", "", True, True, "", (1.5, 2.0), 1)


def read(folder: Path, *lines: dict[str, Any] | str) -> Output:
    path = folder / records.FILE
    texts = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    path.write_text("\n".join(texts))
    return records.read(path)


def test_what_a_launch_has_written(tmp_path: Path) -> None:
    costly = {**RESULT, "start_errors": [1e-6, 0], "cpu": 2.5, "memory": 4096}
    output = read(tmp_path, JOB, RESULT, costly, END)
    with_costs = replace(READ, start_errors=(1e-6, 0.0), cpu=2.5, memory=4096)
    assert output == Output(READ_JOB, (READ, with_costs), End(1, 0, {"timing": 0.5}))


def test_of_a_launch_that_was_killed_the_whole_lines(tmp_path: Path) -> None:
    output = read(tmp_path, JOB, RESULT, '{"record":"result","ca')
    assert (output.job, output.results, output.end) == (READ_JOB, (READ,), None)
    assert f"{records.FILE}, line 3: " in output.damage


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    output = records.read(tmp_path / records.FILE)
    assert output == Output(damage=output.damage)
    assert output.damage == f"the driver left no {records.FILE} (No such file or directory)"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ({"record": "rumour"}, "unknown record 'rumour'"),
        ({"case": "bcast"}, "unknown record None"),
        ([], "Expected `object`, got `array`"),
        ({**JOB, "driver": 2}, "the driver writes format 2, not 1: rebuild it"),
        ({**JOB, "ranks": "4"}, "Expected `int`, got `str` - at `$.ranks`"),
        ({**JOB, "hosts": [1]}, "Expected `str`, got `int` - at `$.hosts"),
        ({**RESULT, "verified": 1}, "Expected `bool`, got `int` - at `$.verified`"),
        ({**RESULT, "samples": [None]}, "Expected `float`, got `null` - at `$.samples"),
        ({"record": "end", "cases": 1}, "missing required field `failed`"),
    ],
)
def test_a_line_of_another_form_is_damage(tmp_path: Path, line: Any, why: str) -> None:
    output = read(tmp_path, JOB, RESULT, line, RESULT, END)
    assert (output.results, output.end) == ((READ,), None), "nothing behind it is read"
    assert output.damage.startswith(f"{tmp_path / records.FILE}, line 3: ")
    assert why in output.damage
