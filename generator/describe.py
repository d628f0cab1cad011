"""What ``manifest.json`` tells of a generation."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from .manifest import CollectiveEntry, FamilyEntry, Manifest, VariantEntry
from .model import Specs, Variant


def describe(
    specs: Specs, variants: list[Variant], fingerprints: Mapping[str, str], version: str
) -> Manifest:
    """The manifest of a generation; ``fingerprints`` by variant name."""
    digest = hashlib.sha256("".join(sorted(fingerprints.values())).encode()).hexdigest()[:16]
    return Manifest(
        version=version,
        fingerprint=digest,
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
            )
            for v in variants
        ),
    )
