"""The tools that the generated text depends on. Light: every command that builds asks for their versions."""

from __future__ import annotations

import shutil
import sys
from importlib import metadata
from pathlib import Path


def versions() -> str:
    """Jinja2's version, and clang-format with the time at which it was installed."""
    command = formatter()
    changed = Path(command).stat().st_mtime_ns if command else 0
    return f"jinja2 {metadata.version('jinja2')}, {command} of {changed}"


def formatter() -> str | None:
    """The path of clang-format; None if it is not installed."""
    beside = Path(sys.executable).with_name("clang-format")
    return str(beside) if beside.exists() else shutil.which("clang-format")
