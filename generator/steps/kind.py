"""The base classes of steps, and the values from which a step writes its C."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ..machine import Cells, Machine, Memory, ProofError, read
from ..model import Step
from ..scope import Scope
from ..splits import SPLITS
from ..terms import cost_expression

Keys = Mapping[str, "str | tuple[str, ...]"]
"""The keys of a step beside ``call`` and ``where``. The value is a buffer (BUFFER) or one of a few words."""

BUFFER = "buffer"
MOVE: Keys = {"from": BUFFER, "to": BUFFER}
# Communicators: of a node, of a lane, or of all ranks. Steps over all ranks work in chunks (chunks.h).
OVER = ("node", "lane", "all")
ROOTS = ("root", "leader", "root_node")
MEMBERS = ("all", "carriers", "root")  # ranks of a node that can wait or be waited for
CUTS = tuple(name for name in SPLITS if name not in ("collecting", "arriving", "sources"))
OPTIONAL = ("blocks",)

# The names in the condition of a step (Machine.facts), in C (Scope.fill).
PLACES: Mapping[str, str] = {
    "node": "{at}->node",
    "nodes": "{at}->nodes",
    "node_rank": "{at}->node_rank",
    "rank": "{at}->rank",
    "root": "args->root",
    "root_node": "{root_node}",
    "carrier": "{carrier}",
    "consecutive": "{at}->consecutive",
    "commutative": "call.commutes",
}


@dataclass(frozen=True)
class Meeting:
    """The ranks ``ranks`` of a node wait for the ranks ``awaited`` (both of MEMBERS).

    ``sees``: they then also see the earlier stores of those ranks.
    """

    ranks: str
    awaited: str
    sees: bool


@dataclass(frozen=True)
class InC:
    """A step with the C expressions of a variant.

    ``use.lanes`` is ``lanes`` in C, and declares it: so with all local variables (generator/in_c/locals.py).
    The fields from ``source`` to ``awaited`` are C; one without meaning for the step is empty.
    """

    step: Step
    use: Scope
    source: str
    target: str
    units: str  # of a whole buffer
    split: str  # addresses of struct cf_split
    receive_split: str
    root: str
    mover: str
    receiver: str
    waiting: str  # struct cf_ranks
    awaited: str
    # How the step runs. "lane": by the lane algorithm; "phase": by the parameter node_phase; "scan": by that
    # and the parameter node_scan; "chunks": in chunks over all ranks; "shared": through shared memory;
    # "native": by the MPI library
    way: str
    piped: bool  # the steps around it may overlap with it
    chosen_sync: bool  # the parameter sync says how ranks of a node wait
    part_of: str  # "share" or "lane": the blocks that are collected or placed

    @property
    def extent(self) -> dict[str, str]:
        """The argument with the amount of data of each rank: a count in chunks, else the parts of a split."""
        return {"count": self.units} if self.way == "chunks" else {"parts": self.split}

    def component(self, given: Mapping[str, str]) -> str:
        """The call of the component collective of the step's name.

        ``given``: the arguments after the communicator, in order, keyed by their names in struct cf_lane_call.
        """
        name, use, values = self.step.call, self.use, ", ".join(["comm", *given.values()])
        if self.way == "lane":
            return f"CF_TRY({self._by_lane('cf_lane_run', name, given)});"
        if self.way == "chunks":
            return f"CF_TRY(cf_chunks_{name}({values}, &chunks));"
        shared = f"cf_shared_{name}({values})"
        if self.way == "shared":
            return f"CF_TRY({shared});"
        native = f"cf_{name}({values}, {use.at}->{self.step['over']}_comm)"
        if self.way == "native":
            return f"CF_TRY({native});"
        if self.way == "scan":
            by_lane = self._by_lane(f"cf_node_{name}", "exscan", given)
            return f"CF_TRY({use.shared} ? {shared} : {use.by_lane} ? {by_lane} : {native});"
        return f"CF_TRY({use.shared} ? {shared} : {native});"

    def _by_lane(self, function: str, call: str, given: Mapping[str, str]) -> str:
        fields = {"comm": "comm", **given}
        fields.update({"commutes": "call.commutes"} if "op" in given else {})
        fields.update({"pipe": "&pipe"} if self.piped else {})
        text = ", ".join(f".{field} = {value}" for field, value in fields.items())
        chosen = f"&lane_{call}[{self.use.parameter}[LANE_ALGORITHM]]"
        return f"{function}(&(struct cf_lane_call){{{text}}}, {chosen}, {self.use.parameter})"


class StepKind(ABC):
    """A kind of step. Its name in specs (``call``) is the class name in lower case with underscores."""

    call: ClassVar[str]
    keys: ClassVar[Keys] = MOVE
    sentence: ClassVar[str]  # C comment: a format of {reads}, {writes}, {over} and the keys
    header: ClassVar[str] = (
        ""  # the header in runtime/src with its C function, if variant.h lacks it
    )
    whole: ClassVar[bool] = False  # it works on a whole buffer, given in units
    takes_op: ClassVar[bool] = False
    keeps_order: ClassVar[bool] = True  # whether it combines all parts of a vector in one order
    # Its role in a pipe around a lane algorithm (lane.h): it "splits" or "assembles" the ranks' parts, or works
    # on vectors "elementwise". "": it cannot be in a pipe.
    in_pipe: ClassVar[str] = ""
    scratch: ClassVar[str] = ""  # the shape of a temporary of its own (splits.SHAPES)
    in_order: ClassVar[bool] = False  # it needs order_comm
    by_lane: ClassVar[bool] = False  # cf_node_NAME (lane.h) makes it of a lane algorithm's exscan
    # Its cost with the best algorithm known (Träff and Hunold, 2020, section III), over the names of
    # generator/terms.py.
    rounds: ClassVar[str] = "0"
    moved: ClassVar[str] = "0"
    # The local variable in C (generator/in_c/locals.py) that says whether it runs; where it does not, its two
    # buffers are the same. "": its condition is the step's own.
    one_buffer: ClassVar[str] = ""

    @abstractmethod
    def apply(self, m: Machine, step: Step, memory: Memory) -> dict[int, Cells]:
        """The cells that the step writes, by rank. Raises ProofError if it would hang or read unset data."""

    @abstractmethod
    def to_c(self, c: InC) -> str:
        """The C statement."""

    def stores(self, m: Machine, step: Step) -> bool:
        """Whether a rank whose cells it writes stores them, also where its two buffers are the same."""
        return True

    def meeting(self, step: Step) -> Meeting | None:
        """The wait of a node's ranks that ends the step, if any."""
        return None

    def splits(self, step: Step) -> list[str]:
        """The names of the splits that it needs: of the sent data, then of the received data."""
        kind = step.get("split")
        return [kind] if kind and kind != "ranks" else []

    def __init_subclass__(cls) -> None:
        for key in ("rounds", "moved"):
            cost_expression(getattr(cls, key), f"step {cls.__name__}: {key}")
        if "call" in cls.__dict__:
            if cls.call in STEPS:
                raise ValueError(f"two steps are called {cls.call!r}")
            STEPS[cls.call] = cls()


