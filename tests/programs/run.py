"""Runs the programs natively and under the preload, and compares the answers.

By hand: `python tests/programs/run.py [--program NAME] [--mpi NAME]` builds them below build/programs
and prints one line for each program, library, choice and node map, with the number of runs that agree.
"""

from __future__ import annotations

import argparse
import csv
import io
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from programs import build, winners
from programs.recipe import Recipe, Run, listed_runs, recipes
from support import SHARED_HOME, execute, serves

from collforge.generator import load
from collforge.mpi_library import MpiLibrary
from collforge.reframe_checks.mpirun import PRELOAD, local_command
from collforge.toolchain import build as runtime_build
from collforge.toolchain import libraries

MAPS = {"2": "2x2", "3,1": "3+1", "cyclic": "cyclic:2x2", "4": "1x4"}
"""Node map -> layout of four ranks. Cyclic: the ranks take turns on two nodes, whatever their number."""
OBSERVED = ("2", "4")
SPECS = load.load_specs()
FAMILIES = SPECS.standard_families
HAS_HOOK = re.compile(r"MPICH Version:\s*(4\.[3-9]|[5-9])")
"""These call others when they make progress (library_mpich.c)."""
NUMBER = re.compile(r"[-+]?\d+\.?\d*(?:[eED][-+]?\d+)?")


@dataclass(frozen=True)
class Setting:
    """The library's settings. Choice: a family, ``tuned`` (by a database), or ``none`` (preloaded only)."""

    choice: str
    node_map: str

    @property
    def observed(self) -> bool:
        """Whether the library writes a profile. That is another code path, so some runs have none."""
        return self.node_map in OBSERVED

    @property
    def nonblocking(self) -> bool:
        """Whether nonblocking and persistent calls run variants, too. With node map ``2`` they do not."""
        return self.choice != "none" and self.node_map != "2"

    @property
    def serves(self) -> set[str]:
        """The collectives that may run a variant."""
        family = FAMILIES.get(self.choice)
        return set(family.compositions if family else {c.name for c in SPECS.standard})


def settings() -> list[Setting]:
    several = [one for one in MAPS if MAPS[one] != "1x4"]
    forced = [
        Setting(name, one) for one in MAPS for name in FAMILIES if serves(FAMILIES[name], MAPS[one])
    ]
    return [Setting("none", "2"), *forced, *(Setting("tuned", one) for one in several)]


@dataclass(frozen=True)
class Installed:
    """A program built for an MPI library."""

    recipe: Recipe
    mpi: str
    folder: Path

    def runs(self) -> list[Run]:
        """The program's runs, including those of the test lists whose programs could be built."""
        listed = listed_runs(self.recipe, self.folder)
        return [*self.recipe.runs, *(run for run in listed if self._argv(run)[0].is_file())]

    def unbuilt(self) -> list[str]:
        listed = listed_runs(self.recipe, self.folder)
        return [run.name for run in listed if not self._argv(run)[0].is_file()]

    def _argv(self, run: Run) -> list[Path]:
        return [Path(word.format(build=self.folder)) for word in run.argv[:1]]

    def launch(self, run: Run, folder: Path, variables: dict[str, str]) -> Output:
        """Runs the program in `folder`, which is empty."""
        for name in run.files:
            shutil.copy(self.folder / name, folder)
        argv = [word.replace("{build}", str(self.folder)) for word in run.argv]
        own = [f"{name}={value}" for name, value in variables.items() if name != "LD_PRELOAD"]
        preload = ["sh", "-c", PRELOAD, variables["LD_PRELOAD"]] if variables else []
        start = [*local_command(self.mpi, run.ranks), "env", f"--chdir={folder}", *own]
        try:
            done = execute([*start, *preload, *argv], timeout=run.seconds)
        except subprocess.TimeoutExpired:
            return Output(None, "", "")
        written = (folder / run.output).read_text() if run.output else ""
        return Output(done.returncode, done.stdout + written, done.stderr)


@dataclass(frozen=True)
class Output:
    """A run's exit code (None: killed at its time limit), standard output and standard error."""

    code: int | None
    out: str
    err: str

    def text(self) -> str:
        """The output without the library's own lines."""
        return self.out + re.sub(r"^collforge: .*\n?", "", self.err, flags=re.MULTILINE)

    def answers(self, run: Run) -> list[str]:
        return sorted(found for regex in run.answers for found in re.findall(regex, self.text()))

    def flaw(self, run: Run) -> str:
        """Why the program's own checks failed; '' if they succeeded."""
        if self.code != 0:
            return (
                f"ended with {'its time limit' if self.code is None else f'exit code {self.code}'}"
            )
        for regex, times in run.proofs:
            found = len(re.findall(regex, self.text()))
            if found != times:
                return f"/{regex}/ matches {found} times, not {times}"
        return ""


def difference(run: Run, ours: Output, native: Output) -> str:
    """The difference between a run and the native one; '' if there is none."""
    flaws = ours.flaw(run), native.flaw(run)
    if run.answers and flaws[1]:
        return f"native itself {flaws[1]}"
    if flaws[0] != flaws[1]:
        return f"native: {flaws[1] or 'right'}; preloaded: {flaws[0] or 'right'}"
    one, other = ours.answers(run), native.answers(run)
    if len(one) != len(other):
        return f"{len(other)} answers natively, {len(one)} preloaded: {one}"
    for mine, its in zip(one, other):
        if not _same(mine, its, run.tolerance):
            return f"native: {its!r}; preloaded: {mine!r}"
    return ""


def _same(one: str, other: str, tolerance: float) -> bool:
    if one == other:
        return True
    if tolerance == 0 or NUMBER.sub("#", one) != NUMBER.sub("#", other):
        return False
    pairs = zip(NUMBER.findall(one), NUMBER.findall(other))
    floats = ([float(n.replace("D", "e")) for n in pair] for pair in pairs)
    return all(math.isclose(a, b, rel_tol=tolerance) for a, b in floats)


