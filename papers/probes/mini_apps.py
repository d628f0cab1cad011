"""The communication of three mini-applications by threads and by processes: Zambre et al. (2020), section 6.

`stencil` exchanges halos (papers/kernels/halo.c). `ebms` fetches tiles of memory, and `bspmm` fetches tiles,
multiplies them, and adds the products to others (papers/programs/one_sided.c).
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.table import Table

from collforge import units
from collforge.errors import CollforgeError
from collforge.home import home, new_folder
from collforge.mpi_library import MpiLibrary
from collforge.papers import PROGRAMS
from collforge.papers.probes.message_rate import TWO_NODES, Where, cores, label
from collforge.papers.programs import applications, message_rate
from collforge.papers.programs.message_rate import Setting
from collforge.reframe_checks.systems.emulated import ClusterSpec
from collforge.toolchain import vcis
from collforge.toolchain.build import OPENMP_FLAGS
from collforge.tuner.decide.evidence import Interval, median_interval
from collforge.tuner.probes import Result, programs
from collforge.tuner.run import measuring
from collforge.tuner.run.options import split_choices
from collforge.tuner.run.pictures import Line, LinePicture

SUMMARY = "the communication of three mini-applications, by threads and by processes"
APPS = ("stencil", "ebms", "bspmm")
ONE_SIDED = PROGRAMS / "one_sided.c"
FUNNELED = "funneled"
HALO_MODES = {"ser_comm": "serial", "par_comm": "parallel"}
"""The other modes have the same names in papers/kernels/halo.c."""
LAUNCHES = 5
ROUNDS = 100
SIZES = (512, 8192, 131072)
MOST_BYTES = 1 << 21
"""Of papers/programs/one_sided.c."""

Parts = Mapping[str, float]
"""Microseconds of each part of a round's communication."""


@dataclass(frozen=True)
class Row:
    """The communication of a round, in microseconds: median over launches, and its 95 % interval."""

    setting: Setting
    """Its call is the application."""
    bytes: int
    """Of a tile; of a border of a node's part of the stencil's mesh."""
    microseconds: float
    low: float
    high: float
    parts: Parts
    """The medians of the parts."""
    relative: float
    """Time over that of processes (everywhere)."""
    samples: tuple[float, ...]


@dataclass(frozen=True)
class Found(Result):
    rows: Sequence[Row]

    def table(self) -> Table:
        table = Table(title=self.title)
        for name in ("application", "who"):
            table.add_column(name)
        for name in ("bytes", "us", "95 % interval", "over processes", "parts"):
            table.add_column(name, justify="right")
        for row in self.rows:
            table.add_row(
                row.setting.call,
                who(row.setting),
                units.format_size(row.bytes),
                f"{row.microseconds:.3g}",
                f"{row.low:.3g} .. {row.high:.3g}",
                f"{row.relative:.2f}",
                ", ".join(f"{name} {value:.3g}" for name, value in row.parts.items()),
            )
        return table

    def picture(self) -> LinePicture:
        panels: dict[str, list[Line]] = {}
        for setting in dict.fromkeys(row.setting for row in self.rows):
            rows = [row for row in self.rows if row.setting == setting]
            points = [(row.bytes, row.microseconds) for row in rows]
            ends = [Interval(row.microseconds, row.low, row.high) for row in rows]
            panels.setdefault(setting.call, []).append(Line(who(setting), "o-", points, ends))
        return LinePicture(panels, "bytes", "us", scale=1.0, title=self.title)


def who(setting: Setting) -> str:
    """``par_comm, 4 VCIs``."""
    return label(replace(setting, pairs=0))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    programs.add_launches(parser, LAUNCHES)
    text = "of stencil, ebms, bspmm, separated by commas (default: all)"
    parser.add_argument("--app", default=",".join(APPS), metavar="NAME[,NAME...]", help=text)
    text = "two groups of processes on this machine, or two nodes of an emulated cluster (default: %(default)s)"
    parser.add_argument("--system", choices=("local", "emulated"), default="local", help=text)
    measuring.add_rails(parser)
    text = "of a node, threads or processes (default: the cores of this machine)"
    parser.add_argument("--workers", type=int, default=cores(), metavar="N", help=text)
    sizes = ",".join(map(str, SIZES))
    parser.add_argument("--sizes", default=sizes, help="of a tile or border (default: %(default)s)")


