"""What the database holds, as plain values: seconds, bytes, moments in UTC as ISO 8601."""

from __future__ import annotations

from dataclasses import dataclass

NATIVE = "native"


@dataclass(frozen=True, order=True)
class Place:
    """Where numbers were taken; winners hold for one place."""

    system: str
    mpi: str
    """Short name of the MPI library, e.g. ``openmpi``."""
    mpi_version: str
    """The first line of MPI_Get_library_version."""
    layout: str


@dataclass(frozen=True, order=True)
class Variant:
    """One implementation of a collective; another fingerprint is another implementation."""

    collective: str
    family: str = NATIVE
    parameters: str = ""
    """The text inside the brackets of the variant's name, '' if there is none."""
    fingerprint: str = ""
    """Of the generated source; '' for native."""

    @classmethod
    def from_name(cls, collective: str, name: str, fingerprint: str = "") -> Variant:
        family, _, parameters = name.partition("[")
        return cls(collective, family, parameters[:-1], fingerprint)

    @property
    def name(self) -> str:
        """E.g. ``full_lane[lane_algorithm=ring,segment_bytes=65536]``."""
        return f"{self.family}[{self.parameters}]" if self.parameters else self.family

    @property
    def is_native(self) -> bool:
        return self.family == NATIVE


@dataclass(frozen=True)
class Result:
    """What one launch found about one variant on one problem."""

    variant: Variant
    problem: str
    """The case string without the variant, e.g. ``bcast@4x2,bytes=1024``."""
    bytes: int
    verified: bool
    detail: str = ""
    """What was wrong when not verified."""
    samples: tuple[float, ...] = ()
    """Seconds, in the order of the rounds of the launch; empty if the case was only verified."""
    late: int = 0
    """Samples discarded because a rank started late."""
    start_errors: tuple[float, ...] = ()
    """Of each sample: by how many seconds the last rank started late; empty if not known."""


@dataclass(frozen=True)
class RunRecord:
    """One launch of the timing driver, the unit of statistics (see tuner/select.py)."""

    uuid: str
    """Unique and stable: recording the same launch twice is noticed by it."""
    place: Place
    nodes: int
    ranks: int
    started: str
    tool_version: str
    reframe_version: str
    hosts: tuple[str, ...]
    seed: int
    results: tuple[Result, ...]


@dataclass(frozen=True)
class Measurement:
    """The samples of one variant on one problem in the launch `run` (a uuid)."""

    run: str
    problem: str
    bytes: int
    variant: Variant
    samples: tuple[float, ...]
    median: float
    late: int
    start_errors: tuple[float, ...] = ()


@dataclass(frozen=True)
class Verification:
    """Whether a variant gave the right result on a problem in the launch `run` (a uuid)."""

    run: str
    problem: str
    variant: Variant
    passed: bool
    detail: str


@dataclass(frozen=True)
class Choice:
    """The variant chosen for one size; ratios are time of native / time of the variant."""

    bytes: int
    variant: Variant
    ratio: float
    low: float
    high: float
    launches: int
    evidence: str = "decided"
    """``decided``, ``tie``; of an undecided size ``between``, ``barrier`` (see schema.sql)."""


@dataclass(frozen=True)
class Undecided:
    """A size that was measured and has no winner yet."""

    collective: str
    bytes: int
    launches: int
    reason: str


@dataclass(frozen=True)
class Winner:
    """A stored choice with the place it holds for."""

    place: Place
    host_pattern: str
    choice: Choice
    decided: str
