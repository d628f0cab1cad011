"""Programs that probes launch, on every system: their layouts, variables and ends."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Installation
from slurm_commands import own_cluster
from support import marked_processes

from collforge import reframe_checks
from collforge.errors import CollforgeError
from collforge.reframe_checks.launches import Outcome, read_outcomes
from collforge.tuner.run.jobs import Site
from collforge.tuner.run.launches import KILLED, Launch, run_launches

PROGRAM = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int rank, size, length;
    char node[MPI_MAX_PROCESSOR_NAME];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Get_processor_name(node, &length);
    while (argv[1][0] == 'h') {
        pause();
    }
    printf("%d/%d %s %s\n", rank, size, node, getenv("WORD"));
    MPI_Finalize();
    return argv[1][0] == 'f' ? 3 : 0;
}
"""
RUN = """
import sys
import msgspec
from pathlib import Path
from test_launches import launch
for one in launch(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4]), sys.argv[5]):
    print(msgspec.json.encode(one).decode())
"""

SLEEP = """
import sys
from pathlib import Path
from collforge.tuner.run.jobs import Site
from collforge.tuner.run.launches import Launch, run_launches
plan = [Launch(["/bin/sleep", "41"], "1x2")] * 2
run_launches(Site("local", sys.argv[1]), Path(sys.argv[2], "job"), [], plan)
"""


def launch(system: str, mpi: str, mpicc: str, folder: Path, settings: str = "") -> list[Outcome]:
    """Four launches: of four ranks, of one on each node, one that hangs, one that fails."""
    source, program = folder / "program.c", str(folder / "program")
    source.write_text(PROGRAM)
    plan = [
        Launch([program, "go"], "2x2", {"WORD": "two words"}),
        Launch([program, "go"], "2x1", {"WORD": "one"}),
        Launch([program, "hang"], "2x1", seconds=2),
        Launch([program, "fail"], "1x2", {"WORD": "two"}),
    ]
    site = Site(system, mpi, Path(settings) if settings else reframe_checks.SETTINGS)
    compiled = [[mpicc, "-o", program, str(source)]]
    return run_launches(site, folder / "job", compiled, plan)


def check(outcomes: list[Outcome], per_node: bool) -> None:
    codes = [one.code for one in outcomes]
    assert (codes[:3], codes[3] != 0) == ([0, 0, KILLED], True), outcomes
    said = [sorted(re.findall(r"(\d/\d) (\S+) (two words|one|two)", one.out)) for one in outcomes]
    assert [[line[0], line[2]] for line in said[0]] == [[f"{i}/4", "two words"] for i in range(4)]
    assert [[line[0], line[2]] for line in said[1]] == [["0/2", "one"], ["1/2", "one"]]
    assert 2 <= outcomes[2].seconds < 20
    nodes = [[line[1] for line in each] for each in said]
    if per_node:
        a, b = nodes[1]
        assert a != b and nodes[0] == [a, a, b, b] and set(nodes[3]) == {a}


def test_on_this_machine(built: Installation, tmp_path: Path) -> None:
    library = built.library
    check(launch("local", library.name, str(library.mpicc), tmp_path), per_node=False)


@pytest.mark.wide
@pytest.mark.emulated
def test_on_the_emulated_cluster(built: Installation, tmp_path: Path) -> None:
    library = built.library
    check(launch("emulated", library.name, str(library.mpicc), tmp_path), per_node=True)


@pytest.mark.wide
@pytest.mark.emulated
def test_in_a_queue(built: Installation, tmp_path: Path) -> None:
    """By srun and by the library's own launcher, as steps of one job with room for the largest launch."""
    script = tmp_path / "run.py"
    script.write_text(RUN)
    words = [built.library.name, str(built.library.mpicc)]
    with own_cluster() as cluster:
        for system in ("slurm", "slurm-mpirun"):
            folder = tmp_path / system
            folder.mkdir()
            run = [sys.executable, str(script), system, *words, str(folder)]
            path = f"PYTHONPATH={Path(__file__).parent}"
            code, said = cluster.run(
                "exec", "--", "env", path, *run, str(reframe_checks.SLURM_SETTINGS)
            )
            assert code == 0, said
            lines = [line for line in said.splitlines() if line.startswith('{"code"')]
            check(read_outcomes("\n".join(lines)), per_node=True)


@pytest.mark.either
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_of_a_probe_that_is_stopped(
    built: Installation, tmp_path: Path, number: int
) -> None:
    """Ctrl-C, and a kill that the probe cannot see: the launches end with it."""
    script = tmp_path / "run.py"
    script.write_text(SLEEP)
    mark = f"LAUNCHES_TEST={uuid.uuid4().hex}"
    name, value = mark.split("=")
    # A shell starts what it puts into the background, maybe these tests, with SIGINT ignored.
    words = ["env", "--default-signal=INT", sys.executable, str(script)]
    words += [built.library.name, str(tmp_path)]
    path = {"PYTHONPATH": str(Path(__file__).parent), name: value}
    process = subprocess.Popen(words, env={**os.environ, **path}, stderr=subprocess.DEVNULL)
    assert_within(60, lambda: any("/bin/sleep" in line for line in commands_of(mark)))
    process.send_signal(number)
    process.wait(60)
    assert_within(25, lambda: not marked_processes(mark))  # before it ends by itself
    assert process.returncode != 0


def commands_of(mark: str) -> list[str]:
    """The command lines of the processes with a variable."""
    files = [process / "cmdline" for process in marked_processes(mark)]
    return [file.read_text(errors="replace") for file in files if file.exists()]


def assert_within(seconds: float, is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.2)


def test_a_launch_that_ends_itself_was_not_killed(built: Installation, tmp_path: Path) -> None:
    """Whatever its exit status; and a path with = is no variable."""
    folder = tmp_path / "a=b"
    folder.mkdir()
    program = folder / "program"
    program.write_text('#!/bin/sh\necho "$1"\nexit "$2"\n')
    program.chmod(0o755)
    plan = [Launch([str(program), "here", code], "1x1") for code in ("124", "0")]
    ends, good = run_launches(Site("local", built.library.name), tmp_path / "job", [], plan)
    assert ends.code == 124 and (good.code, good.out) == (0, "here\n")


def test_a_job_that_cannot_be_says_why(tmp_path: Path) -> None:
    with pytest.raises(CollforgeError, match=r"the launches failed: build error: .* 127"):
        run_launches(Site("local", "openmpi"), tmp_path, [["/no/compiler"]], [Launch(["x"], "1x1")])
