"""Measures native, the best variant of each family and the tuned choice together, and compares them."""

from __future__ import annotations

import math
import shlex
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from collforge import home
from collforge.case import Case
from collforge.db import Result, Store, Winner
from collforge.errors import CollforgeError
from collforge.generator.manifest import Manifest, VariantEntry
from collforge.place import Place
from collforge.tuner.decide import bandwidth, plan, search
from collforge.tuner.decide.bandwidth import link_rate
from collforge.tuner.decide.evidence import (
    Comparison,
    History,
    Launch,
    by_problem,
    compare,
    median_interval,
)
from collforge.tuner.decide.plan import Goal
from collforge.tuner.decide.winner_lookup import read_winners, rows_of, serving_winner
from collforge.tuner.run import ingest, measuring
from collforge.tuner.run.ingest import Cost, Report
from collforge.tuner.run.jobs import Job, Site, run_job
from collforge.variant import NATIVE, Variant

PLAIN = "full_lane"
"""The family whose first point is the composition of Träff and Hunold, section III.

Its component collectives are native, and nothing is segmented.
"""
ALGORITHM, EXPORTED = RESERVED = ("algorithm", "exported")
"""Names of environments: native/algorithm[TITLE] and native/exported (native_algorithms.py)."""
NATIVE_PHASES = "node_phase=native"
SHARED_PHASES = "node_phase=shared"


@dataclass(frozen=True)
class Known:
    """The stored measurements and winners of a place (database key) before the benchmark."""

    made: Manifest
    goal: Goal
    history: History = field(default_factory=dict)
    winners: Mapping[tuple[str, int], Winner] = field(default_factory=dict)
    """By collective and size."""
    rate: float | None = None
    """Bytes/s of all links of a node; None where it is not known."""

    def tuned(self, problem: Case) -> Variant | None:
        """The stored winner that serves a problem (collforge.serving); None if native runs.

        For hybrid collectives, which native cannot serve, the first variant takes native's role
        (runtime/src/hybrid/hybrid_call.c).
        """
        found = self._stored(problem)
        entries = self.made.variants_of(problem.collective)
        if found and found.is_native and self.made.collective(problem.collective).hybrid:
            first = self.first(problem, entries[0])
            return Variant.from_name(problem.collective, first, entries[0].fingerprint)
        return found

    def neighbours(self, problem: Case) -> list[Variant]:
        """The stored winners at the next smaller and the next larger size."""
        rows = rows_of(self.made, self._current(problem), problem.collective, problem.bytes)
        chosen = {one.choice.bytes: one for one in rows}
        smaller = [size for size in chosen if size < problem.bytes]
        larger = [size for size in chosen if size > problem.bytes]
        sizes = [*sorted(smaller)[-1:], *sorted(larger)[:1]]
        found = [self._variant(problem, chosen[size]) for size in sizes]
        return list(dict.fromkeys(one for one in found if one))

    def _current(self, problem: Case) -> list[Winner]:
        """The stored winners of a collective, and of that of a nonblocking form, whose variants still exist."""
        names = {problem.collective, self.made.collective(problem.collective).blocking} - {""}
        entries = [entry for name in names for entry in self.made.variants_of(name)]
        current = {"", *(entry.fingerprint for entry in entries)}
        return [
            winner
            for (name, _), winner in self.winners.items()
            if name in names and winner.choice.variant.fingerprint in current
        ]

    def _stored(self, problem: Case) -> Variant | None:
        current = self._current(problem)
        found = serving_winner(self.made, current, problem.collective, problem.bytes)
        return self._variant(problem, found) if found else None

    def _variant(self, problem: Case, winner: Winner) -> Variant | None:
        """None: it cannot be suspended, so native serves the nonblocking call."""
        variant = replace(winner.choice.variant, collective=problem.collective)
        entries = self.made.variants_of(problem.collective)
        possible = {"", *(entry.fingerprint for entry in entries)}
        return variant if variant.fingerprint in possible else None

    def best(self, problem: Case, entry: VariantEntry, words: str = "") -> str:
        """The name of the fastest point of a variant in earlier launches; the first point if none was measured.

        Only points whose names contain ``words`` count.
        """
        native, launches = Variant(problem.collective), self.history.get(problem.problem, ())
        ratios = {
            variant.name: compare(variant, native, launches).ratio
            for variant in search.measured(entry, launches)
            if words in variant.name
        }
        done = {name: ratio for name, ratio in ratios.items() if not math.isnan(ratio)}
        return max(done, key=done.__getitem__) if done else self.first(problem, entry)

    def first(self, problem: Case, entry: VariantEntry) -> str:
        return next(iter(plan.points(self.made, entry, problem)))

    def entries(self, problem: Case) -> list[VariantEntry]:
        return plan.applicable(self.made, self.goal, problem)


