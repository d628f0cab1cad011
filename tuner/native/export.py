"""Writes a tuning file in the MPI library's own format, for applications that cannot preload.

Open MPI and MPICH let users select the algorithm of each collective. Every algorithm that the library lists
is timed, each in its own launches. The file selects those that are faster than the library's own choice. Then
launches under the file show whether the library follows it. Here is what the libraries have in common, and Open
MPI's file; `collforge.tuner.native.mpich_selection` has MPICH's.
"""

from __future__ import annotations

import re
import statistics
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from collforge import home, units
from collforge.case import Case
from collforge.decision import MARGIN
from collforge.errors import CollforgeError
from collforge.mpi_library import MpiLibrary
from collforge.tuner.native import openmpi_han, read_back
from collforge.tuner.native.openmpi_han import Han
from collforge.tuner.native.read_back import Asked, Row, mca_variables
from collforge.tuner.run import ingest, measuring
from collforge.tuner.run.jobs import Job, Site, run_job

# Open MPI's numbers of the collectives in a rules file (ompi/mca/coll/base).
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
_ROOT_ONLY = "its rule reads arguments that are significant at the root only, so ranks could differ"
_IRREGULAR = "blocks of different sizes are not timed here, and its rule knows no size of a block"
_NO_RULES = "coll/tuned has no algorithms of it"
NOT_EXPORTED = {
    "gather": _ROOT_ONLY,
    "scatter": _ROOT_ONLY,
    "gatherv": _NO_RULES,
    "scatterv": _NO_RULES,
    "allgatherv": _IRREGULAR,
    "alltoallv": _IRREGULAR,
    "reduce_scatter": _IRREGULAR,
    "barrier": "it has no bytes, and its algorithms are not timed here",
}
"""Collective -> why it is not exported. A collective in neither table is not one of MPI's."""
# Collectives whose message size in a rules file is that of the whole buffer, not of one block.
WHOLE_BUFFER = ("allgather", "alltoall", "reduce_scatter_block")
# Collectives whose size in a rules file is that of one element x ranks (coll_tuned_decision_dynamic.c, 4.1.4
# to main). It does not depend on the number of elements, so one rule holds for all sizes.
UNSIZED = ("exscan", "scan")
# Components that do not compete with coll/tuned, whatever their priority: they serve other communicators or
# run on demand.
NO_RIVALS = ("self", "inter", "sync", "monitoring", "demo", "libnbc", "ftagree")
FILE_SETTING = "coll_tuned_dynamic_rules_filename"
OWN_CHOICE = 0
OWN_UNDER_SETTINGS = -1
"""Key for the times of calls without a rule under the file's settings, if these switch components off."""
SAMPLING_SECONDS = 2.0
LAUNCH_SECONDS = 12.0
"""Approximate seconds of a launch without the sampling."""

Times = dict[str, dict[int, list[float]]]
"""Problem -> algorithm -> median seconds of each launch."""
Choices = Mapping[str, Mapping[int, int]]
"""Collective -> bytes of a block -> algorithm number."""


def mark(ranks: int) -> str:
    """The first words of a tuning file, after a comment's begin."""
    return f"Written by collforge export for communicators of exactly {ranks} ranks"


def openmpi_algorithms(library: MpiLibrary) -> dict[str, dict[int, str]]:
    """Collective -> algorithm number -> name, as ompi_info lists them."""
    found: dict[str, dict[int, str]] = {}
    for name, number, title in re.findall(
        r"coll_tuned_(\w+)_algorithm:enumerator:value:(\d+):(\S+)", _ompi_info(library, "tuned")
    ):
        if name in OPENMPI_IDS and int(number) != OWN_CHOICE:
            found.setdefault(name, {})[int(number)] = title
    return found


def openmpi_settings(library: MpiLibrary) -> dict[str, str]:
    """The MCA parameters that make the library use a rules file, without the file's name.

    A component with a higher priority than coll/tuned serves calls before the rules are read. Such components
    get priority 0, except a han that reads rules itself (han_of).
    """
    info = _ompi_info(library, "all")
    rivals = _rivals(info) - ({"han"} if openmpi_han.read(info) else set())
    off = {f"coll_{name}_priority": "0" for name in sorted(rivals)}
    return {"coll_tuned_use_dynamic_rules": "1", **off}


