"""``manifest.json``: the only contract downstream of the generator."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Optional

import msgspec

from collforge.counts import Counts
from collforge.errors import CollforgeError, unknown
from collforge.layout import Layout
from collforge.variant import ParameterValue, Point, Variant, split_name

from .predicates import FACTS, INT_MAX, Expression, parse
from .terms import LaneTerm, StepTerm, count

SCHEMA = 6

UNSIZED_BYTES = 1
"""The size in bytes that stands for calls without data (CF_UNSIZED_BYTES in C)."""


@dataclass(frozen=True)
class CollectiveEntry:
    """A collective, as everything downstream of the generator sees it.

    ``bound`` is an expression over nodes, node_size and bytes: the bytes that must pass the links of the
    busiest node, so bound / (rails x bytes per second) is the least time. ``sized``: the bytes that a choice
    may read, of a "block", the "mean" of all blocks, that mean after the ranks have "exchanged" the sizes of
    their blocks, or "none". ``varies``: what the size of a block depends
    on, nothing ("no"), its "source" rank, its "target" rank, or the "pair". ``has_blocks``: a call moves a
    block for each rank, of so many bytes; else one vector. ``map_needs``: what a layout must be
    ("consecutive", "even") for the collective to follow the map (generator/model.py).
    ``hybrid``: a collective of collforge_hybrid.h, whose result exists once per node.
    """

    name: str
    function: str
    summary: str
    standard: str
    rooted: bool
    has_op: bool
    map_needs: tuple[str, ...]
    in_place: str
    sized: str
    varies: str
    moves_nothing: bool
    hybrid: bool
    has_blocks: bool
    bound: str
    form: str = ""
    """The name of its nonblocking form if that may have winners of its own (`Manifest.collective`)."""
    blocking: str = ""
    """Of a nonblocking form: the name of its collective."""

    def nonblocking(self) -> CollectiveEntry:
        """The nonblocking form, timed as in a program that computes between start and wait."""
        function = f"MPI_I{self.name}"
        return replace(
            self, name=self.form, function=function, in_place="none", form="", blocking=self.name
        )

    def choice_bytes(self, nbytes: int) -> int:
        """The size by which a call of ``nbytes`` gets its variant, and under which its winner is stored."""
        return UNSIZED_BYTES if self.sized == "none" else nbytes

    def least_bytes(self, nodes: int, node_size: int, nbytes: int) -> float:
        values = {"nodes": nodes, "node_size": node_size, "bytes": nbytes}
        expression = parse(self.bound, tuple(values), f"bound of {self.name}")
        return float(expression.evaluate(values))

    def total_bytes(self, size: int, nbytes: int) -> int:
        """The largest packed buffer of a call on any rank."""
        return size * nbytes if self.has_blocks else nbytes


@dataclass(frozen=True)
class FamilyEntry:
    """A family's name, title and source."""

    name: str
    title: str
    summary: str
    source: str


@dataclass(frozen=True)
class Parameter:
    """A parameter of a variant and the values that are searched.

    ``requires``: values of other parameters that this one needs to have a meaning; without them its value is
    ``neutral``. ``minimum`` and ``maximum``: the smallest and the largest legal number; ``minimum`` is None for
    symbolic values. Values >= the fact ``below`` are equivalent to ``neutral`` and are not searched. Values >=
    the fact ``whole`` are equivalent to each other (they cut nothing); only the largest is searched. Values >=
    the fact ``enough`` are equivalent on lanes; of them only the first is searched. ``needs``:
    for some values, a condition on facts without which the value has no meaning. ``fixed_order``: the values
    with which steps over all ranks combine the operands of an element in one order (generator/order.py).
    ``summary``: what it sets, for the catalogue.
    """

    name: str
    values: tuple[ParameterValue, ...]
    requires: Mapping[str, tuple[ParameterValue, ...]] = field(default_factory=dict)
    neutral: Optional[ParameterValue] = None  # noqa: UP045 (msgspec evaluates it, on Python 3.9, too)
    minimum: Optional[int] = None  # noqa: UP045 (likewise)
    maximum: int = INT_MAX
    below: str = ""
    whole: str = ""
    enough: str = ""
    needs: Mapping[str, str] = field(default_factory=dict)
    fixed_order: tuple[ParameterValue, ...] = ()
    summary: str = ""

    @property
    def symbols(self) -> tuple[str, ...]:
        """The values of a symbolic parameter."""
        return tuple(map(str, self.values)) if self.minimum is None else ()

    def _has_meaning(self, value: ParameterValue, facts: Mapping[str, int]) -> bool:
        condition = self.needs.get(str(value))
        if condition is None:
            return True
        needed = parse(condition, FACTS, f"parameter {self.name}: needs")
        return not needed.names <= facts.keys() or bool(needed.evaluate(facts))

    def refused(self, value: ParameterValue, facts: Mapping[str, int]) -> str:
        """Why a value would run as another value under these facts; '' if it would not.

        Values >= the fact ``whole`` are not refused: everything in one segment is what they ask for.
        """
        if not self._has_meaning(value, facts):
            return f"needs {self.needs[str(value)]}, which does not hold here"
        if self.below in facts and value != self.neutral and int(value) >= facts[self.below]:
            return (
                f"is not below {self.below}, here {facts[self.below]}: "
                f"it would run as {self.name}={self.neutral}"
            )
        return ""

    def read(self, text: str, facts: Mapping[str, int]) -> ParameterValue:
        """The value that a text stands for. Raises CollforgeError if these facts do not admit it."""
        value: ParameterValue = text
        if self.minimum is None:
            if text not in self.symbols:
                raise unknown(f"value of {self.name}", text, self.symbols)
        else:
            value = int(text) if re.fullmatch("[0-9]{1,10}", text) else -1
            if value != 0 and not self.minimum <= value <= self.maximum:
                to = "on" if self.maximum == INT_MAX else f"to {self.maximum}"
                raise CollforgeError(
                    f"{self.name}={text} is no number from {self.minimum} {to}, nor 0"
                )
        why_not = self.refused(value, facts)
        if why_not:
            raise CollforgeError(f"{self.name}={text} {why_not}")
        return value

    def searched(self, facts: Mapping[str, int]) -> tuple[ParameterValue, ...]:
        """The values that differ in effect under these facts. A missing fact excludes no value."""
        found = tuple(value for value in self.values if self._has_meaning(value, facts))
        if self.below in facts:
            found = tuple(v for v in found if v == self.neutral or int(v) < facts[self.below])
        if self.whole in facts:
            largest = max(map(int, found))
            found = tuple(v for v in found if v == largest or int(v) < facts[self.whole])
        if self.enough in facts:
            first = next((v for v in found if int(v) >= facts[self.enough]), None)
            found = tuple(v for v in found if v == first or int(v) < facts[self.enough])
        return found