def read_known(made: Manifest, goal: Goal, database: Path, place: Place) -> Known:
    """The stored measurements and winners of a place (database key); empty if there is no database."""
    if not database.exists():
        return Known(made, goal, rate=link_rate(place))
    with Store(database, create=False) as store:
        found = read_winners(store, made, place, goal.layout)
        history = by_problem(store.measurements(place))
        rate = link_rate(place, store)
    winners = {(one.choice.variant.collective, one.choice.bytes): one for one in found}
    return Known(made, goal, history, winners, rate)


def usual_variants(known: Known, problem: Case) -> list[str]:
    """The tuned choice, and the fastest point so far of every family."""
    tuned = known.tuned(problem)
    names = [tuned.name] if tuned else []
    return [*names, *(known.best(problem, entry) for entry in known.entries(problem))]


def stages(known: Known, problem: Case) -> dict[str, str]:
    """The stages of improvement over the paper's composition, in order; empty if it does not apply."""
    entries = [entry for entry in known.entries(problem) if entry.family == PLAIN]
    if not entries:
        return {}
    on_lanes = known.best(problem, entries[0], NATIVE_PHASES)
    tuned = known.tuned(problem) or Variant(problem.collective)
    return {
        "plain": known.first(problem, entries[0]),
        "lane algorithm": on_lanes,
        "node phases": on_lanes.replace(NATIVE_PHASES, SHARED_PHASES),
        "tuned": tuned.name,
    }


@dataclass(frozen=True)
class Measured:
    """The launches and costs of each problem."""

    launches: Mapping[str, Sequence[Launch]]
    costs: Mapping[tuple[str, Variant], Sequence[Cost]]


@dataclass(frozen=True)
class Environment:
    """Native with other environment variables, compared as the family ``native/NAME``.

    The paper's "MPI native/MR" is such a one (Träff and Hunold, 2020, section IV-A). It needs launches of its
    own, each just after one of the others.
    """

    name: str
    variables: Mapping[str, str]
    titles: Mapping[str, str] | None = None
    """Collective -> the algorithm that runs. Others are not measured, and an algorithm may fail. None: the same
    for all, which must not fail."""

    @classmethod
    def parse(cls, text: str) -> Environment:
        """Of ``NAME:VARIABLE=VALUE VARIABLE=VALUE``."""
        name, _, rest = text.partition(":")
        words = [word.partition("=") for word in shlex.split(rest)]
        if not name.isalnum() or not words or not all(key and sign for key, sign, _ in words):
            raise CollforgeError(f"{text!r} is not NAME:VARIABLE=VALUE, e.g. MR:PSM2_MULTIRAIL=1")
        if name in RESERVED:
            raise CollforgeError(f"the name {name} is that of another option's measurements")
        return cls(name, {key: value for key, _, value in words})

    def cases(self, job: Job) -> list[Case]:
        """What it is measured in."""
        return [
            one
            for one in job.cases
            if one.variant == NATIVE and (self.titles is None or one.collective in self.titles)
        ]

    def renamed(self, variant: Variant) -> Variant:
        title = (self.titles or {}).get(variant.collective, "")
        return Variant(variant.collective, f"{NATIVE}/{self.name}", title)


