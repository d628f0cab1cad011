"""Programs behave as with their native library: runs the conformance program (tests/conformance)
natively, and preloaded with every family forced."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from conformance.build import compile_faulty, compile_program
from conftest import Installation
from support import SEED, execute, launch_local, openmp_library, serves

from collforge import layout as layouts
from collforge.generator import manifest
from collforge.generator.load import load_specs

# 2x2x2 has two threads per process; family flat serves 4x1 alone.
LAYOUTS = ("2x2", "3+1", "cyclic:2x3", "1x4", "2x2x2", "4x1")
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
IRREGULAR = ("3+1", "cyclic:2x3")
SOME_PAIRS = [
    (family, of_kind[SEED % len(of_kind)])
    for family, known in FAMILIES.items()
    for of_kind in (
        [layout for layout in known if layout in IRREGULAR],
        [layout for layout in known if layout not in IRREGULAR],
    )
    if of_kind
]
"""An irregular layout of each family that serves any, and a regular one; others from run to run."""

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

    def forced(self, family: str, layout: str, *arguments: str, variation: int = 0) -> Outcome:
        """Runs the program with the family's variants forced where they apply."""
        at = layouts.from_name(layout)
        preload = [str(self.runtime)]
        threads = {}
        if at.threads > 1:  # as for a program with OpenMP
            preload.append(openmp_library())
            threads = {"OMP_NUM_THREADS": str(at.threads), "COLLFORGE_THREAD_MULTIPLE": "1"}
        return self.native(
            at.size,
            *arguments,
            **threads,
            LD_PRELOAD=":".join(preload),
            COLLFORGE_NODE_MAP=at.node_map,
            COLLFORGE_FORCE=force_string(self.generated, family, variation),
        )

    def served(self, family: str, layout: str) -> set[str]:
        """The collectives of MPI with a variant of the family that applies on this layout."""
        at = layouts.from_name(layout)
        return {
            variant.collective
            for variant in self.generated.variants
            if variant.family == family
            and not self.generated.collective(variant.collective).hybrid
            and variant.applies(self.generated.facts(variant.collective, at, 4096))
        }


def force_string(generated: manifest.Manifest, family: str, variation: int) -> str:
    """COLLFORGE_FORCE for all variants of a family; each parameter has its value number ``variation``."""
    rules = []
    for variant in generated.variants:
        if variant.family != family:
            continue
        chosen: dict[str, object] = {}
        for parameter in variant.parameters:
            if all(chosen.get(name) in values for name, values in parameter.requires.items()):
                chosen[parameter.name] = parameter.values[variation % len(parameter.values)]
        text = ",".join(f"{name}={value}" for name, value in chosen.items())
        rules.append(f"{variant.collective}={family}" + (f"[{text}]" if text else ""))
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
def provided_natively(program: Program) -> dict[str, list[str]]:
    """The thread level that the library provides for each level requested from MPI_Init_thread."""
    found = {}
    for level in LEVELS:
        outcome = program.native(4, f"--thread={level}", f"--seed={SEED}", "threads")
        assert outcome.passed()
        found[level] = outcome.lines("provided:")
    return found


def assert_forced(program: Program, outcome: Outcome, family: str, layout: str) -> None:
    taken = {name for name, choice in outcome.choices.items() if choice.startswith(family)}
    assert taken == program.served(family, layout)
    assert taken


# ---- natively: the program's expectations agree with the libraries ------------------------------


@pytest.mark.parametrize("ranks", [4, 6])
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


@pytest.mark.parametrize(
    ("family", "layout"),
    [pytest.param(*pair, marks=() if pair in SOME_PAIRS else pytest.mark.slow) for pair in PAIRS],
)
def test_forced(program: Program, family: str, layout: str) -> None:
    # Each layout tests different values of the parameters; the slow tests cover all.
    variation = LAYOUTS.index(layout)
    outcome = program.forced(family, layout, f"--seed={SEED}", variation=variation)
    assert_forced(program, outcome, family, layout)
    assert outcome.passed()


