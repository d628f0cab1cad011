"""``manifest.json``: the only contract downstream of the generator."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from collforge.errors import CollforgeError, unknown

from . import fingerprint
from .layout import Layout
from .model import INT_MAX, Parameter, Specs, Variant
from .predicates import parse

SCHEMA = 5

# What stands for the bytes of a call whose size the ranks do not know alike (CF_UNSIZED_BYTES in C).
UNSIZED_BYTES = 1


@dataclass(frozen=True)
class CollectiveEntry:
    """A collective as everything downstream sees it.

    ``bound`` is an expression over nodes, node_size and bytes: the bytes that must pass the links of the
    busiest node, so bound / (rails x bytes per second) is the least time. ``sized`` tells which bytes a choice
    may read: those of a "block", the "mean" of all blocks, or "none". ``varies`` tells what the size of a block
    follows: "no", its "source", its "target", or the "pair" of them. ``hybrid``: a collective of
    collforge_hybrid.h, whose result is in one piece of memory per node.
    """

    name: str
    function: str
    summary: str
    standard: str
    rooted: bool
    has_op: bool
    in_place: str
    sized: str
    varies: str
    moves_nothing: bool
    hybrid: bool
    total: str
    bound: str

    def choice_bytes(self, nbytes: int) -> int:
        """The bytes by which a call of ``nbytes`` is chosen for, and under which its winner is stored."""
        return UNSIZED_BYTES if self.sized == "none" else nbytes

    def least_bytes(self, nodes: int, node_size: int, nbytes: int) -> float:
        values = {"nodes": nodes, "node_size": node_size, "bytes": nbytes}
        expression = parse(self.bound, tuple(values), f"bound of {self.name}")
        return float(expression.evaluate(values))

    def total_bytes(self, size: int, nbytes: int) -> int:
        """The largest packed buffer of a call on any rank."""
        values = {"size": size, "bytes": nbytes}
        return int(parse(self.total, tuple(values), f"total of {self.name}").evaluate(values))


@dataclass(frozen=True)
class FamilyEntry:
    """A family's name, title and source."""

    name: str
    title: str
    summary: str
    source: str


@dataclass(frozen=True)
class VariantEntry:
    """A variant with its parameters and where it applies."""

    collective: str
    family: str
    fingerprint: str
    predicate: str
    parameters: tuple[Parameter, ...]
    parts: Mapping[str, str] = field(default_factory=dict)
    """What the fingerprint is taken over: a hash for each file of C that the variant leads to."""

    @property
    def uses_threads(self) -> bool:
        """Whether threads of the processes make a difference to it."""
        words = {str(value) for p in self.parameters for value in p.values}
        return "threads" in words or "threads" in self.predicate

    def applies(self, facts: Mapping[str, int]) -> bool:
        """Whether the predicate holds for the facts (those of runtime/src/base/cf.h, struct cf_facts)."""
        where = f"predicate of {self.family}_{self.collective}"
        return bool(parse(self.predicate, tuple(facts), where).evaluate(facts))


@dataclass(frozen=True)
class Manifest:
    """Everything that was generated."""

    version: str
    fingerprint: str
    collectives: tuple[CollectiveEntry, ...]
    families: tuple[FamilyEntry, ...]
    variants: tuple[VariantEntry, ...]

    def collective(self, name: str) -> CollectiveEntry:
        for entry in self.collectives:
            if entry.name == name:
                return entry
        raise unknown("collective", name, [entry.name for entry in self.collectives])

    @property
    def unsized(self) -> frozenset[str]:
        """The collectives whose one winner serves every size."""
        return frozenset(entry.name for entry in self.collectives if entry.sized == "none")

    def variants_of(self, collective: str) -> list[VariantEntry]:
        return [variant for variant in self.variants if variant.collective == collective]

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

    def to_json(self) -> str:
        return json.dumps({"schema": SCHEMA, **asdict(self)}, indent=1) + "\n"


def describe(
    specs: Specs, variants: list[Variant], parts: Mapping[str, Mapping[str, str]], version: str
) -> Manifest:
    """The manifest of a generation; ``parts`` by variant name (fingerprint.py)."""
    fingerprints = {name: fingerprint.of_parts(made_of) for name, made_of in parts.items()}
    return Manifest(
        version=version,
        fingerprint=fingerprint.digest(sorted(fingerprints.values())),
        collectives=tuple(
            CollectiveEntry(
                name=c.name,
                function=c.function,
                summary=c.summary,
                standard=c.standard,
                rooted=c.rooted,
                has_op=c.reduces,
                in_place=c.in_place,
                sized=c.sized,
                varies=c.varies,
                moves_nothing=c.moves_nothing,
                hybrid=c.hybrid,
                total=c.total.text,
                bound=c.wire_bytes.text,
            )
            for c in specs.collectives.values()
        ),
        families=tuple(
            FamilyEntry(f.name, f.title, f.summary, f.source) for f in specs.families.values()
        ),
        variants=tuple(
            VariantEntry(
                collective=v.collective.name,
                family=v.family.name,
                fingerprint=fingerprints[v.name],
                parts=dict(parts[v.name]),
                predicate=v.composition.predicate.text,
                parameters=v.parameters,
            )
            for v in variants
        ),
    )


def load(path: Path) -> Manifest:
    """Reads a manifest. Raises CollforgeError naming the fix when it is missing or of another schema."""
    try:
        data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CollforgeError(f"{path} is missing; run: collforge generate") from None
    except ValueError as error:
        raise CollforgeError(f"{path}: {error}; run: collforge generate") from error
    if data.pop("schema", None) != SCHEMA:
        raise CollforgeError(f"{path} is of another version of Collforge; run: collforge generate")
    variants = []
    for row in data["variants"]:
        parameters = tuple(
            Parameter(
                name=p["name"],
                values=tuple(p["values"]),
                requires={key: tuple(values) for key, values in p["requires"].items()},
                neutral=p["neutral"],
                minimum=p["minimum"],
                maximum=p.get("maximum", INT_MAX),  # recorded ones may be older
                below=p["below"],
                whole=p["whole"],
                needs=p["needs"],
            )
            for p in row.pop("parameters")
        )
        variants.append(VariantEntry(parameters=parameters, **row))
    return Manifest(
        version=data["version"],
        fingerprint=data["fingerprint"],
        collectives=tuple(CollectiveEntry(**row) for row in data["collectives"]),
        families=tuple(FamilyEntry(**row) for row in data["families"]),
        variants=tuple(variants),
    )
