"""The one base class of what goes wrong in a way the user can mend."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class CollforgeError(Exception):
    """A failure that is the user's to mend, so its message names the fix.

    The command line prints `collforge: error: <message>` and exits with 2. A defect of Collforge
    itself is never one: that keeps its traceback.
    """


def unknown(kind: str, name: str, known: Iterable[str]) -> CollforgeError:
    """The error for a name that is not among the known ones; it suggests the nearest of them."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    return CollforgeError(f"unknown {kind} {name!r}{hint}; known: {', '.join(names) or 'none'}")
