"""Runs the tests on mutants: the product with one small fault each (`*.toml` beside this file).

Each mutant is applied to a checkout of this tree, which has a virtual environment and a test home of its own.
There first the tests named by the mutant run, then the rest of its tier, up to the first failure. The checkout
is restored by writing the original text anew, so make and Python rebuild only what differs.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import tomllib

FOLDER = Path(__file__).resolve().parent
TOP = FOLDER.parent.parent
TREE = TOP / "build" / "mutants" / "tree"
HOME = TREE / "build" / "test-home"
CHECKED = TOP / "build" / "mutants" / "compiled"
PYTHON = TREE / ".venv" / "bin" / "python"
LOG = TOP / "build" / "mutants" / "last.log"
NO_TESTS = 5  # pytest's exit status if it selects none
RESULTS = TOP / "build" / "mutants.json"
TIERS = ("fast", "wide")
FAST_SHARE = 0.9
"""The share of all mutants that the fast tier must catch; together the tiers catch all."""


@dataclass(frozen=True)
class Mutant:
    """A fault. ``old`` occurs once in ``file``, and ``new`` takes its place."""

    name: str
    what: str
    file: str
    old: str
    new: str
    tier: str
    """Where it is meant to be caught: one of TIERS."""
    tests: tuple[str, ...]
    """Test files, the most likely catcher first."""
    select: str = ""
    """pytest's -k for these files; all of their tests if it selects none."""


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant. Without ``caught_by`` and ``error`` no test failed."""

    name: str
    what: str
    tier: str
    caught_by: str = ""
    seconds: float = 0.0
    error: str = ""

    def __str__(self) -> str:
        found = f"ERROR: {self.error}" if self.error else self.caught_by or "NOT CAUGHT"
        return f"{self.name:32} {self.seconds:6.0f} s  {found}"


class Unusable(Exception):
    """A mutant cannot be applied or built."""


def read() -> list[Mutant]:
    """All mutants, by file. Raises TypeError for an unknown or missing key."""
    return [
        Mutant(**{**row, "tests": tuple(row["tests"])})
        for path in sorted(FOLDER.glob("*.toml"))
        for row in tomllib.loads(path.read_text(encoding="utf-8"))["mutant"]
    ]


def mutated(mutant: Mutant, text: str) -> str:
    """The faulty text of its file. Raises Unusable."""
    if text.count(mutant.old) != 1 or mutant.new == mutant.old:
        raise Unusable(f"{mutant.file} has its text {text.count(mutant.old)} times, not once")
    return text.replace(mutant.old, mutant.new)


def run(*command: str | Path, must: bool = False) -> tuple[int, str]:
    """Runs a command in the checkout; returns its exit status, which is 0 if it ``must``, and its output."""
    foreign = ("COLLFORGE_", "MAKE", "MFLAGS", "PYTHON", "VIRTUAL_ENV")
    environment = {name: v for name, v in os.environ.items() if not name.startswith(foreign)}
    environment["COLLFORGE_HOME"] = str(HOME)
    environment["COLLFORGE_TEST_SEED"] = os.environ.get("COLLFORGE_TEST_SEED", "1")
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    words = [str(word) for word in command]
    done = subprocess.run(
        words, cwd=TREE, env=environment, text=True, errors="replace", check=False, **pipes
    )
    if must and done.returncode != 0:
        raise SystemExit(f"{' '.join(words)}:\n{done.stdout}")
    return done.returncode, done.stdout.strip()


def prepare() -> None:
    """Makes or updates the checkout: the tracked files as they are here. Restores what a killed run left."""
    if not TREE.exists():
        TREE.mkdir(parents=True)
        run("git", "clone", "--quiet", "--shared", "--no-checkout", TOP, TREE, must=True)
    _, changed = run("git", "-C", TOP, "stash", "create", must=True)
    _, head = run("git", "-C", TOP, "rev-parse", "HEAD", must=True)
    run("git", "checkout", "--quiet", "--force", "--detach", changed or head, must=True)
    run("make", "setup", "prefixes", must=True)
    run(PYTHON, "-m", "collforge", "generate", must=True)
    packages = {path.parent.name for path in TREE.glob("*/__init__.py")} - {"collforge"}
    files = ", ".join(f"collforge.{name}.__file__" for name in packages)
    imports = "; ".join(f"import collforge.{name}" for name in packages)
    _, paths = run(PYTHON, "-c", f"{imports}; print({files})", must=True)
    assert all(path.startswith(f"{TREE}/") for path in paths.split()), f"imported: {paths}"


def write(path: Path, text: str) -> None:
    """Replaces a source. Python compares whole seconds and sizes, so what it compiled is removed."""
    path.write_text(text, encoding="utf-8")
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        compiled.unlink()


def first_failure(*arguments: str) -> tuple[int, str]:
    """pytest's exit status and the node id of the first test that fails ('': none). Raises Unusable."""
    code, output = run(PYTHON, "-m", "pytest", "-x", "-q", "--tb=short", *arguments)
    LOG.write_text(output, encoding="utf-8")
    failed = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", output, re.MULTILINE)
    if "build.BuildError" in output or code not in (0, 1, NO_TESTS) or (code == 1 and not failed):
        raise Unusable(f"it does not build, or pytest ended with {code}: {LOG}")
    return code, failed[1] if failed else ""


