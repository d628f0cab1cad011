"""Virtual communication interfaces of an MPI library, and the settings that give threads theirs.

MPICH's device ch4 maps each communicator to one of several interfaces with locks and resources of their own,
when it is told how many to have (papers/virtual-communication-interfaces, section 4). A library built for one
aborts in MPI_Init when it is asked for more, so a child process asks.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path

from collforge.home import home, make_folder
from collforge.mpi_library import MpiLibrary

VARIABLE = "MPIR_CVAR_CH4_NUM_VCIS"
ASKED = (64, 32, 16, 8, 4, 2)
PROBE_SECONDS = 20

_PROBE = r"""
#include <mpi.h>

int main(int argc, char **argv)
{
    int provided = 0;
    if (MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided) != MPI_SUCCESS)
        return 1;
    return MPI_Finalize() != MPI_SUCCESS || provided != MPI_THREAD_MULTIPLE;
}
"""


def most_vcis(library: MpiLibrary) -> int:
    """How many interfaces the library starts with, of a few powers of two; 1 where it knows of none.

    Remembered below home() for each version of a library.
    """
    if library.flavor != "mpich":
        return 1
    remembered = home() / "mpi" / "vcis.json"
    try:
        known = json.loads(remembered.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        known = {}
    key = f"{library.mpicc} {library.version}"
    if not isinstance(known.get(key), int):
        known[key] = _ask(library)
        make_folder(remembered.parent)
        remembered.write_text(json.dumps(known), encoding="utf-8")
    return int(known[key])


def _ask(library: MpiLibrary) -> int:
    with tempfile.TemporaryDirectory(prefix="collforge-") as folder:
        source, program = Path(folder, "probe.c"), Path(folder, "probe")
        source.write_text(_PROBE, encoding="utf-8")
        command = [str(library.mpicc), str(source), "-o", str(program)]
        if not _succeeds(command):
            return 1
        starts = (n for n in ASKED if _succeeds([str(program)], {VARIABLE: str(n)}))
        return next(starts, 1)


def _succeeds(command: list[str], variables: dict[str, str] | None = None) -> bool:
    try:
        return (
            subprocess.run(
                command,
                env={**os.environ, **(variables or {})},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=PROBE_SECONDS,
                check=False,
            ).returncode
            == 0
        )
    except (OSError, subprocess.TimeoutExpired):
        return False


def thread_settings(library: MpiLibrary, threads: int) -> dict[str, str]:
    """What a program needs in its environment for collectives to use this many of its threads.

    The thread level and, where the library has several interfaces, one for each thread beside the one of
    MPI_COMM_WORLD. Nothing for one thread.
    """
    if threads == 1:
        return {}
    settings = {"COLLFORGE_THREAD_MULTIPLE": "1"}
    vcis = min(most_vcis(library), threads + 1)
    return {**settings, VARIABLE: str(vcis)} if vcis > 1 else settings
