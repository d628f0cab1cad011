"""Decides what the C of a variant says, so that the templates only lay it out."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any

from . import proof
from .load import FACTS
from .model import Collective, Step, Variant
from .semantics import SHAPES

PLACES_IN_C = {
    "node": "at->node",
    "node_rank": "at->node_rank",
    "rank": "at->rank",
    "root": "args->root",
    "root_node": "root_node",
    "carrier": "carrier",
}
FACTS_IN_C = {name: f"facts->{name}" for name in FACTS}

# split of a step -> the C variable that holds it, and how it is set up (see runtime/src/variant.h)
_SPLITS = {
    "slices": ("slices", "cf_split_slices(&{name}, comm, {slot}, lanes, block)"),
    "lanes": ("lane_parts", "cf_split_lanes(&{name}, comm, {slot}, lanes, block)"),
    "shares": (
        "share_parts",
        "cf_split_shares(&{name}, comm, {slot}, lanes, lane, block)",
    ),
    "blocks": ("node_parts", "cf_split_uniform(&{name}, comm, {slot}, {ranks}, block)"),
    "block_rows": (
        "node_parts",
        "cf_split_uniform(&{name}, comm, {slot}, {ranks}, at->size * block)",
    ),
    "node_pairs": (
        "departing_parts",
        "cf_split_departing(&{name}, comm, {slot}, lanes, lane, block)",
    ),
    "arriving": (
        "arriving_parts",
        "cf_split_arriving(&{name}, comm, {slot}, lanes, lane, block)",
    ),
    "collecting": (
        "collected_parts",
        "cf_split_uniform(&{name}, comm, {slot}, {ranks}, lane_blocks * block)",
    ),
}
_RECEIVE_SPLITS = {"lanes": "collecting", "node_pairs": "arriving"}

_SENTENCES = {
    "scatter": "Scatter {reads} from {root} over the {over} into {writes}.",
    "gather": "Gather {reads} over the {over} at {root} into {writes}.",
    "allgather": "Allgather {reads} over the {over} into {writes}.",
    "alltoall": "Exchange {reads} all-to-all over the {over} into {writes}.",
    "bcast": "Broadcast {reads} from {root} over the {over}.",
    "reduce": "Reduce {reads} over the {over} to {root} into {writes}.",
    "allreduce": "Allreduce {reads} over the {over} into {writes}.",
    "reduce_scatter": "Reduce {reads} over the {over} and scatter the sum into {writes}.",
    "scan": "Scan {reads} over the {over} into {writes}.",
    "exscan": "Exclusive scan of {reads} over the {over} into {writes}.",
    "fold": "Hand {reads} to the rank that carries my lane, as {writes}.",
    "unfold": "Hand {reads} back to the ranks whose lane I carry, as {writes}.",
    "move": "Move {reads} from {source} to {target} into {writes}.",
    "reorder": "Put {reads} in order as {writes}.",
    "regroup": "Regroup {reads} as {writes}.",
    "copy": "Copy {reads} to {writes}.",
    "combine": "Combine {reads} with {writes}: what lies before comes first.",
}
_ROOT_WORDS = {
    "root": "the root",
    "leader": "the leader",
    "root_node": "the root's node",
}
_ROOT_IN_C = {"root": "root_rank", "leader": "leader", "root_node": "root_node"}


@dataclass(frozen=True)
class StepView:
    """A step as its macro in templates/macros/steps.c.j2 wants it; every field is C but ``comment``."""

    call: str
    comment: str
    guard: str
    comm: str
    source: str
    target: str
    source_or_in_place: str
    units: str
    each: str
    root: str
    split: str
    receive_split: str
    direction: str
    mover: str
    receiver: str
    by_parameter: bool


@dataclass(frozen=True)
class NamedSetup:
    """A split with the call that fills it."""

    name: str
    setup: str


@dataclass(frozen=True)
class Buffer:
    """A temporary: its slot and its units on this rank, in C."""

    name: str
    slot: str
    units: str


def view(variant: Variant) -> dict[str, Any]:
    """Everything that templates/variant.c.j2 reads."""
    steps = variant.composition.steps
    step_views = [_step_view(variant, number, step) for number, step in enumerate(steps, 1)]
    splits = _splits(steps)
    buffers = _buffers(variant)
    text = " ".join(
        [
            *map(_c_text, step_views),
            *(s.setup for s in splits),
            *(b.units for b in buffers),
        ]
    )
    return {
        "name": variant.name,
        "collective": variant.collective,
        "family": variant.family,
        "parameters": variant.parameters,
        "algorithms": variant.algorithms,
        "lane_steps": _lane_calls(variant) if variant.algorithms else [],
        "predicate": variant.composition.predicate.to_c(FACTS_IN_C),
        "example": proof.worked_example(variant),
        "roles": _roles(variant.collective),
        "slots": [s.name.upper() for s in splits] + [b.slot for b in buffers],
        "splits": splits,
        "buffers": buffers,
        "step_views": step_views,
        "declarations": _declarations(variant, text),
        "uses_block": bool(re.search(r"\bblock\b", text)),
    }


def _c_text(step: StepView) -> str:
    words = {key: value for key, value in asdict(step).items() if key not in ("call", "comment")}
    return " ".join(map(str, words.values()))


def _lane_calls(variant: Variant) -> list[str]:
    calls = [s.call for s in variant.composition.steps if s.get("over") == "lane"]
    return list(dict.fromkeys(calls))


def _roles(collective: Collective) -> list[tuple[str, str]]:
    """The initializers of struct cf_roles that are not false or zero."""
    names = {"rank": "at->rank", "root": "args->root", "size": "at->size"}
    result, place = collective.result, collective.in_place
    at_root = "at->rank == args->root"
    roles = [
        ("reduces", "true" if collective.reduces else ""),
        ("single_buffer", "true" if collective.single_buffer else ""),
        ("send_side", "true" if collective.block_side == "send" else ""),
        ("send_in_place", {"send_all": "true", "send_root": at_root}.get(place, "")),
        ("recv_in_place", at_root if place == "recv_root" else ""),
        ("in_blocks", result.in_blocks.to_c(names)),
        ("out_blocks", result.out_blocks.to_c(names)),
        ("in_place_block", result.in_place_block.to_c(names)),
    ]
    return [(name, value) for name, value in roles if value not in ("", "0")]


def _splits(steps: tuple[Step, ...]) -> list[NamedSetup]:
    kinds: dict[str, None] = {}
    for step in steps:
        kind = step.get("split")
        if kind:
            kinds[kind] = None
            if step.call == "alltoall":
                kinds[_RECEIVE_SPLITS[kind]] = None
    out = []
    for kind in kinds:
        name, setup = _SPLITS[kind]
        ranks = "at->node_size[at->node]"
        out.append(NamedSetup(name, setup.format(name=name, slot=name.upper(), ranks=ranks)))
    return out


def _buffers(variant: Variant) -> list[Buffer]:
    """The temporaries, each no larger than this rank needs."""
    out = []
    for name in dict.fromkeys(step.writes for step in variant.composition.steps):
        if name == "output":
            continue
        units = SHAPES[variant.family.buffers[name]]
        writers = [s for s in variant.composition.steps if s.writes == name]
        guards = {s.where.to_c(PLACES_IN_C) if s.where else "" for s in writers}
        if len(guards) == 1 and "" not in guards:
            units = f"{guards.pop()} ? {units} : 0"
        out.append(Buffer(name, f"{name.upper()}_BUFFER", units))
    return out


def _units(variant: Variant, buffer: str) -> str:
    if buffer in ("input", "output"):
        result = variant.collective.result
        blocks = result.in_blocks if buffer == "input" else result.out_blocks
        return "at->size * block" if blocks.text == "size" else "block"
    return SHAPES[variant.family.buffers[buffer]]


def _step_view(variant: Variant, number: int, step: Step) -> StepView:
    over = step.get("over") or ""
    conditions = ["carrier"] if over == "lane" else []
    if step.where:
        conditions.append(step.where.to_c(PLACES_IN_C))
    words = {key: _ROOT_WORDS.get(value, value) for key, value in step.options.items()}
    sentence = _SENTENCES[step.call].format(**{**words, "reads": step.reads, "writes": step.writes})
    split = step.get("split") or ""
    receive = _RECEIVE_SPLITS.get(split, "") if step.call == "alltoall" else ""
    source = _pointer(step.reads)
    target = _pointer(step.writes)
    return StepView(
        call=step.call,
        comment=f"{number}. {sentence}",
        guard=" && ".join(f"({c})" if " " in c and len(conditions) > 1 else c for c in conditions),
        comm=f"at->{over}_comm",
        source=source,
        target=target,
        source_or_in_place=f"{source} == {target} ? MPI_IN_PLACE : {source}",
        units=_units(variant, step.reads),
        each="at->size * block" if step.get("blocks") == "size" else "block",
        root=_ROOT_IN_C.get(step.get("root") or "", ""),
        split=_SPLITS[split][0] if split else "",
        receive_split=_SPLITS[receive][0] if receive else "",
        direction=step.get("direction") or "",
        mover=_ROOT_IN_C.get(step.get("source") or "", ""),
        receiver=_ROOT_IN_C.get(step.get("target") or "", ""),
        by_parameter=bool(variant.algorithms) and over == "lane",
    )


def _pointer(buffer: str) -> str:
    return f"call.{buffer}" if buffer in ("input", "output") else buffer


def _declarations(variant: Variant, text: str) -> list[str]:
    """The locals that the steps use, each after those it is made from."""
    full = variant.family.lanes == "full"
    rooted = variant.collective.rooted
    share = "lanes->share_size[lane * at->nodes + at->node]"
    known: list[tuple[str, str, str]] = [
        ("lanes", "const struct cf_lanes *", "&at->full" if full else "&at->single"),
        ("root_node", "const int ", "at->node_of[args->root]"),
        ("root_rank", "const int ", "at->node_rank_of[args->root]"),
        (
            "leader",
            "const int ",
            "root_rank < at->min_node_size ? root_rank : 0" if rooted else "0",
        ),
        (
            "carrier",
            "const bool ",
            "at->node_rank < lanes->k" if full else "at->node_rank == leader",
        ),
        ("lane", "const int ", "carrier ? at->node_rank : 0" if full else "0"),
        ("lane_blocks", "const int ", "carrier ? lanes->lane_size[lane] : 0"),
        ("share_blocks", "const int ", f"carrier ? {share} : 0"),
    ]
    needed: list[str] = []
    for name, ctype, value in reversed(known):
        if re.search(rf"(?<!->)\b{name}\b", text):
            needed.append(f"{ctype}{name} = {value};")
            text += " " + value
    return list(reversed(needed))


def block_argument(collective: Collective, what: str, in_place: bool) -> str | None:
    """The name of the argument that gives a block's ``what`` ("count" or "type") on this rank."""
    plain = {"count": "count", "type": "datatype"}[what]
    side = collective.block_side
    if in_place:
        side = "recv" if side == "send" else "send"
    for argument in collective.arguments:
        if argument.role in (plain, f"{side}_{what}"):
            return argument.name
    return None
