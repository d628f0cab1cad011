"""Builds the runtime and the timing driver for one MPI library, doing only what is stale."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import collforge
from collforge import home as home_module
from collforge import runtime
from collforge.errors import CollforgeError
from collforge.generator import manifest, render
from collforge.generator.manifest import Manifest
from collforge.home import make_folder
from collforge.mpi_library import MpiLibrary

RUNTIME = Path(runtime.__file__).resolve().parent
BUILD_SECONDS = 900
LAST_LINES = 12
# Of programs with threads. The last because MPICH's MPI_STATUSES_IGNORE is an array of length 0.
OPENMP_FLAGS = (
    "-std=c11",
    "-O2",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-fopenmp",
    "-Wno-stringop-overflow",
)
# A make above this one must not hand its own flags and jobs down.
FOREIGN_MAKE = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "GNUMAKEFLAGS")


class BuildError(CollforgeError):
    """The C build failed. The first line names log and fix; the compiler's last lines follow."""


@dataclass(frozen=True)
class Built:
    """What a build leaves: absolute paths."""

    library_path: Path
    driver_path: Path


def generated_folder(home: Path) -> Path:
    """Where the generated C and manifest.json stand below this home."""
    return home / "generated"


def generate(folder: Path) -> Manifest:
    """Writes the generated C and manifest.json to a folder, which is made; only what changes is written."""
    return render.generate(make_folder(folder))


def read_manifest() -> Manifest:
    """What was generated below home(). Raises CollforgeError, naming the fix, where nothing was."""
    return manifest.load(generated_folder(home_module.home()) / "manifest.json")


def current_manifest() -> Manifest:
    """The same; generated where it is missing or of another version."""
    try:
        found = read_manifest()
        if found.version == collforge.__version__:
            return found
    except CollforgeError:
        pass
    return generate(generated_folder(home_module.home()))


def built_paths(name: str, home: Path) -> Built:
    """Where a build for the MPI library of this short name leaves its files, built or not."""
    return Built(home / name / "libcollforge.so", home / name / "collforge-driver")


def build(library: MpiLibrary, home: Path | None = None) -> Built:
    """Generates and compiles whatever is stale below `home` (default: home()).

    Two builds at once take turns. CFLAGS and LDFLAGS of the environment are respected. Raises
    BuildError when make or the compiler fails or is missing.
    """
    home = home or home_module.home()
    make = shutil.which("make")
    if make is None:
        raise BuildError("there is no make here: run `apt-get install make gcc libc6-dev`")
    out = make_folder(home / library.name)
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
    return built_paths(library.name, home)


def _forget_other_library(library: MpiLibrary, out: Path) -> None:
    """Removes what another version behind the same mpicc compiled; make cannot see that."""
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
    """What mends the failures that are the machine's, not the code's, as a part of the message."""
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
    """Holds the lock file exclusively; the system releases it however the process ends."""
    with path.open("a", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
