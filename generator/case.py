"""Case strings: the one name of a case in driver arguments, ReFrame parameters, database keys, messages.

``allreduce:full_lane[lane_algorithm=chain,segment_bytes=4096]@4x2,bytes=1024,type=double,op=sum``
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from collforge.errors import CollforgeError, unknown

from .manifest import VariantEntry
from .model import INT_MAX, Parameter, ParameterValue

NATIVE = "native"
OPTIONS = ("type", "op", "root", "in_place", "uneven", "seed")
_CASE = re.compile(
    r"(?P<collective>\w+):(?P<variant>\w+(\[[^\]]*\])?)@(?P<layout>[^,]+),bytes=(?P<bytes>\d+)"
    r"(?P<options>(,\w+(=[^,]+)?)*)"
)

Point = Mapping[str, ParameterValue]


@dataclass(frozen=True)
class Case:
    """One collective call, made by one variant. ``variant`` is its canonical text."""

    collective: str
    variant: str
    layout: str
    bytes: int
    options: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.collective}:{self.variant}@{self._tail()}"

    @property
    def problem(self) -> str:
        """The case without its variant: what different variants compete for."""
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
    """Reads a case string. Raises CollforgeError, quoting it, for anything else."""
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
        match["variant"],
        match["layout"],
        int(match["bytes"]),
        options,
    )


def variant_text(family: str, parameters: tuple[Parameter, ...], point: Point) -> str:
    """``family[name=value,...]`` with every parameter, in the order of the specs."""
    if not parameters:
        return family
    values = ",".join(f"{p.name}={point.get(p.name, p.neutral)}" for p in parameters)
    return f"{family}[{values}]"


def split_variant(text: str) -> tuple[str, str]:
    """The family and the text between the brackets ('' without)."""
    family, _, rest = text.partition("[")
    return family, rest.rstrip("]")


def completed(entry: VariantEntry, text: str, facts: Mapping[str, int] | None = None) -> str:
    """A variant's canonical text from one that may leave parameters out: they take their first values.

    Raises CollforgeError for a parameter that it has not, and for a value that is outside the parameter's
    domain, has no meaning beside the others, or where these facts hold would run as another one.
    """
    family, inside = split_variant(text)
    given = dict(part.partition("=")[::2] for part in inside.split(",") if part)
    unknown_names = sorted(given.keys() - {p.name for p in entry.parameters})
    if unknown_names:
        raise unknown("parameter", unknown_names[0], [p.name for p in entry.parameters])
    point: dict[str, ParameterValue] = {}
    for p in entry.parameters:
        point[p.name] = _read(p, given[p.name], facts or {}) if p.name in given else p.values[0]
    meant = canonical(entry.parameters, point)
    for p in entry.parameters:
        if p.name in given and meant[p.name] != point[p.name]:
            needed = " and ".join(
                f"{name}={' or '.join(map(str, values))}" for name, values in p.requires.items()
            )
            raise CollforgeError(
                f"{p.name}={point[p.name]} has no meaning here: it needs {needed}; leave it out"
            )
    return variant_text(family, entry.parameters, meant)


def _read(parameter: Parameter, text: str, facts: Mapping[str, int]) -> ParameterValue:
    """The value, or CollforgeError where it is none that these facts admit."""
    value: ParameterValue = text
    if parameter.minimum is None:
        if text not in parameter.symbols:
            raise unknown(f"value of {parameter.name}", text, parameter.symbols)
    else:
        value = int(text) if re.fullmatch("[0-9]{1,10}", text) else -1
        if value != 0 and not parameter.minimum <= value <= parameter.maximum:
            to = "on" if parameter.maximum == INT_MAX else f"to {parameter.maximum}"
            raise CollforgeError(
                f"{parameter.name}={text} is no number from {parameter.minimum} {to}, nor 0"
            )
    why_not = parameter.refused(value, facts)
    if why_not:
        raise CollforgeError(f"{parameter.name}={text} {why_not}")
    return value


def points(entry: VariantEntry, facts: Mapping[str, int]) -> list[dict[str, ParameterValue]]:
    """The points of a variant's parameter space that differ where these facts hold.

    A parameter without meaning takes its neutral value.
    """
    names = [p.name for p in entry.parameters]
    rows = itertools.product(*(p.searched(facts) for p in entry.parameters))
    found = (canonical(entry.parameters, dict(zip(names, row))) for row in rows)
    return list({tuple(point.items()): point for point in found}.values())


def canonical(parameters: tuple[Parameter, ...], point: Point) -> dict[str, ParameterValue]:
    """The point with the neutral value for every parameter that has no meaning in it."""
    out: dict[str, ParameterValue] = {}
    for p in parameters:
        meant = all(out[name] in values for name, values in p.requires.items())
        value = point[p.name] if meant else p.neutral
        assert value is not None, f"{p.name} has no neutral value"
        out[p.name] = value
    return out
