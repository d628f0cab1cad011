"""Case strings, which name a case in driver arguments, ReFrame parameters, database keys and messages.

``allreduce:full_lane[lane_algorithm=chain,segment_bytes=4096]@4x2,bytes=1024,type=double,op=sum``
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from collforge.errors import CollforgeError
from collforge.variant import NATIVE

OPTIONS = ("type", "op", "root", "in_place", "uneven", "seed")
_CASE = re.compile(
    r"(?P<collective>\w+)(:(?P<variant>\w+(\[[^\]]*\])?))?@(?P<layout>[^,]+),bytes=(?P<bytes>\d+)"
    r"(?P<options>(,\w+(=[^,]+)?)*)"
)


@dataclass(frozen=True)
class Case:
    """One collective call, made by one variant. ``variant`` is its canonical name."""

    collective: str
    variant: str
    layout: str
    bytes: int
    options: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.collective}:{self.variant}@{self._tail()}"

    @property
    def problem(self) -> str:
        """The case without its variant. Variants of one problem compete with each other."""
        return f"{self.collective}@{self._tail()}"

    def by(self, variant: str) -> Case:
        """The same problem, solved by another variant."""
        return replace(self, variant=variant)

    def _tail(self) -> str:
        parts = [self.layout, f"bytes={self.bytes}"]
        for key in OPTIONS:
            if key in self.options:
                parts.append(f"{key}={self.options[key]}" if self.options[key] else key)
        return ",".join(parts)


def parse(text: str) -> Case:
    """Reads a case string. A problem (no variant named) is read as the case of the native collective.

    Raises CollforgeError, which quotes the text, for anything else.
    """
    match = _CASE.fullmatch(text)
    if not match:
        raise CollforgeError(
            f"{text!r} is no case string; one is "
            "allreduce:full_lane@4x2,bytes=1024,type=double,op=sum"
        )
    options: dict[str, str] = {}
    for part in filter(None, match["options"].split(",")):
        key, _, value = part.partition("=")
        if key not in OPTIONS or key in options:
            raise CollforgeError(f"{text!r}: option {key!r} is not one of {', '.join(OPTIONS)}")
        options[key] = value
    return Case(
        match["collective"],
        match["variant"] or NATIVE,
        match["layout"],
        int(match["bytes"]),
        options,
    )
