"""Decides what the C of a variant says, so that the templates only lay it out."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from . import proof
from .clocals import PLACES_IN_C, call_declarations, declarations
from .expand import LANES, NODE_PHASE, OVERLAP, Pieces, pieces
from .model import FACTS, Collective, Step, Variant
from .semantics import SHAPES

FACTS_IN_C = {name: f"facts->{name}" for name in FACTS}

# shape of a temporary -> the member of struct cf_temporaries that counts it
_MEMORY = {
    **{name: name for name in ("vector", "slice", "share", "lane")},
    "all": "vector",
    "outgoing": "crossing",
    "incoming": "crossing",
}

# split of a step -> the C variable that holds it, and how it is set up (see runtime/src/data/split.h)
_SPLITS = {
    "slices": ("slices", "cf_split_slices(&{name}, comm, {slot}, lanes, block)"),
    "lanes": ("lane_parts", "cf_split_lanes(&{name}, comm, {slot}, lanes, {row})"),
    "shares": ("share_parts", "cf_split_shares(&{name}, comm, {slot}, lanes, lane, blocks)"),
    "blocks": ("node_parts", "cf_split_blocks(&{name}, comm, {slot}, blocks)"),
    "rows": ("row_parts", "cf_split_rows(&{name}, comm, {slot}, blocks)"),
    "columns": ("column_parts", "cf_split_columns(&{name}, comm, {slot}, blocks)"),
    "node_pairs": (
        "departing_parts",
        "cf_split_departing(&{name}, comm, {slot}, lanes, lane, blocks)",
    ),
    "arriving": (
        "arriving_parts",
        "cf_split_arriving(&{name}, comm, {slot}, lanes, lane, blocks)",
    ),
    "lane_slices": (
        "lane_slices",
        "cf_split_lane_slices(&{name}, comm, {slot}, lanes, lane, blocks)",
    ),
    "targets": ("target_parts", "cf_split_ranks(&{name}, comm, {slot}, &row)"),
    "sources": ("source_parts", "cf_split_ranks(&{name}, comm, {slot}, &column)"),
    "collecting": (
        "collected_parts",
        "cf_split_collecting(&{name}, comm, {slot}, lanes, lane, blocks)",
    ),
}
_RECEIVE_SPLITS = {"lanes": "collecting", "node_pairs": "arriving"}

_SENTENCES = {
    "scatter": "Scatter {reads} from {root} over {over} into {writes}.",
    "gather": "Gather {reads} over {over} at {root} into {writes}.",
    "allgather": "Allgather {reads} over {over} into {writes}.",
    "alltoall": "Exchange {reads} all-to-all over {over} into {writes}.",
    "bcast": "Broadcast {reads} from {root} over {over}.",
    "reduce": "Reduce {reads} over {over} to {root} into {writes}.",
    "allreduce": "Allreduce {reads} over {over} into {writes}.",
    "reduce_scatter": "Reduce {reads} over {over} and scatter the sum into {writes}.",
    "scan": "Scan {reads} over {over} into {writes}.",
    "exscan": "Exclusive scan of {reads} over {over} into {writes}.",
    "barrier": "Wait for all of {over}.",
    "exchange": "Exchange {reads} with all ranks, pair by pair, into {writes}.",
    "permute": "Where needed, bring {reads} into the order of the {order} as {writes}.",
    "fold": "Hand {reads} to the rank that carries my lane, as {writes}.",
    "unfold": "Hand {reads} back to the ranks whose lane I carry, as {writes}.",
    "release": "Let the ranks go on whose lane I carry.",
    "move": "Move {reads} from {source} to {target} into {writes}.",
    "reorder": "Put {reads} in order as {writes}.",
    "regroup": "Regroup {reads} as {writes}.",
    "copy": "Copy {reads} to {writes}.",
    "combine": "Combine {reads} with {writes}: what lies before comes first.",
    "wait": "Waiting: {ranks} for {for}, to see what has been stored.",
    "collect": "Collect {reads} out of the piece as {writes}.",
    "place": "Place {reads} in the piece as {writes}.",
}
# view of a piece (generator/window.py) -> the split that it is a part of and the C of that part's number; the
# others are addressed block by block.
_VIEW_SPLITS = {
    "slice": ("slices", "at->node_rank"),
    "node_slice": ("lane_slices", "at->node"),
}
# The calls that take a whole buffer; the others take it by a split or by its blocks.
_WHOLE = (
    *("bcast", "reduce", "allreduce", "scan", "exscan"),
    *("permute", "move", "copy", "combine"),
)
_OVER_WORDS = {"node": "the node", "lane": "the lane", "all": "all ranks"}
_ROOT_WORDS = {
    "root": "the root",
    "leader": "the leader",
    "root_node": "the root's node",
}
_MEMBER_WORDS = {"all": "all ranks of the node", "carriers": "the carriers", "root": "the root"}
_MEMBERS_IN_C = {"all": "all_ranks", "carriers": "carriers", "root": "only_root"}
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
    units: str
    root: str
    split: str
    receive_split: str
    blocks: str
    direction: str
    mover: str
    receiver: str
    waiting: str  # of a wait: which node ranks wait, and for which, each a struct cf_ranks
    awaited: str
    piped: bool  # the steps around it may overlap with it
    blocks_of: str  # "share" or "lane": whose blocks are collected or placed
    # "lane": by the lane algorithm; "phase": as the node phase says; "chunks": of all ranks; "shared";
    # "native"; of a wait in a piece "flags", or "chosen" by a parameter
    way: str


@dataclass(frozen=True)
class PieceView:
    """A step of a pipe (struct cf_pipe_step), in C."""

    place: str
    call: str
    source: str
    target: str
    root: str
    reduces: bool


@dataclass(frozen=True)
class PipeView:
    """A pipe (struct cf_pipe), in C."""

    split: str
    wanted: str
    pieces: tuple[PieceView, ...]
    then: tuple[PieceView, ...]


@dataclass(frozen=True)
class NamedSetup:
    """A split with the call that fills it."""

    name: str
    setup: str


@dataclass(frozen=True)
class View:
    """A part of the node's piece that stands together: its name and its address, in C."""

    name: str
    address: str


