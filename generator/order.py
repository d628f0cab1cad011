"""Which variants combine the operands of an element in an order that depends on the ranks and the root alone.

Such a variant gives an element of a reduction the same bits in vectors of any length, in every call. Not so a
ring allreduce, for example: the rank at which it begins to combine an element depends on the element's part of
the vector. Each lane algorithm (``fixed_order``), parameter (``fixed_order``) and step (``keeps_order``) states
what it does; tests/test_reproducible.py launches all variants that follow.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Optional

from collforge.variant import ParameterValue

from .expand import NODE_PHASE
from .model import Variant
from .steps import STEPS

Order = Optional[Mapping[str, tuple[ParameterValue, ...]]]
"""The values that parameters must have; those not named may have any. None: no point has a fixed order."""


def fixed_order(variant: Variant) -> Order:
    """Shared memory combines the ranks of a node from the last to the first (node/shared_reduce.c)."""
    steps = [step for step in variant.composition.steps if STEPS[step.call].takes_op]
    if not steps or not all(STEPS[step.call].keeps_order for step in steps):
        return None
    calls = {step.call for step in steps if step.get("over") == "lane"}
    over = {step.get("over") for step in steps}
    found: dict[str, tuple[ParameterValue, ...]] = {}
    if "node" in over:
        found[NODE_PHASE] = ("shared",)
    if "lane" in over:
        fixed = (a.name for a in variant.algorithms if calls <= set(a.fixed_order))
        found["lane_algorithm"] = tuple(fixed)
    if "all" in over:
        known = {p.name: p.fixed_order for p in variant.parameters if p.fixed_order}
        found.update(known or {"": ()})
    return found if all(found.values()) else None