STEPS: dict[str, StepKind] = {}


class GroupStep(StepKind):
    """A step that all members of a communicator execute together: of ``over``, or if it has none ``among``."""

    among: ClassVar[str] = "node"

    def apply(self, m: Machine, step: Step, memory: Memory) -> dict[int, Cells]:
        written: dict[int, Cells] = {}
        for group in m.groups(step.get("over") or self.among):
            taking_part = {m.runs(step, rank) for rank in group}
            if len(taking_part) > 1:
                raise ProofError(
                    f"ranks {group} disagree on {step.call} where {step.where}: a deadlock"
                )
            if taking_part == {True}:
                written.update(self.on_group(m, step, group, Reader(memory, step.reads)))
        return written

    @abstractmethod
    def on_group(
        self, m: Machine, step: Step, group: Sequence[int], data: Reader
    ) -> dict[int, Cells]:
        """The cells that each member writes."""


class RankStep(StepKind):
    """A step that each rank executes alone."""

    def apply(self, m: Machine, step: Step, memory: Memory) -> dict[int, Cells]:
        ranks = [rank for rank in range(m.layout.size) if m.runs(step, rank)]
        return {rank: self.on_rank(m, step, rank, memory) for rank in ranks}

    def on_rank(self, m: Machine, step: Step, rank: int, memory: Memory) -> Cells:
        """The cells that the rank writes."""
        return list(read(memory, rank, step.reads))


@dataclass(frozen=True)
class Reader:
    """Reads a named buffer of any rank."""

    memory: Memory
    buffer: str

    def __call__(self, rank: int) -> Cells:
        return read(self.memory, rank, self.buffer)
