"""Opens files of a folder to which users may write anything."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO


def open_plain(path: Path, most: int) -> BinaryIO | None:
    """None for a link, a pipe or a folder, for more than ``most`` bytes, and for what cannot be read."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    status = os.fstat(number)
    if stat.S_ISREG(status.st_mode) and status.st_size <= most:
        return os.fdopen(number, "rb")
    os.close(number)
    return None
