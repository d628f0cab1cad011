"""What a variant does on N nodes with n ranks each: rounds, messages and bytes, as the manifest tells them.

The texts are expressions, so that they hold for any number of nodes and ranks without an execution.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from collforge.counts import Counts
from collforge.errors import CollforgeError

from .predicates import Expression, parse

PLACES = ("nodes", "ranks", "lanes")
"""What the size of a buffer may depend on: nodes, ranks of each, lanes in use."""
RANKS = ("p", "doublings", "radix", "levels", "top", "children", "exchanges", "met", "odd")
NAMES = (*RANKS, "read", "written", "segments", "part_segments", "window")
"""The names in the cost of a step among p ranks.

``doublings``: the logarithm of p to base 2, rounded up; ``levels``: to base ``radix``, the parameter (2 without
it); ``top``: the radix to the power of levels - 1. ``children``: of the root of a radix-nomial tree (lane.h).
Recursive multiplying has ``exchanges``, in which a rank has ``met`` others; ``odd``: 1 if ranks are left over.
``read``, ``written``: the most bytes of a rank. ``segments``: the number in the larger of the two,
``part_segments`` in the p-th part of it; ``window``: how many are under way at once.
"""


@dataclass(frozen=True)
class StepTerm:
    """A step of a composition, where all nodes have as many consecutive ranks and the op commutes.

    ``over``: "node", "lane", "all", or "" for a step of each rank alone.
    ``read``, ``written``: the most of a rank, in sizes of the call, over PLACES. ``rounds`` and ``moved``: with
    the best algorithm known (generator/steps), over NAMES. ``combines``: whether it applies the op.
    """

    call: str
    over: str
    read: str
    written: str
    rounds: str
    moved: str
    combines: bool


@dataclass(frozen=True)
class LaneTerm:
    """The cost of a component collective by a lane algorithm, over NAMES.

    ``rounds``: one after the other; ``moved``: bytes through the busiest rank; ``messages``: that it sends.
    """

    rounds: str
    moved: str
    messages: str


def cost_expression(text: str, where: str) -> Expression:
    """An expression over NAMES. Raises CollforgeError for one that has no value for arrays of numbers."""
    found = parse(text, NAMES, where)
    if re.search(r"\b(if|and|or|not)\b", text):
        raise CollforgeError(
            f"{where}: {text!r}: a cost is evaluated for arrays: no if, and, or, not"
        )
    return found


def step_cost(term: StepTerm | LaneTerm, key: str, values: Mapping[str, Any]) -> Any:
    return cost_expression(getattr(term, key), key).evaluate(values)


def among(
    p: Any,
    read: Any,
    written: Any,
    radix: int = 2,
    segment: int = 0,
    window: int = 8,
) -> dict[str, Any]:
    """The values of NAMES, for numbers or arrays. ``segment``: bytes, 0 for all in one."""
    import numpy as np

    whole = np.maximum(read, written)
    cut = segment or math.inf
    levels = sum((p > float(radix) ** n for n in range(25)), 0 * p)
    top = float(radix) ** np.maximum(levels - 1, 0)
    powers = np.maximum(levels - (p < top * radix), 0)  # the logarithm, rounded down
    power = float(radix) ** powers
    last = p // power
    return {
        "p": p,
        "doublings": sum((p > 2**n for n in range(25)), 0 * p),
        "radix": radix,
        "levels": levels,
        "top": top,
        "children": (levels - 1) * (radix - 1) + np.ceil(p / top) - 1,
        "exchanges": powers + (last > 1),
        "met": powers * (radix - 1) + last - 1,
        "odd": (power * last != p) * 1,
        "read": read,
        "written": written,
        "segments": np.maximum(1, np.ceil(whole / cut)),
        "part_segments": np.maximum(1, np.ceil(whole / p / cut)),
        "window": window,
    }


def _term(
    step: StepTerm, algorithm: Mapping[str, LaneTerm], scans: bool
) -> StepTerm | LaneTerm | None:
    """``scans``: the algorithm's exscan runs those of a node, too (runtime/src/lane/lane.h)."""
    if step.over == "lane":
        return algorithm.get(step.call)
    if scans and step.over == "node" and step.call in ("scan", "exscan"):
        return algorithm.get("exscan")
    return None if step.over == "all" and step.call != "exchange" else step


