"""A variant: one implementation of a collective, and its name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Union

NATIVE = "native"
"""The family name that stands for the MPI library's own implementation."""

ParameterValue = Union[int, str]

Point = Mapping[str, ParameterValue]
"""A value for each parameter of a family."""


def split_name(name: str) -> tuple[str, str]:
    """The family, and the text between the brackets ('' if there are none)."""
    family, _, rest = name.partition("[")
    return family, rest[:-1]


@dataclass(frozen=True, order=True)
class Variant:
    """One implementation of a collective. A different fingerprint makes a different implementation."""

    collective: str
    family: str = NATIVE
    parameters: str = ""
    """The text inside the brackets of the variant's name, '' if there is none."""
    fingerprint: str = ""
    """The fingerprint of the generated source; '' for native."""

    @classmethod
    def from_name(cls, collective: str, name: str, fingerprint: str = "") -> Variant:
        return cls(collective, *split_name(name), fingerprint)

    @property
    def name(self) -> str:
        """E.g. ``full_lane[lane_algorithm=ring,segment_bytes=65536]``."""
        return f"{self.family}[{self.parameters}]" if self.parameters else self.family

    @property
    def is_native(self) -> bool:
        return self.family == NATIVE
