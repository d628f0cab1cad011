"""Programs behave as with their native library: runs the conformance program (tests/conformance)
natively, and preloaded with every family forced."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Callable

import pytest
from conformance.build import compile_faulty, compile_program
from conftest import Installation, some
from support import SEED, execute, launch_local, openmp_library, serves

from collforge import layout as layouts
from collforge.generator import manifest
from collforge.generator.load import load_specs
from collforge.generator.proof import applies

# The programs' expectations hold for both libraries, and the runtime under them is the same.
pytestmark = pytest.mark.either
# 2x2x2 has two threads per process; family flat serves 4x1 alone.
LAYOUTS = ("2x2", "3+1", "cyclic:2x3", "1x4", "2x2x2", "4x1", "cyclic:3x2")
LEVELS = ("single", "funneled", "serialized", "multiple")
SEPARATE = {"threads", "huge", "errors", "fuzz"}  # checks with separate launches
TIMEOUT = 300
FUZZ_SECONDS = 60


FAMILIES = {
    name: [
        layout
        for layout in LAYOUTS
        if serves(family, layout) and (family.over_all or layouts.from_name(layout).threads == 1)
    ]
    for name, family in load_specs().standard_families.items()
}
"""Family -> layouts that it serves."""
PAIRS = [(family, layout) for family, known in FAMILIES.items() for layout in known]


@dataclass(frozen=True)
class Mix:
    """A launch in which each collective is forced to a family of its own: collective -> family."""

    layout: str
    families: Mapping[str, str]
    variation: int = 0
    """Each parameter has its value of this number."""

    def __str__(self) -> str:
        return self.layout


def mixes() -> list[Mix]:
    """As few launches as have every family with every collective that it serves, over all the layouts."""
    specs = load_specs()
    missing = {
        (one.name, family, layout)
        for family, layout in PAIRS
        for one in specs.standard
        if one.name in specs.families[family].compositions
        and applies(specs.families[family].compositions[one.name], layouts.from_name(layout))
    }
    found: list[Mix] = []
    done: set[tuple[str, str]] = set()
    while {one[:2] for one in missing} - done:
        layout = LAYOUTS[len(found) % len(LAYOUTS)]
        here = sorted(one[:2] for one in missing if one[2] == layout)
        families = dict([*here, *(one for one in here if one not in done)])
        done |= set(families.items())
        found.append(Mix(layout, families, len(found)))
    return found


MIXES = mixes()
SERIAL = [mix for mix in MIXES if layouts.from_name(mix.layout).threads == 1]
FOUR = [mix for mix in MIXES if layouts.from_name(mix.layout).size == 4]


# On regular nodes, and on others.
first_mixes = pytest.mark.parametrize("mix", some(MIXES, 2), ids=str)

# A fault of tests/conformance/faults -> the check that must detect it, and its message.
FAULTS = {
    "last byte": ("data", r"FAIL .*allgather@.*type=int.*receive buffer"),
    "byte behind": ("data", r"FAIL .*allgather@.*receive buffer"),
    "elements": ("signatures", r"(FAIL|HANG|CRASH) .*bcast@.*type="),
    "error": ("data", r"FAIL .*bcast@.*returned error"),
    "hang": ("data", r"HANG .*bcast@.*count=601"),
    "crash": ("data", r"CRASH .*bcast@.*count=601"),
    "order": ("operations", r"FAIL .*allreduce@.*op=(affine|first)"),
    "handler": ("state", r"FAIL .*error handler"),
    "message": ("messages", r"FAIL .*probe"),
    "early": ("barrier", r"FAIL .*world"),
}


@dataclass(frozen=True)
class Outcome:
    """The output of a launch of the program."""

    code: int
    text: str

    def lines(self, first_word: str) -> list[str]:
        return [x for x in self.text.splitlines() if x.startswith(f"{first_word} ")]

    @property
    def checks(self) -> dict[str, int]:
        """Name -> verified calls, for checks that finished."""
        found = re.findall(r"^check (\w+): (\d+) calls", self.text, re.M)
        return {name: int(calls) for name, calls in found}

    @property
    def choices(self) -> dict[str, str]:
        """Collective -> the runtime's choice."""
        return dict(line.split(" ")[1:3] for line in self.lines("choice"))

    def passed(self) -> bool:
        """Whether every check finished without a failure, and some calls were made."""
        last = re.search(r"^conformance: (\d+) checks, (\d+) calls, 0 failures$", self.text, re.M)
        return (
            self.code == 0
            and last is not None
            and int(last[1]) == len(self.checks)
            and sum(self.checks.values()) > 0
        )


