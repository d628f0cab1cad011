"""Parses and formats values of the command line: sizes, durations, layouts, collectives."""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

from collforge import layout
from collforge.errors import CollforgeError, unknown
from collforge.generator.manifest import Manifest
from collforge.layout import Layout
from collforge.place import Place
from collforge.toolchain import libraries
from collforge.tuner.run import Site

SIZES = "1KiB..1MiB"
SIZE_STEP = 4
PROBLEM_SECONDS = 8.0
"""The default budget of a problem, about the time of three launches on the emulated cluster."""
LAYOUTS = {"emulated": "4x2", "local": "2x2"}

_SIZE = re.compile(r"(\d+)\s*(|B|K|KiB|M|MiB|G|GiB)")
_UNITS = {"": 0, "B": 0, "K": 10, "KiB": 10, "M": 20, "MiB": 20, "G": 30, "GiB": 30}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(s|m|h|)")
_SECONDS = {"s": 1.0, "": 1.0, "m": 60.0, "h": 3600.0}


def parse_size(text: str) -> int:
    """The bytes of a size such as ``4096``, ``4KiB`` or ``1M``. Units are powers of 1024."""
    match = _SIZE.fullmatch(text.strip())
    if not match or int(match[1]) == 0:
        raise CollforgeError(f"size {text!r} is not a number of bytes such as 4096, 4KiB or 1MiB")
    return int(match[1]) << _UNITS[match[2]]


def parse_sizes(text: str) -> tuple[int, ...]:
    """Sorted sizes of ``1KiB,64KiB`` or ``1KiB..1MiB`` (every fourth power of two in between)."""
    sizes: set[int] = set()
    for part in text.split(","):
        first, dots, last = part.partition("..")
        size = parse_size(first)
        end = parse_size(last) if dots else size
        if end < size:
            raise CollforgeError(f"sizes {part!r}: the first is larger than the last")
        while size <= end:
            sizes.add(size)
            size *= SIZE_STEP
        if dots:
            sizes.add(end)
    return tuple(sorted(sizes))


def format_size(nbytes: int) -> str:
    """``1 MiB`` if it is a whole number of units, else bytes."""
    for unit, shift in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if nbytes % (1 << shift) == 0:
            return f"{nbytes >> shift} {unit}"
    return f"{nbytes} B"


def format_seconds(seconds: float) -> str:
    """``66.1 ms``: three digits, in seconds, milliseconds or microseconds."""
    for unit, scale in (("s", 1.0), ("ms", 1e3)):
        if seconds * scale >= 1:
            return f"{seconds * scale:#.3g} {unit}"
    return f"{seconds * 1e6:#.3g} us"


def format_about(nbytes: int) -> str:
    """``1.4 MiB``: at most three digits, in the largest unit that is not larger than the value."""
    for unit, shift in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if nbytes >> shift:
            return f"{nbytes / (1 << shift):.3g} {unit}"
    return f"{nbytes} B"


def parse_duration(text: str) -> float:
    """The seconds of a duration such as ``90``, ``90s``, ``10m`` or ``1.5h``."""
    match = _DURATION.fullmatch(text.strip())
    if not match:
        raise CollforgeError(f"{text!r} is not a duration such as 90s, 10m or 1.5h")
    return float(match[1]) * _SECONDS[match[2]]


def format_duration(seconds: float) -> str:
    """``2:05``; ``no limit`` for infinite time."""
    if seconds == float("inf"):
        return "no limit"
    whole = max(0, round(seconds))
    return f"{whole // 60}:{whole % 60:02d}"


def parse_layout(text: str | None, system: str, divided: bool = False) -> Layout:
    """The requested layout, or the default layout of a system; divided: a job's parts (4x2/4x1) are allowed.

    Raises CollforgeError if the layout does not fit the system.
    """
    asked = text or LAYOUTS.get(system)
    if asked is None:
        raise CollforgeError(
            f"system {system} has no default layout: give one with --layout, e.g. 4x2"
        )
    read = layout.from_name(asked)
    if read.name.startswith("map#"):
        raise CollforgeError(
            f"layout {asked} cannot be tuned: its name is too long and was replaced by a hash"
        )
    if read.job and not divided:
        raise CollforgeError(f"layout {asked}: this command has no use for the parts of a job")
    return read


def parse_collectives(text: str | None, manifest: Manifest) -> tuple[str, ...]:
    """The collectives requested by name or group; the default is ``mpi``.

    Groups: ``mpi`` (those of the MPI standard), which is ``irregular`` (block sizes may differ) and ``regular``
    (the others); ``hybrid`` (those of collforge_hybrid.h); ``all``. Raises CollforgeError for an unknown name.
    """
    known = manifest.collectives
    groups = {
        "all": [entry.name for entry in known],
        "mpi": [entry.name for entry in known if not entry.hybrid],
        "regular": [e.name for e in known if not e.hybrid and e.varies == "no"],
        "irregular": [e.name for e in known if not e.hybrid and e.varies != "no"],
        "hybrid": [entry.name for entry in known if entry.hybrid],
    }
    names: list[str] = []
    for name in map(str.strip, (text or "mpi").split(",")):
        if name not in groups and name not in groups["all"]:
            raise unknown("collective", name, [*groups["all"], *groups])
        names += groups.get(name, [name])
    return tuple(dict.fromkeys(names))


def place_of(site: Site, at: str) -> Place:
    """The database key of measurements at a site on a layout of this name."""
    return Place.of(site.system, libraries.find(site.mpi), layout.from_name(at))


def lower_bound(manifest: Manifest, collective: str, at: Layout, nbytes: int, rate: float) -> float:
    """The least seconds of a call if each node's links have ``rate`` bytes/s in each direction.

    0 if the nodes differ in size, for which the specs have no bound.
    """
    sizes: Sequence[int] = at.node_sizes
    if len(set(sizes)) > 1:
        return 0.0
    moved = manifest.collective(collective).least_bytes(at.nodes, sizes[0], nbytes)
    return at.sharing * moved / rate


def new_folder(parent: Path, label: str) -> Path:
    """A new folder with a sortable, unique name."""
    stamp = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%S")
    folder = parent / f"{stamp}-{label}-{uuid.uuid4().hex[:6]}"
    folder.mkdir(parents=True)
    return folder
