"""What every step is, and what it is told when it writes its C."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ..machine import Cells, Machine, Memory, ProofError, read
from ..model import Step
from ..splits import SPLITS

Keys = Mapping[str, "str | tuple[str, ...]"]
"""What a step may say beside ``call`` and ``where``: a buffer (BUFFER), or one of a few words."""

BUFFER = "buffer"
MOVE: Keys = {"from": BUFFER, "to": BUFFER}
# A node, a lane, or all ranks: these in chunks, each on a communicator of its own (chunks.h).
OVER = ("node", "lane", "all")
ROOTS = ("root", "leader", "root_node")
MEMBERS = ("all", "carriers", "root")  # of a node
CUTS = tuple(
    name for name in SPLITS if name not in ("collecting", "arriving", "targets", "sources")
)
OPTIONAL = ("blocks",)

# What the condition of a step may ask (Machine.facts), in C.
PLACES: Mapping[str, str] = {
    "node": "at->node",
    "nodes": "at->nodes",
    "node_rank": "at->node_rank",
    "rank": "at->rank",
    "root": "args->root",
    "root_node": "root_node",
    "carrier": "carrier",
    "consecutive": "at->consecutive",
    "commutative": "call.commutes",
}


@dataclass(frozen=True)
class Meeting:
    """Some ranks of a node (MEMBERS) wait for others; ``sees``: and see what these have stored before."""

    ranks: str
    awaited: str
    sees: bool


@dataclass(frozen=True)
class InC:
    """A step in the C of a variant. All but the step and the last four are C; what a step has not is empty."""

    step: Step
    comm: str
    source: str
    target: str
    units: str  # of a whole buffer
    split: str  # addresses of struct cf_split
    receive_split: str
    blocks: str  # address of a struct cf_blocks
    root: str
    mover: str
    receiver: str
    waiting: str  # struct cf_ranks
    awaited: str
    # "lane": by the lane algorithm; "phase": as the parameter node_phase says; "chunks": of all ranks;
    # "shared"; "native"
    way: str
    piped: bool  # the steps around it may overlap with it
    chosen_sync: bool  # a parameter says how ranks of a node wait
    part_of: str  # "share" or "lane": whose blocks are collected or placed

    @property
    def extent(self) -> dict[str, str]:
        """The argument that says how much each rank has: chunks are of blocks that are all alike."""
        return {"count": self.units} if self.way == "chunks" else {"parts": self.split}

    def component(self, given: Mapping[str, str]) -> str:
        """The call of the component collective of the step's name.

        ``given``: its arguments after the communicator, in order, by their names in struct cf_lane_call.
        """
        name, values = self.step.call, ", ".join(["comm", *given.values()])
        if self.way == "lane":
            fields = {"comm": "comm", **given}
            fields.update({"commutes": "call.commutes"} if "op" in given else {})
            fields.update({"pipe": "&pipe"} if self.piped else {})
            text = ", ".join(f".{field} = {value}" for field, value in fields.items())
            chosen = f"&lane_{name}[parameter[LANE_ALGORITHM]]"
            return f"CF_TRY(cf_lane_run(&(struct cf_lane_call){{{text}}}, {chosen}, parameter));"
        shared, native = f"cf_shared_{name}({values})", f"cf_{name}({values}, {self.comm})"
        calls = {
            "shared": shared,
            "phase": f"shared ? {shared} : {native}",
            "chunks": f"cf_chunks_{name}({values}, &chunks)",
            "native": native,
        }
        return f"CF_TRY({calls[self.way]});"


class StepKind(ABC):
    """A kind of step. Its name in specs is the class's, in lower case with underscores (``call``)."""

    call: ClassVar[str]
    keys: ClassVar[Keys] = MOVE
    sentence: ClassVar[str]  # of {reads}, {writes}, {over} and the keys' words
    header: ClassVar[str] = ""  # of runtime/src, where variant.h does not have its C function
    whole: ClassVar[bool] = False  # it takes a whole buffer, by its units
    takes_op: ClassVar[bool] = False
    # What it is in a pipe around a lane algorithm (lane.h): "splits" or "assembles" the ranks' parts, or takes
    # vectors "elementwise"; "": it has no place there.
    in_pipe: ClassVar[str] = ""
    # C variables of its own beside those of in_c/locals.py: name -> (type, value)
    variables: ClassVar[Mapping[str, tuple[str, str]]] = {}

    @abstractmethod
    def apply(self, m: Machine, step: Step, memory: Memory) -> dict[int, Cells]:
        """What the step writes, by rank. Raises ProofError for what would hang or read nothing."""

    @abstractmethod
    def to_c(self, c: InC) -> str:
        """The C statement."""

    def meeting(self, step: Step) -> Meeting | None:
        """Who waits for whom on a node before the step is over; those who do write before it, too."""
        return None

    def splits(self, step: Step) -> list[str]:
        """The splits that it needs: on the sending side, then on the receiving one."""
        kind = step.get("split")
        return [kind] if kind and kind != "ranks" else []

    def __init_subclass__(cls) -> None:
        if "call" in cls.__dict__:
            if cls.call in STEPS:
                raise ValueError(f"two steps are called {cls.call!r}")
            STEPS[cls.call] = cls()


STEPS: dict[str, StepKind] = {}


class GroupStep(StepKind):
    """A step that the members of a communicator take together; without ``over`` those of a node."""

    def apply(self, m: Machine, step: Step, memory: Memory) -> dict[int, Cells]:
        written: dict[int, Cells] = {}
        for group in m.groups(step.get("over") or "node"):
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
        """What the members write."""


class RankStep(StepKind):
    """A step that each rank takes alone."""

    def apply(self, m: Machine, step: Step, memory: Memory) -> dict[int, Cells]:
        ranks = [rank for rank in range(m.layout.size) if m.runs(step, rank)]
        return {rank: self.on_rank(m, step, rank, memory) for rank in ranks}

    def on_rank(self, m: Machine, step: Step, rank: int, memory: Memory) -> Cells:
        """What the rank writes."""
        return list(read(memory, rank, step.reads))


@dataclass(frozen=True)
class Reader:
    """A buffer of all ranks."""

    memory: Memory
    buffer: str

    def __call__(self, rank: int) -> Cells:
        return read(self.memory, rank, self.buffer)
