"""Fetches and builds the programs below build/programs, once per recipe and MPI library."""

from __future__ import annotations

import fcntl
import hashlib
import re
import shutil
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from programs.recipe import RECIPES, Recipe, Source, load
from support import TOP, execute

from collforge.toolchain import libraries

HOME = TOP / "build" / "programs"
FETCH_SECONDS = 300
BUILD_SECONDS = 1200


class Failed(Exception):
    """A command that fetches or builds failed; the message names it and the file with its output."""


def build(recipe: Recipe, mpi: str) -> Path:
    """The folder in which `recipe` is built for an MPI library; built if missing. Raises Failed."""
    for name in recipe.needs:
        build(load(RECIPES / f"{name}.toml"), mpi)
    folder = HOME / mpi / recipe.name
    wanted = hashlib.sha256(f"{recipe.source!r}\n{recipe.build}".encode()).hexdigest()
    stamp = folder.parent / f"{recipe.name}.built"
    with _locked(HOME / "lock"):
        if not stamp.exists() or stamp.read_text() != wanted:
            stamp.unlink(missing_ok=True)
            _unpack(_fetch(recipe.source), recipe.source, folder)
            _run_script(recipe, mpi, folder)
            stamp.write_text(wanted)
    return folder


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _run_script(recipe: Recipe, mpi: str, folder: Path) -> None:
    mpicc = libraries.find(mpi).mpicc
    fortran = mpicc.with_name(mpicc.name.replace("cc", "fort"))
    variables = {
        "MPI": mpi,
        "MPICC": str(mpicc),
        "MPICXX": str(mpicc.with_name(mpicc.name.replace("cc", "cxx"))),
        "MPIFC": str(fortran) if fortran.exists() else "",
        "PYTHON": sys.executable,
        "RECIPE": str(RECIPES / recipe.name),
    }
    environment = ["env", *(f"{name}={value}" for name, value in variables.items())]
    _run([*environment, "bash", "-euo", "pipefail", "-c", recipe.build], folder, BUILD_SECONDS)


def _run(command: list[str], folder: Path, seconds: float) -> None:
    log = folder.parent / f"{folder.name}.log"
    done = execute(command, timeout=seconds, cwd=folder)
    log.write_text(f"{done.stdout}\n{done.stderr}")
    if done.returncode != 0:
        raise Failed(f"exit {done.returncode} of {command} in {folder}; its output is in {log}")


def _unpack(archive: Path, source: Source, folder: Path) -> None:
    """Unpacks the archive; its top folder becomes `folder`."""
    shutil.rmtree(folder, ignore_errors=True)
    temporary = folder.parent / f"{folder.name}.unpacked"
    shutil.rmtree(temporary, ignore_errors=True)
    with tarfile.open(archive) as tar:
        tar.extractall(temporary)
    (temporary / source.folder).rename(folder)
    shutil.rmtree(temporary)


def _fetch(source: Source) -> Path:
    """The source's archive, found by its hash."""
    folder = HOME / "sources" / f"{source.package}-{source.version}"
    folder.mkdir(parents=True, exist_ok=True)
    if not (found := _find(folder, source)):
        {"apt": _fetch_apt, "pip": _fetch_pip}[source.tool](source, folder)
        found = _find(folder, source)
    if not found:
        raise Failed(f"no file in {folder} has the SHA-256 sum {source.sha256} of {source}")
    return found


def _find(folder: Path, source: Source) -> Path | None:
    for path in sorted(folder.iterdir()):
        if path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == source.sha256:
            return path
    return None


def _fetch_pip(source: Source, folder: Path) -> None:
    requirement = f"{source.package}=={source.version}"
    options = ["--no-deps", "--no-binary", source.package, "--dest", "."]
    command = [sys.executable, "-m", "pip", "download", *options, requirement]
    _run(command, folder, FETCH_SECONDS)


def _fetch_apt(source: Source, folder: Path) -> None:
    """Fetches with apt-get source from this machine's package archives, with a separate apt state."""
    state = HOME / "apt"
    (state / "lists" / "partial").mkdir(parents=True, exist_ok=True)
    (state / "sources").mkdir(exist_ok=True)
    _write_source_places(state / "sources")
    config = state / "apt.conf"
    config.write_text(
        f'Dir::Etc::SourceList "/dev/null";\nDir::Etc::SourceParts "{state}/sources";\n'
        f'Dir::State::Lists "{state}/lists";\n'
        'Dir::Cache::pkgcache "";\nDir::Cache::srcpkgcache "";\nAPT::Sandbox::User "";\n'
    )
    apt = ["env", f"APT_CONFIG={config}", "apt-get", "-q"]
    _run([*apt, "update"], folder, FETCH_SECONDS)
    name = f"{source.package}={source.version}"
    _run([*apt, "source", "--download-only", "--tar-only", name], folder, FETCH_SECONDS)


def _write_source_places(folder: Path) -> None:
    """Writes the machine's list of package archives, for source instead of binary packages."""
    system = Path("/etc/apt")
    for path in [system / "sources.list", *sorted((system / "sources.list.d").glob("*"))]:
        if path.suffix in {".list", ".sources"} and path.is_file():
            text = path.read_text()
            text = re.sub(r"^Types:.*$", "Types: deb-src", text, flags=re.MULTILINE)
            text = re.sub(r"^deb\s", "deb-src ", text, flags=re.MULTILINE)
            (folder / path.name).write_text(text)
