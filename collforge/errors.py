"""The base class of all errors that the user can fix."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class CollforgeError(Exception):
    """An error that the user can fix. The message names the fix.

    The command line prints `collforge: error: <message>` and exits with 2. A defect of Collforge
    itself raises another exception and keeps its traceback.
    """


def unknown(kind: str, name: str, known: Iterable[str]) -> CollforgeError:
    """The error for a name that is not in `known`; the message suggests the most similar known name."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    return CollforgeError(f"unknown {kind} {name!r}{hint}; known: {', '.join(names) or 'none'}")