def han_of(library: MpiLibrary) -> Han | None:
    """The library's coll/han, as in Open MPI 5; None if it does not outrank coll/tuned or reads no rules."""
    info = _ompi_info(library, "all")
    return openmpi_han.read(info) if "han" in _rivals(info) else None


def _rivals(info: str) -> set[str]:
    """The components that outrank coll/tuned."""
    found = re.findall(r"coll_(\w+)_priority:value:(-?\d+)", info)
    priorities = {name: int(value) for name, value in found}
    return {
        name
        for name, priority in priorities.items()
        if name not in NO_RIVALS and priority > priorities.get("tuned", 0)
    }


def _ompi_info(library: MpiLibrary, component: str) -> str:
    if library.flavor != "openmpi":
        raise CollforgeError(
            f"{library.name} is neither Open MPI nor MPICH, whose algorithms can be selected"
        )
    program = library.mpirun.with_name("ompi_info")
    command = [str(program), "--param", "coll", component, "--level", "9", "--parsable"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.CalledProcessError) as error:
        raise CollforgeError(f"{program} does not work ({error}): install openmpi-bin") from error
    return done.stdout


@dataclass(frozen=True)
class TuningFile(ABC):
    """A library's tuning file, and the contents that all its versions share."""

    path: Path
    ranks: int
    algorithms: Mapping[str, Mapping[int, str]]
    """Collective -> number -> title."""
    reasons: dict[str, str]
    """Collective -> why it has no rules."""

    begins: ClassVar[str]
    """What is before the mark in the file."""
    not_exported: ClassVar[Mapping[str, str]]
    """Collective -> why the library's files can have no rules of it."""
    unsized: ClassVar[Sequence[str]]
    """Collectives whose rules hold for all sizes."""
    no_sizes: ClassVar[str]
    """Why that is so."""

    @abstractmethod
    def own_settings(self) -> Mapping[str, str] | None:
        """Environment variables under which calls without a rule run; None if they run as without the file."""

    @abstractmethod
    def forced(self, number: int) -> Mapping[str, str]:
        """Environment variables under which algorithm ``number`` of each collective runs at all sizes."""

    @abstractmethod
    def variables(self) -> Mapping[str, str]:
        """Environment variables under which the library uses the file."""

    @abstractmethod
    def files(self) -> list[Path]:
        """The file, and those beside it."""

    @abstractmethod
    def write(self, choices: Choices, rows: Sequence[Row] = ()) -> None:
        """Writes the file; ``rows`` are what was read back."""

    @abstractmethod
    def read_back(self, site: Site, layout: str, choices: Choices, folder: Path) -> list[Row]:
        """Whether the library follows the file, by rule."""

    def asked(self, choices: Choices) -> list[Asked]:
        """The rules that name an algorithm."""
        return [
            Asked(name, nbytes, self.algorithms[name][number])
            for name, rules in choices.items()
            for nbytes, number in rules.items()
            if number != OWN_CHOICE
        ]

    def number(self, row: Row) -> int:
        """The number in the corrected rule: the algorithm that the requested one calls, or OWN_CHOICE."""
        titles = self.algorithms[row.asked.collective] if row.handed_over else {}
        return next((n for n, title in titles.items() if title == row.ran), OWN_CHOICE)

    def remarks(self, choices: Choices, rows: Sequence[Row]) -> list[str]:
        """What the head of the file says about its rules."""
        found = [f"{name} has no rules: {reason}" for name, reason in self.reasons.items()]
        for name in self.unsized:
            sizes = sorted(choices.get(name, {}))
            if any(choices.get(name, {}).values()):
                first, last = map(units.format_size, (sizes[0], sizes[-1]))
                found.append(f"{name}: one rule for all sizes, timed from {first} to {last}")
        return [*found, *(f"read back: {row}" for row in rows)]

    def not_expressible(self, choices: Choices) -> dict[str, str]:
        """Collective -> the reason why the file cannot express its choices."""
        reasons = {}
        for name in self.unsized:
            rules = choices.get(name, {})
            if not any(rules.values()):
                continue
            one_for_all = f"{self.no_sizes}, so that one algorithm runs at all sizes, and"
            if len(rules) < 2:
                reasons[name] = f"{one_for_all} only one size was timed"
            elif len(set(rules.values())) > 1:
                reasons[name] = f"{one_for_all} no algorithm is best at all that were timed"
        return reasons


