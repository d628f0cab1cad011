"""The file with what a site sets once for all: the system, ReFrame's configuration, the MPI libraries.

An INI file, which shells, cron jobs and ReFrame read alike::

    [site]
    system = cluster
    config = /apps/collforge/site.py
    layout = 8x16

    [mpi]
    mpich5 = /opt/mpich/5.0

It is $COLLFORGE_SITE if set, else ``collforge/site.ini`` in the user's configuration folder. What that does not
set, the machine's may (XDG's, e.g. /etc/xdg/collforge/site.ini).
"""

from __future__ import annotations

import fcntl
import io
import os
import re
import stat
from configparser import ConfigParser, Error
from pathlib import Path

import platformdirs

from collforge.errors import CollforgeError
from collforge.home import full_path, replace_file

SITE, MPI = "site", "mpi"
NAME = re.compile("[a-z][a-z0-9_]*")
"""Of an MPI library."""
KEYS = {SITE: ("system", "config", "layout"), MPI: ()}
"""Section -> its keys; none: any."""


def path() -> Path:
    """The file that is written."""
    named = os.environ.get("COLLFORGE_SITE")
    if named:
        return full_path(named)
    return platformdirs.user_config_path("collforge") / "site.ini"


def value(key: str) -> str | None:
    """``system``, ``config`` or ``layout``; None if it is not set."""
    return _read(_read_paths()).get(SITE, key, fallback=None) or None


def prefixes() -> dict[str, str]:
    """MPI library -> the prefix that it is installed in."""
    found = {name: prefix for name, prefix in _read(_read_paths())[MPI].items() if prefix}
    for name in found:
        if not NAME.fullmatch(name):
            raise CollforgeError(f"{path()}: {name!r} is no name of an MPI library, as mpich5 is")
    return found


def change(section: str, key: str, text: str) -> None:
    """Sets one key, or removes it if the text is empty. Comments of the file are lost."""
    file = path().resolve()
    file.parent.mkdir(parents=True, exist_ok=True)
    with (file.parent / f".{file.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two shells may change it
        found = _read([file])
        if text:
            found[section][key] = text
        else:
            found.remove_option(section, key)
        mode = stat.S_IMODE(file.stat().st_mode) if file.exists() else 0o644
        whole = io.StringIO()
        found.write(whole)
        replace_file(file, whole.getvalue().encode(), mode)


def _read_paths() -> list[Path]:
    if os.environ.get("COLLFORGE_SITE"):
        return [path()]
    return [platformdirs.site_config_path("collforge") / "site.ini", path()]


def _read(files: list[Path]) -> ConfigParser:
    found = ConfigParser(interpolation=None)
    for file in files:
        try:
            if file.exists():
                found.read_string(file.read_text(encoding="utf-8"), str(file))
        except (Error, OSError, UnicodeDecodeError) as error:
            raise CollforgeError(
                f"{file}: {' '.join(str(error).split())}; mend or remove the file"
            ) from error
    for section, keys in KEYS.items():
        if not found.has_section(section):
            found.add_section(section)
        for key in found[section]:
            if keys and key not in keys:
                where = ", ".join(map(str, files))
                raise CollforgeError(f"{where}: [{section}] has {', '.join(keys)}, not {key}")
    return found
