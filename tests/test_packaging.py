"""The wheel has all files of the checkout, and works without it."""

from __future__ import annotations

import configparser
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from conftest import some
from support import TOP, execute

PACKAGES = ("gcc", "gfortran", "libmpich-dev", "libopenmpi-dev", "libsqlite3-dev", "python3-venv")
NOT_SHIPPED = {"__pycache__", "tests"}


def package_folders() -> dict[str, str]:
    """Top-level folder -> its path in the wheel, as setup.cfg maps them."""
    config = configparser.ConfigParser()
    config.read(TOP / "setup.cfg")
    pairs = (line.split("=") for line in config["options"]["package_dir"].split("\n") if line)
    return {folder.strip(): package.strip().replace(".", "/") for package, folder in pairs}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy of the sources, so that no earlier build affects it."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    names = [*package_folders(), "setup.cfg", "pyproject.toml", "README.md"]
    there = [str(TOP / name) for name in names if (TOP / name).exists()]
    assert execute(["cp", "-r", *there, str(source)]).returncode == 0
    pip = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index"]
    done = execute([*pip, "-w", str(folder), str(source)], timeout=300)
    assert done.returncode == 0, done.stderr
    (found,) = folder.glob("collforge-*.whl")
    return found


def test_the_wheel_has_every_file_of_the_packages(wheel: Path) -> None:
    expected = {
        f"{package}/{path.relative_to(TOP / folder)}"
        for folder, package in package_folders().items()
        for path in (TOP / folder).rglob("*")
        if path.is_file() and not NOT_SHIPPED & set(path.parts)
    }
    assert len(expected) > 50
    with zipfile.ZipFile(wheel) as archive:
        shipped = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert shipped == expected


def test_every_top_level_folder_of_code_is_a_package() -> None:
    code = {path.parent.name for path in TOP.glob("*/__init__.py")}
    assert code == set(package_folders())


@pytest.mark.wide
def test_the_installed_wheel_works_without_the_checkout(wheel: Path, tmp_path: Path) -> None:
    """`-I` excludes the working directory; the finder of the editable install is removed."""
    target = tmp_path / "site"
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--no-deps",
        "--no-index",
        "--target",
        str(target),
    ]
    assert execute([*pip, str(wheel)], timeout=300).returncode == 0
    program = f"""
import sys
sys.meta_path[:] = [finder for finder in sys.meta_path if "editable" not in repr(finder)]
sys.path.insert(0, {str(target)!r})
import collforge.generator, collforge.home
from collforge.tuner.cli.main import main
for module in (collforge, collforge.generator):
    assert module.__file__.startswith({str(target)!r}), module.__file__
assert {str(TOP)!r} not in str(collforge.home.home())
sys.exit(main(sys.argv[1:]))
"""
    python = [
        "env",
        "-u",
        "COLLFORGE_HOME",
        f"HOME={tmp_path}",
        sys.executable,
        "-I",
        "-c",
        program,
    ]
    done = execute([*python, "generate"], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.glob(".local/share/collforge/generated/manifest.json"))


# Third-party packages are replaced by stubs; the TOML reader is that of pip.
IMPORT_ALL = """
import importlib, importlib.machinery, pkgutil, sys, typing
from unittest.mock import MagicMock
import pip._vendor.tomli

OTHERS = {"jinja2", "matplotlib", "mpi4py", "msgspec", "numpy", "platformdirs", "reframe", "rich"}
OTHERS |= {"altair", "scipy", "skopt", "starlette", "uvicorn", "vl_convert"}

class Finder:
    def find_spec(self, name, path=None, target=None):
        ours = name.split(".")[0] in OTHERS
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if ours else None

    def create_module(self, spec):
        return MagicMock(__path__=[])

    def exec_module(self, module):
        pass

sys.meta_path.insert(0, Finder())
sys.modules["tomli"] = pip._vendor.tomli
sys.path.insert(0, sys.argv[1])
import collforge
import msgspec

class Struct:
    def __init_subclass__(cls, **options):
        pass

# Its classes are dispatched on.
msgspec.Struct = Struct
from collforge import records
from collforge.generator import manifest
from collforge.toolchain import libraries
from collforge.tuner.run import leftovers

# The checks are made of the manifest.
decoded = MagicMock(schema=manifest.SCHEMA, version=collforge.__version__)
msgspec.json.decode.return_value = decoded
# msgspec evaluates the annotations of what it reads.
read = [vars(one) for one in (records, manifest, libraries, leftovers)]
for one in {kind for each in read for kind in each.values() if hasattr(kind, "__dataclass_fields__")}:
    if one is not records.Output:
        typing.get_type_hints(one)
names = [found.name for found in pkgutil.walk_packages(collforge.__path__, "collforge.")]
for name in names:
    if not name.endswith(".__main__"):
        importlib.import_module(name)
print(len(names))
"""


@pytest.mark.parametrize("version", some(["3.9", "3.10"]))
def test_an_old_python_can_import_everything(version: str, tmp_path: Path) -> None:
    own = Path.home().glob(f".pyenv/versions/{version}.*/bin/python")
    names = [name for name in (f"python{version}", *map(str, own)) if shutil.which(name)]
    pythons = [name for name in names if execute([name, "-c", ""]).returncode == 0]
    if not pythons:
        pytest.skip(f"needs Python {version}")
    for folder, package in package_folders().items():
        shutil.copytree(TOP / folder, tmp_path / package, dirs_exist_ok=True)
    done = execute([pythons[0], "-I", "-c", IMPORT_ALL, str(tmp_path)])
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 90


def test_the_module_is_the_command(tmp_path: Path) -> None:
    done = execute([sys.executable, "-m", "collforge", "--version"], cwd=tmp_path)
    script = execute([str(Path(sys.executable).with_name("collforge")), "--version"], cwd=tmp_path)
    assert done.returncode == script.returncode == 0
    assert done.stdout == script.stdout
    assert done.stdout.startswith("collforge ")


def test_pyproject_holds_the_build_system_only() -> None:
    lines = (TOP / "pyproject.toml").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line.startswith("[")] == ["[build-system]"]
    assert len(lines) == 3


def test_the_tools_are_pinned() -> None:
    config = configparser.ConfigParser()
    config.read(TOP / "setup.cfg")
    pins = config["options.extras_require"]["dev"].split("\n")[1:]
    assert pins
    assert [pin for pin in pins if " == " not in pin] == []


def make_system(folder: Path, user: int) -> subprocess.CompletedProcess[str]:
    """Runs `make system` with this user id, with only make and a recording apt-get installed."""
    tools = folder / "bin"
    tools.mkdir()
    for name, script in {"id": f"echo {user}", "apt-get": 'echo "apt-get $*"'}.items():
        (tools / name).write_text(f"#!/bin/bash\n{script}\n", encoding="utf-8")
        (tools / name).chmod(0o755)
    make = shutil.which("make")
    assert make
    return execute(["env", f"PATH={tools}", make, "-C", str(TOP), "system"])


def test_setup_installs_what_is_missing(tmp_path: Path) -> None:
    done = make_system(tmp_path, user=0)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("apt-get")]
    assert lines[0].startswith("apt-get update")
    assert {*PACKAGES} <= set(lines[1].split())


def test_setup_without_the_right_to_install_names_the_command(tmp_path: Path) -> None:
    done = make_system(tmp_path, user=1000)
    assert done.returncode == 2
    assert "apt-get" not in done.stdout
    (command,) = [line for line in done.stderr.splitlines() if "sudo apt-get" in line]
    assert {*PACKAGES} <= set(command.split())