@dataclass(frozen=True)
class RulesFile(TuningFile):
    """Open MPI's dynamic rules file, and beside it that of coll/han if this outranks coll/tuned."""

    settings: Mapping[str, str]
    """MCA parameters, without those that name files."""
    han: Han | None = None
    """Its algorithms are in ``algorithms``, too."""

    begins = "# "
    not_exported = NOT_EXPORTED
    unsized = UNSIZED
    no_sizes = "Open MPI looks its rule up by type size x ranks, not by the bytes of the call"

    def own_settings(self) -> Mapping[str, str] | None:
        return mca_variables(self.settings) if len(self.settings) > 1 else None

    def forced(self, number: int) -> Mapping[str, str]:
        if self.han and number >= openmpi_han.FIRST:
            return mca_variables({**self.settings, **self.han.forced(number)})
        forced = {
            f"coll_tuned_{name}_algorithm": str(number)
            for name, known in self.algorithms.items()
            if number in known
        }
        return mca_variables({**self.settings, **(openmpi_han.OFF if self.han else {}), **forced})

    def variables(self) -> Mapping[str, str]:
        beside = openmpi_han.settings(str(openmpi_han.rules_path(self.path))) if self.han else {}
        return mca_variables({**self.settings, **beside, FILE_SETTING: str(self.path)})

    def files(self) -> list[Path]:
        return [self.path, *([openmpi_han.rules_path(self.path)] if self.han else [])]

    def write(self, choices: Choices, rows: Sequence[Row] = ()) -> None:
        settings, remarks = dict(self.settings), self.remarks(choices, rows)
        if self.han:
            beside = openmpi_han.rules_path(self.path)
            settings.update(openmpi_han.settings(f"THIS_FOLDER/{beside.name}"))
            beside.write_text(
                self.han.rules(self.ranks, self._han_steps(choices)), encoding="utf-8"
            )
        text = openmpi_rules(self.ranks, choices, settings, remarks)
        self.path.write_text(text, encoding="utf-8")

    def _han_steps(self, choices: Choices) -> dict[str, list[tuple[int, int]]]:
        """The rules of han's file. They change at the sizes where those of the rules file do."""
        served = self.han.algorithms if self.han else {}
        return {
            name: steps_of(rules, 1, name in UNSIZED)
            for name, rules in choices.items()
            if name in served and any(rules.values())
        }

    def read_back(self, site: Site, layout: str, choices: Choices, folder: Path) -> list[Row]:
        return read_back.launch(site, layout, self.variables(), self.asked(choices), folder)


def measure(
    site: Site,
    problems: Sequence[Case],
    file: TuningFile,
    launches: int,
    folder: Path,
    say: Callable[[str], None],
) -> Times:
    """Times every algorithm on every problem, as native; an algorithm that fails has no times.

    The library's own choice is timed with default settings, the algorithms with the file's settings.
    """
    times: Times = {}
    under: dict[int, Mapping[str, str]] = {OWN_CHOICE: {}}
    own = file.own_settings()
    if own is not None:
        under[OWN_UNDER_SETTINGS] = own
    wanted = {problem.collective for problem in problems}
    for number in sorted({n for name in wanted for n in file.algorithms[name]}):
        under[number] = file.forced(number)
    jobs = []
    for number, variables in sorted(under.items()):
        cases = [p for p in problems if number <= 0 or number in file.algorithms[p.collective]]
        jobs.append((number, cases, {**site.variables, **variables}))
    started, done, total = time.monotonic(), 0, launches * len(jobs)
    left = launches * sum(LAUNCH_SECONDS + SAMPLING_SECONDS * len(cases) for _, cases, _ in jobs)
    for launch in range(launches):
        for number, cases, variables in jobs:
            say(
                f"timing: launch {done + 1} of {total}, {len(cases)} collectives and sizes; "
                f"about {units.format_duration(left)} left"
            )
            job = Job(cases, cases[0].layout, 7, SAMPLING_SECONDS, launch, time_limit=1800.0)
            part = home.new_folder(folder, "export")
            report = run_job(replace(site, variables=variables), job, part)
            _add_times(
                times, number, ingest.read_report(report, measuring.place_of(site, job.layout))
            )
            done += 1
            left = (time.monotonic() - started) / done * (total - done)
    return times


