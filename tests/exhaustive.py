"""Measures every point of every variant, as a data set for replays of the search.

``.venv/bin/python tests/exhaustive.py --mpi openmpi`` writes tests/data/exhaustive-openmpi.json, in about
twenty minutes on the emulated cluster. The file includes the manifest of the measured variants, so that it
remains valid when they change.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from collforge import home
from collforge.case import Case
from collforge.generator import manifest
from collforge.generator.manifest import Manifest
from collforge.layout import from_name
from collforge.toolchain import build, libraries
from collforge.tuner.decide import plan
from collforge.tuner.decide.evidence import Launch
from collforge.tuner.decide.plan import Goal
from collforge.tuner.run import benchmark
from collforge.tuner.run.jobs import Job, Site
from collforge.variant import NATIVE, Variant, split_name

DATA = Path(__file__).parent / "data"
COLLECTIVES = ("bcast", "allreduce", "alltoall")
LAUNCHES = 3
SAMPLES = {256: 25, 1024: 25, 4096: 15, 16384: 10, 65536: 5, 262144: 3}
"""Bytes per node -> samples; short calls vary more and need more samples."""
RAILS = {"COLLFORGE_RAILS": "2", "COLLFORGE_RATE": "100mbit", "COLLFORGE_RAIL_MODEL": "tied"}


@dataclass(frozen=True, eq=False)  # so that it can be a key
class Exhaustive:
    """``launches``: problem -> point -> median seconds in each launch."""

    made: Manifest
    goal: Goal
    launches: Mapping[str, Sequence[Launch]]

    def points(self, problem: Case) -> list[str]:
        """The variants that compete with native."""
        entries = plan.applicable(self.made, self.goal, problem)
        return [name for entry in entries for name in plan.points(self.made, entry, problem)]


def record(mpi: str) -> None:
    library = libraries.find(mpi)
    build.build(library)
    made = build.read_manifest()
    goal = Goal(from_name("4x2"), COLLECTIVES, tuple(SAMPLES), per="node")
    site = Site("emulated", mpi, variables=RAILS)
    launches: dict[str, Sequence[Launch]] = {}
    for size, samples in SAMPLES.items():
        at_size = Exhaustive(made, replace(goal, sizes=(size,)), {})
        cases = [
            problem.by(name)
            for problem in plan.problems(made, at_size.goal)
            for name in [NATIVE, *at_size.points(problem)]
        ]
        job = Job(cases, goal.layout.name, samples, 600.0, 7, time_limit=3600.0)
        launches.update(benchmark.measure(site, job, LAUNCHES, home.home() / "runs").launches)
        print(f"{mpi}: {len(cases)} points of {size} bytes per node", flush=True)
    write(Exhaustive(made, goal, launches), library.version.splitlines()[0], mpi)


def write(found: Exhaustive, version: str, mpi: str) -> None:
    """Writes the data set, with seconds rounded to four digits."""
    made = replace(
        found.made,
        collectives=tuple(c for c in found.made.collectives if c.name in COLLECTIVES),
        variants=tuple(v for v in found.made.variants if v.collective in COLLECTIVES),
    )
    names: dict[str, dict[str, None]] = {collective: {} for collective in COLLECTIVES}
    for problem in plan.problems(made, found.goal):
        names[problem.collective].update(dict.fromkeys([NATIVE, *found.points(problem)]))
    rows = {
        problem: [
            [float(f"{statistics.median(launch[variant]):.4g}") for launch in launches]
            if variant in launches[0]
            else []
            for variant in variants_of(made, problem.split("@")[0], names)
        ]
        for problem, launches in found.launches.items()
    }
    data = {
        "mpi": version,
        "layout": found.goal.layout.name,
        "sizes_per_node": list(found.goal.sizes),
        "manifest": json.loads(made.to_json()),
        "variants": {collective: list(each) for collective, each in names.items()},
        "seconds": rows,
    }
    (DATA / f"exhaustive-{mpi}.json").write_text(json.dumps(data, separators=(",", ":")) + "\n")


def variants_of(
    made: Manifest, collective: str, names: Mapping[str, Iterable[str]]
) -> list[Variant]:
    fingerprints = {v.family: v.fingerprint for v in made.variants_of(collective)}
    return [
        Variant.from_name(collective, name, fingerprints.get(split_name(name)[0], ""))
        for name in names[collective]
    ]


def read(mpi: str, scratch: Path) -> Exhaustive:
    data = json.loads((DATA / f"exhaustive-{mpi}.json").read_text())
    (scratch / "manifest.json").write_text(json.dumps(data["manifest"]))
    made = manifest.load(scratch / "manifest.json")
    goal = Goal(from_name(data["layout"]), COLLECTIVES, tuple(data["sizes_per_node"]), per="node")
    launches: dict[str, list[Launch]] = {}
    for problem, rows in data["seconds"].items():
        variants = variants_of(made, problem.split("@")[0], data["variants"])
        launches[problem] = [
            {variant: [row[number]] for variant, row in zip(variants, rows) if row}
            for number in range(len(rows[0]))
        ]
    return Exhaustive(made, goal, launches)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mpi", required=True)
    record(parser.parse_args().mpi)
