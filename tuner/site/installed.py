"""Trees that `collforge install` made: what is in them, which one `current` points to, their removal."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from collforge.db.published import counts
from collforge.errors import CollforgeError
from collforge.mpi_library import short_version
from collforge.tuner.site import modulefiles

SHARE = Path("share", "collforge")
RECORD = SHARE / "tree.json"
WINNERS = SHARE / "winners.txt"
CURRENT = "current"


@dataclass(frozen=True)
class Record:
    """What a tree is, in its file RECORD. The file is written last: without it the tree is not complete."""

    version: str
    """Of Collforge."""
    module_version: str
    date: str
    """ISO 8601, UTC."""
    libraries: Mapping[str, str]
    """MPI library -> the first line of its version."""
    sha256: str
    """Of the winners that the modules take; '' if there are none."""
    files: Sequence[str]
    """All files, this one included, relative to the tree."""

    @property
    def text(self) -> bytes:
        return msgspec.json.format(msgspec.json.encode(self)) + b"\n"


def is_tree(prefix: Path) -> bool:
    return (prefix / RECORD).is_file()


def read(prefix: Path) -> Record:
    """Raises CollforgeError for what is not a tree."""
    try:
        return msgspec.json.decode((prefix / RECORD).read_bytes(), type=Record)
    except (FileNotFoundError, NotADirectoryError):
        raise CollforgeError(
            f"{prefix} is not a tree of `collforge install` (it has no {RECORD}): "
            "`collforge install --list FOLDER` prints the trees in a folder"
        ) from None
    except msgspec.MsgspecError as error:
        raise CollforgeError(
            f"{prefix / RECORD} is damaged ({error}): delete the tree by hand"
        ) from None


def find(folder: Path) -> list[Path]:
    """The trees in a folder, or those beside a tree. Raises CollforgeError if there are none."""
    if is_tree(folder):
        folder = folder.resolve().parent
    if not folder.is_dir():
        raise CollforgeError(f"there is no folder {folder}: name the one that has the trees")
    found = [one for one in sorted(folder.iterdir()) if not one.is_symlink() and _may_be_tree(one)]
    if not found:
        raise CollforgeError(f"there are no trees in {folder}: name the folder that has them")
    return found


def _may_be_tree(folder: Path) -> bool:
    with suppress(PermissionError):
        return is_tree(folder)
    return False


def told(prefix: Path) -> Iterator[str]:
    """The lines of a list: the tree, its libraries with their winners, the winners' checksum."""
    record = read(prefix)
    links = ", ".join(link.name for link in _links(prefix))
    yield (
        f"{prefix}{f' ({links})' if links else ''}: Collforge {record.version}, "
        f"module version {record.module_version}, installed {record.date}"
    )
    path = prefix / WINNERS
    data = path.read_bytes() if path.is_file() else b""
    found, problem = {}, ""
    try:
        found = counts(data.decode()) if data else {}
    except (CollforgeError, UnicodeDecodeError) as error:
        problem = f"{path.name}: {error}"
    for name, first_line in record.libraries.items():
        own = ", ".join(
            f"{system}: {winners} winners, {points} on the map"
            for (system, version), (winners, points) in found.items()
            if version == first_line
        )
        yield f"  {name} ({short_version(first_line)}): {own or 'no winners'}"
    digest = hashlib.sha256(data).hexdigest() if data else ""
    if digest:
        yield f"  sha256 of its winners: {digest}"
    if digest != record.sha256:
        yield f"  its modules take other winners ({record.sha256 or 'none'}): jobs with these run native"
    if problem:
        yield f"  {problem}"


def facts(prefix: Path) -> dict[str, object]:
    """The record, but for its files, and the links that lead to the tree."""
    record = {name: value for name, value in vars(read(prefix)).items() if name != "files"}
    return {"prefix": prefix, **record, "links": [link.name for link in _links(prefix)]}


def _links(prefix: Path) -> list[Path]:
    """The links beside a tree that lead to it, `current` or others."""
    root = prefix.resolve()
    beside = sorted(root.parent.iterdir())
    return [one for one in beside if one.is_symlink() and os.path.realpath(one) == str(root)]


def check_current(prefix: Path) -> None:
    """Raises CollforgeError where no link can be made to the tree."""
    link = prefix.parent / CURRENT
    leads_elsewhere = link.exists() and not (link.is_symlink() and is_tree(link))
    if link == prefix or leads_elsewhere:
        raise CollforgeError(
            f"--current makes the link {link}: nothing but a link to a tree may have this name, "
            "so take another --prefix"
        )


def make_current(prefix: Path) -> Path:
    """Makes or moves the link `current` beside the tree: users find the old tree or the new one."""
    link = prefix.parent / CURRENT
    with tempfile.TemporaryDirectory(dir=prefix.parent, prefix=f".{CURRENT}.") as folder:
        new = Path(folder) / CURRENT
        new.symlink_to(prefix.name)
        new.replace(link)
    return link


def remove(prefix: Path) -> str:
    """Removes what install wrote, the modulefiles first and RECORD last; returns what is to be told.

    Raises CollforgeError for what is not a tree, or is one that a link beside it leads to.
    """
    root = prefix.resolve()
    record = read(root)
    if links := _links(root):
        raise CollforgeError(
            f"{links[0]} points to {root}: make another tree current first "
            "(`collforge install --prefix OTHER --current`), or remove the link"
        )
    files = [root / one for one in record.files]
    if any(not one.parent.resolve().is_relative_to(root) for one in files):
        raise CollforgeError(f"{root / RECORD} names files outside of the tree: delete it by hand")
    modules = root / modulefiles.FOLDER
    for one in sorted(files, key=lambda one: (one == root / RECORD, modules not in one.parents)):
        one.unlink(missing_ok=True)
    folders = {folder for one in files for folder in one.parents if folder.is_relative_to(root)}
    for folder in sorted(folders, reverse=True):
        with suppress(OSError):  # it has other files, or is gone
            folder.rmdir()
    kept = [str(one.relative_to(root)) for one in sorted(root.rglob("*")) if not one.is_dir()]
    left = f"; kept {len(kept)} that install did not write, such as {kept[0]}" if kept else ""
    return f"removed: {root} (Collforge {record.version}, {len(files)} files){left}"
