"""The memory of a variant's C: its splits, its views of the node's shared memory, and its temporaries."""

from __future__ import annotations

from dataclasses import dataclass

from ..expand import LANES
from ..model import Variant
from ..scope import Scope
from ..splits import SHAPES, SPLITS
from ..steps import PLACES, STEPS

# view of a node's shared memory (generator/window.py) -> the split that it is a part of, and the C expression
# of that part's index (Scope.fill). Other views are addressed block by block.
VIEW_SPLITS = {
    "slice": ("slices", "{at}->node_rank"),
    "node_slice": ("lane_slices", "{at}->node"),
}


@dataclass(frozen=True)
class NamedSetup:
    """A split (struct cf_split) with the C call that fills it."""

    name: str
    setup: str


@dataclass(frozen=True)
class View:
    """A contiguous part of the node's shared memory: its name and its address, in C."""

    name: str
    address: str


@dataclass(frozen=True)
class Buffer:
    """A temporary: its slot, and the memory that it gets on this rank, in C.

    Where ``needed`` is false, no temporary is used but the buffer ``otherwise``.
    """

    name: str
    slot: str
    memory: str
    needed: str = ""
    otherwise: str = ""


def temporaries(variant: Variant) -> list[tuple[str, str]]:
    """The members of struct cf_temporaries: the number of temporaries of each shape.

    Temporaries of steps, lane algorithms and chunks are included.
    """
    steps = variant.composition.steps
    names = {step.writes for step in steps} & variant.family.buffers.keys()
    scratch = [STEPS[step.call].scratch for step in steps if STEPS[step.call].scratch]
    found = [*(variant.family.buffers[name] for name in names), *scratch]
    shapes = sorted(SHAPES[shape].memory for shape in found)
    # A lane algorithm needs up to three times the size of its data.
    given = "lane" if variant.collective.has_blocks else "slice"
    shapes += ["crossing" if "crossing" in shapes else given] * (3 if variant.algorithms else 0)
    shapes += ["vector", "vector"] if any(step.get("over") == "all" for step in steps) else []
    shapes += ["vector"] if variant.composition.spare else []
    lanes = variant.parameter(LANES)
    counted = [
        (shape, str(shapes.count(shape)))
        for shape in dict.fromkeys(shape.memory for shape in SHAPES.values())
    ]
    return [
        *((shape, count) for shape, count in counted if count != "0"),
        *([("single", "true")] if variant.family.lanes != "full" else []),
        *([("lanes_above", str(1 + variant.parameters.index(lanes)))] if lanes else []),
    ]


def splits(variant: Variant, use: Scope) -> list[NamedSetup]:
    views = (variant.family.views[name] for name in _viewed(variant))
    kinds = dict.fromkeys(
        (
            *(VIEW_SPLITS[view][0] for view in views if view in VIEW_SPLITS),
            *(kind for step in variant.composition.steps for kind in STEPS[step.call].splits(step)),
        )
    )
    out = []
    for kind in kinds:
        split = SPLITS[kind]
        setup = use.fill(split.setup, name=split.name, slot=split.name.upper())
        out.append(NamedSetup(split.name, setup))
    return out


def _viewed(variant: Variant) -> list[str]:
    """The views of the node's shared memory that the steps use."""
    steps = variant.composition.steps
    names = dict.fromkeys(name for step in steps for name in (step.reads, step.writes))
    return [name for name in names if name in variant.family.views]


def views(variant: Variant, use: Scope) -> list[View]:
    """The contiguous views of the node's shared memory that the steps use."""
    out = []
    for name in _viewed(variant):
        kind = variant.family.views[name]
        if kind in VIEW_SPLITS:
            split, member = VIEW_SPLITS[kind]
            displacement = f"{SPLITS[split].name}.displs[{use.fill(member)}]"
            out.append(View(name, f"cf_at({use.unit}, call.output, {displacement})"))
    return out


def buffers(variant: Variant, use: Scope) -> list[Buffer]:
    """The temporaries, each no larger than this rank needs."""
    return [
        _buffer(variant, name, use)
        for name in dict.fromkeys(step.writes for step in variant.composition.steps)
        if name in variant.family.buffers
    ]


def _buffer(variant: Variant, name: str, use: Scope) -> Buffer:
    steps = variant.composition.steps
    slot, units = f"{name.upper()}_BUFFER", SHAPES[variant.family.buffers[name]].units
    memory = f"cf_temp(comm, {slot}, %s, {use.unit})"
    writers = [step for step in steps if step.writes == name]
    guards = {s.where.to_c(PLACES) if s.where else "" for s in writers}
    for step in steps:
        needed = STEPS[step.call].one_buffer
        if not needed or name not in (step.writes, step.reads):
            continue
        use_needed = use[needed]
        if name == step.writes:
            other = f"(void *){pointer(step.reads, variant)}"
        else:
            other = pointer(step.writes, variant)
            # Rank 0 comes first in either order: its result is not moved, and may be undefined (exscan).
            use_needed += f" && {use.at}->rank > 0" if needed == "permuted" else ""
        return Buffer(name, slot, memory % use.fill(units), use_needed, other)
    if len(guards) == 1 and "" not in guards:
        units = f"{guards.pop()} ? {units} : 0"
    return Buffer(name, slot, memory % use.fill(units))


def units(variant: Variant, buffer: str) -> str:
    """The size of a buffer in C, a format (Scope.fill)."""
    if buffer in variant.family.views:
        split, member = VIEW_SPLITS[variant.family.views[buffer]]
        return f"{SPLITS[split].name}.counts[{member}]"
    if buffer not in ("input", "output"):
        return SHAPES[variant.family.buffers[buffer]].units
    if not variant.collective.has_blocks:
        return "{block}"
    result = variant.collective.result
    blocks = result.in_blocks if buffer == "input" else result.out_blocks
    return "{all_units}" if blocks.is_just("size") else "{own_units}"


def pointer(buffer: str, variant: Variant) -> str:
    view = variant.family.views.get(buffer)
    if view is not None and view not in VIEW_SPLITS:
        return "call.output"
    return f"call.{buffer}" if buffer in ("input", "output") else buffer