@dataclass(frozen=True)
class Program:
    """The program for one MPI library, and the runtime to preload."""

    mpi: str
    path: Path
    runtime: Path
    generated: manifest.Manifest

    def native(self, ranks: int, *arguments: str, **variables: str) -> Outcome:
        done = launch_local(self.mpi, ranks, [str(self.path), *arguments], variables, TIMEOUT)
        return Outcome(done.returncode, done.stdout)

    def forced(self, mix: Mix, *arguments: str) -> Outcome:
        """Runs the program with the families' variants forced where they apply."""
        at = layouts.from_name(mix.layout)
        preload = [str(self.runtime)]
        threads = {}
        if at.threads > 1:  # as for a program with OpenMP
            preload.append(openmp_library())
            threads = {"OMP_NUM_THREADS": str(at.threads), "COLLFORGE_THREAD_MULTIPLE": "always"}
        return self.native(
            at.size,
            *arguments,
            **threads,
            LD_PRELOAD=":".join(preload),
            COLLFORGE_NODE_MAP=at.node_map,
            COLLFORGE_FORCE=force_string(self.generated, mix),
            COLLFORGE_SPLIT_OPS="1",  # or no variant would serve the program's ops
            COLLFORGE_NONBLOCKING="1" if "--nonblocking" in arguments else "0",
            COLLFORGE_PROGRESS="thread" if self.mpi == "mpich" else "",
        )

    def served(self, mix: Mix) -> dict[str, str]:
        """The collectives of MPI with a variant of their family that applies on the layout."""
        at = layouts.from_name(mix.layout)
        return {
            variant.collective: variant.family
            for variant in self.generated.variants
            if variant.family == mix.families.get(variant.collective)
            and not self.generated.collective(variant.collective).hybrid
            and variant.applies(self.generated.facts(variant.collective, at, 4096))
        }


def everywhere(family: str, layout: str, variation: int = 0) -> Mix:
    """All collectives by one family."""
    served = load_specs().families[family].compositions
    return Mix(layout, dict.fromkeys(served, family), variation)


def force_string(generated: manifest.Manifest, mix: Mix) -> str:
    """COLLFORGE_FORCE for the variants of a mix."""
    rules = []
    for variant in generated.variants:
        if variant.family != mix.families.get(variant.collective):
            continue
        chosen: dict[str, object] = {}
        for parameter in variant.parameters:
            if all(chosen.get(name) in values for name, values in parameter.requires.items()):
                chosen[parameter.name] = parameter.values[mix.variation % len(parameter.values)]
        text = ",".join(f"{name}={value}" for name, value in chosen.items())
        rules.append(f"{variant.collective}={variant.family}" + (f"[{text}]" if text else ""))
    return ";".join(rules)


@pytest.fixture(scope="session")
def program(mpi: str, built: Installation, tmp_path_factory: pytest.TempPathFactory) -> Program:
    folder = tmp_path_factory.mktemp(f"conformance-{mpi}")
    path = compile_program(str(built.library.mpicc), folder)
    generated = manifest.load(built.home / "generated" / "manifest.json")
    return Program(mpi, path, built.built.library_path, generated)


@pytest.fixture(scope="session")
def native_errors(program: Program) -> tuple[str, list[str]]:
    """The illegal calls that end the program natively, for --skip, and the output lines of the others."""
    skipped: list[str] = []
    while True:
        skip = f",{','.join(skipped)},"
        outcome = program.native(4, "--limit=5", f"--skip={skip}", "errors")
        if outcome.passed():
            return skip, outcome.lines("error")
        tried = outcome.lines("try")[-1].split(" ")[1].rpartition(".")[0]
        assert f"{tried}.return" not in skipped
        skipped += [f"{tried}.return", f"{tried}.handler"]


