"""Which stored winner serves a call: the one rule, the twin of runtime/src/winners/rules.c.

Winners are measured at a few sizes and layouts; calls come in all. `tests/data/serving.txt` has vectors that
hold this module and the runtime to the same answers. Imports nothing, so that every part may ask.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

REACH = 4
"""How many buckets a winner serves on a side with another measured size: a factor of two."""


@dataclass(frozen=True)
class Stored:
    """One row of the winners of a collective on a layout: what was decided at a size in bytes."""

    bytes: int
    variant: str
    """Any name; "" stands for native."""
    tie: bool = False
    """Of native: it was as fast as the best variant, so it does not bound the winners beside it."""


def bucket(nbytes: int) -> int:
    """floor(4 log2 n), exactly: calls of one bucket are served alike. ``nbytes`` > 0."""
    return int(nbytes**4).bit_length() - 1


def serving(rows: Sequence[Stored], nbytes: int) -> Stored | None:
    """The row that serves a call of so many bytes; None: none reaches it, so native runs.

    The nearest size on the logarithmic scale serves, the smaller of two as near; a call below the smallest
    size is served in the bucket that touches it only. A variant does not reach beyond `REACH` buckets towards
    another measured size, nor, outside its own bucket, towards one where native was found faster.
    """
    rows = sorted(rows, key=lambda row: row.bytes)
    at = bucket(nbytes)
    if not rows or at < (bucket(rows[0].bytes ** 2) - 1) // 2:
        return None
    near = 0
    while near + 1 < len(rows) and bucket(rows[near].bytes * rows[near + 1].bytes) < 2 * at + 1:
        near += 1
    own = bucket(rows[near].bytes)
    if not rows[near].variant or at == own:
        return rows[near]
    beside = near - 1 if at < own else near + 1
    if not 0 <= beside < len(rows):
        return rows[near]
    bound = not rows[beside].variant and not rows[beside].tie
    return None if bound or abs(at - own) > REACH else rows[near]


def serving_layout(stored: Collection[str], placement: str, threads: int = 1) -> str | None:
    """The stored layout that serves communicators of a placement whose processes have so many threads.

    It is the one of this placement (``4x2``, or ``4x2x3`` for three threads) with the most threads that are
    not more than these; None where there is none.
    """
    found = {_threads_of(name, placement): name for name in stored}
    most = max((number for number in found if number <= threads), default=0)
    return found[most] if most > 0 else None


def _threads_of(layout: str, placement: str) -> int:
    """The threads in a layout's name; 0 where the placement is another one."""
    if layout == placement:
        return 1
    rest = layout.removeprefix(f"{placement}x") if layout.startswith(f"{placement}x") else ""
    return int(rest) if rest.isdecimal() and rest.isascii() else 0
