"""Finds the MPI libraries of this machine by their compiler wrappers and runs a program to identify them.

Debian installs several side by side as `mpicc.<name>` and `mpirun.<name>`. Any other installation
is named by the site's file (`collforge mpi add`) or by the environment: COLLFORGE_MPI_<NAME>=<prefix>
stands for the one in <prefix>/bin. SimGrid's stand for native ones in simulations (simgrid.py).
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from collforge import site_file
from collforge.errors import CollforgeError, unknown
from collforge.home import full_path, home, make_folder, replace_file
from collforge.mpi_library import MpiLibrary
from collforge.toolchain import simgrid
from collforge.toolchain.process import outcome

DEBIAN_PACKAGES = {"openmpi": "openmpi-bin libopenmpi-dev", "mpich": "mpich libmpich-dev"}
PREFIX_VARIABLE = "COLLFORGE_MPI_"
PROBE_SECONDS = 60

# Printing the version needs no MPI_Init, which may fail.
PROBE = r"""
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    int provided = 0;
    if (MPI_Get_library_version(version, &length) != MPI_SUCCESS)
        return 1;
    printf("%s", version);
    fflush(stdout);
    if (MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided) != MPI_SUCCESS)
        return 1;
    printf("%c%d", 0, provided == MPI_THREAD_MULTIPLE);
    fflush(stdout);
    return MPI_Finalize();
}
"""


class MissingLibrary(CollforgeError):
    """There is no usable MPI library of that name on this machine."""


def prefixes() -> dict[str, str]:
    """Library -> its prefix: of the site's file, and of the environment, which wins."""
    named = {
        variable[len(PREFIX_VARIABLE) :].lower(): prefix
        for variable, prefix in os.environ.items()
        if variable.startswith(PREFIX_VARIABLE) and len(variable) > len(PREFIX_VARIABLE) and prefix
    }
    return {**site_file.prefixes(), **named}


def known_names() -> list[str]:
    """The names of native libraries: Debian's two, and those that have a prefix."""
    return sorted({*DEBIAN_PACKAGES, *prefixes()})


def find(name: str) -> MpiLibrary:
    """The MPI library with this short name.

    Raises CollforgeError for an unknown name, MissingLibrary when the library or its compiler
    wrapper does not work here.
    """
    if name not in (*known_names(), *simgrid.RULES):
        raise unknown("MPI library", name, known_names())
    return _described(name, *_locate(name))


def at(name: str, prefix: Path) -> MpiLibrary:
    """The library in a prefix, by a name that it need not have yet. Raises MissingLibrary."""
    return _described(name, *_tools(name, prefix))


def found() -> list[MpiLibrary]:
    """Every MPI library that works here, by name."""
    libraries = []
    for name in known_names():
        try:
            libraries.append(find(name))
        except MissingLibrary:
            continue
    return libraries


def _locate(name: str) -> tuple[Path, Path]:
    prefix = prefixes().get(name)
    if prefix:
        return _tools(name, Path(prefix))
    if name in simgrid.RULES:
        found = simgrid.tools()
        if found is None:
            raise MissingLibrary(
                f"{name} needs SimGrid: run `make scale` or `apt-get install libsimgrid-dev`"
            )
        return found
    mpicc, mpirun = shutil.which(f"mpicc.{name}"), shutil.which(f"mpirun.{name}")
    if mpicc is None or mpirun is None:
        raise MissingLibrary(
            f"{name} is not installed here: run `apt-get install {DEBIAN_PACKAGES[name]}`, "
            f"or name the prefix of your own: `collforge mpi add {name} PREFIX`"
        )
    return Path(mpicc), Path(mpirun)


def _tools(name: str, prefix: Path) -> tuple[Path, Path]:
    """mpicc and mpirun of a prefix."""
    folder = full_path(str(prefix)) / "bin"
    found = folder / "mpicc", folder / "mpirun"
    for tool in found:
        if not os.access(tool, os.X_OK):
            raise MissingLibrary(
                f"the prefix of {name} is {prefix}, but there is no {tool}: "
                f"name the prefix that {name} is installed in"
            )
    return found


def _described(name: str, mpicc: Path, mpirun: Path) -> MpiLibrary:
    identity = _identify(mpicc)
    return MpiLibrary(name, mpicc, mpirun, identity.version, identity.thread_multiple)


@dataclass(frozen=True)
class _Identity:
    version: str
    thread_multiple: bool


def _identify(mpicc: Path) -> _Identity:
    """Version and thread support of the library behind mpicc; cached until mpicc changes."""
    real = mpicc.resolve()
    key = hashlib.sha256(
        f"{mpicc}\n{real}\n{real.stat().st_mtime_ns}\n{PROBE}".encode()
    ).hexdigest()[:16]
    remembered = home() / "mpi" / f"{key}.json"
    try:
        return msgspec.json.decode(remembered.read_bytes(), type=_Identity)
    except (OSError, ValueError):
        pass
    identity = _probe(mpicc)
    make_folder(remembered.parent)
    replace_file(remembered, msgspec.json.encode(identity), 0o600)
    return identity


def _probe(mpicc: Path) -> _Identity:
    with probe_program(mpicc) as program:
        words = (
            [*simgrid.one_rank(Path(program).parent), program]
            if simgrid.is_compiler(mpicc)
            else [program]
        )
        version, _, thread_multiple = outcome(words, PROBE_SECONDS).stdout.partition("\0")
    if not version.strip():
        raise MissingLibrary(
            f"a program built by {mpicc} does not start: check that its libraries are found "
            "(LD_LIBRARY_PATH, or the site's module)"
        )
    return _Identity(version.rstrip(), thread_multiple == "1")


@contextmanager
def probe_program(mpicc: Path) -> Iterator[str]:
    """A program that prints the library's version, a NUL, and 1 if MPI_THREAD_MULTIPLE is granted."""
    with tempfile.TemporaryDirectory(prefix="collforge-") as folder:
        source, program = Path(folder, "probe.c"), Path(folder, "probe")
        source.write_text(PROBE, encoding="utf-8")
        compiled = outcome([str(mpicc), str(source), "-o", str(program)], PROBE_SECONDS)
        if compiled.returncode != 0:
            last = (compiled.stderr.strip().splitlines() or ["it says nothing"])[-1]
            raise MissingLibrary(
                f"{mpicc} cannot compile an MPI program ({last}): install a C compiler, "
                "`apt-get install gcc libc6-dev`, and the library's headers"
            )
        yield str(program)
