"""What ``manifest.json`` tells of a generation."""

from __future__ import annotations

from collections.abc import Mapping

from . import fingerprint
from .manifest import CollectiveEntry, FamilyEntry, Manifest, VariantEntry
from .model import Specs, Variant


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
                has_op=c.has_op,
                in_place=c.in_place,
                sized=c.sized,
                varies=c.varies,
                moves_nothing=c.moves_nothing,
                hybrid=c.hybrid,
                total=c.total.text,
                bound=c.bound.text,
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
                predicate=v.composition.predicate.text,
                parameters=v.parameters,
                parts=dict(parts[v.name]),
            )
            for v in variants
        ),
    )
