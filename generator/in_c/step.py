"""A variant's steps in C, and the pipe of steps that overlap with the lane algorithm."""

from __future__ import annotations

from dataclasses import dataclass

from ..expand import NODE_PHASE, NODE_SCAN, OVERLAP, Pieces, pieces, runs_by_lane
from ..model import Step, Variant
from ..scope import Scope
from ..splits import SPLITS
from ..steps import PLACES, STEPS, InC
from .memory import pointer, units

_WORDS = {
    "over": {"node": "the node", "lane": "the lane", "all": "all ranks"},
    "root": {"root": "the root", "leader": "the leader", "root_node": "the root's node"},
    "ranks": {"all": "all ranks of the node", "carriers": "the carriers", "root": "the root"},
}
_WORDS.update({"for": _WORDS["ranks"], "source": _WORDS["root"], "target": _WORDS["root"]})
_MEMBERS = {"all": "all_ranks", "carriers": "carriers", "root": "only_root"}
_ROOTS = {"root": "root_rank", "leader": "leader", "root_node": "root_node"}


@dataclass(frozen=True)
class StepView:
    """A step for templates/variant.c.j2: a comment, a C condition ('' for none) and a C statement."""

    comment: str
    guard: str
    text: str


@dataclass(frozen=True)
class PieceView:
    """A step of a pipe (struct cf_pipe_step), in C."""

    place: str
    call: str
    source: str
    target: str
    root: str
    takes_op: bool


@dataclass(frozen=True)
class PipeView:
    """A pipe (struct cf_pipe), in C."""

    split: str
    unit: str
    wanted: str
    pieces: tuple[PieceView, ...]
    then: tuple[PieceView, ...]


def step_views(variant: Variant, use: Scope) -> list[StepView]:
    cut, steps = _pieces(variant), variant.composition.steps
    return [_step_view(_in_c(variant, cut, step, use), cut, n) for n, step in enumerate(steps, 1)]


def _step_view(c: InC, cut: Pieces, number: int) -> StepView:
    step = c.step
    kind = STEPS[step.call]
    words = {key: _WORDS.get(key, {}).get(value, value) for key, value in step.options.items()}
    words.update(reads=step.reads, writes=step.writes)
    words["order"] = "nodes" if step.get("direction") == "to_node_order" else "ranks"
    conditions = _conditions(cut, step, c.use)
    return StepView(
        comment=f"{number}. {kind.sentence.format(**words)}",
        guard=" && ".join(f"({c})" if " " in c and len(conditions) > 1 else c for c in conditions),
        text=kind.to_c(c),
    )


def _conditions(cut: Pieces, step: Step, use: Scope) -> list[str]:
    kind = STEPS[step.call]
    if kind.one_buffer:
        return [use[kind.one_buffer]]
    found = ["!pipe.open"] if step in cut.steps else []
    over = step.get("over") or getattr(kind, "among", "")
    found += [use.carrier] if over == "lane" else []
    return found + ([use.fill(step.where.to_c(PLACES))] if step.where else [])


def _in_c(variant: Variant, cut: Pieces, step: Step, use: Scope) -> InC:
    over, kind, views = step.get("over") or "", STEPS[step.call], variant.family.views
    splits = [f"&{SPLITS[name].name}" for name in kind.splits(step)] + ["", ""]
    whole = "{block}" if over == "all" else units(variant, step.reads) if kind.whole else ""
    return InC(
        step=step,
        use=use,
        source=pointer(step.reads, variant),
        target=pointer(step.writes, variant),
        units=use.fill(whole),
        split=splits[0],
        receive_split=splits[1],
        root="args->root"
        if over == "all" and "root" in step.options
        else _named(_ROOTS, step, "root", use),
        mover=_named(_ROOTS, step, "source", use),
        receiver=_named(_ROOTS, step, "target", use),
        waiting=_named(_MEMBERS, step, "ranks", use),
        awaited=_named(_MEMBERS, step, "for", use),
        way=_way(variant, step),
        piped=bool(cut.steps) and over == "lane",
        chosen_sync=variant.parameter("sync") is not None,
        part_of=views.get(step.reads, views.get(step.writes, "")),
    )


def _named(names: dict[str, str], step: Step, key: str, use: Scope) -> str:
    """The local variable for the value of a step's key; empty if the step lacks the key."""
    return use[names[step[key]]] if key in step.options else ""


def is_shared(variant: Variant) -> bool:
    """Whether the variant needs shared memory. Without it such a variant leaves the call to native."""
    phase = variant.parameter(NODE_PHASE)
    return phase is not None and phase.values == ("shared",)


def _way(variant: Variant, step: Step) -> str:
    over = step.get("over")
    if over == "node" and is_shared(variant):
        return "shared"
    if over == "node":
        return "scan" if variant.parameter(NODE_SCAN) and runs_by_lane(step) else "phase"
    if over == "all":
        return "chunks"
    return "lane" if over == "lane" and variant.algorithms else "native"


def _pieces(variant: Variant) -> Pieces:
    """The steps that may overlap with the lane step; none if the variant cannot overlap."""
    if not variant.parameter(OVERLAP):
        return Pieces()
    return pieces(variant.family, variant.composition)


def pipe(variant: Variant, use: Scope) -> PipeView | None:
    cut = _pieces(variant)
    if not cut.steps or cut.lane is None:
        return None
    found = {place: step for place, step in (("before", cut.before), ("after", cut.after)) if step}
    (split,) = {step["split"] for step in found.values()}
    parameter = use.parameter
    pipelined = f"lane_{cut.lane.call}[{parameter}[LANE_ALGORITHM]].pipelined"
    runs = f"({use.fill(cut.lane.where.to_c(PLACES))}) && " if cut.lane.where else ""
    return PipeView(
        split=SPLITS[split].name,
        unit=use.unit,
        wanted=f"{use.shared} && {runs}{parameter}[OVERLAP] == YES && {pipelined}",
        pieces=tuple(_piece(variant, place, step, use) for place, step in found.items()),
        then=tuple(_piece(variant, "then", step, use) for step in cut.then),
    )


def _piece(variant: Variant, place: str, step: Step, use: Scope) -> PieceView:
    call = f"CF_PIPE_{step.call.upper()}"
    guard = use.fill(step.where.to_c(PLACES)) if step.where else ""
    return PieceView(
        place=place,
        call=f"{guard} ? {call} : CF_PIPE_NOTHING" if guard else call,
        source=pointer(step.reads, variant),
        target=pointer(step.writes, variant),
        root=_named(_ROOTS, step, "root", use),
        takes_op=STEPS[step.call].takes_op,
    )
