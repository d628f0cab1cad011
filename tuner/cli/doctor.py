"""Checks whether this machine has what Collforge needs. Each finding has its fix."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from collforge import home
from collforge.db import Store
from collforge.errors import CollforgeError
from collforge.mpi_library import MpiLibrary
from collforge.reframe_checks.systems import emulated
from collforge.toolchain import libraries, vcis
from collforge.toolchain.process import outcome

PROBE_SECONDS = 30
OTHER_DISK = "free some space, or set COLLFORGE_HOME to a folder on another disk"
# The direct dependencies in setup.cfg; tests/test_doctor.py compares.
DISTRIBUTIONS = (
    "ReFrame-HPC",
    "scikit-optimize",
    "argcomplete",
    "Jinja2",
    "msgspec",
    "rich",
    "platformdirs",
    "matplotlib",
)


@dataclass(frozen=True)
class Finding:
    """The result for one requirement. `fix` is empty if it is met."""

    subject: str
    found: str
    fix: str = ""
    essential: bool = True
    """Whether Collforge needs it in all cases."""

    @property
    def failed(self) -> bool:
        return bool(self.fix) and self.essential


def examine(database: Path) -> Iterator[Finding]:
    """Checks all requirements, cheapest first. What a check needs itself may be missing: then this is told."""
    checks: dict[str, Callable[[], Iterable[Finding]]] = {
        "Python": lambda: [Finding("Python", platform.python_version())],
        "packages": lambda: [_distribution(name) for name in DISTRIBUTIONS],
        "make": lambda: [_tool("make", "make")],
        "C compiler": lambda: [_compiler()],
        "SQLite for C": lambda: [_sqlite_headers()],
        "MPI libraries": _mpi_libraries,
        "emulated": lambda: [_emulated(library) for library in libraries.found()],
        "LD_PRELOAD": preloaded,
        "home": lambda: [_home()],
        "database": lambda: [_database(database)],
    }
    for subject, check in checks.items():
        try:
            yield from check()
        except CollforgeError as error:
            yield Finding(subject, "cannot tell", str(error))
        except OSError as error:
            yield Finding(subject, _failure(error), OTHER_DISK)


def _failure(error: OSError) -> str:
    """Of a write, which names no file, the folder that Collforge writes to."""
    return f"{error.filename or home.home()}: {os.strerror(error.errno or 0)}"


def _distribution(name: str) -> Finding:
    try:
        return Finding(name, importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        return Finding(name, "missing", f"python3 -m pip install {name}")


def _tool(name: str, package: str) -> Finding:
    path = shutil.which(name)
    return Finding(name, path) if path else Finding(name, "missing", f"apt-get install {package}")


def _compiler() -> Finding:
    fix = "apt-get install gcc libc6-dev"
    if shutil.which("gcc") is None:
        return Finding("C compiler", "missing", fix)
    if not _compiles("#include <stdio.h>\n"):
        return Finding("C compiler", "it does not find stdio.h", fix)
    version = outcome(["gcc", "-dumpfullversion"], PROBE_SECONDS)
    return Finding("C compiler", f"gcc {version.stdout.strip()}")


def _sqlite_headers() -> Finding:
    if _compiles("#include <sqlite3.h>\n"):
        return Finding("SQLite for C", "sqlite3.h")
    return Finding("SQLite for C", "sqlite3.h is missing", "apt-get install libsqlite3-dev")


def _compiles(source: str) -> bool:
    command = ["gcc", "-fsyntax-only", "-x", "c", "-"]
    return outcome(command, PROBE_SECONDS, text=source).returncode == 0


def _mpi_libraries() -> Iterator[Finding]:
    """One finding per library. A missing library is essential only if there is no other."""
    works = False
    missing = []
    for name in libraries.known_names():
        try:
            library = libraries.find(name)
        except libraries.MissingLibrary as error:
            missing.append((name, str(error)))
            continue
        works = True
        threads = "yes" if library.thread_multiple else "no"
        yield Finding(f"MPI: {name}", f"{library.short_version}, thread multiple: {threads}")
        if library.flavor == "mpich" and library.thread_multiple:
            yield _interfaces(library)
    for name, fix in missing:
        yield Finding(f"MPI: {name}", "missing", fix, essential=not works)


def _interfaces(library: MpiLibrary) -> Finding:
    """Whether each thread can have its own virtual communication interface."""
    most = vcis.most_vcis(library)
    found = "one: threads take turns in it" if most == 1 else f"up to {most}"
    return Finding(f"VCIs: {library.name}", found)


def _emulated(library: MpiLibrary) -> Finding:
    subject = f"emulated, {library.name}"
    try:
        emulated.check(library.flavor)
    except CollforgeError as error:
        return Finding(subject, "not possible here", str(error), essential=False)
    except (OSError, subprocess.SubprocessError) as error:
        return Finding(subject, f"cannot tell: {error}", "use --system local", False)
    return Finding(subject, "namespaces and shaped links work")


def preloaded() -> Iterator[Finding]:
    """Libraries of LD_PRELOAD on the wrong side of Collforge's: MPI tools before it, ASan behind it."""
    named = os.environ.get("LD_PRELOAD", "").replace(":", " ").split()
    places = [at for at, path in enumerate(named) if Path(path).name == "libcollforge.so"]
    if not places:
        return
    before = [path for path in named[: places[0]] if _defines_mpi(path)]
    if before:
        fix = "preload libcollforge.so first: the calls of what stands before it pass it by"
        yield Finding("LD_PRELOAD", ", ".join(before), fix, essential=False)
    elif late := [path for path in named[places[0] :] if "asan" in Path(path).name]:
        fix = "preload the address sanitizer before libcollforge.so: otherwise programs end"
        yield Finding("LD_PRELOAD", ", ".join(late), fix, essential=False)
    else:
        yield Finding("LD_PRELOAD", named[places[0]])


def _defines_mpi(path: str) -> bool:
    said = outcome(["nm", "--dynamic", "--defined-only", path], PROBE_SECONDS).stdout
    return any(line.split()[-1].startswith("MPI_") for line in said.splitlines())


def _home() -> Finding:
    folder = home.home()
    try:
        with tempfile.NamedTemporaryFile(dir=home.make_folder(folder)) as file:
            file.write(bytes(1 << 16))  # an empty file has room on a full disk
            file.flush()
    except CollforgeError as error:
        return Finding("home", str(folder), str(error))
    except OSError as error:
        return Finding("home", _failure(error), OTHER_DISK)
    return Finding("home", str(folder))


def _database(path: Path) -> Finding:
    """The state of the database. A missing one needs no fix: the first `collforge tune` creates it."""
    if not path.exists():
        return Finding("database", f"none yet at {path}", "collforge tune", essential=False)
    try:
        with Store(path, create=False) as store:
            winners, places = store.winners(), store.places()
    except CollforgeError as error:
        return Finding("database", "not usable", str(error))
    systems = sorted({place.system for place in places})
    return Finding("database", f"{path}: {len(winners)} winners; systems: {', '.join(systems)}")
