"""Publishing winners: the file, its checksum, and whether a library would take them."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from collforge.db.published import Section, render
from collforge.generator.manifest import Manifest


def write_file(path: Path, data: bytes, mode: int) -> None:
    """Writes the file whole or not at all: a job that reads it gets the old one or the new one."""
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as out:
        try:
            out.write(data)
            out.flush()
            os.fchmod(out.fileno(), mode)
            os.fsync(out.fileno())
            Path(out.name).replace(path)
        except BaseException:
            Path(out.name).unlink(missing_ok=True)
            raise


def publish(found: Sequence[Section], path: Path) -> str:
    """Writes the published file, read only, and FILE.sha256 for `sha256sum --check`; returns the digest."""
    data = render(found).encode()
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
    fingerprints = {(one.collective, one.family): one.fingerprint for one in made.variants}
    for section in found:
        for layout, choices in section.winners.items():
            for variant in (choice.variant for choice in choices):
                known = fingerprints.get((variant.collective, variant.family), "")
                if known != variant.fingerprint and not variant.is_native:
                    yield f"{variant.family} for {variant.collective} on {layout}"