@pytest.mark.parametrize("where", ["full_lane@2x4", "hierarchical@2x4", "flat@4x1"])
@pytest.mark.parametrize("collective", ["reduce", "reduce_scatter_block"])
def test_parts_are_forwarded(program: Program, where: str, collective: str) -> None:
    # Of four ranks on a node or lane, some forward the parts of others. MPICH 4.0.2 cuts off such
    # parts where the type has numbers of several kinds; random calls with this seed have them.
    family, _, layout = where.partition("@")
    arguments = ("--seed=712431153", "--seconds=3", f"--collective={collective}", "fuzz")
    assert program.forced(family, layout, *arguments).passed()


@pytest.mark.parametrize("family", FAMILIES)
def test_same_bits_in_another_launch(program: Program, family: str) -> None:
    layout = FAMILIES[family][min(1, len(FAMILIES[family]) - 1)]
    first, second = (program.forced(family, layout, "bits") for _ in range(2))
    assert first.passed()
    assert second.passed()
    assert first.lines("bits") == second.lines("bits") != []


@pytest.mark.parametrize("family", FAMILIES)
def test_threads(program: Program, provided_natively: dict[str, list[str]], family: str) -> None:
    at = FAMILIES[family][0]
    # With threads, the runtime raises the requested level, so only the highest is provided as natively.
    for level in LEVELS if layouts.from_name(at).threads == 1 else LEVELS[-1:]:
        outcome = program.forced(family, at, f"--thread={level}", f"--seed={SEED}", "threads")
        assert outcome.passed()
        assert outcome.lines("provided:") == provided_natively[level] != []


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("model", ["only", "too"])
def test_sessions(program: Program, family: str, model: str) -> None:
    if program.mpi == "openmpi":
        pytest.skip("Open MPI 4 has no sessions")
    arguments = [f"--sessions={model}", f"--seed={SEED}"]
    arguments += ["data", "communicators", "handles", "messages", "state", "attributes"]
    assert program.native(4, *arguments).passed()
    outcome = program.forced(family, FAMILIES[family][0], *arguments)
    assert outcome.passed()
    if model == "too":
        assert_forced(program, outcome, family, FAMILIES[family][0])


@pytest.mark.parametrize("family", FAMILIES)
def test_errors(program: Program, native_errors: tuple[str, list[str]], family: str) -> None:
    skip, native = native_errors
    outcome = program.forced(family, FAMILIES[family][0], "--limit=10", f"--skip={skip}", "errors")
    assert refusals(outcome.lines("error")) == refusals(native) != []
    assert outcome.passed()


def refusals(lines: list[str]) -> list[str]:
    """The refusals, without those of one buffer for both sides, which variants serve but libraries refuse.

    A variant cannot decline because of one rank's buffers, since the other ranks do not know them.
    """
    return [line for line in lines if ".alias." not in line]


def test_huge(program: Program) -> None:
    # Only the root knows the sizes. test_everything_huge has the other collectives, with each family.
    assert program.forced("full_lane", "2x2", "--collective=scatterv", "huge").passed()


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
        assert program.forced(family, layout, seed, variation=variation).passed()


@pytest.mark.slow
@pytest.mark.parametrize(("family", "layout"), PAIRS)
def test_fuzz(program: Program, family: str, layout: str) -> None:
    arguments = (f"--seed={SEED}", f"--seconds={FUZZ_SECONDS}", "fuzz")
    assert program.forced(family, layout, *arguments).passed()


@pytest.mark.slow
def test_native_fuzz(program: Program) -> None:
    assert program.native(4, f"--seed={SEED}", f"--seconds={FUZZ_SECONDS}", "fuzz").passed()


@pytest.mark.slow
@pytest.mark.parametrize(("family", "layout"), PAIRS)
def test_threads_on_every_layout(program: Program, family: str, layout: str) -> None:
    for seed in range(SEED, SEED + 5):
        outcome = program.forced(family, layout, "--thread=multiple", f"--seed={seed}", "threads")
        assert outcome.passed()


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_everything_huge(program: Program, family: str) -> None:
    assert program.forced(family, FAMILIES[family][0], "huge").passed()
