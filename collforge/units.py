"""Sizes and durations as users write and read them."""

from __future__ import annotations

import re

from collforge.errors import CollforgeError

SIZE_STEP = 4
"""Factor between the sizes of a range."""

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
        if float(f"{seconds * scale:.3g}") >= 1:
            return f"{_digits(seconds * scale)} {unit}"
    return f"{_digits(seconds * 1e6)} us"


def _digits(value: float) -> str:
    """Three of them: 1.50, 113."""
    return f"{value:#.3g}".rstrip(".") if value < 999.5 else f"{value:.0f}"


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