def judge(mutant: Mutant, markers: str, own: bool) -> str:
    """The test that catches a mutant that has been applied; '' if none does. Raises Unusable."""
    if mutant.file.startswith("runtime/") and mutant.file.endswith(".c"):
        target = CHECKED / "obj" / Path(mutant.file).relative_to("runtime").with_suffix(".o")
        words = ("MPICC=mpicc.openmpi", f"GENERATED={HOME}/generated", f"OUT={CHECKED}", target)
        code, output = run("make", "-C", "runtime", *words)
        if code != 0:
            raise Unusable(f"it does not compile:\n{output}")
    chosen = ["-m", markers] if markers else []
    code, caught = first_failure(*mutant.tests, *chosen, "-k", mutant.select)
    if code == NO_TESTS:
        _, caught = first_failure(*mutant.tests, *chosen)
    if not caught and not own:
        _, caught = first_failure("-n", "2", "--dist", "worksteal", *chosen)
    return caught


def examine(mutant: Mutant, markers: str, own: bool) -> Outcome:
    path = TREE / mutant.file
    began = time.monotonic()
    caught, error, original = "", "", ""
    try:
        original = path.read_text(encoding="utf-8")
        write(path, mutated(mutant, original))
        caught = judge(mutant, markers, own)
    except (OSError, Unusable) as trouble:
        error = str(trouble)
    finally:
        if original:
            write(path, original)
    seconds = round(time.monotonic() - began, 1)
    return Outcome(mutant.name, mutant.what, mutant.tier, caught, seconds, error)


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutants", default="", help="names, separated by commas; all by default")
    parser.add_argument("--tier", choices=TIERS, help="for all mutants; by default each one's own")
    parser.add_argument(
        "--own", action="store_true", help="run only the tests named by each mutant"
    )
    for tier in TIERS:
        parser.add_argument(f"--{tier}", default="", help=f"pytest's -m of the tier {tier}")
    options = parser.parse_args(words)
    mutants = [
        one for one in read() if not options.mutants or one.name in options.mutants.split(",")
    ]
    if not mutants:
        parser.error(f"no mutant is called {options.mutants}")
    prepare()
    outcomes = []
    for mutant in mutants:
        markers = getattr(options, options.tier or mutant.tier)
        outcomes.append(examine(mutant, markers, options.own))
        print(outcomes[-1], flush=True)
        RESULTS.write_text(json.dumps([asdict(one) for one in outcomes], indent=1) + "\n")
    caught = sum(bool(one.caught_by) for one in outcomes)
    needed = len(outcomes) * (FAST_SHARE if options.tier == "fast" else 1)
    errors = sum(bool(one.error) for one in outcomes)
    print(f"{caught} of {len(outcomes)} caught, {errors} errors; needed: {needed:.0f}")
    return int(caught < needed or errors > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