@cache
def _build(mpi: str) -> tuple[MpiLibrary, runtime_build.Built]:
    library = libraries.find(mpi)
    return library, runtime_build.build(library, SHARED_HOME)


@cache
def _winners(mpi: str) -> tuple[Path, tempfile.TemporaryDirectory[str]]:
    """A database for all launches, which takes seconds to write, and its folder, which ends with it."""
    folder = tempfile.TemporaryDirectory()
    return winners.write(Path(folder.name, "winners.db"), _build(mpi)[0], SHARED_HOME), folder


def variables(mpi: str, setting: Setting, ranks: int, folder: Path) -> dict[str, str]:
    """The ranks' environment for a setting. The profile is written to `folder`."""
    library, built = _build(mpi)
    turns = "map:" + ",".join(str(rank % 2) for rank in range(ranks))
    node_map = turns if setting.node_map == "cyclic" else setting.node_map
    found = {"LD_PRELOAD": str(built.library_path), "COLLFORGE_NODE_MAP": node_map}
    if setting.choice == "tuned":
        found.update(COLLFORGE_DB=str(_winners(mpi)[0]), COLLFORGE_SYSTEM=winners.SYSTEM)
    elif setting.choice != "none":
        found["COLLFORGE_FORCE"] = f"*={setting.choice}"
    if setting.nonblocking:
        found.update(COLLFORGE_NONBLOCKING="1")
        if library.flavor == "mpich" and not HAS_HOOK.search(library.version):
            found.update(COLLFORGE_PROGRESS="thread")
    if setting.observed:
        found.update(COLLFORGE_PROFILE=str(folder / "profile.csv"), COLLFORGE_VERBOSE="2")
    return found


def unserved(run: Run, setting: Setting, output: Output, folder: Path) -> str:
    """The evidence that some of the program's collectives did not reach the library; '' if all did."""
    if not setting.observed:
        return ""
    profile = folder / "profile.csv"
    if not profile.exists():
        return "no profile was written"
    with profile.open(newline="") as file:
        seen = {row["collective"] for row in csv.DictReader(file)}
    if missing := sorted(set(run.collectives) - seen):
        return f"the profile lacks {', '.join(missing)}"
    if setting.choice == "none":
        return ""
    decided = set(re.findall(r"collforge: (\w+)@[^ ]*, .* bytes: (?!native)", output.err))
    missing = sorted((set(run.collectives) & setting.serves) - decided)
    return f"no call of {', '.join(missing)} was decided for a variant" if missing else ""


class Comparison:
    """Compares runs of a program with their native runs, each of which is made once."""

    def __init__(self, program: Installed) -> None:
        self.program = program
        self._native: dict[str, Output] = {}

    def native(self, run: Run) -> Output:
        if run.name not in self._native:
            with tempfile.TemporaryDirectory() as folder:
                self._native[run.name] = self.program.launch(run, Path(folder), {})
        return self._native[run.name]

    def compare(self, run: Run, setting: Setting) -> str:
        """The difference between the run under `setting` and native; '' if there is none."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            work = folder / "work"
            work.mkdir()
            settings = variables(self.program.mpi, setting, run.ranks, folder)
            output = self.program.launch(run, work, settings)
            if not run.answers and not output.flaw(run):
                return unserved(run, setting, output, folder)
            return difference(run, output, self.native(run)) or unserved(
                run, setting, output, folder
            )


def install(recipe: Recipe, mpi: str) -> Installed:
    """Builds a program and finds its runs. Raises build.Failed."""
    return Installed(recipe, mpi, build.build(recipe, mpi))


def table(
    programs: list[Recipe], mpis: list[str], wanted: list[Setting], names: str
) -> Iterator[str]:
    yield "| program | library | choice | nodes | runs | as native |"
    yield "|---|---|---|---|---|---|"
    for recipe in programs:
        for mpi in mpis:
            # The launched programs also write to standard output.
            try:
                with redirect_stdout(io.StringIO()):
                    comparison = Comparison(install(recipe, mpi))
            except build.Failed as failed:  # a program in Fortran, and a library without
                yield f"{recipe.name} with {mpi}: {failed}"
                continue
            runs = [run for run in comparison.program.runs() if re.search(names, run.name)]
            for setting in wanted:
                with redirect_stdout(io.StringIO()):
                    found = {run.name: comparison.compare(run, setting) for run in runs}
                wrong = [f"{name}: {why}" for name, why in found.items() if why]
                row = [recipe.name, mpi, setting.choice, setting.node_map, str(len(runs))]
                yield f"| {' | '.join([*row, str(len(runs) - len(wrong))])} |"
                yield from wrong


def main() -> None:
    names = [recipe.name for recipe in recipes()]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", choices=names, action="append")
    parser.add_argument(
        "--mpi",
        metavar="NAME",
        action="append",
        help="of `collforge mpi list`; default: both of Debian",
    )
    parser.add_argument(
        "--map", choices=MAPS, action="append", help="the node maps; all by default"
    )
    parser.add_argument(
        "--run", default="", metavar="REGEX", help="the names of the runs; all by default"
    )
    options = parser.parse_args()
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    chosen = [recipe for recipe in recipes() if recipe.name in (options.program or names)]
    mpis = [libraries.find(name).name for name in options.mpi or sorted(libraries.DEBIAN_PACKAGES)]
    wanted = [one for one in settings() if one.node_map in (options.map or MAPS)]
    for line in table(chosen, mpis, wanted, options.run):
        print(line, flush=True)


if __name__ == "__main__":
    main()
