"""The page docs/catalogue.md: what the specs contain, for readers. `make catalogue` writes it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence

from collforge.layout import from_name

from . import load
from .cost import cost
from .expand import expand
from .manifest import Parameter
from .model import Collective, Specs, Variant
from .predicates import INT_MAX
from .proof import applies
from .render import variant_text

LAYOUTS = ("4x4", "4x4x4", "8x1", "1x8")
"""An implementation's costs are those on the first of these layouts on which it applies."""
PRINTED = "hierarchical_bcast"

_HEAD = """\
# Catalogue

All that Collforge generates: each collective, the families that serve it, and their parameters. Made from
`generator/specs` by `make catalogue`; edit the specs, not this page.

[Collectives](#collectives) · [Families](#families) · [Lane algorithms](#lane-algorithms) ·
[Parameters](#parameters) · [An implementation in C](#an-implementation-in-c)

* A *family* is a way to perform collectives. An *implementation* is the C that is generated for a family and a
  collective. A *variant* is a family with a value for each of its parameters, such as
  `full_lane[lane_algorithm=ring,segment_bytes=65536]`. The tuner searches the variants. A call that none serves
  is native: the MPI library's own.
* A *lane algorithm* performs the steps between nodes, each among ranks of which every node has one.
* *Applies if*: over facts that are equal on all ranks. There are `size` ranks on `nodes` nodes, of which the
  smallest has `min_node_size` ranks and the largest `max_node_size`. `consecutive`: the ranks of every node
  are. `commutative`: the op is, or there is none. `threads`: of each process that may call MPI. `bytes`: of
  the vector, or of one block; `total_bytes`: of the call's largest buffer.
"""

_COLLECTIVES = """\
## Collectives

*Rounds* and *volume* are those of the family's steps with the best algorithm known for each (Träff and
Hunold, 2020, section III), on the *layout* of the row: `4x4` is 4 nodes of 4 ranks; in `4x4x4` each has 4
threads. Rounds follow each other; in brackets are those between nodes. The volume is what the busiest rank
sends or receives on its node / on its lane / and what the busiest node does over all its lanes, in sizes of
the vector or block.
"""


def catalogue(specs: Specs) -> str:
    """The page, in Markdown."""
    variants = expand(specs)
    (printed,) = (variant for variant in variants if variant.name == PRINTED)
    parts = [_HEAD, _COLLECTIVES]
    for collective in specs.collectives.values():
        own = [variant for variant in variants if variant.collective == collective]
        parts.append(_collective(collective, own))
    parts += ["## Families", _table("family | what it does | source", _families(specs))]
    parts += ["## Lane algorithms", _table(_ALGORITHM, _algorithms(specs))]
    parts += ["## Parameters", _table(_PARAMETER, _parameters(variants))]
    text = variant_text(printed, "VERSION").replace("@FINGERPRINT@", "...")
    parts.append(
        f"## An implementation in C\n\n`variants/{PRINTED}.c`:\n\n```c\n{text.strip()}\n```"
    )
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _table(head: str, rows: Iterable[Sequence[str]]) -> str:
    columns = head.split(" | ")
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(
        f"| {' | '.join(cell.replace('|', '&#124;') for cell in row)} |" for row in lines
    )


def _code(values: Iterable[object]) -> str:
    return ", ".join(f"`{value}`" for value in values)


_VARIANT = "family | applies if | lane algorithms | parameters | layout | rounds | volume"


def _collective(collective: Collective, variants: Sequence[Variant]) -> str:
    data = "blocks" if collective.has_blocks else "vectors"
    if collective.varies != "no":
        data += f" whose size depends on the {_DEPENDS[collective.varies]}"
    bound = f"Data: {data}. The busiest node's links pass at least `{collective.bound.text}` bytes."
    where = f"`{collective.function}` ({collective.standard})."
    return "\n\n".join(
        [
            f"### {collective.name}",
            f"{where} {collective.summary} {'' if collective.moves_nothing else bound}".strip(),
            _table(_VARIANT, map(_row, variants)),
        ]
    )


_DEPENDS = {"source": "sender", "target": "receiver", "pair": "sender and the receiver"}


def _row(variant: Variant) -> tuple[str, ...]:
    layout = next(name for name in LAYOUTS if applies(variant.composition, from_name(name)))
    found = cost(variant, from_name(layout))
    return (
        f"`{variant.family.name}`",
        f"`{variant.composition.predicate.text}`",
        _code(["native", *(one.name for one in variant.algorithms)]) if variant.algorithms else "-",
        _code(parameter.name for parameter in variant.parameters) or "-",
        layout,
        f"{found.rounds} ({found.lane_rounds})",
        f"{found.node_volume:.3g} / {found.lane_volume:.3g} / {found.off_node:.3g}",
    )


def _families(specs: Specs) -> Iterator[tuple[str, ...]]:
    for family in specs.families.values():
        yield f"`{family.name}`", family.summary, family.source


_ALGORITHM = "algorithm | steps between nodes | parameters | what it does | source"


def _algorithms(specs: Specs) -> Iterator[tuple[str, ...]]:
    for one in specs.algorithms.values():
        names = _code(parameter.name for parameter in one.parameters) or "-"
        yield f"`{one.name}`", ", ".join(one.calls), names, one.summary, one.source


_PARAMETER = "parameter | families | values searched | legal numbers | what it sets | restrictions"


def _parameters(variants: Iterable[Variant]) -> Iterator[tuple[str, ...]]:
    """A row for each parameter; those of one name that differ in more than their algorithms have several."""
    found: dict[tuple[str, ...], list[tuple[str, Parameter]]] = {}
    for variant in variants:
        for one in variant.parameters:
            key = (one.name, one.summary, one.below, one.whole, one.enough)
            found.setdefault(key, []).append((variant.family.name, one))
    for rows in sorted(found.values(), key=lambda rows: rows[0][1].name):
        alike = [parameter for _, parameter in rows]
        yield (
            f"`{alike[0].name}`",
            _code(dict.fromkeys(family for family, _ in rows)),
            _code(dict.fromkeys(value for one in alike for value in one.values)),
            _legal(alike[0]),
            alike[0].summary,
            "; ".join(_restrictions(alike)) or "-",
        )


def _legal(one: Parameter) -> str:
    if one.minimum is None:
        return "-"
    begin = "from 0" if one.minimum == 1 else f"0, from {one.minimum}"
    return f"{begin} on" if one.maximum == INT_MAX else f"{begin} to {one.maximum}"


def _restrictions(alike: Sequence[Parameter]) -> Iterator[str]:
    one = alike[0]
    if one.below:
        yield f"below `{one.below}`"
    if one.whole:
        yield f"from `{one.whole}` on it cuts nothing"
    if one.enough:
        yield f"of values from `{one.enough}` on, only the first is searched"
    needs = {value: condition for each in alike for value, condition in each.needs.items()}
    for condition in dict.fromkeys(needs.values()):
        meant = _code(value for value, needed in needs.items() if needed == condition)
        yield f"{meant} only if `{condition}`"
    for name in dict.fromkeys(name for each in alike for name in each.requires):
        values = dict.fromkeys(v for each in alike for v in each.requires.get(name, ()))
        yield f"only with `{name}` = {_code(values)}"


def main() -> int:
    sys.stdout.write(catalogue(load.load_specs()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