def run(library: MpiLibrary, args: argparse.Namespace) -> Found:
    apps = split_choices("app", args.app, APPS)
    sizes = units.parse_sizes(args.sizes)
    most = message_rate.MOST_PAIRS
    if not 1 <= args.workers <= most or sizes[-1] > MOST_BYTES:
        raise CollforgeError(f"give 1 to {most} workers, and sizes of at most {MOST_BYTES} bytes")
    cluster = None if args.system == "local" else measuring.rails(args, TWO_NODES)
    where = build(library, cluster, new_folder(home() / "runs", "mini-apps"))
    most = vcis.most_vcis(library)
    settings = message_rate.settings(args.workers, most, apps)
    if "stencil" in apps:
        settings.insert(1, Setting(FUNNELED, "stencil", args.workers))
    rows = measure(where, settings, sizes, args.launches)
    words = f"a round's communication, median of {args.launches} launches"
    return Found(f"{library.short_version}, {args.system}: {words}", rows)


def build(library: MpiLibrary, cluster: ClusterSpec | None, folder: Path) -> dict[str, Where]:
    """Compiles the programs in this folder; application -> where its program runs."""
    mpicc = str(library.mpicc)
    halo = applications.compile_command(mpicc, "halo", folder)
    one_sided = [mpicc, *OPENMP_FLAGS, "-o", str(folder / "one_sided"), str(ONE_SIDED), "-lm"]
    for command in (halo, one_sided):
        programs.run_program(command, {}, "a mini-application cannot be compiled")
    names = {app: "halo" if app == "stencil" else "one_sided" for app in APPS}
    return {app: Where(library, folder / name, cluster) for app, name in names.items()}


def measure(
    where: Mapping[str, Where], settings: Sequence[Setting], sizes: Sequence[int], launches: int
) -> list[Row]:
    """All settings, in turn in each of ``launches`` rounds.

    A setting that the library refuses, such as windows with MPI_THREAD_MULTIPLE between nodes, is left out.
    """
    found: dict[tuple[Setting, int], list[Parts]] = {}
    refused: set[Setting] = set()
    for _ in range(launches):
        for setting in (one for one in settings if one not in refused):
            try:
                parts = launch(where[setting.call], setting, sizes)
            except CollforgeError as error:
                if setting.call == "stencil":
                    raise
                print(f"{setting.call}, {who(setting)}: {error}", file=sys.stderr)
                refused.add(setting)
                continue
            for nbytes, of_size in parts.items():
                found.setdefault((setting, nbytes), []).append(of_size)
    totals = {key: [sum(one.values()) for one in samples] for key, samples in found.items()}

    def row(setting: Setting, nbytes: int) -> Row:
        samples, times = found[setting, nbytes], totals[setting, nbytes]
        own = median_interval(times)
        parts = {name: statistics.median(one[name] for one in samples) for name in samples[0]}
        processes = Setting(message_rate.MODES[0], setting.call, setting.pairs)
        base = statistics.median(totals.get((processes, nbytes), times))
        median = statistics.median(times)
        return Row(setting, nbytes, median, own.low, own.high, parts, median / base, tuple(times))

    return [row(*key) for key in found]


def launch(where: Where, setting: Setting, sizes: Sequence[int]) -> dict[int, Parts]:
    """One launch of each program: bytes -> the parts. Raises CollforgeError if it fails."""
    variables = {**setting.variables, "OMP_WAIT_POLICY": "passive"}
    start = [*where.start(setting), str(where.program)]
    if setting.call != "stencil":
        words = [setting.mode, setting.call, str(setting.threads), str(ROUNDS), *map(str, sizes)]
        text = programs.run_program([*start, *words], variables, f"{setting.call} failed")
        lines = json.loads(text[text.index("[") :])
        return {line.pop("bytes"): line for line in lines}
    across = setting.pairs if setting.mode == message_rate.MODES[0] else 1
    found: dict[int, Parts] = {}
    for nbytes in sizes:
        edge = -(-max(nbytes // 8, 1) // setting.pairs) * setting.pairs
        mode = HALO_MODES.get(setting.mode, setting.mode)
        words = [mode, str(edge), str(ROUNDS), str(across)]
        text = programs.run_program([*start, *words], variables, "the stencil failed")
        _, _, exchange, _ = text[text.index("halo ") + 5 :].split()[:4]
        found[nbytes] = {"exchange": float(exchange) / ROUNDS * 1e6}
    return found