def measure(
    site: Site, job: Job, count: int, runs: Path, others: Sequence[Environment] = ()
) -> Measured:
    """Runs the same job several times, because medians may differ between launches.

    ``others``: environments in which native is measured, too.
    """
    launches: dict[str, list[Launch]] = {}
    costs: dict[tuple[str, Variant], list[Cost]] = {}
    runs_alike = (
        count if site.is_simulated else 1
    )  # another launch of a simulation would give the same
    for number in range(count // runs_alike):
        folder = home.new_folder(runs, f"bench{number}")
        report = _report(site, job, folder)
        for key, found in report.costs.items():
            costs.setdefault(key, []).extend(found)
        done = [_launch(record.results) for record in report.runs]
        for other in others:
            again = replace(job, cases=other.cases(job), variables=other.variables)
            apart = home.new_folder(runs, f"bench{number}-{other.name}")
            beside = _report(site, again, apart, complete=other.titles is None)
            for launch, record in zip(done, beside.runs):
                for problem, samples in _launch(record.results).items():
                    launch[problem].update((other.renamed(v), s) for v, s in samples.items())
        for launch in done:
            for problem, samples in launch.items():
                launches.setdefault(problem, []).extend([samples] * runs_alike)
    return Measured(launches, costs)


def _report(site: Site, job: Job, folder: Path, complete: bool = True) -> Report:
    report = ingest.read_report(run_job(site, job, folder), measuring.place_of(site, job.layout))
    if complete:
        ingest.require_complete(report)
    return report


def _launch(results: Iterable[Result]) -> dict[str, dict[Variant, Sequence[float]]]:
    """The samples of a launch, by problem and variant."""
    samples: dict[str, dict[Variant, Sequence[float]]] = {}
    for result in results:
        if result.samples and result.verified:
            samples.setdefault(result.problem, {})[result.variant] = result.samples
    return samples


@dataclass(frozen=True)
class Row:
    """One problem: times in seconds, ratios to native (above 1: faster)."""

    problem: str
    collective: str
    bytes: int
    native: float
    native_low: float
    native_high: float
    families: dict[str, float]
    """Family -> best ratio of its variants."""
    variants: dict[str, float]
    """Variant -> ratio."""
    intervals: dict[str, tuple[float, float]]
    """Variant -> 95 % interval of the ratio."""
    neighbour: str
    """The faster of the stored winners at the neighbouring sizes; '' if not all were measured."""
    tuned: str
    ratio: float
    ratio_low: float
    ratio_high: float
    launches: int
    limit: float | None
    """Least possible seconds; None if the link rate is not known."""
    native_cpu: float | None
    """Processor seconds of one call, summed over all ranks."""
    tuned_cpu: float | None
    tuned_memory: int | None
    """Bytes of temporaries on the rank that has most."""

    @property
    def of_limit(self) -> float | None:
        return None if self.limit is None else self.limit * self.ratio / self.native

    @property
    def native_of_limit(self) -> float | None:
        return None if self.limit is None else self.limit / self.native

    @property
    def over_neighbour(self) -> float | None:
        """The speed-up of the tuned choice over `neighbour`."""
        best = {**self.variants, NATIVE: 1.0}.get(self.neighbour)
        return self.ratio / best if best else None

    @property
    def cpu_ratio(self) -> float | None:
        """Processor time of the tuned choice / that of native."""
        return self.tuned_cpu / self.native_cpu if self.tuned_cpu and self.native_cpu else None


def make_row(known: Known, problem: Case, measured: Measured) -> Row:
    launches = measured.launches[problem.problem]
    native = Variant(problem.collective)
    times = median_interval([s for launch in launches for s in launch.get(native, ())])
    compared = {
        variant: compare(variant, native, launches)
        for variant in sorted({v for launch in launches for v in launch} - {native})
    }
    families: dict[str, float] = {}
    for variant, one in compared.items():
        families[variant.family] = max(one.ratio, families.get(variant.family, 0.0))
    tuned = known.tuned(problem)
    chosen = tuned or native
    same = compared.get(chosen, Comparison(native, 1.0, 1.0, 1.0, len(launches)))
    least = bandwidth.lower_bound(
        known.made, problem.collective, known.goal.layout, problem.bytes, known.rate or math.inf
    )
    own = measured.costs.get((problem.problem, chosen), ())
    return Row(
        problem=problem.problem,
        collective=problem.collective,
        bytes=problem.bytes,
        native=times.median,
        native_low=times.low,
        native_high=times.high,
        families=families,
        variants={variant.name: one.ratio for variant, one in compared.items()},
        intervals={variant.name: (one.low, one.high) for variant, one in compared.items()},
        neighbour=best_of(known.neighbours(problem), compared),
        tuned=chosen.name if tuned else "-",
        ratio=same.ratio,
        ratio_low=same.low,
        ratio_high=same.high,
        launches=len(launches),
        limit=least or None,
        native_cpu=_median(c.cpu for c in measured.costs.get((problem.problem, native), ())),
        tuned_cpu=_median(cost.cpu for cost in own),
        tuned_memory=max((cost.memory for cost in own), default=None),
    )


def best_of(neighbours: Sequence[Variant], compared: Mapping[Variant, Comparison]) -> str:
    """The fastest of the neighbouring sizes' winners; '' unless all of them were measured."""
    ratios = {one: 1.0 for one in neighbours if one.is_native}
    ratios.update({one: compared[one].ratio for one in neighbours if one in compared})
    if not ratios or len(ratios) < len(neighbours):
        return ""
    return max(ratios, key=lambda one: ratios[one]).name


def _median(values: Iterable[float]) -> float | None:
    found = list(values)
    return statistics.median(found) if found else None
