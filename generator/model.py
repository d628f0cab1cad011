"""The specs as data classes: collectives, families, lane algorithms, compositions and variants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .manifest import Parameter
from .predicates import Expression
from .roles import Role, declaration
from .terms import LaneTerm


@dataclass(frozen=True)
class Argument:
    """One argument of a collective's C signature and its role, e.g. send buffer or root."""

    name: str
    role: Role

    @property
    def declaration(self) -> str:
        return declaration(self.role.type, self.name)


@dataclass(frozen=True)
class Result:
    """A collective's result by definition, as expressions over rank, block, root and size.

    Block b of the result on a rank combines, in rank order, block ``source_block`` of the inputs of the
    ranks ``first`` <= q < ``last``. An empty range leaves the block undefined.
    """

    in_blocks: Expression
    out_blocks: Expression
    first: Expression
    last: Expression
    source_block: Expression
    in_place_block: Expression


@dataclass(frozen=True)
class Collective:
    """One collective (generator/specs/collectives): of the MPI standard, or of collforge_hybrid.h."""

    name: str
    function: str
    summary: str
    standard: str
    arguments: tuple[Argument, ...]
    block_side: (
        str  # "send" or "recv": the side whose count and type give the uniform bytes of a block
    )
    sized: str  # the bytes a choice may read: of a "block", the "mean" of all, known or "exchanged", "none"
    varies: str  # what the size of a block depends on: "no", its "source" or "target" rank, or the "pair"
    in_place: str  # "none", "send_all", "send_root", "recv_root"
    has_blocks: bool  # a block for each rank, or pair of ranks, of so many bytes; else one vector
    bound: Expression  # least bytes that must pass the busiest node's links
    native: str  # for a hybrid collective: the C call of a program with a copy per rank
    result: Result

    def has(self, role: str) -> bool:
        return any(argument.role.name == role for argument in self.arguments)

    def sets(self, member: str) -> bool:
        """Whether an argument sets this member of struct cf_args."""
        return any(member in argument.role.members for argument in self.arguments)

    @property
    def formals(self) -> str:
        """The parameters of its C function."""
        return ", ".join(argument.declaration for argument in self.arguments)

    @property
    def has_nonblocking(self) -> bool:
        """Those of the MPI standard have; MPIX_ functions need not have a nonblocking form."""
        return self.function == f"MPI_{self.name.capitalize()}"

    @property
    def form(self) -> str:
        """The name of its nonblocking form if the choice of a variant is possible at its start; else ""."""
        return f"i{self.name}" if self.has_nonblocking and self.sized != "exchanged" else ""

    @property
    def rooted(self) -> bool:
        return self.has("root")

    @property
    def has_op(self) -> bool:
        return self.has("op")

    @property
    def prefix(self) -> bool:
        """Whether a rank's result combines only the ranks before it (scan, exscan)."""
        return self.has_op and "rank" in self.result.last.names

    @property
    def all_to_all(self) -> bool:
        """Whether there is one block for every pair of ranks."""
        return self.result.in_blocks.is_just("size") and self.result.out_blocks.is_just("size")

    @property
    def map_needs(self) -> tuple[str, ...]:
        """What ``collforge.layout.Layout`` must be for the collective to follow a point of the map.

        Points stand for consecutive ranks on nodes of the same size. Prefix reductions over other placements
        are serial across ranks. Where each block goes from one rank to one other (gather, scatter, alltoall),
        lanes, of which there are as many as the smallest node has ranks, slow down the larger nodes. The map
        models neither.
        """
        moves_once = self.has_blocks and not self.has_op and (self.rooted or self.all_to_all)
        return ("consecutive",) * self.prefix + ("even",) * moves_once

    @property
    def moves_nothing(self) -> bool:
        return all(argument.role.kind != "buffer" for argument in self.arguments)

    @property
    def hybrid(self) -> bool:
        """Whether the collective is one of collforge_hybrid.h, whose data exist once per node."""
        return self.has("hybrid")

    @property
    def single_buffer(self) -> bool:
        return self.has("buffer")


