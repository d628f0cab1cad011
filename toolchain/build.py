"""Builds the runtime and the timing driver for one MPI library, as far as they are out of date."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import collforge
from collforge import generator, runtime, templates
from collforge import home as home_module
from collforge.errors import CollforgeError
from collforge.generator import manifest, tools
from collforge.generator.manifest import Manifest
from collforge.home import make_folder
from collforge.mpi_library import MpiLibrary
from collforge.toolchain import simgrid

RUNTIME = Path(runtime.__file__).resolve().parent
BUILD_SECONDS = 900
GENERATED_FROM = "generated-from"
"""The file beside the generated C that says what it was made of."""
LAST_LINES = 12
# For programs with threads. The last flag is needed because MPICH's MPI_STATUSES_IGNORE has length 0.
OPENMP_FLAGS = (
    "-std=c11",
    "-O2",
    "-Wall",
    "-Wextra",
    "-fopenmp",
    "-Wno-stringop-overflow",
)
# Removed from the environment: an outer make must not pass its flags and job server to this build.
FOREIGN_MAKE = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "GNUMAKEFLAGS")


class BuildError(CollforgeError):
    """The C build failed. The message names the log and the fix, then quotes the compiler's last lines."""


@dataclass(frozen=True)
class Built:
    """The absolute paths of the files that a build makes."""

    library_path: Path
    driver_path: Path


def generated_folder(home: Path) -> Path:
    """The folder of the generated C and manifest.json below ``home``."""
    return home / "generated"


def generate(folder: Path) -> Manifest:
    """Writes the generated C and manifest.json to a folder, created if needed. Unchanged files stay.

    Nothing is proven and written again while what it is made of, and what was written, are as they were.
    """
    stamp = make_folder(folder) / GENERATED_FROM
    sources = (
        _hash_of_sources()
    )  # before they are read: what changes meanwhile is generated next time
    if stamp.is_file() and stamp.read_bytes() == f"{sources} {_hash_of_files(folder)}".encode():
        return manifest.load(folder / "manifest.json")
    from collforge.generator import render  # slow to import, and rarely needed

    print("collforge: generating the variants (some seconds, after a change)", file=sys.stderr)
    stamp.unlink(missing_ok=True)
    made = render.generate(folder)
    stamp.write_text(f"{sources} {_hash_of_files(folder)}", encoding="utf-8")
    return made


def _hash_of_sources() -> str:
    """A hash over what the generator reads, its own sources and the versions of its tools among them."""
    found = hashlib.sha256(f"{collforge.__version__} {sys.version} {tools.versions()}".encode())
    top = Path(collforge.__file__).resolve().parent
    parents = [Path(one.__path__[0]).resolve() for one in (generator, templates)]
    for parent in [top, *parents, RUNTIME / "src", RUNTIME / "include"]:
        for path in sorted(parent.rglob("*")):
            if path.is_file() and path.suffix != ".pyc":
                found.update(f"{path.relative_to(parent)}\n".encode() + path.read_bytes())
    return found.hexdigest()


def _hash_of_files(folder: Path) -> str:
    """A hash over the names, sizes and times of the generated files."""
    found = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name != GENERATED_FROM:
            status = path.stat()
            name = path.relative_to(folder)
            found.update(f"{name} {status.st_size} {status.st_mtime_ns}\n".encode())
    return found.hexdigest()


def read_manifest() -> Manifest:
    """The manifest below home(). Raises CollforgeError, which names the fix, if there is none."""
    return manifest.load(generated_folder(home_module.home()) / "manifest.json")


def current_manifest() -> Manifest:
    """The manifest below home(), generated first if it is missing or of another version."""
    try:
        found = read_manifest()
        if found.version == collforge.__version__:
            return found
    except CollforgeError:
        pass
    home = make_folder(home_module.home())
    with _locked(home / "build.lock"):
        return generate(generated_folder(home))


def built_paths(name: str, home: Path) -> Built:
    """The paths of a build for the MPI library with this short name; the files need not exist."""
    folder = home / (simgrid.FOLDER if name in simgrid.RULES else name)
    return Built(folder / "libcollforge.so", folder / "collforge-driver")


def build(library: MpiLibrary, home: Path | None = None) -> Built:
    """Generates and compiles whatever is out of date below `home` (default: home()).

    A lock keeps concurrent builds apart. CFLAGS and LDFLAGS of the environment are respected.
    Raises BuildError when make or the compiler fails or is missing.
    """
    home = home or home_module.home()
    make = shutil.which("make")
    if make is None:
        raise BuildError("there is no make here: run `apt-get install make gcc libc6-dev`")
    built = built_paths(library.name, home)
    out = make_folder(built.driver_path.parent)
    with _locked(home / "build.lock"):
        generate(generated_folder(home))
        _forget_other_library(library, out)
        command = [make, "-j2", "-C", str(RUNTIME)]
        command += [
            f"MPICC={library.mpicc}",
            f"GENERATED={generated_folder(home)}",
            f"OUT={out}",
            f"VERSION={collforge.__version__}",
        ]
        _make(command, library, out / "build.log")
    return built


def _forget_other_library(library: MpiLibrary, out: Path) -> None:
    """Removes objects compiled by another version behind the same mpicc; make cannot detect that."""
    built_with = out / "built-with"
    if not built_with.is_file() or built_with.read_text(encoding="utf-8") != library.version:
        shutil.rmtree(out / "obj", ignore_errors=True)
        built_with.write_text(library.version, encoding="utf-8")


def _make(command: list[str], library: MpiLibrary, log: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in FOREIGN_MAKE}
    with log.open("w", encoding="utf-8") as output:
        try:
            code = subprocess.run(
                command,
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env=environment,
                timeout=BUILD_SECONDS,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            code = -1
    if code == 0:
        return
    text = log.read_text(encoding="utf-8", errors="replace")
    happened = f"took longer than {BUILD_SECONDS} s" if code == -1 else "failed"
    last = "".join(f"\n  {line}" for line in text.splitlines()[-LAST_LINES:])
    raise BuildError(
        f"the build for {library.name} {happened}{_fix(text)}; all of it is in {log}{last}"
    )


def _fix(text: str) -> str:
    """The part of the error message that names the fix for failures of the machine, not of the code."""
    fixes = {
        "sqlite3.h": "run `apt-get install libsqlite3-dev`",
        "-lsqlite3": "run `apt-get install libsqlite3-dev`",
        "stdio.h: No such file": "run `apt-get install libc6-dev`",
        "No space left on device": "free some disk space, or set COLLFORGE_HOME to another disk",
        "gcc: not found": "run `apt-get install gcc libc6-dev`",
    }
    return next((f": {fix}" for sign, fix in fixes.items() if sign in text), "")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Holds an exclusive lock on a file; the system releases it when the process ends in any way."""
    with path.open("a", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
