"""How fast the map's winners are on layouts that were not measured, without a trial (COLLFORGE_GUARD).

With a database in which these layouts were tuned, also how much of that tuning's speed they reach. With
``--trials``, also what is left of it once the guard has dropped what it found slower.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from rich.table import Table

from collforge import units
from collforge.case import Case
from collforge.decision import MARGIN
from collforge.home import home
from collforge.mpi_library import MpiLibrary
from collforge.place import Place
from collforge.toolchain import build
from collforge.tuner.decide import plan
from collforge.tuner.decide.evidence import Comparison, Interval, Launch, compare
from collforge.tuner.probes import Result, programs, trials
from collforge.tuner.probes.programs import Programs
from collforge.tuner.run import benchmark, measuring
from collforge.tuner.run.benchmark import Known
from collforge.tuner.run.jobs import Job
from collforge.tuner.run.options import add_database, split
from collforge.tuner.run.pictures import DotPicture, Dots
from collforge.variant import NATIVE, Variant

SUMMARY = "time the winners expected on layouts that were not measured against native and a tuning"
LAYOUTS = "3x2,2x3,6x1,cyclic:4x2,3+1+2"


@dataclass(frozen=True)
class Row:
    """One problem. Ratios are time of native / time of the variant, with a 95 % interval."""

    layout: str
    collective: str
    bytes: int
    variant: str
    ratio: float
    low: float
    high: float
    tuned: Optional[float]  # noqa: UP045 (msgspec evaluates it, on Python 3.9, too)
    """The ratio of what a tuning on this layout chose (`_tuned`); None: it did not measure the problem."""
    dropped: Optional[float]  # noqa: UP045
    """The share of trials in which the guard left the call to native; None without a trial."""

    @property
    def of_tuned(self) -> float:
        """The speed, as a fraction of that of the choice tuned here."""
        return self.ratio / max(self.tuned or 1.0, 1.0)

    @property
    def kept(self) -> float:
        return 1 - (self.dropped or 0.0)

    @property
    def is_slower(self) -> bool:
        return not self.ratio >= 1 - MARGIN


@dataclass(frozen=True)
class Found(Result):
    rows: Sequence[Row]
    trials: int

    def table(self) -> Table:
        table = Table(title=self.title)
        table.add_column("layout")
        for name in (
            "cases",
            "by variants",
            "times native",
            "least",
            "not slower",
            "of a tuning here",
            "guarded: times native",
            "not slower",
        ):
            table.add_column(name, justify="right")
        for layout in (*dict.fromkeys(row.layout for row in self.rows), ""):
            mine = [row for row in self.rows if layout in ("", row.layout)]
            compared = [row for row in mine if row.tuned is not None]
            guarded = [row.ratio**row.kept for row in mine]
            kept_slower = [row.is_slower * row.kept for row in mine]
            table.add_row(
                layout or "all",
                str(len(mine)),
                str(sum(row.variant != NATIVE for row in mine)),
                f"{_mean(row.ratio for row in mine):.2f}",
                f"{min(row.ratio for row in mine):.2f}",
                f"{statistics.fmean(not row.is_slower for row in mine):.1%}",
                f"{_mean(row.of_tuned for row in compared):.2f}" if compared else "",
                f"{_mean(guarded):.2f}" if self.trials else "",
                f"{1 - statistics.fmean(kept_slower):.1%}" if self.trials else "",
            )
        return table

    def remark(self) -> str:
        lines = [
            f"slower: {row.collective}@{row.layout} of {units.format_size(row.bytes)} by {row.variant}: "
            f"{row.ratio:.2f} ({row.low:.2f} to {row.high:.2f})"
            + (f", kept by the guard in {row.kept:.0%} of the trials" if self.trials else "")
            for row in self.rows
            if row.is_slower
        ]
        words = (
            "means are geometric; not slower: at least 0.97 times as fast as native; "
            "guarded: after trials, of reductions, too"
        )
        return "\n".join([words, *lines])

    def picture(self) -> DotPicture:
        panels: dict[str, list[Dots]] = {}
        for layout in dict.fromkeys(row.layout for row in self.rows):
            mine = [row for row in self.rows if row.layout == layout]
            values = {
                f"{row.collective} {units.format_size(row.bytes)}": Interval(
                    row.ratio, row.low, row.high
                )
                for row in mine
            }
            panels[f"{layout}: times as fast as native"] = [Dots("95 % interval", values)]
        return DotPicture(panels, self.title, mark=1.0)


def _mean(values: Iterable[float]) -> float:
    return math.exp(statistics.fmean(math.log(value) for value in values))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    measuring.add_system(parser)
    parser.set_defaults(layout=LAYOUTS)
    measuring.add_problems(parser)
    parser.set_defaults(sizes="16KiB,128KiB,512KiB", per="node")
    add_database(parser)
    parser.add_argument(
        "--tuned-here",
        metavar="FILE",
        type=Path,
        help="a database in which these layouts were tuned",
    )
    parser.add_argument("--launches", type=int, default=2, help="default: %(default)s")
    parser.add_argument(
        "--samples", type=int, default=8, help="rounds in each (default: %(default)s)"
    )
    parser.add_argument(
        "--trials",
        type=int,
        default=0,
        help="by the guard, of each winner, reductions too (default: %(default)s)",
    )


def run(library: MpiLibrary, args: argparse.Namespace) -> Found:
    build.build(library)
    rows = []
    names = split(args.layout)
    if args.trials:
        trials.check(args, names)
    prepared = programs.prepare(library, []) if args.trials else None
    for name in names:
        args.layout = name
        rows += measure(library, args, prepared)
    title = f"{library.short_version}, {args.system}: winners on layouts that were not measured"
    return Found(title, rows, args.trials)


def measure(library: MpiLibrary, args: argparse.Namespace, prepared: Programs | None) -> list[Row]:
    """All problems on the layout ``args.layout``. ``prepared``: None without trials."""
    made = build.read_manifest()
    goal = measuring.goal(args, made)
    place = Place.of(measuring.system_name(args), library, goal.layout)
    known = benchmark.read_known(made, goal, args.db, place)
    here = benchmark.read_known(made, goal, args.tuned_here, place) if args.tuned_here else None
    problems = plan.problems(made, goal)
    native = {one.problem: Variant(one.collective) for one in problems}
    chosen = {one.problem: _choice(known, one) for one in problems}
    tuned = {one.problem: _tuned(here, one) for one in problems if here}
    cases = []
    for one in problems:
        variants = (native[one.problem], chosen[one.problem], tuned.get(one.problem))
        cases += [one.by(name) for name in dict.fromkeys(v.name for v in variants if v)]
    job = Job(cases, goal.layout.name, args.samples, 3600.0, 7, time_limit=3600.0)
    site = measuring.site(args, library.name)
    found = benchmark.measure(site, job, args.launches, home() / "runs").launches
    winners = [(one, won) for one in problems if not (won := chosen[one.problem]).is_native]
    dropped = trials.left_native(prepared, args, winners) if prepared else {}
    rows = []
    for one in problems:
        key = one.problem
        by_map = _compare(chosen[key], native[key], found[key])
        best = tuned.get(key)
        by_tuning = _compare(best, native[key], found[key]).ratio if best else None
        numbers = (by_map.ratio, by_map.low, by_map.high, by_tuning, dropped.get(key))
        rows.append(Row(goal.layout.name, one.collective, one.bytes, chosen[key].name, *numbers))
    return rows


def _choice(known: Known, problem: Case) -> Variant:
    """What serves a problem: a stored variant that applies, or native."""
    found = known.tuned(problem)
    current = {entry.fingerprint for entry in known.entries(problem)}
    return found if found and found.fingerprint in current else Variant(problem.collective)


def _tuned(here: Known, problem: Case) -> Variant | None:
    """What a tuning on this layout decided, or, if it did not, the fastest that it measured.

    It is timed anew, so luck does not count. None: nothing was measured; the map of that database is no tuning.
    """
    launches = here.history.get(problem.problem, ())
    if not launches:
        return None
    decided = here.winners.get((problem.collective, problem.bytes))
    if decided and decided.place.layout == problem.layout:
        return _choice(here, problem)
    native = Variant(problem.collective)
    current = {entry.fingerprint for entry in here.entries(problem)}
    measured = {one for launch in launches for one in launch if one.fingerprint in current}
    ratios = {one: compare(one, native, launches).ratio for one in measured}
    return max((one for one in ratios if ratios[one] > 1), key=ratios.__getitem__, default=native)


def _compare(variant: Variant, native: Variant, launches: Sequence[Launch]) -> Comparison:
    if variant.is_native:
        return Comparison(native, 1.0, 1.0, 1.0, len(launches))
    return compare(variant, native, launches)