def _add_times(times: Times, number: int, report: ingest.Report) -> None:
    for result in (one for record in report.runs for one in record.results):
        if result.verified and result.samples:
            of_problem = times.setdefault(result.problem, {})
            of_problem.setdefault(number, []).append(statistics.median(result.samples))


def choose(times: Mapping[int, Sequence[float]]) -> int:
    """The fastest algorithm that beats the library's own choice by the margin in every launch."""
    own = times.get(OWN_CHOICE, ())
    best = (1.0, OWN_CHOICE)
    for number, seconds in times.items():
        if number <= OWN_CHOICE or len(seconds) != len(own):
            continue
        ratios = [mine / theirs for mine, theirs in zip(seconds, own)]
        if max(ratios) < 1 / (1 + MARGIN):
            best = min(best, (statistics.geometric_mean(ratios), number))
    return best[1]


def lost(times: Mapping[int, Sequence[float]]) -> float:
    """The slow-down of a call without a rule under the file's settings, if significant; else 1."""
    own, under = times.get(OWN_CHOICE, ()), times.get(OWN_UNDER_SETTINGS, ())
    ratios = [mine / theirs for mine, theirs in zip(under, own)]
    if not ratios or len(own) != len(under) or min(ratios) < 1 + MARGIN:
        return 1.0
    return statistics.geometric_mean(ratios)


def openmpi_rules(
    ranks: int,
    choices: Choices,
    settings: Mapping[str, str] | None = None,
    remarks: Iterable[str] = (),
) -> str:
    """The text of a dynamic rules file: algorithm numbers by collective and bytes of a block.

    Rules hold for communicators of exactly this size; others keep the library's own choice. Sizes between
    measured ones get the rule of the nearest size on a logarithmic scale. Where han's file names one of its own
    algorithms, no call comes here, so there is no rule. The header has ``settings`` and the remarks.
    """
    choices = {
        name: {nbytes: _of_tuned(number) for nbytes, number in rules.items()}
        for name, rules in choices.items()
    }
    chosen = {name: rules for name, rules in choices.items() if any(rules.values())}
    mca = {"coll_tuned_use_dynamic_rules": "1", **(settings or {})}
    lines = [f"# {mark(ranks)}; use it with"]
    lines += [f"#   --mca {name} {value}" for name, value in mca.items()]
    lines += [f"#   --mca {FILE_SETTING} THIS_FILE"]
    lines += [f"# {remark}" for remark in remarks]
    lines += [f"{len(chosen)} # collectives"]
    for name, rules in sorted(chosen.items(), key=lambda item: OPENMPI_IDS[item[0]]):
        scale = ranks if name in WHOLE_BUFFER else 1
        steps = steps_of(rules, scale, name in UNSIZED)
        lines += [f"{OPENMPI_IDS[name]} # {name}", "3 # communicator sizes"]
        lines += ["0 1 # the smaller ones", "0 0 0 0", f"{ranks} {len(steps)}"]
        lines += [f"{start} {number} 0 0" for start, number in steps]
        lines += [f"{ranks + 1} 1 # the larger ones", "0 0 0 0"]
    return "\n".join(lines) + "\n"


def _of_tuned(number: int) -> int:
    return number if number < openmpi_han.FIRST else OWN_CHOICE


def steps_of(rules: Mapping[int, int], scale: int, unsized: bool) -> list[tuple[int, int]]:
    """Pairs (least message size, algorithm number); sizes in the file are ``scale`` times those of a block."""
    if unsized:
        return [(0, next(iter(rules.values())))]
    steps, before = [(0, OWN_CHOICE)], 0
    for nbytes, number in sorted(rules.items()):
        start = round((nbytes * before) ** 0.5) if before else nbytes
        steps.append((start * scale, number))
        before = nbytes
    return steps