@dataclass(frozen=True)
class Algorithm:
    """A way to run a component collective on a lane (generator/specs/algorithms)."""

    name: str
    title: str
    summary: str
    source: str
    calls: tuple[str, ...]
    anywhere: tuple[str, ...]  # those of ``calls`` whose parts need not be contiguous
    pipelined: (
        bool  # it calls the node's steps around it for each segment (runtime/src/lane/lane.h)
    )
    parameters: tuple[Parameter, ...]
    fixed_order: tuple[str, ...] = ()
    """Those of ``calls`` that combine in an order that depends on the ranks alone (generator/order.py)."""
    costs: Mapping[str, LaneTerm] = field(default_factory=dict)
    """Call -> its cost. A variant with a lane algorithm whose cost is not stated is not extrapolated."""


@dataclass(frozen=True)
class Step:
    """One step of a composition. ``options`` are the further keys of the step's kind (generator/steps)."""

    call: str
    where: Expression | None
    options: Mapping[str, str]

    def __getitem__(self, key: str) -> str:
        return self.options[key]

    def get(self, key: str) -> str | None:
        return self.options.get(key)

    @property
    def reads(self) -> str:
        return self.options.get("data") or self.options["from"]

    @property
    def writes(self) -> str:
        return self.options.get("data") or self.options["to"]


@dataclass(frozen=True)
class Composition:
    """How a family performs one collective."""

    steps: tuple[Step, ...]
    predicate: Expression
    spare: Expression | None = None
    """On which ranks the output is a temporary: a root may pass read-only memory to a broadcast."""


@dataclass(frozen=True)
class Family:
    """One family of variants (generator/specs/families)."""

    name: str
    title: str
    summary: str
    source: str
    lanes: str  # "full" or "single": the number of lanes
    parameters: tuple[Parameter, ...]
    buffers: Mapping[str, str]  # temporary -> shape
    views: Mapping[
        str, str
    ]  # view of a node's shared memory -> how it is cut (generator/window.py)
    compositions: Mapping[str, Composition]

    @property
    def over_all(self) -> bool:
        """Whether the family has steps over all ranks. These work in chunks, which threads may run."""
        steps = (step for one in self.compositions.values() for step in one.steps)
        return any(step.get("over") == "all" for step in steps)


@dataclass(frozen=True)
class Specs:
    """Everything below generator/specs, checked."""

    roles: dict[str, Role]
    collectives: dict[str, Collective]  # standard and hybrid collectives
    families: dict[str, Family]
    algorithms: dict[str, Algorithm]

    @property
    def standard(self) -> list[Collective]:
        """The collectives of the MPI standard, which applications call unmodified."""
        return [c for c in self.collectives.values() if not c.hybrid]

    @property
    def hybrid(self) -> list[Collective]:
        """The collectives of collforge_hybrid.h."""
        return [c for c in self.collectives.values() if c.hybrid]

    @property
    def standard_families(self) -> dict[str, Family]:
        """The families that serve collectives of the MPI standard, by name."""
        names = {c.name for c in self.standard}
        return {n: f for n, f in sorted(self.families.items()) if names & f.compositions.keys()}


@dataclass(frozen=True)
class Variant:
    """A family applied to a collective, with the parameters that have a meaning for it."""

    collective: Collective
    family: Family
    composition: Composition
    parameters: tuple[Parameter, ...]
    algorithms: tuple[Algorithm, ...]

    @property
    def name(self) -> str:
        family, collective = self.family.name, self.collective.name
        return collective if collective.startswith(f"{family}_") else f"{family}_{collective}"

    @property
    def is_chunked(self) -> bool:
        """Whether it has steps over all ranks (Family.over_all)."""
        return any(step.get("over") == "all" for step in self.composition.steps)

    def parameter(self, name: str) -> Parameter | None:
        """The parameter with this name, or None."""
        return next((p for p in self.parameters if p.name == name), None)
