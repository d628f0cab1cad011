"""Builds the manifest (``manifest.json``) from the specs and the generated variants."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import fields
from typing import Any

from . import fingerprint
from .counting import step_terms
from .manifest import CollectiveEntry, FamilyEntry, Manifest, VariantEntry
from .model import Specs, Variant
from .order import fixed_order
from .predicates import Expression


def describe(
    specs: Specs, variants: list[Variant], parts: Mapping[str, Mapping[str, str]], version: str
) -> Manifest:
    """The manifest. ``parts``: for each variant name the hashes behind its fingerprint (fingerprint.py)."""
    fingerprints = {name: fingerprint.of_parts(made_of) for name, made_of in parts.items()}
    return Manifest(
        version=version,
        fingerprint=fingerprint.digest(sorted(fingerprints.values())),
        collectives=tuple(
            CollectiveEntry(**_named_alike(CollectiveEntry, c, but=("blocking",)))
            for c in specs.collectives.values()
        ),
        families=tuple(
            FamilyEntry(**_named_alike(FamilyEntry, f)) for f in specs.families.values()
        ),
        variants=tuple(
            VariantEntry(
                collective=v.collective.name,
                family=v.family.name,
                fingerprint=fingerprints[v.name],
                predicate=v.composition.predicate.text,
                parameters=v.parameters,
                parts=dict(parts[v.name]),
                fixed_order=fixed_order(v),
                steps=step_terms(v),
                only_blocking=v.is_chunked,
            )
            for v in variants
        ),
        lane_costs={a.name: dict(a.costs) for a in specs.algorithms.values()},
    )


def _named_alike(entry: type, of: object, but: Collection[str] = ()) -> dict[str, Any]:
    """The fields of an entry, copied from the fields of a spec with the same names; expressions become text."""
    values = {one.name: getattr(of, one.name) for one in fields(entry) if one.name not in but}
    return {n: v.text if isinstance(v, Expression) else v for n, v in values.items()}
