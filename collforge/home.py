"""Where Collforge keeps what it makes: generated C, built libraries, runs, and the database."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

from collforge.errors import CollforgeError


def home() -> Path:
    """The absolute folder of everything that is made; it need not exist yet.

    $COLLFORGE_HOME, else build/ of the checkout that this package runs from, else the user's data
    folder.
    """
    named = os.environ.get("COLLFORGE_HOME")
    if named:
        return Path(named).expanduser().absolute()
    top = Path(__file__).resolve().parent.parent
    if (top / "setup.cfg").is_file() and (top / "templates").is_dir():
        return top / "build"
    return platformdirs.user_data_path("collforge")


def database_path() -> Path:
    """The database that applies when a command names none, absolute: $COLLFORGE_DB, else home's."""
    named = os.environ.get("COLLFORGE_DB")
    return Path(named).expanduser().absolute() if named else home() / "collforge.db"


def make_folder(folder: Path) -> Path:
    """Creates the folder with its parents and returns it.

    Raises CollforgeError when it cannot be made or written to.
    """
    fix = "set COLLFORGE_HOME to a folder that you can write to"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CollforgeError(f"cannot create {folder} ({error.strerror}): {fix}") from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise CollforgeError(f"cannot write to {folder}: {fix}")
    return folder
