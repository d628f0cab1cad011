"""Small libraries that are preloaded into the ranks of a launch: compiled once, into a folder of the caller."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from collforge.errors import CollforgeError
from collforge.toolchain.process import outcome

BUILD_SECONDS = 120


def library(source: Path, folder: Path) -> Path:
    """The path of a source's library, which changes with the source."""
    digest = hashlib.sha256(source.read_bytes()).hexdigest()[:12]
    return folder / f"{source.stem}-{digest}.so"


def build(
    compiler: Sequence[str], source: Path, folder: Path, packages: str, error: type[CollforgeError]
) -> Path:
    """The same; compiled if needed. Raises ``error``, which names the packages that have the compiler."""
    built = library(source, folder)
    if not built.exists():
        unfinished = built.with_suffix(f".{os.getpid()}")
        command = [*compiler, "-O2", "-shared", "-fPIC", "-o", str(unfinished), str(source), "-ldl"]
        done = outcome(command, BUILD_SECONDS)
        if done.returncode != 0:
            raise error(
                f"cannot compile {source.name}; run `apt-get install {packages}`\n{done.stderr}"
            )
        unfinished.replace(built)
    return built
