"""The MPI libraries of this machine: found by their compiler wrappers, identified by asking them.

Debian installs several side by side as `mpicc.<name>` and `mpirun.<name>`. Any other installation
takes part through the environment: COLLFORGE_MPI_<NAME>=<prefix> names the one in <prefix>/bin.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from collforge.errors import CollforgeError, unknown
from collforge.home import home, make_folder
from collforge.mpi_library import MpiLibrary

DEBIAN_PACKAGES = {"openmpi": "openmpi-bin libopenmpi-dev", "mpich": "mpich libmpich-dev"}
PREFIX_VARIABLE = "COLLFORGE_MPI_"
PROBE_SECONDS = 60

# The version needs no MPI_Init, which may fail where the version is still worth knowing.
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
    """No usable MPI library of that name here."""


def known_names() -> list[str]:
    """The names that find() looks for: the two of Debian, and each COLLFORGE_MPI_<NAME>."""
    named = (
        variable[len(PREFIX_VARIABLE) :].lower()
        for variable, prefix in os.environ.items()
        if variable.startswith(PREFIX_VARIABLE) and len(variable) > len(PREFIX_VARIABLE) and prefix
    )
    return sorted({*DEBIAN_PACKAGES, *named})


def find(name: str) -> MpiLibrary:
    """The MPI library with this short name.

    Raises CollforgeError for an unknown name, MissingLibrary when the library or its compiler
    wrapper does not work here.
    """
    if name not in known_names():
        raise unknown("MPI library", name, known_names())
    mpicc, mpirun = _locate(name)
    version, thread_multiple = _identify(mpicc)
    return MpiLibrary(name, mpicc, mpirun, version, thread_multiple)


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
    variable = PREFIX_VARIABLE + name.upper()
    prefix = os.environ.get(variable)
    if prefix:
        folder = Path(prefix).expanduser().absolute() / "bin"
        tools = [folder / "mpicc", folder / "mpirun"]
        for tool in tools:
            if not os.access(tool, os.X_OK):
                raise MissingLibrary(
                    f"{variable} is {prefix}, but there is no {tool}: "
                    f"set it to the prefix that {name} is installed in"
                )
        return tools[0], tools[1]
    mpicc, mpirun = shutil.which(f"mpicc.{name}"), shutil.which(f"mpirun.{name}")
    if mpicc is None or mpirun is None:
        raise MissingLibrary(
            f"{name} is not installed here: run `apt-get install {DEBIAN_PACKAGES[name]}`, "
            f"or set {variable} to the prefix of your own"
        )
    return Path(mpicc), Path(mpirun)


def _identify(mpicc: Path) -> tuple[str, bool]:
    """Version and thread support of the library behind mpicc; remembered until mpicc changes."""
    real = mpicc.resolve()
    key = hashlib.sha256(
        f"{mpicc}\n{real}\n{real.stat().st_mtime_ns}\n{PROBE}".encode()
    ).hexdigest()[:16]
    remembered = home() / "mpi" / f"{key}.json"
    try:
        record = json.loads(remembered.read_text(encoding="utf-8"))
        return str(record["version"]), bool(record["thread_multiple"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    version, thread_multiple = _probe(mpicc)
    folder = make_folder(remembered.parent)
    with tempfile.NamedTemporaryFile("w", dir=folder, delete=False, encoding="utf-8") as out:
        json.dump(
            {"mpicc": str(mpicc), "version": version, "thread_multiple": thread_multiple}, out
        )
    Path(out.name).replace(remembered)
    return version, thread_multiple


def _probe(mpicc: Path) -> tuple[str, bool]:
    with tempfile.TemporaryDirectory(prefix="collforge-") as folder:
        source, program = Path(folder, "probe.c"), Path(folder, "probe")
        source.write_text(PROBE, encoding="utf-8")
        compiled = _run([str(mpicc), str(source), "-o", str(program)])
        if compiled.returncode != 0:
            last = (compiled.stderr.strip().splitlines() or ["it says nothing"])[-1]
            raise MissingLibrary(
                f"{mpicc} cannot compile an MPI program ({last}): install a C compiler, "
                "`apt-get install gcc libc6-dev`, and the library's headers"
            )
        version, _, thread_multiple = _run([str(program)]).stdout.partition("\0")
    if not version.strip():
        raise MissingLibrary(
            f"a program built by {mpicc} does not start: check that its libraries are found "
            "(LD_LIBRARY_PATH, or the site's module)"
        )
    return version.rstrip(), thread_multiple == "1"


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Runs the command; one that cannot start or takes too long is one that failed."""
    try:
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PROBE_SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired as error:
        out = error.stdout or b""
        text = out.decode(errors="replace") if isinstance(out, bytes) else out
        return subprocess.CompletedProcess(command, 1, text, "it takes too long")
    except OSError as error:
        return subprocess.CompletedProcess(command, 1, "", str(error))