@pytest.fixture(scope="session")
def native_level(program: Program) -> Callable[[str], list[str]]:
    """The thread level that the library provides for a level requested from MPI_Init_thread."""

    @cache
    def provided(level: str) -> list[str]:
        outcome = program.native(4, f"--thread={level}", f"--seed={SEED}", "threads")
        assert outcome.passed()
        return outcome.lines("provided:")

    return provided


def assert_forced(program: Program, outcome: Outcome, mix: Mix) -> None:
    taken = {
        name: choice.partition("[")[0]
        for name, choice in outcome.choices.items()
        if choice != "native"
    }
    assert taken == program.served(mix) != {}
    assert outcome.passed()


# ---- natively: the program's expectations agree with the libraries ------------------------------


@pytest.mark.parametrize("ranks", some([4, 6]))
def test_native(program: Program, ranks: int) -> None:
    outcome = program.native(ranks, f"--seed={SEED}")
    assert outcome.choices == {}
    assert outcome.passed()


def test_every_check_is_run_by_some_test(program: Program) -> None:
    listed = execute([str(program.path), "--list"]).stdout.splitlines()
    named = {line.split()[0] for line in listed if "(if named)" in line}
    usual = {line.split()[0] for line in listed} - named
    assert named == SEPARATE
    assert program.native(1).checks.keys() == usual != set()


# ---- forced -------------------------------------------------------------------------------------


def test_every_family_is_mixed_with_every_collective() -> None:
    served = {
        (collective.name, family.name)
        for family in load_specs().standard_families.values()
        for collective in load_specs().standard
        if collective.name in family.compositions
    }
    assert {pair for mix in MIXES for pair in mix.families.items()} == served


@pytest.mark.parametrize("mix", MIXES, ids=str)
def test_mixed(program: Program, mix: Mix) -> None:
    assert_forced(program, program.forced(mix, f"--seed={SEED}"), mix)


@pytest.mark.wide
@pytest.mark.parametrize(("family", "layout"), PAIRS)
def test_forced(program: Program, family: str, layout: str) -> None:
    # Each layout tests different values of the parameters; the slow tests cover all.
    mix = everywhere(family, layout, LAYOUTS.index(layout))
    assert_forced(program, program.forced(mix, f"--seed={SEED}"), mix)


@pytest.mark.either("mpich")
@pytest.mark.parametrize("where", some(["full_lane@2x4", "hierarchical@2x4", "flat@4x1"]))
@pytest.mark.parametrize("collective", ["reduce", "reduce_scatter_block"])
def test_parts_are_forwarded(program: Program, where: str, collective: str) -> None:
    # Of four ranks on a node or lane, some forward the parts of others. MPICH 4.0.2 cuts off such
    # parts where the type has numbers of several kinds; random calls with this seed have them.
    arguments = ("--seed=712431153", "--calls=800", f"--collective={collective}", "fuzz")
    assert program.forced(everywhere(*where.split("@")), *arguments).passed()


@first_mixes
def test_same_bits_in_another_launch(program: Program, mix: Mix) -> None:
    first, second = (program.forced(mix, "bits") for _ in range(2))
    assert first.passed()
    assert second.passed()
    assert first.lines("bits") == second.lines("bits") != []


@pytest.mark.parametrize("level", LEVELS)
def test_threads(program: Program, native_level: Callable[[str], list[str]], level: str) -> None:
    mix = SERIAL[LEVELS.index(level)]
    outcome = program.forced(mix, f"--thread={level}", f"--seed={SEED}", "threads")
    assert outcome.passed()
    assert outcome.lines("provided:") == native_level(level) != []


