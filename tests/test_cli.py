"""The command line: every command's help, and errors that are one line with the fix."""

from __future__ import annotations

import argparse
import errno
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Callable

import pytest
from support import SHARED_HOME, TOP, execute

from collforge import home
from collforge.db import RunRecord, Store
from collforge.errors import CollforgeError, unknown
from collforge.generator import manifest, render
from collforge.place import Place
from collforge.toolchain import build, libraries
from collforge.tuner.cli import main

COMMANDS = {
    "bench",
    "build",
    "cluster",
    "doctor",
    "env",
    "generate",
    "probe",
    "reframe-path",
    "report",
}
COMMANDS |= {"profile", "tune", "verify", "why", "winners"}


def parsers() -> dict[str, argparse.ArgumentParser]:
    parser, _ = main.build_parser()
    (action,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    return dict(action.choices)


def test_the_commands_of_the_design_are_there() -> None:
    assert set(parsers()) >= COMMANDS


def test_every_help_shows_an_example() -> None:
    for name, parser in parsers().items():
        assert "example" in parser.format_help(), name
        assert (
            f"collforge {name}" in (parser.epilog or "").replace("$(", "") or name == "reframe-path"
        )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["buld"], ["unknown command 'buld'", "did you mean build?", "doctor"]),
        (["build", "--mpi", "opnmpi"], ["unknown MPI library", "did you mean openmpi?", "mpich"]),
        (["winners", "--db", "/tmp/nowhere.db"], ["/tmp/nowhere.db", "collforge tune"]),
        (
            ["cluster", "run", "--mpi", "mpich", "--layout", "0x1", "--", "true"],
            ["0x1", "NODESxRANKS"],
        ),
    ],
)
def test_an_error_is_one_line_that_names_the_fix(
    arguments: list[str], words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(arguments) == main.USER_ERROR
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("collforge: error: ")
    assert captured.err.count("\n") == 1
    for word in words:
        assert word in captured.err


def raising(error: BaseException) -> Callable[..., Any]:
    def run(*_: object, **__: object) -> int:
        raise error

    return run


@pytest.mark.parametrize(
    ("error", "code", "word"),
    [
        (KeyboardInterrupt(), 130, ""),
        (OSError(errno.ENOSPC, "No space left on device", "/x/y"), 2, "/x/y: No space left"),
        (PermissionError(errno.EACCES, "Permission denied", "/x/y"), 2, "COLLFORGE_HOME"),
    ],
)
def test_failures_of_the_machine(
    error: BaseException,
    code: int,
    word: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(libraries, "find", raising(error))
    assert main.main(["build", "--mpi", "openmpi"]) == code
    assert word in capsys.readouterr().err


def test_a_defect_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libraries, "find", raising(ZeroDivisionError()))
    with pytest.raises(ZeroDivisionError):
        main.main(["build", "--mpi", "openmpi"])


@pytest.mark.parametrize("arguments", [["doctor"], ["doctor", "--help"], ["--version"]])
def test_the_reader_of_a_pipe_may_leave(arguments: list[str]) -> None:
    """Output is buffered, as for users; unbuffered, argparse itself ignores the failure and returns 0."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "collforge", *arguments],
            env=environment,
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
            check=False,
        )
    finally:
        os.close(writing)
    # rich exits with 1 if it detects the closed pipe first.
    assert done.returncode in (1, main.BROKEN_PIPE)
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("collforge tu", {"tune"}),
        ("collforge tune --mpi ", {"openmpi", "mpich"}),
        ("collforge bench --collective alltoall", {"alltoall", "alltoallv"}),
    ],
)
def test_a_shell_completes(line: str, words: set[str], tmp_path: Path) -> None:
    """As the function of `register-python-argcomplete` asks: the answer comes on descriptor 8."""
    ask = {"_ARGCOMPLETE": "1", "COMP_LINE": line, "COMP_POINT": str(len(line)), "IFS": "\v"}
    script = f'exec "{sys.executable}" -m collforge 8>"{tmp_path}/words" 9>/dev/null'
    subprocess.run(["sh", "-c", script], env={**os.environ, **ask}, timeout=60, check=False)
    assert words <= {word.strip() for word in (tmp_path / "words").read_text().split("\v")}


def test_unknown_names_the_nearest_and_all() -> None:
    assert str(unknown("family", "full_lan", ["hierarchical", "full_lane"])) == (
        "unknown family 'full_lan' (did you mean full_lane?); known: full_lane, hierarchical"
    )


def test_a_name_of_a_library_at_a_prefix_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLLFORGE_MPI_MINE", "/usr")
    assert libraries.find("mine").mpicc == Path("/usr/bin/mpicc")
    monkeypatch.setenv("COLLFORGE_MPI_MINE", "/nowhere")
    with pytest.raises(libraries.MissingLibrary, match="the prefix of mine is /nowhere"):
        libraries.find("mine")


def test_env_lines_survive_a_shell(
    mpi: str, built: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The lines under eval, with a path with blanks and quotes, and with an existing preload."""
    database = tmp_path / 'it\'s a "db".db'
    Store(database).close()
    assert main.main(["env", "--mpi", mpi, "--db", str(database)]) == 0
    lines = capfd.readouterr().out
    script = f'{lines}printf "%s\\n" "$COLLFORGE_DB" "$LD_PRELOAD"'
    # The runtime for another MPI library, from an earlier `env`, must be dropped: it could crash.
    other = "/elsewhere/other/libcollforge.so"
    for before, after in (
        ("", ""),
        ("libm.so.6", ":libm.so.6"),
        (other, ""),
        (f"libm.so.6:{other}:libz.so.1", ":libm.so.6:libz.so.1"),
        (f"'{other} libm.so.6'", ":libm.so.6"),
    ):
        done = subprocess.run(
            ["bash", "-c", f"LD_PRELOAD={before}\n{script}"],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        assert done.stdout.splitlines() == [str(database), f"{built.built.library_path}{after}"]


@pytest.mark.parametrize(("name", "there"), [("4x1", False), ("4x1x2", True)])
def test_env_raises_the_level_for_winners_with_threads(
    built: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str], name: str, there: bool
) -> None:
    database = tmp_path / "winners.db"
    mpi = built.library.name
    place = Place("cluster", mpi, built.library.version, name)
    with Store(database) as store:
        store.record_run(
            RunRecord("1", place, 4, 4, "2026-01-01T00:00:00Z", "1", "4", ("a",), 7, ())
        )
    assert main.main(["env", "--mpi", mpi, "--db", str(database)]) == 0
    assert ("export COLLFORGE_THREAD_MULTIPLE=1" in capfd.readouterr().out) == there


def test_env_refuses_what_cannot_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLLFORGE_HOME", str(tmp_path / "a b"))
    assert main.main(["env", "--mpi", "openmpi"]) == main.USER_ERROR
    assert "run `collforge build --mpi openmpi`" in capsys.readouterr().err
    library = build.built_paths("openmpi", home.home()).library_path
    library.parent.mkdir(parents=True, exist_ok=True)
    library.touch()
    assert main.main(["env", "--mpi", "openmpi"]) == main.USER_ERROR
    assert "set COLLFORGE_HOME" in capsys.readouterr().err


def test_a_failed_build_names_its_log_and_the_last_lines(
    tmp_path: Path, made: manifest.Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(build.generated_folder(SHARED_HOME), build.generated_folder(tmp_path))
    monkeypatch.setenv("CFLAGS", "-fno-such-option")
    with pytest.raises(build.BuildError) as caught:
        build.build(libraries.find("openmpi"), tmp_path)
    first, *rest = str(caught.value).splitlines()
    assert str(tmp_path / "openmpi" / "build.log") in first
    assert any("-fno-such-option" in line for line in rest)


def test_a_build_generates_only_what_is_out_of_date(
    tmp_path: Path, made: manifest.Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the sources, here a template, or the results have changed."""
    generated, templates = tmp_path / "generated", tmp_path / "templates"
    shutil.copytree(build.generated_folder(SHARED_HOME), generated)
    shutil.copytree(TOP / "templates", templates)
    monkeypatch.setattr(build.templates, "__path__", [str(templates)])
    calls: list[Path] = []
    monkeypatch.setattr(render, "generate", calls.append)
    build.generate(generated)
    assert calls == []
    for changed in (templates / "variant.c.j2", generated / "registry.c"):
        changed.write_text(changed.read_text() + "\n")
        build.generate(generated)
        build.generate(generated)
        assert calls == [generated]
        calls.clear()


def test_what_another_library_version_compiled_goes(tmp_path: Path) -> None:
    """make cannot detect that an mpicc with the same name and date belongs to another version."""
    library = libraries.find("openmpi")
    objects = tmp_path / "obj"
    for version, kept in ((library, True), (replace(library, version="an older one"), False)):
        build._forget_other_library(library, tmp_path)
        objects.mkdir()
        build._forget_other_library(version, tmp_path)
        assert objects.exists() is kept
        shutil.rmtree(objects, ignore_errors=True)


def test_a_missing_make_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = libraries.find("openmpi")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(build.BuildError, match="apt-get install make"):
        build.build(library, tmp_path)


def test_the_home_is_the_one_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLLFORGE_HOME", str(tmp_path))
    assert home.database_path() == tmp_path / "collforge.db"
    monkeypatch.setenv("COLLFORGE_DB", str(tmp_path / "other.db"))
    assert home.database_path() == tmp_path / "other.db"
    monkeypatch.delenv("COLLFORGE_HOME")
    assert home.home().name == "build"


def test_a_home_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CollforgeError, match="set COLLFORGE_HOME"):
        home.make_folder(tmp_path / "file")


def test_a_warning_that_is_not_ours_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    """Open MPI sometimes prints the warning on the program's standard error."""
    with pytest.raises(SystemExit):
        main.main(["cluster", "run", "--help"])
    assert "setpgid" in capsys.readouterr().out


@pytest.mark.either
@pytest.mark.emulated
def test_cluster_run_passes_the_exit_code(mpi: str) -> None:
    options = ["--layout", "2x1", "--rails", "1", "--mpi", mpi]
    assert main.main(["cluster", "run", *options, "--timeout", "60", "--", "true"]) == 0
    assert main.main(["cluster", "run", *options, "--timeout", "60", "--", "false"]) != 0


def test_what_follows_a_ctrl_c_is_ignored() -> None:
    """Under `cluster exec`, SIGTERM follows, as the parent ends; results are being stored then."""
    program = """
import os, signal
from collforge.tuner.cli import main
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, main._interrupt)
try:
    os.kill(os.getpid(), signal.SIGINT)
except KeyboardInterrupt:
    os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGHUP)
    print("stored", flush=True)
    os.kill(os.getpid(), signal.SIGINT)
"""
    done = execute([sys.executable, "-c", program], timeout=60)
    assert done.stdout == "stored\n"
    assert "KeyboardInterrupt" in done.stderr, "a second Ctrl-C has effect"