@dataclass(frozen=True)
class VariantEntry:
    """A family that serves a collective. It has one variant for each point of the parameters."""

    collective: str
    family: str
    fingerprint: str
    predicate: str
    parameters: tuple[Parameter, ...]
    parts: Mapping[str, str] = field(default_factory=dict)
    """A hash for each C file that the variant uses; the fingerprint is computed from them."""
    fixed_order: Optional[Mapping[str, tuple[ParameterValue, ...]]] = None  # noqa: UP045 (likewise)
    """The parameter values with which the order of combining depends on ranks alone (generator/order.py)."""
    steps: tuple[StepTerm, ...] = ()
    """What its composition does on regular nodes; () where calls are not served by the size of a block."""
    only_blocking: bool = False
    """It waits in ways that no coroutine can (base/coroutine.h)."""

    @property
    def uses_threads(self) -> bool:
        """Whether the number of threads per process affects this variant."""
        words = {str(value) for p in self.parameters for value in p.values}
        return "threads" in words or "threads" in self.condition.names

    @property
    def condition(self) -> Expression:
        """The predicate, over the facts of a call."""
        return parse(self.predicate, FACTS, f"predicate of {self.family}_{self.collective}")

    def applies(self, facts: Mapping[str, int]) -> bool:
        """Whether the runtime may choose this variant for a call with these facts (struct cf_facts)."""
        return facts["total_bytes"] <= INT_MAX and bool(self.condition.evaluate(facts))

    def name(self, point: Point) -> str:
        """``family[name=value,...]`` with every parameter, in the order of the specs."""
        if not self.parameters:
            return self.family
        values = ",".join(f"{p.name}={point.get(p.name, p.neutral)}" for p in self.parameters)
        return f"{self.family}[{values}]"

    def points(self, facts: Mapping[str, int]) -> list[dict[str, ParameterValue]]:
        """The points of the parameter space that differ in effect under these facts.

        A parameter without meaning has its neutral value.
        """
        names = [p.name for p in self.parameters]
        rows = itertools.product(*(p.searched(facts) for p in self.parameters))
        found = (self.canonical(dict(zip(names, row))) for row in rows)
        return list({tuple(point.items()): point for point in found}.values())

    def has_fixed_order(self, point: Point) -> bool:
        """Whether an element of a reduction has the same bits in vectors of any length, in every call."""
        return self.fixed_order is not None and all(
            point[name] in values for name, values in self.fixed_order.items()
        )

    def canonical(self, point: Point) -> dict[str, ParameterValue]:
        """The point, with every parameter that has no meaning in it set to its neutral value."""
        out: dict[str, ParameterValue] = {}
        for p in self.parameters:
            meant = all(out[name] in values for name, values in p.requires.items())
            value = point[p.name] if meant else p.neutral
            assert value is not None, f"{p.name} has no neutral value"
            out[p.name] = value
        return out

    def completed(self, name: str, facts: Mapping[str, int] | None = None) -> str:
        """The canonical name of a variant whose name may omit parameters; those take their first values.

        Raises CollforgeError for an unknown parameter, and for a value that is outside the parameter's
        domain, has no meaning beside the other values, or would run as another value under these facts.
        """
        _, inside = split_name(name)
        given = dict(part.partition("=")[::2] for part in inside.split(",") if part)
        strangers = sorted(given.keys() - {p.name for p in self.parameters})
        if strangers:
            raise unknown("parameter", strangers[0], [p.name for p in self.parameters])
        point = {
            p.name: p.read(given[p.name], facts or {}) if p.name in given else p.values[0]
            for p in self.parameters
        }
        meant = self.canonical(point)
        for p in self.parameters:
            if p.name in given and meant[p.name] != point[p.name]:
                needed = " and ".join(
                    f"{other}={' or '.join(map(str, values))}"
                    for other, values in p.requires.items()
                )
                raise CollforgeError(
                    f"{p.name}={point[p.name]} has no meaning here: it needs {needed}; leave it out"
                )
        return self.name(meant)