def count(
    steps: Sequence[StepTerm],
    algorithm: Mapping[str, LaneTerm] | None,
    point: Mapping[str, int | str],
    shape: tuple[Any, Any],
    nbytes: Any,
) -> Counts | None:
    """None if a step between nodes has no cost: it is the MPI library's, or its algorithm's file states none.

    ``algorithm``: the lane algorithm of the variant, call -> cost. ``point``: its parameters. ``shape``: nodes
    and ranks per node, ``nbytes``: the size of the call; numbers, or arrays for many calls.
    """
    import numpy as np

    nodes, ranks = shape
    lanes = np.minimum(int(point.get("lanes", 0)) or ranks, ranks)
    places = {"nodes": nodes, "ranks": ranks, "lanes": lanes}
    total: dict[str, Any] = {field.name: 0.0 * nbytes for field in fields(Counts)}
    total["calls"] = total["calls"] + 1
    phase = "shared" if point.get("node_phase") == "shared" else "node"
    scans = point.get("node_scan") == "lane"
    radix, segment = int(point.get("radix", 0)) or 2, int(point.get("segment_bytes", 0))
    window = int(point.get("window", 0)) or 8
    for step in steps:
        read, written = (
            nbytes * parse(text, PLACES, step.call).evaluate(places)
            for text in (step.read, step.written)
        )
        if step.over == "":
            total["copied"] += written
            total["combined"] += written * step.combines
            continue
        p = {"node": ranks, "lane": nodes, "all": nodes * ranks}[step.over]
        term = _term(step, algorithm or {}, scans)
        if term is None:
            return None
        known = among(p, read, written, radix, segment, window)
        several = p > 1
        moved = step_cost(term, "moved", known) * several
        rounds = step_cost(term, "rounds", known) * several
        total["combined"] += moved * step.combines
        if step.over == "node":
            if isinstance(term, LaneTerm):  # one rank's messages are one after the other here
                rounds = np.maximum(rounds, step_cost(term, "messages", known) * several)
            total[f"{phase}_rounds"] += rounds
            total[f"{phase}_bytes"] += moved
            continue
        out = moved * {"lane": lanes, "all": ranks * (1 - 1 / nodes)}[step.over]
        total["lane_bytes"] += moved
        total["node_out"] += out
        if isinstance(term, LaneTerm):
            total["lane_rounds"] += rounds
            total["lane_messages"] += step_cost(term, "messages", known) * several
        else:  # an exchange: `window` messages are under way at once
            total["lane_messages"] += rounds * known["part_segments"]
            total["lane_rounds"] += rounds * known["part_segments"] / window
    return Counts(**total)


class SizeError(CollforgeError):
    """The size of a buffer is no product of powers of PLACES."""


def power_product(values: Mapping[tuple[int, int, int], float], where: str) -> str:
    """The expression over PLACES that has these values, at (nodes, ranks, lanes), the first of four alone.

    The second differs from it in nodes, the third in ranks, the fourth in lanes. Raises SizeError if the rest
    of the values show that there is none.
    """
    (base, start), *others = values.items()
    if not start:
        return "0"
    text, powers = "", []
    for axis, (at, value) in enumerate(others[:3]):
        ratio = at[axis] / base[axis]
        power = round(math.log(value / start) / math.log(ratio)) if ratio != 1 else 0
        powers.append(power)
        operator = " * " if power > 0 else " / "
        text += f"{operator}{PLACES[axis]}" * abs(power)
    factor = start / math.prod(one**power for one, power in zip(base, powers))
    for at, value in values.items():
        found = factor * math.prod(one**power for one, power in zip(at, powers))
        if abs(found - value) > 1e-9 * value or factor != round(factor):
            raise SizeError(
                f"{where}: the size is no product of {', '.join(PLACES)}: {dict(values)}"
            )
    return f"{round(factor)}{text}".removeprefix("1 * ")
