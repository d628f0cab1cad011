"""`collforge run`: what the ranks get, with each launcher, and the comparison with native."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import Installation
from hazards.build import compiled
from support import OPENMPI_OPTIONS, TOP, compile_once

from collforge.db import Store
from collforge.toolchain import libraries
from collforge.tuner.cli import main
from collforge.tuner.cli.commands import run
from collforge.tuner.site.preloading import told, with_preload


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "winners of a place.db"
    Store(path).close()
    return path


def launcher(built: Installation, ranks: int = 2) -> list[str]:
    own = OPENMPI_OPTIONS.split() if built.library.flavor == "openmpi" else []
    return [f"mpirun.{built.library.name}", *own, "-n", str(ranks)]


def test_the_ranks_are_preloaded(
    built: Installation,
    database: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Also the second program of a job. The exit code is the program's."""
    monkeypatch.setenv("COLLFORGE_VERBOSE", "1")
    program = str(compiled(built, "calls"))
    words = [*launcher(built), program, ":", "-n", "1", program]
    assert main.main(["run", "--mpi", built.library.name, "--db", str(database), "--", *words]) == 0
    said = capfd.readouterr()
    assert "passed" in said.out and "collforge: version" in said.err
    shell = ["run", "--mpi", built.library.name, "--db", str(database), "--", "sh", "-c", "exit 3"]
    assert main.main(shell) == 3


def test_open_mpi_is_told_for_each_program() -> None:
    library = libraries.find("openmpi")
    words = ["/usr/bin/mpirun", "-n", "1", "./a", ":", "-n", "2", "./b"]
    option = ["-x", "A"]
    assert told(library, words, ["A"]) == [*words[:1], *option, *words[1:5], *option, *words[5:]]
    assert told(library, ["srun", "./a"], ["A"]) == ["srun", "./a"]
    assert told(libraries.find("mpich"), words, ["A"]) == words


def test_another_runtime_is_dropped() -> None:
    before = {"LD_PRELOAD": "/other/libcollforge.so libm.so"}
    assert with_preload(Path("/own/libcollforge.so"), before) == "/own/libcollforge.so:libm.so"


@pytest.mark.either
def test_gain_compares_lines_that_end_with_numbers(
    built: Installation, database: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source = TOP / "examples" / "collective_times.c"
    program = compile_once("times", [built.library.mpicc, "-O2", source], source)
    words = [*launcher(built), str(program), "1024"]
    options = ["--mpi", built.library.name, "--db", str(database), "--gain", "2"]
    assert main.main(["run", *options, "--", *words]) == 0
    table = capfd.readouterr().out
    for name in ("bcast ms", "allreduce ms", "whole run, s", "last run, on rank 0: "):
        assert name in table
    failing = ["run", *options, "--", "sh", "-c", "echo so; exit 4"]
    assert main.main(failing) == main.USER_ERROR
    assert "exit code 4" in capfd.readouterr().err


def test_the_launcher_is_told_alone() -> None:
    library = libraries.find("openmpi")
    words = ["mpirun", "-n", "1", "echo", "mpirun"]
    assert told(library, words, ["A"]) == ["mpirun", "-x", "A", *words[1:]]


def test_native_is_without_the_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_PRELOAD", "/a/libcollforge.so:libm.so")
    assert run.native_environment()["LD_PRELOAD"] == "libm.so"


def test_a_program_is_ended_with_the_command(tmp_path: Path) -> None:
    """It gets SIGTERM, and may clean up."""
    script = f"trap 'touch {tmp_path}/clean; exit 0' TERM; touch {tmp_path}/begun; while :; do sleep 0.1; done"
    words = ["run", "--mpi", "mpich", "--db", str(tmp_path / "x.db"), "--", "sh", "-c", script]
    Store(tmp_path / "x.db").close()
    with subprocess.Popen([sys.executable, "-m", "collforge", *words]) as process:
        while not (tmp_path / "begun").exists():
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        process.wait(30)
    assert (tmp_path / "clean").exists()


def test_hostile_output_is_compared_quickly() -> None:
    assert run.numbers(f"{'1' * 20000}...\n[/x] time 5\n") == {"[/x] time #": 5.0}
    pairs = [run.Ran(1.0, {"[/x] time #": 0.0}, "")], [run.Ran(1.0, {"[/x] time #": 0.0}, "")]
    run.show(*pairs)


def test_numbers_at_the_end_of_lines() -> None:
    text = "# Size  Latency (us)\n1024    2.50\n2048 3e2\nbcast   1.25 ms\nno number\n"
    assert run.numbers(text) == {"1024 #": 2.5, "2048 #": 300.0, "bcast # ms": 1.25}
