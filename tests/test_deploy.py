"""The recipes for package managers: what they call, and the version that they name."""

from __future__ import annotations

import configparser
import json
import re
import runpy
import shlex
import sys
import types
from pathlib import Path
from unittest.mock import Mock

import pytest
from support import TOP

import collforge as package
from collforge.tuner.cli import main


def test_the_easyconfig_is_of_this_version() -> None:
    found: dict[str, object] = {}
    (path,) = (TOP / "deploy" / "easybuild").glob("*.eb")
    exec(compile(path.read_text(), str(path), "exec"), {"SYSTEM": {"name": "system"}}, found)
    assert path.stem == f"{found['name']}-{found['version']}{found['versionsuffix']}"
    assert found["version"] == package.__version__


class Prefix(str):
    """A path whose attributes are paths below it, as Spack's are."""

    def __getattr__(self, name: str) -> Prefix:
        return Prefix(f"{self}/{name}")


def test_the_spack_package_calls_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under a stub of Spack: the words that it passes are options, and the version is this one."""
    ran: list[list[str]] = []
    versions: list[str] = []

    class Executable:
        def __init__(self, path: str) -> None:
            self.path = path

        def __call__(self, *words: str) -> None:
            ran.append([self.path, *words])

        def add_default_env(self, name: str, value: str) -> None:
            assert name == "PYTHONPATH" and value.startswith("/prefix/lib/python")

    def ignore(*_: object, **__: object) -> None:
        pass

    names = {
        "version": lambda name, **_: versions.append(name),
        "depends_on": ignore,
        "run_after": lambda _: lambda method: method,
        "join_path": lambda *parts: "/".join(parts),
        "python_purelib": "lib/python",
        "Executable": Executable,
    }
    spack, base = types.ModuleType("spack.package"), types.ModuleType("python")
    vars(spack).update(names)
    vars(base)["PythonPackage"] = object
    monkeypatch.setitem(sys.modules, "spack", types.ModuleType("spack"))
    monkeypatch.setitem(sys.modules, "spack.package", spack)
    for name in ("", ".builtin", ".builtin.build_systems"):
        monkeypatch.setitem(sys.modules, f"spack_repo{name}", types.ModuleType(name))
    monkeypatch.setitem(sys.modules, "spack_repo.builtin.build_systems.python", base)
    path = TOP / "deploy" / "spack" / "package.py"
    made = runpy.run_path(str(path))["Collforge"]()
    made.prefix = Prefix("/prefix")
    found = {"name": "intel-oneapi-mpi", "prefix": Prefix("/mpi")}
    made.spec = dict.fromkeys(("mpi", "sqlite", "hwloc"), types.SimpleNamespace(**found))
    made.stage = types.SimpleNamespace(path="/stage")
    env = Mock()
    made.setup_build_environment(env)
    made.setup_run_environment(env)
    env.set.assert_any_call("COLLFORGE_MPI_INTEL_ONEAPI_MPI", "/mpi")
    env.prepend_path.assert_any_call("MODULEPATH", "/prefix/tree/share/modulefiles")
    made.install_tree_for_users()
    ((command, *words),) = ran
    assert command == "/prefix/bin/collforge"
    args = main.build_parser()[0].parse_args(words)
    assert (args.mpi, str(args.prefix)) == ("intel_oneapi_mpi", "/prefix/tree")
    assert versions == [package.__version__]


def test_the_units_of_the_service_call_what_there_is(tmp_path: Path) -> None:
    folder = TOP / "deploy" / "service"
    (start,) = re.findall("^ExecStart=(.*)$", (folder / "collforge.service").read_text(), re.M)
    text = (folder / "Containerfile").read_text()
    (command,) = re.findall("^CMD (.*)$", text, re.M)
    for words in (shlex.split(start), json.loads(command)):
        here = [re.sub(".*/fleet.db", str(tmp_path / "fleet.db"), word) for word in words[1:]]
        args = main.build_parser()[0].parse_args(here)
        assert args.run.__module__ == "collforge.service.commands.serve"
    agent = (folder / "collforge-agent.service").read_text()
    (start,) = re.findall("^ExecStart=(.*)$", agent, re.M)
    (tmp_path / "site.py").touch()
    here = re.sub(r"/(etc|shared|apps)/collforge\b", str(tmp_path), start)
    args = main.build_parser()[0].parse_args(shlex.split(here)[1:])
    assert (args.run.__module__, args.once) == ("collforge.service.commands.agent", True)
    (extras,) = re.findall(r"/src\[(.*)\]", text)
    config = configparser.ConfigParser()
    config.read(TOP / "setup.cfg")
    assert {*extras.split(",")} <= {*config["options.extras_require"]}
