"""Looks for the MPI libraries of a site: in PATH, in usual prefixes, in folders, and behind modules."""

from __future__ import annotations

import itertools
import os
import re
import shlex
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from collforge.errors import CollforgeError
from collforge.home import replace_file
from collforge.mpi_library import MpiLibrary
from collforge.toolchain import libraries
from collforge.toolchain.libraries import MissingLibrary
from collforge.toolchain.process import outcome

USUAL = ("/opt/*", "/opt/*/*", "/opt/*/*/*", "/usr/lib64/*", "/usr/local", "/usr/lib/*/*")
DEPTH = 4
"""A prefix is less than so many folders below a given one."""
MODULE = re.compile(r"(^|[^a-z])(open|i|o|x)?mp(i|ich|t)|mvapich", re.IGNORECASE)
"""Not compiler."""
SECONDS = 30
NAMES = {"Open MPI": "openmpi", "MPICH": "mpich", "Intel(R) MPI": "impi", "MVAPICH": "mvapich"}
PLACEHOLDER = "I_MPI_SUBSTITUTE_INSTALLDIR"
"""What the wheels of Intel MPI have in bin/mpigcc and bin/mpigxx for their prefix."""


@dataclass(frozen=True)
class Found:
    """An MPI library, by the name that it has or could have."""

    library: MpiLibrary | None
    """None if it does not work."""
    prefix: Path
    module: str = ""
    """The module that leads to it."""
    is_named: bool = False
    fault: str = ""
    """Why it does not work, with the fix."""


def search(folders: Sequence[Path]) -> list[Found]:
    """The libraries that have a name, then others; each prefix once. `folders`: to be searched, too."""
    working = libraries.found()
    found = [Found(one, one.mpicc.parent.parent, is_named=True) for one in working]
    seen = {_key(one.mpicc) for one in working}
    names = set(libraries.known_names())
    for prefix, module in _candidates(folders):
        key = _key(prefix / "bin" / "mpicc")
        if key in seen:
            continue
        seen.add(key)
        one = _look(prefix, module, names)
        if one.library:
            names.add(one.library.name)
        found.append(one)
    return found


def _key(mpicc: Path) -> tuple[Path, str]:
    """Folders may be links (/bin), and several wrappers of a folder links to one program."""
    return mpicc.parent.resolve(), mpicc.resolve().name


def _look(prefix: Path, module: str, names: Iterable[str]) -> Found:
    try:
        library = libraries.at("", prefix)
    except MissingLibrary as error:
        fix = f"`collforge mpi add impi {prefix}` fills in the prefix that its wheel leaves open"
        fault = fix if _open_wrappers(prefix) else str(error)
        return Found(None, prefix, module, fault=fault)
    known = {**vars(library), "name": new_name(library.short_version, names)}
    return Found(MpiLibrary(**known), prefix, module)


def new_name(version: str, names: Iterable[str]) -> str:
    """``openmpi5`` for `Open MPI v5.0.7`; with more of the version if there is one of that name."""
    start = next((word for word in NAMES if version.startswith(word)), "")
    word = NAMES.get(start) or "".join(re.findall("[a-z]+", version.lower())) or "mpi"
    numbers = re.findall(r"\d+", version[len(start) :])
    longer = ("_".join(numbers[:count]) for count in range(1, len(numbers) + 1))
    counted = (f"{'_'.join(numbers)}_{n}" for n in itertools.count(2))
    return next(word + end for end in itertools.chain(longer, counted) if word + end not in names)


def _candidates(folders: Sequence[Path]) -> Iterator[tuple[Path, str]]:
    """Prefixes with bin/mpicc, and the module that each comes from."""
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        if Path(folder).name == "bin":
            yield from _with_mpicc([Path(folder).parent])
    for prefix, module in _of_modules():
        yield from ((one, module) for one, _ in _with_mpicc([prefix]))
    yield from _with_mpicc([Path(sys.prefix)])
    for pattern in USUAL:
        yield from _with_mpicc(sorted(Path("/").glob(pattern[1:])))
    for top in folders:
        if not top.is_dir():
            raise CollforgeError(f"there is no folder {top}")
        yield from _with_mpicc([top])
        for depth in range(1, DEPTH):
            yield from _with_mpicc(sorted(top.glob("/".join(["*"] * depth))))


def _with_mpicc(prefixes: Iterable[Path]) -> Iterator[tuple[Path, str]]:
    for one in prefixes:
        try:
            if os.access(one / "bin" / "mpicc", os.X_OK):
                yield one.absolute(), ""
        except OSError:
            continue


def modules_command() -> list[str]:
    """What the shell function of Lmod or Environment Modules calls, for bash; [] without either."""
    commands = (os.environ.get(name) for name in ("LMOD_CMD", "MODULES_CMD"))
    return next(([one, "bash"] for one in commands if one), [])


def _of_modules() -> Iterator[tuple[Path, str]]:
    """The prefixes that loading a module with `mpi` in its name puts first in PATH."""
    command = modules_command()
    if not command:
        return
    listed = outcome([*command, "-t", "avail"], SECONDS)
    for line in dict.fromkeys((listed.stderr + "\n" + listed.stdout).split()):
        name = line.partition("(")[0]  # openmpi/5.0.7(default)
        if not MODULE.search(name) or name.startswith(("/", "collforge/")) or name[-1] in ":/":
            continue
        load = shlex.join([*command, "load", name])
        script = f'eval "$({load} 2>/dev/null)" >/dev/null 2>&1; command -v mpicc'
        path = outcome(["bash", "-c", script], SECONDS).stdout.strip()
        if path:
            yield Path(path).parent.parent, name


def _open_wrappers(prefix: Path) -> list[Path]:
    """The compiler wrappers of an Intel MPI that a wheel brought, without their prefix."""
    wrappers = sorted((prefix / "bin").glob("mpig*"))
    return [one for one in wrappers if one.is_file() and PLACEHOLDER.encode() in one.read_bytes()]


def fill_in_prefix(prefix: Path) -> list[Path]:
    """Puts the prefix into such wrappers, as the installer of Intel MPI does; returns them."""
    wrappers = _open_wrappers(prefix)
    for one in wrappers:
        text = one.read_bytes().replace(PLACEHOLDER.encode(), os.fsencode(prefix))
        # A new file, because a cache of packages may have a link to the old one.
        replace_file(one, text, stat.S_IMODE(one.stat().st_mode))
    return wrappers
