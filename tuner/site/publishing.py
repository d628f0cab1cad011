"""Winners for jobs: publishing them, and what the jobs that use them need."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from collforge.db import Store
from collforge.db.published import Section, render, sections
from collforge.errors import CollforgeError, unknown
from collforge.generator.manifest import Manifest
from collforge.home import replace_file
from collforge.layout import from_name
from collforge.mpi_library import MpiLibrary
from collforge.toolchain import simgrid, vcis
from collforge.tuner.run.options import split_choices


def fits_preload(path: Path) -> bool:
    """Whether LD_PRELOAD can carry the path: blanks and colons separate its entries."""
    return not any(character in ": \t\n" for character in str(path))


def thread_settings(library: MpiLibrary, layouts: Iterable[str]) -> dict[str, str]:
    """The variables that winners on layouts of these names need, for those with threads.

    For programs that nobody here knows: the thread level is raised only where that does no harm.
    """
    threads = (from_name(layout).threads for layout in layouts)
    settings = vcis.thread_settings(library, max(threads, default=1))
    return {**settings, "COLLFORGE_THREAD_MULTIPLE": "1"} if settings else {}


def read_sections(database: Path, system: str, mpi: str = "") -> list[Section]:
    """The winners of a system ('': all) and the MPI libraries named with commas ('': all); none of simulations.

    Raises CollforgeError for a name without winners.
    """
    with Store(database, create=False) as store:
        places = [*store.places(), *(one.place for one in store.winners())]
        if system and places and system not in {place.system for place in places}:
            raise unknown("system", system, {place.system for place in places})
        names = {place.mpi for place in places if system in ("", place.system)}
        chosen = sections(store, system, split_choices("MPI library (measured)", mpi, names))
    found = [one for one in chosen if one.place.mpi not in simgrid.RULES]  # no job runs there
    if not found:
        raise CollforgeError(f"{database} has no winners yet: run `collforge tune`")
    patterns = _patterns(found)
    alike = [
        name for name, one in patterns.items() if list(patterns.values()).count(one) > 1 and one
    ]
    if alike:
        raise CollforgeError(
            f"jobs could not tell the systems {', '.join(alike)} apart, as their host names are alike: "
            "publish each by itself, with --system"
        )
    return found


def _patterns(found: Iterable[Section]) -> dict[str, str]:
    """System -> its host pattern."""
    return {one.place.system: one.host_pattern for one in found}


def caution(found: Iterable[Section]) -> str:
    """What jobs must know to have the winners of one of several systems; '' if nothing."""
    patterns = _patterns(found)
    unknown_hosts = [name for name, pattern in patterns.items() if not pattern]
    if len(patterns) < 2 or not unknown_hosts:
        return ""
    return (
        f"warning: no host names are known of the systems {', '.join(unknown_hosts)}: "
        "their jobs have no winners, or those of another system, unless they set COLLFORGE_SYSTEM"
    )


def write_file(path: Path, data: bytes, mode: int) -> None:
    """Writes the file whole or not at all: a job that reads it gets the old one or the new one.

    Raises CollforgeError where it cannot be written.
    """
    try:
        replace_file(path, data, mode)
    except OSError as error:
        raise CollforgeError(
            f"cannot write {path} ({error.strerror}): get permission or free some space, or name another place"
        ) from error


def publish(found: Sequence[Section], path: Path) -> str:
    """Writes the published file, read only, and FILE.sha256 for `sha256sum --check`; returns the digest."""
    return write_published(path, render(found).encode())


def write_published(path: Path, data: bytes) -> str:
    """Writes a published file and its checksum as `publish` does."""
    digest = hashlib.sha256(data).hexdigest()
    write_file(path, data, 0o444)
    write_file(path.with_name(f"{path.name}.sha256"), f"{digest}  {path.name}\n".encode(), 0o444)
    return digest


def count(section: Section) -> str:
    """E.g. ``220 winners, 1320 on the map``."""
    winners, points = (
        sum(map(len, layouts.values())) for layouts in (section.winners, section.points)
    )
    return f"{winners} winners, {points} on the map"


def stale(found: Sequence[Section], made: Manifest) -> Iterator[str]:
    """The winners that a library built now does not have; for one of them it ignores the whole file."""
    fingerprints = {
        (entry.name, one.family): one.fingerprint
        for entry in made.tunable
        for one in made.variants_of(entry.name)
    }
    for section in found:
        for layout, choices in section.winners.items():
            for variant in (choice.variant for choice in choices):
                known = fingerprints.get((variant.collective, variant.family), "")
                if known != variant.fingerprint and not variant.is_native:
                    yield f"{variant.family} for {variant.collective} on {layout}"
