"""A tuning file of the MPI library's own, for those who cannot preload: its best native algorithms.

Open MPI lets one name the algorithm of each collective; every one that the library lists is timed as
native, in launches of its own, and the file names those that beat the library's own choice.
"""

from __future__ import annotations

import re
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from collforge.errors import CollforgeError
from collforge.generator.case import Case
from collforge.runtime.libraries import MpiLibrary
from collforge.tuner import ingest, request
from collforge.tuner.run import Job, Site, run_job

# Open MPI's numbers of the collectives in a rules file (ompi/mca/coll/base). Gather and scatter are left
# out: a rule by size reads arguments there that are not significant on every rank.
OPENMPI_IDS = {
    "allgather": 0,
    "allreduce": 2,
    "alltoall": 3,
    "bcast": 7,
    "exscan": 8,
    "reduce": 11,
    "reduce_scatter_block": 13,
    "scan": 14,
}
# Whose message size in a rules file is that of the whole buffer, not of one block.
WHOLE_BUFFER = ("allgather", "alltoall", "reduce_scatter_block")
OWN_CHOICE = 0
MARGIN = 0.03

Times = dict[str, dict[int, list[float]]]
"""Median seconds of each launch, by problem and algorithm."""


def openmpi_algorithms(library: MpiLibrary) -> dict[str, dict[int, str]]:
    """Names of the algorithms of each collective, by number, as ompi_info lists them."""
    if library.flavor != "openmpi":
        raise CollforgeError(
            f"{library.name} is no Open MPI, whose algorithms can be named: use --to openmpi; "
            "MPICH's selection file replaces its whole built-in tree, which its packages do not ship"
        )
    program = library.mpirun.with_name("ompi_info")
    command = [str(program), "--param", "coll", "tuned", "--level", "9", "--parsable"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.CalledProcessError) as error:
        raise CollforgeError(f"{program} does not work ({error}): install openmpi-bin") from error
    found: dict[str, dict[int, str]] = {}
    for name, number, title in re.findall(
        r"coll_tuned_(\w+)_algorithm:enumerator:value:(\d+):(\w+)", done.stdout
    ):
        if name in OPENMPI_IDS and int(number) != OWN_CHOICE:
            found.setdefault(name, {})[int(number)] = title
    return found


def measure(
    site: Site,
    problems: Sequence[Case],
    algorithms: Mapping[str, Mapping[int, str]],
    launches: int,
    folder: Path,
) -> Times:
    """Times every algorithm of every problem as native; an algorithm that fails leaves no times."""
    times: Times = {}
    numbers = sorted({OWN_CHOICE, *(n for known in algorithms.values() for n in known)})
    for launch in range(launches):
        for number in numbers:
            cases = [
                problem
                for problem in problems
                if number == OWN_CHOICE or number in algorithms.get(problem.collective, {})
            ]
            if not cases:
                continue
            variables = {**site.variables, "OMPI_MCA_coll_tuned_use_dynamic_rules": "1"}
            for name in algorithms:
                variables[f"OMPI_MCA_coll_tuned_{name}_algorithm"] = str(number)
            job = Job(cases, cases[0].layout, 7, 2.0, launch, time_limit=1800.0)
            report = ingest.read_report(
                run_job(
                    replace(site, variables=variables), job, request.new_folder(folder, "export")
                ),
                request.place_of(site, job.layout),
            )
            for result in (one for record in report.runs for one in record.results):
                if result.verified and result.samples:
                    of_problem = times.setdefault(result.problem, {})
                    of_problem.setdefault(number, []).append(statistics.median(result.samples))
    return times


def choose(times: Mapping[int, Sequence[float]]) -> int:
    """The algorithm that beats the library's own choice by the margin in every launch, the fastest of them."""
    own = times.get(OWN_CHOICE, ())
    best = (1.0, OWN_CHOICE)
    for number, seconds in times.items():
        if number == OWN_CHOICE or len(seconds) != len(own):
            continue
        ratios = [mine / theirs for mine, theirs in zip(seconds, own)]
        if max(ratios) < 1 / (1 + MARGIN):
            best = min(best, (statistics.geometric_mean(ratios), number))
    return best[1]


def openmpi_rules(ranks: int, choices: Mapping[str, Mapping[int, int]]) -> str:
    """The text of a dynamic rules file: algorithm numbers by collective and bytes of a block.

    Rules hold for communicators of just this size; any other keeps the library's own choice. Sizes between
    measured ones take the rule of the nearest on a logarithmic scale.
    """
    chosen = {name: rules for name, rules in choices.items() if any(rules.values())}
    lines = [
        "# Written by collforge export; use it with",
        "#   --mca coll_tuned_use_dynamic_rules 1",
    ]
    lines += [
        "#   --mca coll_tuned_dynamic_rules_filename THIS_FILE",
        f"{len(chosen)} # collectives",
    ]
    for name, rules in sorted(chosen.items(), key=lambda item: OPENMPI_IDS[item[0]]):
        scale = ranks if name in WHOLE_BUFFER else 1
        steps, before = [(0, OWN_CHOICE)], 0
        for nbytes, number in sorted(rules.items()):
            start = round((nbytes * before) ** 0.5) if before else nbytes
            steps.append((start * scale, number))
            before = nbytes
        lines += [f"{OPENMPI_IDS[name]} # {name}", "3 # communicator sizes"]
        lines += ["0 1 # the smaller ones", "0 0 0 0", f"{ranks} {len(steps)}"]
        lines += [f"{start} {number} 0 0" for start, number in steps]
        lines += [f"{ranks + 1} 1 # the larger ones", "0 0 0 0"]
    return "\n".join(lines) + "\n"