@dataclass(frozen=True)
class Manifest:
    """Everything that was generated."""

    version: str
    fingerprint: str
    collectives: tuple[CollectiveEntry, ...]
    families: tuple[FamilyEntry, ...]
    variants: tuple[VariantEntry, ...]
    schema: int = SCHEMA
    lane_costs: Mapping[str, Mapping[str, LaneTerm]] = field(default_factory=dict)
    """Lane algorithm -> component collective -> cost."""

    @cached_property
    def forms(self) -> tuple[CollectiveEntry, ...]:
        """The nonblocking forms that may have winners of their own; else they have their collective's."""
        return tuple(entry.nonblocking() for entry in self.collectives if entry.form)

    @cached_property
    def tunable(self) -> tuple[CollectiveEntry, ...]:
        """All collectives and nonblocking forms."""
        return self.collectives + self.forms

    def collective(self, name: str) -> CollectiveEntry:
        for entry in self.tunable:
            if entry.name == name:
                return entry
        raise unknown("collective", name, [entry.name for entry in self.tunable])

    @property
    def unsized(self) -> frozenset[str]:
        """The collectives without data: one winner serves all calls."""
        return frozenset(entry.name for entry in self.tunable if entry.sized == "none")

    def without(self, *left_out: ParameterValue) -> Manifest:
        """The same without these families and values of parameters, and variants that have no others."""
        variants = []
        for entry in self.variants:
            parameters = tuple(
                replace(p, values=tuple(one for one in p.values if one not in left_out))
                for p in entry.parameters
            )
            if all(p.values for p in parameters) and entry.family not in left_out:
                variants.append(replace(entry, parameters=parameters))
        return replace(self, variants=tuple(variants))

    def variants_of(self, collective: str) -> list[VariantEntry]:
        """Of a nonblocking form: those of its collective that can be suspended."""
        blocking = self.collective(collective).blocking
        if not blocking:
            return [variant for variant in self.variants if variant.collective == collective]
        return [
            replace(variant, collective=collective)
            for variant in self.variants_of(blocking)
            if not variant.only_blocking
        ]

    def facts(
        self, collective: str, layout: Layout, nbytes: int, commutative: bool = True
    ) -> dict[str, int]:
        """The facts of a call, as the runtime will see them."""
        entry = self.collective(collective)
        known = entry.choice_bytes(nbytes)
        return {
            **layout.facts(),
            "bytes": known,
            "total_bytes": entry.total_bytes(layout.size, known),
            "commutative": commutative,
        }

    def counts(self, variant: Variant, nodes: Any, ranks: Any, nbytes: Any) -> Counts | None:
        """What a variant does in a call of ``nbytes`` on nodes x ranks; None if that is not known.

        Numbers, or arrays for many calls.
        """
        entry = self._by_fingerprint.get(variant.fingerprint)
        if entry is None or not entry.steps:
            return None
        point = dict(part.partition("=")[::2] for part in variant.parameters.split(",") if part)
        algorithm = self.lane_costs.get(point.get("lane_algorithm", ""))
        return count(entry.steps, algorithm, point, (nodes, ranks), nbytes)

    @cached_property
    def _by_fingerprint(self) -> dict[str, VariantEntry]:
        return {one.fingerprint: one for one in self.variants}

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1) + "\n"


def load(path: Path) -> Manifest:
    """Reads a manifest. Raises CollforgeError, which names the fix, if it is missing or of another schema."""
    fix = "run: collforge generate"
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Manifest)
    except FileNotFoundError:
        raise CollforgeError(f"{path} is missing; {fix}") from None
    except msgspec.ValidationError as error:
        raise CollforgeError(
            f"{path} is of another version of Collforge ({error}); {fix}"
        ) from error
    except ValueError as error:
        raise CollforgeError(f"{path}: {error}; {fix}") from error
    if found.schema != SCHEMA:
        raise CollforgeError(f"{path} is of another version of Collforge; {fix}")
    return found
