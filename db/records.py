"""The rows of the database as plain values: times in seconds, sizes in bytes, dates in UTC as ISO 8601."""

from __future__ import annotations

from dataclasses import dataclass

from collforge.decision import DECIDED
from collforge.place import Place
from collforge.variant import Variant


@dataclass(frozen=True)
class Result:
    """The result of one variant on one problem in one launch."""

    variant: Variant
    problem: str
    """The case string without the variant, e.g. ``bcast@4x2,bytes=1024``."""
    bytes: int
    verified: bool
    detail: str = ""
    """What was wrong, if the verification failed."""
    samples: tuple[float, ...] = ()
    """Seconds, in the order of the rounds of the launch; empty if the case was only verified."""
    late: int = 0
    """Samples discarded because a rank started late."""
    start_errors: tuple[float, ...] = ()
    """For each sample, how late the last rank started, in seconds; empty if not known."""


@dataclass(frozen=True)
class Start:
    """How the ranks of a launch were started, and where; '' and () where that is not known."""

    launcher: str = ""
    """ReFrame's name of it."""
    pmi: str = ""
    """``pmix`` or ``pmi``."""
    switches: tuple[str, ...] = ()
    """Those between the network's root and each node, as ``s0.s3``."""


@dataclass(frozen=True)
class RunRecord:
    """One launch of the timing driver, the unit of statistics (see tuner/decide/select.py)."""

    uuid: str
    """Identifies the launch, so that it is not recorded twice."""
    place: Place
    nodes: int
    ranks: int
    started: str
    tool_version: str
    reframe_version: str
    hosts: tuple[str, ...]
    seed: int
    results: tuple[Result, ...]
    start: Start = Start()
    scheduler_job: str = ""
    """The scheduler's name of the job; '' if it is not known."""
    seconds: int = 0
    """That the job ran on its nodes; 0 if they are not known."""


@dataclass(frozen=True)
class StoredRun:
    """What is stored of a launch, in numbers."""

    uuid: str
    place: Place
    started: str
    hosts: tuple[str, ...]
    start: Start
    measurements: int
    verifications: int
    failures: int
    """Verifications that failed."""
    scheduler_job: str = ""
    seconds: int = 0
    """As in `RunRecord`."""


@dataclass(frozen=True)
class Lanes:
    """The physical lanes of a system's nodes."""

    number: int
    rate: float
    """Bytes per second of a lane, in each direction."""


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
class ServedMedian:
    """The median of the launch `run` (a uuid), in seconds, of the winner of a problem or of native there."""

    run: str
    place: Place
    variant: Variant
    bytes: int
    median: float
    started: str
    hosts: tuple[str, ...]


@dataclass(frozen=True)
class Verification:
    """Whether a variant's result on a problem was right in the launch `run` (a uuid)."""

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
    evidence: str = DECIDED
    """``decided`` or ``tie``; for an undecided size ``neighbour`` or ``fallback`` (see schema.sql)."""
    seconds: float | None = None
    """Of a call by the variant; None: not known."""


MEASURED, PREDICTED, EXTRAPOLATED = "measured", "predicted", "extrapolated"
"""The evidence of a point of the map: that very layout was measured, those around it, or far smaller ones."""


@dataclass(frozen=True)
class MapPoint:
    """What is expected to win at a size on layouts near nodes x ranks on each.

    ``ratio``: the expected time of native / time of the variant; ``low``: the least that is likely.
    """

    nodes: int
    ranks_per_node: int
    bytes: int
    """Of a block, on exactly this layout."""
    variant: Variant
    ratio: float
    low: float
    evidence: str
    sources: tuple[str, ...]
    """The names of the layouts that it follows from."""

    @property
    def layout(self) -> str:
        return f"{self.nodes}x{self.ranks_per_node}"

    @property
    def name(self) -> str:
        """As the runtime reads it (runtime/src/winners/winners.h): ``~4x2``, extrapolated ``~~512x64``."""
        return f"{'~' * (1 + (self.evidence == EXTRAPOLATED))}{self.layout}"


@dataclass(frozen=True)
class Decision:
    """A change of a winner; None: no winner. Of choices of then, neither interval nor launches are known."""

    place: Place
    collective: str
    bytes: int
    decided: str
    old: Choice | None
    new: Choice | None


@dataclass(frozen=True)
class Undecided:
    """A size that was measured and has no winner yet."""

    collective: str
    bytes: int
    launches: int
    reason: str


@dataclass(frozen=True)
class Winner:
    """A stored choice with the place (database key) that it holds for."""

    place: Place
    host_pattern: str
    choice: Choice
    decided: str


@dataclass(frozen=True)
class Epoch:
    """Since when launches count for a problem."""

    place: Place
    collective: str
    bytes: int
    begins: str


@dataclass(frozen=True)
class NativeBest:
    """The fastest of the MPI library's own algorithms."""

    place: Place
    collective: str
    bytes: int
    algorithm: str
    seconds: float
    """Of a call: the median over launches."""


# ---- production jobs, nights and applications ----------------------------------------------------


@dataclass(frozen=True)
class Verdict:
    """How a variant did beside native in a production job, in calls of a quarter octave of sizes."""

    layout: str
    """Of the communicator."""
    variant: Variant
    bytes: int
    """The least of these sizes."""
    native: float
    seconds: float
    """Of a call, on the slowest rank."""
    pairs: int
    """Of calls, native's and the variant's in turn."""
    again: bool
    """Whether the variant served calls before, and was tried again."""
    kept: bool
    """Whether it serves calls from then on; else native does."""


@dataclass(frozen=True)
class JobRecord:
    """A production job that learnt something: a file of COLLFORGE_LEARN."""

    digest: str
    """SHA-256 of the file, in hexadecimal digits, so that it is taken in once."""
    place: Place
    """Its layout is ''."""
    owner: str
    """'': root, or the owner of the database."""
    ended: str
    tool_version: str
    verdicts: tuple[Verdict, ...]


@dataclass(frozen=True)
class Learnt:
    """What enough jobs agree on, of a variant where it was expected to be fast and was not measured."""

    layout: str
    variant: Variant
    bytes: int
    """The least of a quarter octave of sizes."""
    confirmed: bool
    """Else refuted."""
    ratio: float
    """Time of native / time of the variant."""
    jobs: int
    owners: int
    first: str
    last: str


@dataclass(frozen=True)
class Finding:
    """A value that a regression check of ReFrame found in a night."""

    system: str
    partition: str
    environment: str
    found: str
    scheduler_job: str
    test: str
    problem: str
    """The case string of a winner's check; '' for others."""
    variable: str
    value: float
    unit: str
    reference: float | None
    low: float | None
    high: float | None
    """The ends of what is accepted; None: none."""
    passed: bool


@dataclass(frozen=True)
class Tree:
    """A tree of `collforge install` with winners of this database."""

    prefix: str
    version: str
    """Of Collforge."""
    module_version: str
    libraries: str
    """Names of the MPI libraries, with commas."""
    digest: str
    """SHA-256 of the winners."""
    installed: str


@dataclass(frozen=True)
class JobUse:
    """What the jobs of a month used."""

    month: str
    jobs: int
    users: int
    calls: int
    served: int
    saved: float
    """Seconds on all ranks, estimated."""


@dataclass(frozen=True)
class StoredProfile:
    """What an application calls, as COLLFORGE_PROFILE wrote it."""

    system: str
    name: str
    """Of the application."""
    stored: str
    content: str
