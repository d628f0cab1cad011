"""The case strings that verify a variant, in three tiers, and those that time it.

A case combines an *operand* (a datatype, and an op if the collective has one), a *count* of elements,
a *root*, the use of MPI_IN_PLACE, *uneven* blocks if block sizes may differ, and a *point* of the
variant's parameters. A collective that moves no data has one case for each rank, in which this rank
enters last.

======== =================================== ================================= ============
tier     counts                              points                            combinations
======== =================================== ================================= ============
small    0, 1, odd, large                    every symbol; the least numbers   pairs
full     0, 1; as many as there are ranks    every symbol; the least number,   pairs
         on each node and in all, one less,  the next one, the largest of
         one more; a prime; large            the domain, taking turns
paranoid those of full, huge                 those of full, the whole domain   all
======== =================================== ================================= ============

"Symbols" are parameter values that are words, "numbers" those that are numbers. For a number with a limit
(lanes), 0, the default, is added. Numbers at or above the limit are left out, because they run as 0.

*Pairs*: every operand with every count, in place and not, with the roots taking turns; then every root
with every count, in place and not, with the operands taking turns. In both, even and uneven blocks take
turns. This covers the pairs of dimensions in which errors are likely (root and count, operand and
count, root and operand, in place and any other) with a fifth of the full product. Every problem is
solved with every combination of symbols. Numbers take turns, too: each is combined with every operand,
count and root, in place and not, but not with every other number, so that a further parameter does not
multiply the cases. The choice is deterministic.

Cases to which a variant does not apply are left out. ``bytes`` is count x type size.

Native is verified with the same problems; full has the huge count, too.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from collforge.case import Case
from collforge.errors import unknown
from collforge.generator.manifest import (
    UNSIZED_BYTES,
    CollectiveEntry,
    Manifest,
    Parameter,
    VariantEntry,
)
from collforge.layout import Layout
from collforge.variant import NATIVE, ParameterValue

TIERS = ("small", "full", "paranoid")

# Bytes of the type signature of one element (runtime/bench/types.c).
TYPE_BYTES = {
    "int": 4,
    "double": 8,
    "pair": 8,
    "strided": 8,
    "neglb": 8,
    "mixed": 8,
    "whole": 4,
}
ODD, PRIME, LARGE, HUGE = 7, 1009, 20011, 400009


@dataclass(frozen=True)
class Operand:
    """A datatype, and the op if the collective has one."""

    type: str
    op: str = ""

    @property
    def commutative(self) -> bool:
        return self.op != "affine"


@dataclass(frozen=True)
class Problem:
    """The arguments of a call, without its size in bytes."""

    operand: Operand
    count: int
    root: int
    in_place: bool
    uneven: bool

    @property
    def bytes(self) -> int:
        return self.count * TYPE_BYTES[self.operand.type]

    @property
    def options(self) -> dict[str, str]:
        """The options in the case string."""
        return {
            **({} if self.operand.type == "int" else {"type": self.operand.type}),
            **({"op": self.operand.op} if self.operand.op else {}),
            **({"root": str(self.root)} if self.root else {}),
            **({"in_place": ""} if self.in_place else {}),
            **({"uneven": ""} if self.uneven else {}),
        }


# The types that collectives of collforge_hybrid.h take.
DENSE = ("int", "double", "pair")

MOVED = tuple(Operand(name) for name in TYPE_BYTES)
REDUCED = (
    Operand("int", "sum"),
    Operand("int", "max"),
    Operand("double", "sum"),
    Operand("double", "max"),
    Operand("pair", "affine"),
    Operand("strided", "affine"),
    Operand("neglb", "affine"),
)


def verification_cases(
    manifest: Manifest, variant: VariantEntry, layout: Layout, tier: str
) -> Iterator[str]:
    """The case strings that verify a variant on a layout, grouped by problem.

    ``tier`` is small, full or paranoid (see above); CollforgeError for another. Yields nothing if
    the variant does not apply.
    """
    if tier not in TIERS:
        raise unknown("tier", tier, TIERS)
    collective = manifest.collective(variant.collective)
    texts = [
        [variant.name(point) for point in points_of_turn]
        for points_of_turn in _turns(
            variant, layout, "paranoid" if collective.moves_nothing else tier
        )
    ]
    applies: dict[tuple[int, bool], bool] = {}
    for problem, commutative, turns in _cases(collective, layout, tier):
        fact = (problem.bytes, commutative)
        if fact not in applies:
            applies[fact] = variant.applies(manifest.facts(collective.name, layout, *fact))
        if applies[fact]:
            chosen = dict.fromkeys(text for turn in turns for text in texts[turn % len(texts)])
            yield from (str(problem.by(text)) for text in chosen)


def native_cases(manifest: Manifest, collective: str, layout: Layout, tier: str) -> Iterator[str]:
    """The case strings that verify the MPI library's own collective on a layout.

    ``tier`` as for verification_cases. Nothing for a hybrid collective, which is none of the library's.
    """
    if tier not in TIERS:
        raise unknown("tier", tier, TIERS)
    entry = manifest.collective(collective)
    if not entry.hybrid:
        yield from (str(one) for one, _, _ in _cases(entry, layout, tier, huge=True))


def timing_case(manifest: Manifest, collective: str, layout: Layout, nbytes: int) -> Case:
    """The native call that times a collective at a size, with doubles and sums if possible.

    A collective that moves no data has a single one for all sizes.
    """
    entry = manifest.collective(collective)
    if entry.moves_nothing:
        return Case(collective, NATIVE, layout.name, UNSIZED_BYTES)
    name = next(
        name for name, size in (("double", 8), ("int", 4), ("chars", 1)) if nbytes % size == 0
    )
    problem = Problem(Operand(name, "sum" if entry.has_op else ""), 0, 0, False, False)
    return Case(collective, NATIVE, layout.name, nbytes, problem.options)


def timing_cases(
    manifest: Manifest, collective: str, layout: Layout, sizes: Iterable[int]
) -> list[Case]:
    """The native calls that time a collective at these sizes, without repetitions."""
    each = (timing_case(manifest, collective, layout, nbytes) for nbytes in sizes)
    return list({case.problem: case for case in each}.values())


def _cases(
    collective: CollectiveEntry, layout: Layout, tier: str, huge: bool = False
) -> Iterator[tuple[Case, bool, list[int]]]:
    """For every problem of a tier: its native case, whether its op commutes, and the turns of its numbers."""
    if collective.moves_nothing:
        for rank in range(layout.size):
            seed = {"seed": str(rank)}
            yield Case(collective.name, NATIVE, layout.name, UNSIZED_BYTES, seed), True, [0]
        return
    counts = _counts(collective, layout, tier, huge)
    for one, turns in _problems(collective, layout, tier, counts).items():
        native = Case(collective.name, NATIVE, layout.name, one.bytes, one.options)
        yield native, one.operand.commutative, turns


def _operands(collective: CollectiveEntry) -> list[Operand]:
    """A single element for a whole block needs blocks of one size."""
    return [
        operand
        for operand in (REDUCED if collective.has_op else MOVED)
        if (operand.type in DENSE or not collective.hybrid)
        and (operand.type != "whole" or collective.varies == "no")
    ]


def _problems(
    collective: CollectiveEntry, layout: Layout, tier: str, counts: Sequence[int]
) -> dict[Problem, list[int]]:
    """The problems of a tier, each with the turns (of `_turns`) at which it is solved."""
    operands = _operands(collective)
    roots = range(layout.size if collective.rooted else 1)
    in_place = (False, True) if collective.in_place != "none" else (False,)
    varies = collective.varies != "no"
    chosen: dict[Problem, list[int]] = {}
    if tier == "paranoid":
        forms = (False, True) if varies else (False,)
        for row in itertools.product(operands, counts, roots, in_place, forms):
            chosen[Problem(*row)] = [0]
        return chosen
    for (i, operand), (j, count), there in itertools.product(
        enumerate(operands), enumerate(counts), in_place
    ):
        root = roots[(i + j + len(operands) * there) % len(roots)]
        uneven = varies and count > 0 and (i + j + there) % 2 == 0
        chosen.setdefault(Problem(operand, count, root, there, uneven), []).append(i + j + there)
    for root, (j, count), there in itertools.product(roots, enumerate(counts), in_place):
        operand = operands[(root + j + there) % len(operands)]
        uneven = varies and count > 0 and (root + j + there) % 2 == 1
        chosen.setdefault(Problem(operand, count, root, there, uneven), []).append(root + j + there)
    return chosen


def _counts(collective: CollectiveEntry, layout: Layout, tier: str, huge: bool) -> list[int]:
    blocks = collective.total_bytes(layout.size, 1)
    large = LARGE // blocks
    if tier == "small":
        return [0, 1, ODD, large]
    counts = {0, 1, PRIME, large}
    for ranks in (*layout.node_sizes, layout.size):
        counts |= {ranks - 1, ranks, ranks + 1}
    if huge or tier == "paranoid":
        counts.add(HUGE // blocks)
    return sorted(counts)


def _turns(
    variant: VariantEntry, layout: Layout, tier: str
) -> list[list[dict[str, ParameterValue]]]:
    """The points of each turn: all symbols, with the numbers of that turn. In paranoid one turn has all.

    With two numeric parameters, the first value of one is combined with the second of the other, and so
    on: so small segments meet several segments under way.
    """
    names = [parameter.name for parameter in variant.parameters]
    values = [_values(parameter, layout, tier) for parameter in variant.parameters]
    numeric = [parameter.minimum is not None for parameter in variant.parameters]
    turns: list[list[dict[str, ParameterValue]]] = []
    for turn in range(max((len(v) for v, n in zip(values, numeric) if n), default=1)):
        # The k-th numeric parameter is k values ahead.
        choices = [
            [value[(turn + sum(numeric[:at])) % len(value)]] if numeric[at] else value
            for at, value in enumerate(values)
        ]
        rows = itertools.product(*choices)
        turns.append(_distinct(variant.canonical(dict(zip(names, r))) for r in rows))
    if tier == "paranoid":
        return [_distinct([*itertools.chain(*turns), *variant.points(layout.facts())])]
    return turns


def _distinct(
    found: Iterable[dict[str, ParameterValue]],
) -> list[dict[str, ParameterValue]]:
    listed = list(found)
    return [point for i, point in enumerate(listed) if point not in listed[:i]]


def _values(parameter: Parameter, layout: Layout, tier: str) -> list[ParameterValue]:
    if parameter.minimum is None:
        return list(parameter.values)
    if parameter.below:
        least = parameter.minimum
        usual = (0, least) if tier == "small" else (0, least, least + 1)
        return [v for v in usual if v == 0 or v < layout.facts()[parameter.below]]
    if parameter.enough and tier == "small":
        return [parameter.minimum, parameter.minimum + 1]
    # minimum + 1 is usually not a multiple of any type's size.
    if tier == "small":
        return [parameter.minimum]
    return sorted({parameter.minimum, parameter.minimum + 1, max(map(int, parameter.values))})
