"""Databases as the tuner's own decisions fill them, from invented measurements, and `collforge db` on them."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from collforge.cases import timing_case
from collforge.db import Result, RunRecord, Start, Store
from collforge.generator.manifest import Manifest
from collforge.layout import from_name
from collforge.place import Place
from collforge.tuner.cli import main
from collforge.tuner.decide import plan
from collforge.tuner.decide.plan import Goal
from collforge.tuner.run.jobs import Site
from collforge.tuner.run.tune import Session, decide_all, publish_map
from collforge.variant import NATIVE, Variant

PLACE = Place("cluster", "openmpi", "Open MPI v5.0.7", "4x2")
SIZES = (1024, 65536)
FAST, SLOW = "lane_algorithm=native", "node_phase=shared"
"""Parts of names of variants of full_lane; each test says which of them is fast."""
SECONDS: Mapping[str, float] = {NATIVE: 2e-3, FAST: 1e-3, SLOW: 2.4e-3}


@dataclass(frozen=True)
class Tuning:
    """A tuning whose launches are drawn from these seconds."""

    made: Manifest
    place: Place = PLACE
    day: int = 1
    """Of January 2026; a launch an hour, so that there are at most 24."""
    seconds: Mapping[str, float] = field(default_factory=lambda: SECONDS)
    collectives: Sequence[str] = ("bcast",)
    hosts: Sequence[str] = ("node1", "node2", "node3", "node4")
    fingerprint: str = ""
    """Instead of that of the generated code."""

    def variants(self, collective: str) -> dict[Variant, float]:
        (entry,) = [v for v in self.made.variants_of(collective) if v.family == "full_lane"]
        problem = timing_case(self.made, collective, from_name(self.place.layout), SIZES[0])
        found = {Variant(collective): self.seconds[NATIVE]}
        for part in (FAST, SLOW):
            name = next(n for n in sorted(plan.points(self.made, entry, problem)) if part in n)
            one = Variant.from_name(collective, name, self.fingerprint or entry.fingerprint)
            found[one] = self.seconds[part]
        return found

    def launch(self, number: int) -> RunRecord:
        draw = random.Random(f"{self.place} {self.day} {number}")
        at = from_name(self.place.layout)
        results = tuple(
            Result(variant, problem.problem, problem.bytes, True, "", samples)
            for collective in self.collectives
            for problem in (timing_case(self.made, collective, at, size) for size in SIZES)
            for variant, seconds in self.variants(collective).items()
            for samples in [tuple(seconds * draw.uniform(0.97, 1.03) for _ in range(9))]
        )
        started = f"2026-01-{self.day:02d}T{number:02d}:00:00Z"
        uuid = f"{self.place.system}-{self.place.mpi_version}-{started}"
        hosts = tuple(self.hosts)
        start = Start("srun", "pmix", ("s0.s1",) * at.nodes)
        place = self.place, at.nodes, at.size
        return RunRecord(uuid, *place, started, "0", "4", hosts, 7, results, start)

    def store(self, path: Path, launches: int = 6, pattern: str = "") -> Path:
        """Stores the launches and decides, as `tune` does."""
        with Store(path) as store:
            store.describe_system(self.place.system, pattern)
            for number in range(launches):
                store.record_run(self.launch(number))
        return self.decide(path)

    def decide(self, path: Path) -> Path:
        goal = Goal(from_name(self.place.layout), tuple(self.collectives), SIZES)
        site = Site(self.place.system, self.place.mpi)
        session = Session(self.made, goal, site, self.place, path, path.parent)
        decide_all(session)
        publish_map(session)
        return path


Out = pytest.CaptureFixture[str]


def run(capsys: Out, code: int, *words: str | Path) -> str:
    """Runs `collforge db` with these words; returns what it prints."""
    capsys.readouterr()
    assert main.main(["db", *map(str, words)]) == code
    captured = capsys.readouterr()
    return captured.out + captured.err


def content(path: Path) -> list[object]:
    """Everything in a database, by names instead of ids."""
    with Store(path, create=False) as store:
        places, libraries = store.places(), {(p.mpi, p.mpi_version) for p in store.places()}
        return [
            store.runs(),
            [store.measurements(place) for place in places],
            [store.failures(*one) for one in sorted(libraries)],
            store.winners(),
            store.undecided(),
            dict(store.decisions()),
            [store.map(place) for place in places],
            [store.lanes(place) for place in places],
            [store.sources(one.choice.variant.fingerprint) for one in store.winners()],
        ]