@pytest.mark.wide
@pytest.mark.parametrize("family", FAMILIES)
def test_threads_of_a_family(
    program: Program, native_level: Callable[[str], list[str]], family: str
) -> None:
    """With threads of its own, the runtime raises the requested level: only the highest is as natively."""
    mix = everywhere(family, FAMILIES[family][0])
    outcome = program.forced(mix, "--thread=multiple", f"--seed={SEED}", "threads")
    assert outcome.passed()
    assert outcome.lines("provided:") == native_level("multiple") != []


@first_mixes
@pytest.mark.parametrize("model", ["only", "too"])
@pytest.mark.parametrize("mpi", ["mpich"], indirect=True)  # Open MPI 4 has no sessions
def test_sessions(program: Program, mix: Mix, model: str) -> None:
    arguments = [f"--sessions={model}", f"--seed={SEED}"]
    arguments += ["data", "communicators", "handles", "messages", "state", "attributes"]
    outcome = program.forced(mix, *arguments)
    assert outcome.passed()
    if model == "too":
        assert_forced(program, outcome, mix)


@pytest.mark.parametrize("mix", some(FOUR, 2), ids=str)
def test_errors(program: Program, native_errors: tuple[str, list[str]], mix: Mix) -> None:
    skip, native = native_errors
    outcome = program.forced(mix, "--limit=10", f"--skip={skip}", "errors")
    assert refusals(outcome.lines("error")) == refusals(native) != []
    assert outcome.passed()


def refusals(lines: list[str]) -> list[str]:
    """The refusals, without those of one buffer for both sides, which variants serve but libraries refuse.

    A variant cannot decline because of one rank's buffers, since the other ranks do not know them.
    """
    return [line for line in lines if ".alias." not in line]


@pytest.mark.wide
def test_huge(program: Program) -> None:
    # Only the root knows the sizes. test_everything_huge has the other collectives, with each family.
    mix = everywhere("full_lane", "2x2")
    assert program.forced(mix, "--collective=scatterv", "huge").passed()


# ---- the checks can fail ------------------------------------------------------------------------


@pytest.fixture(scope="session")
def faulty(built: Installation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(f"faulty-{built.library.name}")
    return compile_faulty(str(built.library.mpicc), folder)


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_found(program: Program, faulty: Path, fault: str) -> None:
    check, pattern = FAULTS[fault]
    variables = {"LD_PRELOAD": str(faulty), "CONFORMANCE_FAULT": fault}
    outcome = program.native(4, "--limit=2", check, **variables)
    assert outcome.code != 0
    assert re.search(pattern, outcome.text)


def test_the_faulty_library_is_right_without_a_fault(program: Program, faulty: Path) -> None:
    assert program.native(4, "data", "barrier", LD_PRELOAD=str(faulty)).passed()


# ---- longer -------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("family", "layout"), PAIRS)
def test_all_variations(program: Program, family: str, layout: str) -> None:
    variations = max(
        len(parameter.values)
        for variant in program.generated.variants
        if variant.family == family
        for parameter in variant.parameters
    )
    for variation in range(variations):
        seed = f"--seed={SEED + variation}"
        assert program.forced(everywhere(family, layout, variation), seed).passed()


@pytest.mark.slow
@pytest.mark.parametrize(("family", "layout"), PAIRS)
def test_fuzz(program: Program, family: str, layout: str) -> None:
    arguments = (f"--seed={SEED}", f"--seconds={FUZZ_SECONDS}", "fuzz")
    assert program.forced(everywhere(family, layout), *arguments).passed()


@pytest.mark.slow
def test_native_fuzz(program: Program) -> None:
    assert program.native(4, f"--seed={SEED}", f"--seconds={FUZZ_SECONDS}", "fuzz").passed()


@pytest.mark.slow
@pytest.mark.parametrize(("family", "layout"), PAIRS)
def test_threads_on_every_layout(program: Program, family: str, layout: str) -> None:
    for seed in range(SEED, SEED + 5):
        arguments = ("--thread=multiple", f"--seed={seed}", "threads")
        assert program.forced(everywhere(family, layout), *arguments).passed()


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_everything_huge(program: Program, family: str) -> None:
    assert program.forced(everywhere(family, FAMILIES[family][0]), "huge").passed()
