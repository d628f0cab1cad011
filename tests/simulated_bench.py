"""Times of calls on simulated machines, for the scripts that make the docs' and the tests' tables of them."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from collforge.case import Case, parse
from collforge.generator.manifest import Manifest
from collforge.home import home
from collforge.layout import from_name
from collforge.toolchain import libraries
from collforge.tuner.cli.commands.bench import entry_of
from collforge.tuner.run import benchmark, measuring
from collforge.tuner.run.jobs import Job
from collforge.variant import NATIVE

PLAIN = "full_lane"
"""The multi-lane paper's composition: the library's own collectives on lane and node."""
PLAIN_LANE = "lane_algorithm=native"
Times = dict[str, dict[str, float]]
"""Problem -> variant -> the seconds of its one call, of those that ran."""


def bench(layout: str, *words: str, system: str = "simulated") -> Any:
    """What `--json` writes, without a database's winners. Raises CalledProcessError or TimeoutExpired."""
    where = ["--system", system, "--mpi", "smpi-openmpi", "--layout", layout, "--each"]
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "rows.json")
        command = [sys.executable, "-m", "collforge", "bench", *where, "--json", str(output)]
        command += ["--db", str(Path(folder, "none.db")), *words]
        subprocess.run(command, check=True, timeout=1200, stdout=subprocess.DEVNULL)
        return json.loads(output.read_text(encoding="utf-8"))


def seconds(document: Any) -> Times:
    """Of what `bench` returns."""
    return {
        row["problem"]: {name: times[0][0] for name, times in row["samples"].items() if times[0]}
        for row in document["rows"]
    }


def manifest() -> Manifest:
    """What is measured in simulations."""
    return measuring.manifest(argparse.Namespace(system="simulated", config=None))


def alone(cases: Iterable[str], mpi: str = "smpi-openmpi", system: str = "simulated") -> Times:
    """Of one launch with only these cases: native, which `bench` always has, can take hours to simulate.

    The cases share a layout; parameters that they leave out have their defaults. `collforge build --mpi` has
    been run. Raises CollforgeError if one fails.
    """
    made = manifest()
    complete = [_completed(made, parse(text)) for text in cases]
    if not complete:
        return {}
    site = measuring.site_of(system, None, libraries.find(mpi))
    job = Job(complete, complete[0].layout, 1, 3600.0, 7, time_limit=3600.0)
    measured = benchmark.measure(site, job, 1, home() / "runs")
    return {
        problem: {variant.name: times[0] for variant, times in launch.items()}
        for problem, (launch,) in measured.launches.items()
    }


def _completed(made: Manifest, case: Case) -> Case:
    if case.variant == NATIVE:
        return case
    return case.by(entry_of(made, case).completed(case.variant, from_name(case.layout).facts()))


def plain_of(times: Mapping[str, float]) -> float | None:
    """The time of PLAIN, if it ran."""
    found = (name for name in times if name.startswith(f"{PLAIN}[") and PLAIN_LANE in name)
    return next((times[name] for name in found), None)
