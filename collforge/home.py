"""The folder for generated C, built libraries, runs and the database."""

from __future__ import annotations

import os
import tempfile
import uuid
from datetime import datetime, timezone
from pathlib import Path

import platformdirs

from collforge.errors import CollforgeError


def full_path(text: str) -> Path:
    """The absolute path without ``..``; links before a ``..`` are followed, as the file system does."""
    path = Path(text).expanduser().absolute()
    if ".." not in path.parts:
        return path
    return path.resolve() if path.name == ".." else path.parent.resolve() / path.name


def home() -> Path:
    """The absolute path of the folder for all generated files; it need not exist yet.

    It is $COLLFORGE_HOME if set, else build/ of the checkout that this package runs from, else the
    user's data folder.
    """
    named = os.environ.get("COLLFORGE_HOME")
    if named:
        return full_path(named)
    top = Path(__file__).resolve().parent.parent
    if (top / "setup.cfg").is_file() and (top / "templates").is_dir():
        return top / "build"
    return platformdirs.user_data_path("collforge")


def database_path() -> Path:
    """The absolute path of the default database: $COLLFORGE_DB if set, else the one in home()."""
    named = os.environ.get("COLLFORGE_DB")
    return full_path(named) if named else home() / "collforge.db"


def replace_file(path: Path, data: bytes, mode: int) -> None:
    """Writes the file whole or not at all: who reads it gets the old one or the new one. Raises OSError."""
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


def make_folder(folder: Path) -> Path:
    """Creates the folder with its parents and returns it.

    Raises CollforgeError when the folder cannot be created or written to.
    """
    fix = "set COLLFORGE_HOME to a folder that you can write to"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CollforgeError(f"cannot create {folder} ({error.strerror}): {fix}") from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise CollforgeError(f"cannot write to {folder}: {fix}")
    return folder


def new_folder(parent: Path, label: str) -> Path:
    """A new folder with a sortable, unique name."""
    stamp = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%S")
    folder = parent / f"{stamp}-{label}-{uuid.uuid4().hex[:6]}"
    folder.mkdir(parents=True)
    return folder
