"""Virtual communication interfaces (VCIs) of an MPI library, and the settings that give each thread one.

MPICH's device ch4 can have several interfaces, each with its own locks and resources, and maps each
communicator to one of them (Zambre, Chandramowliswharan, Balaji, 2020, section 4). A library built for one
interface aborts in MPI_Init when more are requested, so a child process tries it.
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
    """The largest of a few powers of two that the library accepts as its number of interfaces; at least 1.

    The answer is cached below home() for each version of a library.
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
    """The environment variables a program needs for collectives to use ``threads`` of its threads.

    They set the thread level and, where the library has several interfaces, one interface for each thread
    and one for MPI_COMM_WORLD. Empty for one thread.
    """
    if threads == 1:
        return {}
    settings = {"COLLFORGE_THREAD_MULTIPLE": "always"}
    vcis = min(most_vcis(library), threads + 1)
    return {**settings, VARIABLE: str(vcis)} if vcis > 1 else settings
