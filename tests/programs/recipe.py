"""The description of each program: its source, build, runs and expected answers."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

RECIPES = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Source:
    """A package's source archive: `package` at `version` from the registry of `tool`."""

    tool: str
    """``apt`` (a Debian source package) or ``pip`` (a source distribution)."""
    package: str
    version: str
    folder: str
    """The archive's top folder."""
    sha256: str
    """The archive's SHA-256 sum."""

    def __str__(self) -> str:
        return f"{self.package} {self.version} ({self.tool})"


@dataclass(frozen=True)
class Run:
    """One launch. ``{build}`` in argv stands for the folder that the program was built in.

    The run starts in an empty folder with copies of `files` (below the build folder).
    """

    name: str
    argv: tuple[str, ...]
    ranks: int = 4
    seconds: float = 120
    """Its time limit."""
    files: tuple[str, ...] = ()
    output: str = ""
    """A file in its folder that also counts as output."""
    answers: tuple[str, ...] = ()
    """Regular expressions; their matches, in any order, must equal those of the native run."""
    tolerance: float = 0.0
    """Relative tolerance of the numbers in the answers, if native's differ between runs."""
    proofs: tuple[tuple[str, int], ...] = ()
    """Regular expressions, with the number of matches when the program's own checks succeed."""
    collectives: tuple[str, ...] = ()
    """Collectives that it calls, possibly among others."""


@dataclass(frozen=True)
class Recipe:
    """A program. `testlists` names files in the format of MPICH's test suite, one run per line."""

    name: str
    title: str
    language: str
    source: Source
    build: str
    """A bash script, run in a copy of the source with MPI, MPICC, MPICXX, MPIFC, PYTHON and RECIPE set."""
    needs: tuple[str, ...] = ()
    """Recipes that are built before, in folders beside its own."""
    runs: tuple[Run, ...] = ()
    testlists: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    """Names in the test lists that are not run; the recipe's comments say why."""


class UnknownKey(Exception):
    pass


def _make(kind: type, table: dict[str, Any], where: str) -> Any:
    known = {field.name for field in fields(kind)}
    if wrong := sorted(set(table) - known):
        raise UnknownKey(f"{where}: {', '.join(wrong)}; known: {', '.join(sorted(known))}")
    frozen = {k: tuple(v) if isinstance(v, list) else v for k, v in table.items()}
    return kind(**frozen)


def load(path: Path) -> Recipe:
    """Reads a recipe. Raises UnknownKey, and TypeError for a missing key."""
    table = tomllib.loads(path.read_text())
    table["name"] = path.stem
    table["source"] = _make(Source, table["source"], f"{path.name}: source")
    runs = table.pop("runs", [])
    for run in runs:
        run["proofs"] = list(run.get("proofs", {}).items())
    table["runs"] = [_make(Run, run, f"{path.name}: runs") for run in runs]
    recipe: Recipe = _make(Recipe, table, path.name)
    return recipe


def recipes() -> list[Recipe]:
    return [load(path) for path in sorted(RECIPES.glob("*.toml"))]


def listed_runs(recipe: Recipe, build: Path) -> list[Run]:
    """The runs of the test lists: `name ranks [arg=...] [other=...]`, comments and @conditions@ aside."""
    runs = []
    for name in recipe.testlists:
        for line in (build / name).read_text().splitlines():
            words = re.sub(r"#.*", "", line).split()
            if not words or words[0].startswith("@") or words[0] in recipe.skipped:
                continue
            program = f"{{build}}/{Path(name).parent}/{words[0]}"
            arguments = [word[4:] for word in words[2:] if word.startswith("arg=")]
            label = " ".join([f"{Path(name).parent}/{words[0]}", words[1], *arguments])
            proofs = ((r" No Errors", 1),)
            runs.append(Run(label, (program, *arguments), int(words[1]), proofs=proofs))
    return runs
