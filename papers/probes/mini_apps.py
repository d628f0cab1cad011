"""The communication of three mini-applications by threads and by processes: Zambre et al. (2020), section 6.

`stencil` exchanges halos (papers/kernels/halo.c). `ebms` fetches bands of memory and tracks particles with them
(papers/programs/ebms.c). `bspmm` multiplies block-sparse matrices (papers/programs/bspmm.c). All check their
results, and the probe that a stencil's result is the same for all workers.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.markup import escape
from rich.table import Table

from collforge import papers, units
from collforge.errors import CollforgeError
from collforge.mpi_library import MpiLibrary
from collforge.papers.probes.rounds import MISSING, Rounds, source
from collforge.papers.programs.message_rate import (
    EVERYWHERE,
    MODES,
    MOST_PAIRS,
    PAR_COMM,
    SER_COMM,
    STREAMS,
    thread_variables,
)
from collforge.toolchain import vcis
from collforge.tuner.probes import Result, programs
from collforge.tuner.run import measuring
from collforge.tuner.run.launches import Launch, Outcome
from collforge.tuner.run.options import split_choices
from collforge.tuner.run.pictures import Line, LinePicture

SUMMARY = "the communication of three mini-applications, by threads and by processes"
APPS = ("stencil", "ebms", "bspmm")
FUNNELED = "funneled"
HALO_MODES = {SER_COMM: "serial", PAR_COMM: "parallel"}
"""The other modes have the same names in papers/kernels/halo.c."""
ORDERINGS = ("ordered", "unordered")
LAUNCHES = 5
ROUNDS = 100
"""Exchanges of a stencil; rounds of EBMS over all bands are a fifth of it."""
TILES = 12
"""Of an edge of the matrices of BSPMM."""
SIZES = (512, 8192, 131072)
MOST_BYTES = 1_000_000
SECONDS = 40
"""A launch is killed then: MPICH 5.0.2 with several interfaces can wait for ever in MPI_Win_flush."""

PARTS = {
    "stencil": ("exchange",),
    "ebms": ("get", "get_flush"),
    "bspmm": ("fetch_and_op", "get", "get_flush", "accumulate", "accumulate_flush"),
}
"""What the programs time."""


@dataclass(frozen=True)
class Setting:
    app: str
    mode: str
    workers: int
    """Of a node: its processes (everywhere) or threads."""
    vcis: int = 0
    """The interfaces of a process, where there is a choice; else 0."""
    ordering: str = ""
    """Of BSPMM's accumulates."""

    @property
    def program(self) -> str:
        return "halo" if self.app == "stencil" else self.app

    @property
    def interfaces(self) -> str:
        return {0: "", 1: "one VCI"}.get(self.vcis, "a VCI each")

    def layout(self, nodes: int) -> str:
        if self.mode == EVERYWHERE:
            return f"{nodes}x{self.workers}"
        return f"{nodes}x1x{self.workers}" if self.workers > 1 else f"{nodes}x1"

    @property
    def variables(self) -> dict[str, str]:
        """A stencil has four communicators for a worker at most, two sets for each direction."""
        threads = 1 if self.mode == EVERYWHERE else self.workers
        return thread_variables(threads, self.vcis, 4 * threads if self.mode == STREAMS else 0)

    def arguments(self, sizes: Sequence[int]) -> list[str]:
        """Of one launch. A stencil takes one size."""
        if self.app == "stencil":
            edge = -(-max(sizes[0] // 8, 1) // self.workers) * self.workers
            words = [HALO_MODES.get(self.mode, self.mode), edge, ROUNDS]
            return [*map(str, words), *([str(self.workers)] if self.mode == EVERYWHERE else [])]
        numbers = [ROUNDS // 5] if self.app == "ebms" else [TILES, self.ordering]
        return [self.mode, *map(str, [self.workers, *numbers, *sizes])]


@dataclass(frozen=True)
class Row:
    """Microseconds of communication: of a stencil's exchange, a fetch of EBMS, a unit of work of BSPMM."""

    setting: Setting
    bytes: int
    """Of a portion of a band or of a tile; of a border of a node's part of the stencil's mesh."""
    interfaces: str
    """Of the setting, in words: a name that is the same for all numbers of workers."""
    microseconds: Sequence[float]
    """One a launch; MISSING where it failed."""
    parts: Mapping[str, Sequence[float]]
    """Of it, by the MPI call: the mean over workers."""
    doubt: str
    """Why they certify nothing, or ''."""


@dataclass(frozen=True)
class Found(Result):
    rows: Sequence[Row]

    def table(self) -> Table:
        table = Table(title=self.title)
        for name in ("application", "who"):
            table.add_column(name)
        for name in ("bytes", "us", "parts"):
            table.add_column(name, justify="right")
        table.add_column("doubt")
        for row in self.rows:
            table.add_row(
                row.setting.app,
                who(row.setting),
                units.format_size(row.bytes),
                f"{_median(row.microseconds):.3g}",
                ", ".join(f"{name} {_median(each):.3g}" for name, each in row.parts.items()),
                escape(row.doubt),
            )
        return table

    def picture(self) -> LinePicture:
        panels: dict[str, list[Line]] = {}
        for setting in dict.fromkeys(row.setting for row in self.rows):
            rows = [row for row in self.rows if row.setting == setting]
            points = [(row.bytes, _median(row.microseconds)) for row in rows]
            points = [point for point in points if point[1] > 0]
            if points:
                panels.setdefault(setting.app, []).append(Line(who(setting), "o-", points))
        return LinePicture(panels, "bytes", "us", scale=1.0, title=self.title)


def _median(values: Sequence[float]) -> float:
    return statistics.median([one for one in values if not math.isnan(one)] or [MISSING])


def who(setting: Setting) -> str:
    """``par_comm, a VCI each``."""
    return ", ".join(filter(None, [setting.mode, setting.interfaces, setting.ordering]))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    programs.add_launches(parser, LAUNCHES)
    text = "of stencil, ebms, bspmm, separated by commas (default: all)"
    parser.add_argument("--app", default=",".join(APPS), metavar="NAME[,NAME...]", help=text)
    measuring.add_system(parser, "nodes x workers, which are processes or threads")
    parser.set_defaults(fallback_system="local")
    sizes = ",".join(map(str, SIZES))
    text = "bytes of a tile, a portion of a band, or a border of a mesh (default: %(default)s)"
    parser.add_argument("--sizes", default=sizes, help=text)


def settings(app: str, workers: int, most_vcis: int) -> list[Setting]:
    """All settings that are compared: one interface, and one for each communicator or window of a worker."""
    modes = [*MODES[:1], FUNNELED, *MODES[1:]] if app == "stencil" else MODES[:3]
    numbers = [1, *([4 * workers] if most_vcis >= 4 * workers else [])]
    found = []
    for mode in modes:
        for number in numbers if mode in (SER_COMM, PAR_COMM) else [0]:
            for ordering in ORDERINGS if app == "bspmm" else ("",):
                found.append(Setting(app, mode, workers, number, ordering))
    return found


def run(library: MpiLibrary, args: argparse.Namespace) -> Found:
    at = measuring.parse_layout(args.layout, args.system)
    workers = at.node_sizes[0]
    if at.nodes < 2 or not at.regular or workers > MOST_PAIRS:
        raise CollforgeError(
            f"--layout {at.name}: give two nodes or more, with up to {MOST_PAIRS} workers each, e.g. 2x2"
        )
    apps = split_choices("application", args.app, APPS)
    sizes = units.parse_sizes(args.sizes)
    if sizes[-1] > MOST_BYTES:
        raise CollforgeError(f"--sizes {args.sizes}: at most {MOST_BYTES} bytes")
    most = vcis.most_vcis(library)
    chosen = [one for app in apps for one in settings(app, workers, most)]
    names = sorted({setting.program for setting in chosen})
    sources = [papers.KERNELS / "halo.c" if name == "halo" else source(name) for name in names]
    rounds = Rounds.of(library, args, "mini-apps", sources)
    rows = measure(rounds, chosen, sizes, (at.nodes, args.launches))
    words = f"communication in us, median of {args.launches} launches"
    return Found(f"{library.short_version}, {args.system} {at.name}: {words}", rows)


def measure(
    rounds: Rounds, chosen: Sequence[Setting], sizes: Sequence[int], counts: tuple[int, int]
) -> list[Row]:
    """counts: of nodes and of launches. Raises CollforgeError if the results of a stencil differ."""
    nodes, launches = counts
    planned = []
    for setting in chosen:
        each = [[size] for size in sizes] if setting.app == "stencil" else [sizes]
        planned += [(setting, some) for some in each]
    found = rounds.run(
        [
            Launch(
                [rounds.program(one.program), *one.arguments(some)],
                one.layout(nodes),
                one.variables,
                SECONDS,
            )
            for one, some in planned
        ],
        launches,
    )
    rows: list[Row] = []
    sums: dict[int, set[str]] = {}
    for (setting, some), outcomes in zip(planned, found):
        doubt = rounds.doubt(setting.layout(nodes), outcomes)
        rows += [row(setting, size, outcomes, doubt) for size in some]
        if setting.app == "stencil":
            good = {one.out.split()[-1] for one in outcomes if one.code == 0}
            sums[some[0]] = sums.get(some[0], set()) | good
    if any(len(each) > 1 for each in sums.values()):
        raise CollforgeError(f"stencils of one size have different results: {sums}")
    return rows


def row(setting: Setting, nbytes: int, outcomes: Sequence[Outcome], doubt: str) -> Row:
    """Of one size."""
    read = [parts_of(setting, one, nbytes) for one in outcomes]
    names = PARTS[setting.app]
    parts = {name: tuple(one.get(name, MISSING) for one in read) for name in names}
    total = tuple(sum(one.values()) if one else MISSING for one in read)
    return Row(setting, nbytes, setting.interfaces, total, parts, doubt)


def parts_of(setting: Setting, outcome: Outcome, nbytes: int) -> dict[str, float]:
    """The microseconds of each part; empty if the launch failed."""
    if outcome.code != 0:
        return {}
    if setting.app == "stencil":
        exchange = outcome.out[outcome.out.index("halo ") :].split()[3]
        return {"exchange": float(exchange) / ROUNDS * 1e6}
    lines = json.loads(outcome.out[outcome.out.index("[") :])
    (found,) = (one for one in lines if one["bytes"] == nbytes)
    return {name: value for name, value in found.items() if name != "bytes"}
