"""The findings of `collforge doctor`, on this machine and on one with missing parts."""

from __future__ import annotations

import configparser
import re
import sqlite3
import subprocess
from pathlib import Path

import pytest
from support import TOP

from collforge.db import Store
from collforge.reframe_checks.systems import emulated
from collforge.toolchain import libraries
from collforge.tuner.cli import doctor
from collforge.tuner.cli.doctor import Finding


def findings(database: Path) -> dict[str, Finding]:
    return {finding.subject: finding for finding in doctor.examine(database)}


def test_here_nothing_essential_is_missing(tmp_path: Path) -> None:
    found = findings(tmp_path / "none.db")
    assert [finding for finding in found.values() if finding.failed] == []
    assert found["MPI: openmpi"].found.startswith("Open MPI v")
    assert found["MPI: mpich"].found.startswith("MPICH ")
    assert found["database"].fix == "collforge tune"


def test_it_looks_for_the_distributions_of_setup_cfg() -> None:
    config = configparser.ConfigParser()
    config.read(TOP / "setup.cfg")
    lines = config["options"]["install_requires"].split("\n")[1:]
    names = {re.split(r"[ ~<>=;]", line)[0] for line in lines}
    assert names - {"tomli"} == set(doctor.DISTRIBUTIONS), "tomli is in newer Pythons"


def test_everything_missing_has_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(doctor, "DISTRIBUTIONS", ("no-such-distribution",))
    found = findings(tmp_path / "none.db")
    expected = {
        "make": "apt-get install make",
        "C compiler": "apt-get install gcc",
        "SQLite for C": "apt-get install libsqlite3-dev",
        "MPI: openmpi": "apt-get install openmpi-bin libopenmpi-dev",
        "MPI: mpich": "apt-get install mpich libmpich-dev",
        "no-such-distribution": "pip install no-such-distribution",
    }
    for subject, command in expected.items():
        assert found[subject].failed, subject
        assert command in found[subject].fix


def test_one_mpi_library_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(libraries.DEBIAN_PACKAGES, "absent", "libabsent-dev")
    found = findings(tmp_path / "none.db")
    assert "libabsent-dev" in found["MPI: absent"].fix
    assert not found["MPI: absent"].failed


def test_without_the_privilege_it_offers_the_local_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(mpi: str) -> None:
        raise emulated.ClusterError("not allowed: run as root, or use --system local")

    monkeypatch.setattr(emulated, "check", refuse)
    found = findings(tmp_path / "none.db")["emulated, openmpi"]
    assert "--system local" in found.fix
    assert not found.failed


def test_a_tool_before_the_library_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool, library = tmp_path / "libtool.so", tmp_path / "libcollforge.so"
    for path, source in ((tool, "int MPI_Barrier(void) { return 0; }"), (library, "")):
        command = ["gcc", "-shared", "-x", "c", "-", "-o", str(path)]
        subprocess.run(command, input=source, text=True, check=True, timeout=60)
    monkeypatch.setenv("LD_PRELOAD", f"{tool}:{library}")
    (finding,) = doctor.preloaded()
    assert str(tool) in finding.found
    assert "first" in finding.fix
    monkeypatch.setenv("LD_PRELOAD", f"{library}:{tool}")
    (finding,) = doctor.preloaded()
    assert (finding.found, finding.fix) == (str(library), "")
    monkeypatch.setenv("LD_PRELOAD", f"{library}:libasan.so.8")
    (finding,) = doctor.preloaded()
    assert (finding.found, "before" in finding.fix) == ("libasan.so.8", True)
    monkeypatch.delenv("LD_PRELOAD")
    assert not list(doctor.preloaded())


def test_a_database_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "winners.db"
    Store(path).close()
    found = findings(path)["database"]
    assert f"{path}: 0 winners" in found.found
    assert not found.fix


@pytest.mark.parametrize("content", ["no database at all", ""])
def test_a_database_that_is_none_is_told(tmp_path: Path, content: str) -> None:
    path = tmp_path / "other.db"
    path.write_text(content, encoding="utf-8")
    if not content:
        path.unlink()
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE someone_elses (x)")
        connection.close()
    found = findings(path)["database"]
    assert found.failed
    assert str(path) in found.fix


def test_a_home_that_cannot_be_made_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("COLLFORGE_HOME", str(tmp_path / "file" / "home"))
    found = {finding.subject: finding for finding in [doctor._home()]}["home"]
    assert found.failed
    assert "set COLLFORGE_HOME" in found.fix
    everything = {finding.subject: finding for finding in doctor.examine(tmp_path / "x.db")}
    assert {"Python", "make", "MPI libraries", "home", "database"} <= everything.keys()
    assert "set COLLFORGE_HOME" in everything["MPI libraries"].fix