@dataclass(frozen=True)
class Buffer:
    """A temporary: its slot and its units on this rank, in C.

    Where ``needed`` does not hold, the buffer is another one's memory: ``otherwise``.
    """

    name: str
    slot: str
    units: str
    needed: str = ""
    otherwise: str = ""


def view(variant: Variant) -> dict[str, Any]:
    """Everything that templates/variant.c.j2 reads."""
    steps = variant.composition.steps
    step_views = [_step_view(variant, number, step) for number, step in enumerate(steps, 1)]
    splits = _splits(variant)
    buffers = _buffers(variant)
    views = _views(variant)
    text = " ".join(
        [
            *map(_c_text, step_views),
            *(v.address for v in views),
            *(s.setup for s in splits),
            *(f"{b.units} {b.needed}" for b in buffers),
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
        "example_layout": proof.example_layout(variant),
        "roles": _roles(variant),
        "temporaries": _temporaries(variant),
        "slots": [s.name.upper() for s in splits] + [b.slot for b in buffers],
        "splits": splits,
        "buffers": buffers,
        "views": views,
        "step_views": step_views,
        "pipe": _pipe(variant),
        "node_phase": variant.parameter(NODE_PHASE),
        "is_shared": _is_shared(variant),
        "symbols": _symbols(variant),
        "exchanges": any(step.call == "exchange" for step in steps),
        "chunked": any(step.get("over") == "all" for step in steps),
        "declarations": declarations(variant, text),
        "call_declarations": call_declarations(variant, text),
    }


def _temporaries(variant: Variant) -> list[tuple[str, str]]:
    """The members of struct cf_temporaries: how many of each shape, for lane algorithms and chunks, too."""
    steps = variant.composition.steps
    names = {step.writes for step in steps} & variant.family.buffers.keys()
    shapes = sorted(_MEMORY[variant.family.buffers[name]] for name in names)
    # Lane algorithms have up to twice what they are given (runtime/src/lane/lane.h, templates/macros).
    given = "lane" if variant.collective.has_blocks else "slice"
    shapes += ["crossing" if "crossing" in shapes else given] * (2 if variant.algorithms else 0)
    shapes += ["vector", "vector"] if any(step.get("over") == "all" for step in steps) else []
    lanes = variant.parameter(LANES)
    counted = [(shape, str(shapes.count(shape))) for shape in dict.fromkeys(_MEMORY.values())]
    return [
        *((shape, count) for shape, count in counted if count != "0"),
        *([("single", "true")] if variant.family.lanes != "full" else []),
        *([("lanes_above", str(1 + variant.parameters.index(lanes)))] if lanes else []),
    ]


def _is_shared(variant: Variant) -> bool:
    """Whether there is no way without shared memory: such a variant leaves the call to native."""
    phase = variant.parameter(NODE_PHASE)
    return phase is not None and phase.values == ("shared",)


def _symbols(variant: Variant) -> list[str]:
    """The values of the family's own symbolic parameters, one enumeration each."""
    own = [p for p in variant.parameters if p in variant.family.parameters and p.name != NODE_PHASE]
    return [
        ", ".join(f"{parameter.name}_{symbol}".upper() for symbol in parameter.symbols)
        for parameter in own
        if parameter.symbols
    ]


def _way(variant: Variant, call: str, over: str) -> str:
    if call == "wait":
        return "chosen" if variant.parameter("sync") else "flags"
    if over == "node":
        return "shared" if _is_shared(variant) else "phase"
    if over == "all":
        return "chunks"
    return "lane" if over == "lane" and variant.algorithms else "native"


def _pieces(variant: Variant) -> Pieces:
    """The steps that may overlap with the one over a lane; none where the variant cannot."""
    if not variant.parameter(OVERLAP):
        return Pieces()
    return pieces(variant.family, variant.composition)


def _pipe(variant: Variant) -> PipeView | None:
    cut = _pieces(variant)
    if not cut.steps:
        return None
    found = {place: step for place, step in (("before", cut.before), ("after", cut.after)) if step}
    (split,) = {step["split"] for step in found.values()}
    names = [a.name.upper() for a in variant.algorithms if a.pipelined]
    algorithms = " || ".join(f"parameter[LANE_ALGORITHM] == {name}" for name in names)
    runs = f"({cut.lane.where.to_c(PLACES_IN_C)}) && " if cut.lane and cut.lane.where else ""
    return PipeView(
        split=_SPLITS[split][0],
        wanted=f"shared && {runs}parameter[OVERLAP] == YES && ({algorithms})",
        pieces=tuple(_piece(variant, place, step) for place, step in found.items()),
        then=tuple(_piece(variant, "then", step) for step in cut.then),
    )


def _piece(variant: Variant, place: str, step: Step) -> PieceView:
    call = f"CF_PIPE_{step.call.upper()}"
    guard = step.where.to_c(PLACES_IN_C) if step.where else ""
    return PieceView(
        place=place,
        call=f"{guard} ? {call} : CF_PIPE_NOTHING" if guard else call,
        source=_pointer(step.reads, variant),
        target=_pointer(step.writes, variant),
        root=_ROOT_IN_C.get(step.get("root") or "", ""),
        reduces=step.call in ("reduce_scatter", "scan", "exscan", "combine"),
    )


def _c_text(step: StepView) -> str:
    words = {
        key: value
        for key, value in asdict(step).items()
        if key not in ("call", "comment", "way", "piped", "blocks_of")
    }
    return " ".join(map(str, words.values()))


def _lane_calls(variant: Variant) -> list[str]:
    calls = [s.call for s in variant.composition.steps if s.get("over") == "lane"]
    return list(dict.fromkeys(calls))


def _roles(variant: Variant) -> list[tuple[str, str]]:
    """The initializers of struct cf_roles that are not false or zero."""
    collective = variant.collective
    at_once = any(s.reads == "input" and s.writes == "output" for s in variant.composition.steps)
    names = {"rank": "at->rank", "root": "args->root", "size": "at->size"}
    result, place = collective.result, collective.in_place
    at_root = "at->rank == args->root"
    varies = collective.varies
    exchanged = collective.sized == "none" and varies != "no"
    roles = [
        ("moves_nothing", "true" if collective.moves_nothing else ""),
        ("reduces", "true" if collective.reduces else ""),
        ("in_piece", "true" if collective.hybrid else ""),
        ("single_buffer", "true" if collective.single_buffer else ""),
        ("varies", f"CF_VARIES_{varies.upper()}" if varies != "no" else ""),
        ("exchanged", "true" if exchanged else ""),
        ("send_side", "true" if collective.block_side == "send" else ""),
        ("send_in_place", {"send_all": "true", "send_root": at_root}.get(place, "")),
        ("recv_in_place", at_root if place == "recv_root" else ""),
        ("in_blocks", result.in_blocks.to_c(names)),
        ("out_blocks", result.out_blocks.to_c(names)),
        ("in_place_block", result.in_place_block.to_c(names)),
        ("apart", "true" if at_once and result.in_blocks.text == "size" else ""),
    ]
    return [(name, value) for name, value in roles if value not in ("", "0")]


def _step_splits(step: Step) -> list[str]:
    """The splits that a step needs: on the sending side, then on the receiving one."""
    if step.call in ("fold", "unfold"):
        return ["columns" if step.get("blocks") == "size" else "blocks"]
    if step.call == "exchange":
        return ["targets", "sources"]
    kind = step.get("split")
    if not kind or kind == "ranks":
        return []
    return [kind, _RECEIVE_SPLITS[kind]] if step.call == "alltoall" else [kind]


def _splits(variant: Variant) -> list[NamedSetup]:
    row = "&row" if variant.collective.all_to_all else "blocks"
    views = (variant.family.views[name] for name in _viewed(variant))
    kinds = dict.fromkeys(
        (
            *(_VIEW_SPLITS[view][0] for view in views if view in _VIEW_SPLITS),
            *(kind for step in variant.composition.steps for kind in _step_splits(step)),
        )
    )
    out = []
    for kind in kinds:
        name, setup = _SPLITS[kind]
        out.append(NamedSetup(name, setup.format(name=name, slot=name.upper(), row=row)))
    return out


def _viewed(variant: Variant) -> list[str]:
    """The parts of the piece that the steps name."""
    steps = variant.composition.steps
    names = dict.fromkeys(name for step in steps for name in (step.reads, step.writes))
    return [name for name in names if name in variant.family.views]


def _views(variant: Variant) -> list[View]:
    """The parts of the piece that stand together."""
    out = []
    for name in _viewed(variant):
        kind = variant.family.views[name]
        if kind in _VIEW_SPLITS:
            split, member = _VIEW_SPLITS[kind]
            displacement = f"{_SPLITS[split][0]}.displs[{member}]"
            out.append(View(name, f"cf_at(unit, call.output, {displacement})"))
    return out


def _buffers(variant: Variant) -> list[Buffer]:
    """The temporaries, each no larger than this rank needs."""
    return [
        _buffer(variant, name)
        for name in dict.fromkeys(step.writes for step in variant.composition.steps)
        if name in variant.family.buffers
    ]


def _buffer(variant: Variant, name: str) -> Buffer:
    steps = variant.composition.steps
    slot, units = f"{name.upper()}_BUFFER", SHAPES[variant.family.buffers[name]]
    writers = [step for step in steps if step.writes == name]
    guards = {s.where.to_c(PLACES_IN_C) if s.where else "" for s in writers}
    for step in steps:
        if step.call == "permute" and name == step.writes:
            return Buffer(name, slot, units, "permuted", f"(void *){_pointer(step.reads, variant)}")
        if step.call == "permute" and name == step.reads:
            # Rank 0 comes first in either order: its result needs no move, and may be none.
            return Buffer(
                name, slot, units, "permuted && at->rank > 0", _pointer(step.writes, variant)
            )
    if len(guards) == 1 and "" not in guards:
        units = f"{guards.pop()} ? {units} : 0"
    return Buffer(name, slot, units)


def _units(variant: Variant, buffer: str) -> str:
    if buffer in variant.family.views:
        split, member = _VIEW_SPLITS[variant.family.views[buffer]]
        return f"{_SPLITS[split][0]}.counts[{member}]"
    if buffer not in ("input", "output"):
        return SHAPES[variant.family.buffers[buffer]]
    if not variant.collective.has_blocks:
        return "block"
    result = variant.collective.result
    blocks = result.in_blocks if buffer == "input" else result.out_blocks
    return "all_units" if blocks.text == "size" else "own_units"


def _step_view(variant: Variant, number: int, step: Step) -> StepView:
    over = step.get("over") or ""
    conditions = ["carrier"] if over == "lane" else []
    if step.where:
        conditions.append(step.where.to_c(PLACES_IN_C))
    words = {key: _ROOT_WORDS.get(value, value) for key, value in step.options.items()}
    for key in ("ranks", "for"):
        words[key] = _MEMBER_WORDS.get(step.get(key) or "", "")
    words.update(reads=step.reads, writes=step.writes, over=_OVER_WORDS.get(over, ""))
    words["order"] = "nodes" if step.get("direction") == "to_node_order" else "ranks"
    splits = [_SPLITS[kind][0] for kind in _step_splits(step)] + ["", ""]
    if step.call == "permute":
        conditions = ["permuted"]
    overlapping = _pieces(variant).steps
    if step in overlapping:
        conditions.insert(0, "!pipe.open")
    source = _pointer(step.reads, variant)
    target = _pointer(step.writes, variant)
    views = variant.family.views
    return StepView(
        call=step.call,
        comment=f"{number}. {_SENTENCES[step.call].format(**words)}",
        guard=" && ".join(f"({c})" if " " in c and len(conditions) > 1 else c for c in conditions),
        comm=f"at->{over}_comm",
        source=source,
        target=target,
        units="block"
        if over == "all"
        else _units(variant, step.reads)
        if step.call in _WHOLE
        else "",
        root="args->root" if over == "all" else _ROOT_IN_C.get(step.get("root") or "", ""),
        split=splits[0],
        receive_split=splits[1],
        blocks=_order_blocks(variant, step),
        direction=step.get("direction") or "",
        mover=_ROOT_IN_C.get(step.get("source") or "", ""),
        receiver=_ROOT_IN_C.get(step.get("target") or "", ""),
        waiting=_MEMBERS_IN_C.get(step.get("ranks") or "", ""),
        awaited=_MEMBERS_IN_C.get(step.get("for") or "", ""),
        piped=bool(overlapping) and over == "lane",
        blocks_of=views.get(step.reads, views.get(step.writes, "")),
        way=_way(variant, step.call, over),
    )


def _order_blocks(variant: Variant, step: Step) -> str:
    """The C view of the blocks that a step on one rank puts in order."""
    if step.call != "reorder" or not variant.collective.all_to_all:
        return "blocks" if step.call in ("reorder", "regroup", "collect", "place") else ""
    return "&row" if step["direction"] == "to_lanes" else "&column"


def _pointer(buffer: str, variant: Variant) -> str:
    view = variant.family.views.get(buffer)
    if view is not None and view not in _VIEW_SPLITS:
        return "call.output"
    return f"call.{buffer}" if buffer in ("input", "output") else buffer


def block_argument(collective: Collective, what: str, in_place: bool) -> str | None:
    """The argument that gives a block's ``what`` ("count", "counts" or "type") on this rank."""
    plain = {"count": "count", "counts": "counts", "type": "datatype"}[what]
    side = collective.block_side
    if in_place:
        side = "recv" if side == "send" else "send"
    for argument in collective.arguments:
        if argument.role in (plain, f"{side}_{what}"):
            return argument.name
    return None
