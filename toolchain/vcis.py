"""Virtual communication interfaces of an MPI library, and the settings that give threads theirs.

MPICH's device ch4 maps each communicator to one of several interfaces with locks and resources of their own,
when it is told how many to have (papers/virtual-communication-interfaces, section 4). A library built for one
aborts in MPI_Init when it is asked for more, so a child process asks.
"""

from __future__ import annotations

import msgspec

from collforge.home import home, make_folder
from collforge.mpi_library import MpiLibrary
from collforge.toolchain.libraries import probe_program
from collforge.toolchain.process import outcome

VARIABLE = "MPIR_CVAR_CH4_NUM_VCIS"
ASKED = (64, 32, 16, 8, 4, 2)
PROBE_SECONDS = 20


def most_vcis(library: MpiLibrary) -> int:
    """How many interfaces the library starts with, of a few powers of two; 1 where it knows of none.

    Remembered below home() for each version of a library.
    """
    if library.flavor != "mpich":
        return 1
    remembered = home() / "mpi" / "vcis.json"
    try:
        known = msgspec.json.decode(remembered.read_bytes(), type=dict[str, int])
    except (OSError, ValueError):
        known = {}
    key = f"{library.mpicc} {library.version}"
    if key not in known:
        known[key] = _ask(library)
        make_folder(remembered.parent)
        remembered.write_bytes(msgspec.json.encode(known))
    return known[key]


def _ask(library: MpiLibrary) -> int:
    with probe_program(library.mpicc) as program:
        for number in ASKED:
            done = outcome([program], PROBE_SECONDS, {VARIABLE: str(number)})
            if done.returncode == 0 and done.stdout.endswith("\0001"):
                return number
    return 1


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
