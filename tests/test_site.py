"""The site's file, and the commands that write it: `collforge mpi` and `collforge site`."""

from __future__ import annotations

import os
import runpy
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from invented_tunings import PLACE, Tuning
from support import TOP

from collforge import site_file
from collforge.errors import CollforgeError
from collforge.generator.manifest import Manifest
from collforge.mpi_library import MpiLibrary
from collforge.reframe_checks.settings import slurm_example
from collforge.toolchain import libraries, mpi_search
from collforge.tuner.cli import main
from collforge.tuner.run import measuring
from collforge.tuner.site import detection

PREFIXES = TOP / ".venv" / "mpi"
MODULES = TOP / ".venv" / "modules"
LMOD = "lmod/usr/share/lmod/lmod/libexec/lmod"
ENVIRONMENT_MODULES = "environment-modules/usr/lib/*/modulecmd.tcl"


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "of" / "site.ini"
    monkeypatch.setenv("COLLFORGE_SITE", str(path))
    for name in [name for name in os.environ if name.startswith(libraries.PREFIX_VARIABLE)]:
        monkeypatch.delenv(name)
    return path


def test_a_library_is_added_and_found_by_its_name(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main.main(["mpi", "add", "mine", str(PREFIXES / "mpich5")]) == 0
    assert libraries.find("mine").mpicc == PREFIXES / "mpich5" / "bin" / "mpicc"
    assert main.main(["mpi", "list"]) == 0
    assert f"mine: MPICH 5.0.2, {PREFIXES}/mpich5, by the site file\n" in capsys.readouterr().out
    monkeypatch.setenv("COLLFORGE_MPI_MINE", str(PREFIXES / "openmpi5"))
    assert libraries.find("mine").flavor == "openmpi"  # the environment wins


def test_nothing_is_stored_of_a_library_that_does_not_work(file: Path, tmp_path: Path) -> None:
    tools = tmp_path / "broken" / "bin"
    tools.mkdir(parents=True)
    for name in ("mpicc", "mpirun"):
        (tools / name).write_text("#!/bin/sh\nexit 1\n")
        (tools / name).chmod(0o755)
    assert main.main(["mpi", "add", "broken", str(tools.parent)]) == main.USER_ERROR
    assert not file.exists()


def test_a_wheel_of_intel_mpi_gets_its_prefix(tmp_path: Path) -> None:
    tools = tmp_path / "intel" / "bin"
    tools.mkdir(parents=True)
    wrapper = tools / "mpigcc"
    wrapper.write_text(f"#!/bin/sh\nprefix={mpi_search.PLACEHOLDER}\n")
    assert mpi_search.fill_in_prefix(tmp_path / "intel") == [wrapper]
    assert wrapper.read_text() == f"#!/bin/sh\nprefix={tmp_path}/intel\n"
    assert mpi_search.fill_in_prefix(tmp_path / "intel") == []


def test_find_searches_folders_and_names_each_library_once(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["mpi", "find", "--add", str(PREFIXES)]) == 0
    said = capsys.readouterr().out
    assert f"added: mpich5: MPICH 5.0.2, {PREFIXES}/mpich5\n" in said
    assert site_file.prefixes() == {name: str(PREFIXES / name) for name in ("mpich5", "openmpi5")}
    assert main.main(["mpi", "find", str(PREFIXES)]) == 0
    said = capsys.readouterr().out
    assert "new" not in said
    assert "added" not in said
    assert said.count("MPICH 5.0.2") == 1


@pytest.mark.parametrize(
    ("variable", "command"), [("LMOD_CMD", LMOD), ("MODULES_CMD", ENVIRONMENT_MODULES)]
)
def test_find_loads_modules(
    variable: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [str(path) for path in MODULES.glob(command)]
    if not found:
        pytest.skip("Lmod and Environment Modules are taken from Debian's packages")
    (tmp_path / "site-mpi").mkdir()
    prefix = PREFIXES / "mpich5"
    text = f"#%Module\nprepend-path PATH {prefix}/bin\n"
    (tmp_path / "site-mpi" / "5.0").write_text(text)
    (tmp_path / "sampi").write_text("#%Module\nputs stderr broken\nexit 1\n")
    for name in ("LMOD_CMD", "MODULES_CMD", "LOADEDMODULES", "_LMFILES_"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, found[0])
    monkeypatch.setenv("MODULEPATH", str(tmp_path))
    (one,) = [one for one in mpi_search.search([]) if one.module]
    assert (one.prefix, one.module) == (prefix, "site-mpi/5.0")
    assert one.library
    assert one.library.name == "mpich5"


@pytest.mark.parametrize(
    ("version", "names", "name"),
    [
        ("Open MPI v5.0.7", (), "openmpi5"),
        ("Open MPI v5.0.7", ("openmpi5",), "openmpi5_0"),
        ("MPICH 4.0", ("mpich4", "mpich4_0"), "mpich4_0_2"),
        ("Intel(R) MPI Library 2021.18.1 for Linux* OS", (), "impi2021"),
        ("MVAPICH2 2.3.7", (), "mvapich2"),
        ("Some thing", (), "something_2"),
    ],
)
def test_new_names(version: str, names: tuple[str, ...], name: str) -> None:
    assert mpi_search.new_name(version, names) == name


def test_the_sites_system_is_the_default_of_all_commands(tmp_path: Path) -> None:
    config = tmp_path / "cluster.py"
    config.write_text("")
    for key, value in (("system", "big"), ("config", str(config)), ("layout", "8x16")):
        assert main.main(["site", "set", key, value]) == 0
    parser, _ = main.build_parser()
    for words in ("tune", "bench --mpi mpich", "verify", "why bcast 8", "profile gain setup.cfg"):
        args = parser.parse_args(words.split())
        args.prepare(args)
        assert args.system == "big", words
    site = measuring.site_of("big", None, MpiLibrary("mpich", config, config, "MPICH", False))
    assert site.config == config
    assert measuring.parse_layout(None, "big").name == "8x16"
    assert measuring.parse_layout(None, "local").name == "2x2"
    config.unlink()
    with pytest.raises(CollforgeError, match="no ReFrame configuration"):
        measuring.site_of("big", None, MpiLibrary("mpich", config, config, "MPICH", False))


@pytest.mark.parametrize(
    ("systems", "default"),
    [(["local"], "local"), (["local", "x"], "emulated"), (["x"], "emulated")],
)
def test_the_only_system_of_the_database_is_the_default(
    systems: list[str], default: str, tmp_path: Path, made: Manifest
) -> None:
    for system in systems:
        Tuning(made, replace(PLACE, system=system)).store(tmp_path / "x.db", launches=1)
    args = main.build_parser()[0].parse_args(["why", "bcast", "8", "--db", str(tmp_path / "x.db")])
    args.prepare(args)
    assert args.system == default


@pytest.mark.parametrize("text", ["system = x\n", "[site]\ncolour = red\n", "[site\n", "\xff"])
def test_a_damaged_file_is_named(text: str, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.parent.mkdir()
    file.write_bytes(text.encode("latin-1"))
    assert main.main(["site", "show"]) == main.USER_ERROR
    said = capsys.readouterr().err
    assert str(file) in said
    assert said.count("\n") == 1


def test_the_file_of_the_machine_gives_defaults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLLFORGE_SITE")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "user"))
    monkeypatch.setenv("XDG_CONFIG_DIRS", str(tmp_path / "machine"))
    common = tmp_path / "machine" / "collforge" / "site.ini"
    common.parent.mkdir(parents=True)
    common.write_text("[site]\nsystem = big\nlayout = 2x2\n[mpi]\na = /a\n")
    site_file.change("site", "layout", "4x4")
    assert (site_file.value("system"), site_file.value("layout")) == ("big", "4x4")
    assert "system" not in site_file.path().read_text()


def test_a_detected_configuration_is_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What Slurm answers is here invented; tests/test_slurm.py has a real one."""
    monkeypatch.setattr(detection, "_pmi_of_srun", lambda: ["none", "pmix"])
    queue = detection.Queue("compute", 100, 48)
    found = [
        MpiLibrary("ompi", tmp_path / "mpicc", tmp_path / "mpirun", "Open MPI v5", True),
        MpiLibrary("other", tmp_path / "mpicc", tmp_path / 'a "b"' / "mpirun", "Other", True),
    ]
    text = detection.configuration("big", found, queue, tmp_path)
    (tmp_path / "site.py").write_text(text)
    made = runpy.run_path(str(tmp_path / "site.py"))["site_configuration"]
    first, second = made["systems"][0]["partitions"]
    assert made["logging"] == slurm_example.site_configuration["logging"]
    assert (first["launcher"], first["env_vars"]) == ("srun", [["SLURM_MPI_TYPE", "pmix"]])
    assert (second["launcher"], second["extras"]) == ("mpirun", {"layout": "4x48"})
    assert second["env_vars"] == [["PATH", f'{tmp_path}/a "b":$PATH']]


def test_what_cannot_be_read_is_not_replaced(file: Path) -> None:
    """An unreadable file once lost all its entries."""
    file.mkdir(parents=True)
    assert main.main(["site", "set", "system", "big"]) == main.USER_ERROR
    assert file.is_dir()


def test_a_link_and_the_mode_stay(file: Path, tmp_path: Path) -> None:
    real = tmp_path / "real.ini"
    real.write_text("[mpi]\nold = /a\n")
    real.chmod(0o664)
    file.parent.mkdir()
    file.symlink_to(real)
    site_file.change("site", "system", "big")
    assert file.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o664
    assert (site_file.value("system"), site_file.prefixes()) == ("big", {"old": "/a"})


def test_changes_at_the_same_time_are_all_kept(file: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: site_file.change("mpi", f"x{n}", f"/{n}"), range(40)))
    assert len(site_file.prefixes()) == 40


@pytest.mark.parametrize("name", ["../evil", "a b", "-x"])
def test_names_of_the_file_are_checked(name: str, file: Path) -> None:
    file.parent.mkdir()
    file.write_text(f"[mpi]\n{name} = /usr\nempty =\n")
    with pytest.raises(CollforgeError, match="no name of an MPI library"):
        libraries.known_names()


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        *(("openmpi/5.0.7", True), ("intel-mpi", True), ("mpich", True), ("mvapich2", True)),
        *(("compiler/14", False), ("OpenMPI", True), ("impi/2021", True), ("simple", False)),
    ],
)
def test_modules_of_mpi_libraries(name: str, is_one: bool) -> None:
    assert bool(mpi_search.MODULE.search(name)) == is_one
