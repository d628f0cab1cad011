"""Open MPI's own tuning file, written from measurements of its own algorithms."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Launch

from collforge.errors import CollforgeError
from collforge.runtime import libraries
from collforge.tuner import export

RULES = """\
1 # collectives
0 # allgather
3 # communicator sizes
0 1 # the smaller ones
0 0 0 0
8 4
0 0 0 0
8192 0 0 0
16384 3 0 0
65536 4 0 0
9 1 # the larger ones
0 0 0 0
"""


def test_algorithms_are_those_the_library_lists() -> None:
    known = export.openmpi_algorithms(libraries.find("openmpi"))
    assert known["bcast"][6] == "binomial"
    assert set(known) == set(export.OPENMPI_IDS)
    assert all(export.OWN_CHOICE not in of_one for of_one in known.values())


def test_other_libraries_are_refused_with_the_reason() -> None:
    with pytest.raises(CollforgeError, match="replaces its whole built-in tree"):
        export.openmpi_algorithms(libraries.find("mpich"))


def test_an_algorithm_must_beat_the_own_choice_in_every_launch() -> None:
    own = [1.0, 1.1, 1.0]
    assert export.choose({0: own, 2: [0.5, 0.6, 0.5], 3: [0.4, 0.4, 0.4]}) == 3
    assert export.choose({0: own, 2: [0.5, 1.2, 0.5]}) == 0
    assert export.choose({0: own, 2: [0.99, 1.09, 0.99]}) == 0, "not by the margin"
    assert export.choose({0: own, 2: [0.5]}) == 0, "failed in a launch"
    assert export.choose({}) == 0


def test_rules_count_bytes_as_open_mpi_does() -> None:
    choices = {"allgather": {1024: 0, 4096: 3, 16384: 4}, "bcast": {1024: 0}}
    text = export.openmpi_rules(8, choices)
    assert "".join(line for line in text.splitlines(True) if not line.startswith("#")) == RULES


def test_the_command_measures_and_writes(tmp_path: Path, collforge: Launch) -> None:
    rules = tmp_path / "rules.conf"
    arguments = ["--collective", "scan", "--sizes", "1KiB", "--launches", "1", "--layout", "2x1"]
    system = ["--to", "openmpi", "--system", "local", "--output", str(rules)]
    done = collforge("export", *system, *arguments, timeout=280)
    assert done.returncode == 0
    assert "scan 1 KiB: " in done.stdout
    assert "# collectives" in rules.read_text()
