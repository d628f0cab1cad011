"""The environment that preloads the runtime with the winners of a database."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from collforge.db import Store
from collforge.errors import CollforgeError, unknown
from collforge.mpi_library import MpiLibrary
from collforge.tuner.site.publishing import fits_preload, thread_settings

LIBRARY = "libcollforge.so"


def preload_settings(
    library: MpiLibrary, path: Path, database: Path, system: str | None
) -> dict[str, str]:
    """The variables beside LD_PRELOAD. Raises CollforgeError, which names the fix, if nothing can be served."""
    if not path.is_file():
        raise CollforgeError(f"there is no {path}: run `collforge build --mpi {library.name}`")
    if not fits_preload(path):
        raise CollforgeError(
            f"LD_PRELOAD cannot carry the blanks or colons of {path}: "
            "set COLLFORGE_HOME to a folder without them and build again"
        )
    with Store(database, create=False) as store:
        places = store.places()
    systems = {place.system for place in places}
    if system is not None and system not in systems:
        raise unknown("system", system, systems)
    layouts = [
        place.layout
        for place in places
        if place.mpi == library.name and system in (None, place.system)
    ]
    named = {} if system is None else {"COLLFORGE_SYSTEM": system}
    return {"COLLFORGE_DB": str(database), **named, **thread_settings(library, layouts)}


def with_preload(path: Path, environment: Mapping[str, str]) -> str:
    """LD_PRELOAD with the runtime first, then what was there, but for another runtime."""
    return ":".join(filter(None, (str(path), without_preload(environment))))


def without_preload(environment: Mapping[str, str]) -> str:
    """LD_PRELOAD without any runtime."""
    named = environment.get("LD_PRELOAD", "").replace(":", " ").split()
    return ":".join(one for one in named if Path(one).name != LIBRARY)


def told(library: MpiLibrary, words: Sequence[str], names: Iterable[str]) -> list[str]:
    """A launcher's command line by which ranks on other nodes get these variables of its environment.

    Only Open MPI's mpirun must be told, for each program of a job; Hydra and srun pass all on.
    """
    if library.flavor != "openmpi" or not Path(words[0]).name.startswith(("mpirun", "mpiexec")):
        return [*words]
    options = [word for name in names for word in ("-x", name)]
    return [
        one
        for number, word in enumerate(words)
        for one in ((word, *options) if number == 0 or word == ":" else (word,))
    ]
