"""Device buffers: every variant on memory that faults on access, by stubs of the GPU runtimes (tests/gpu)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from conftest import Installation, Launch
from support import execute, make_folder

from collforge.generator import layout as layouts
from collforge.generator import manifest
from collforge.reframe_checks.cases import verification_cases

SOURCES = Path(__file__).resolve().parent / "gpu"
# File -> what makes it from the stub.
RUNTIMES = {
    "libcuda.so.1": "-DCUDA",
    "libamdhip64.so.5": "-DHIP=5",
    "libamdhip64.so.6": "-DHIP=6",
    "libze_loader.so.1": "-DZE",
}
TIME = 120
FORCED = {"COLLFORGE_NODE_MAP": "2", "COLLFORGE_FORCE": "*=full_lane", "COLLFORGE_VERBOSE": "2"}
STAGED = "device memory: variants run on copies in host memory"


@pytest.fixture(scope="session")
def folder() -> Path:
    """The stubs, and a library whose RUNPATH finds them."""
    made = make_folder("gpu")
    stubs = make_folder("gpu/stubs")
    shared = ["gcc", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-pthread"]
    for name, option in RUNTIMES.items():
        stub = [*shared, option, f"-Wl,-soname,{name}", str(SOURCES / "stub.c")]
        assert execute([*stub, "-o", str(stubs / name)]).returncode == 0
    own = [f"-Wl,-rpath,{stubs}", "-Wl,--enable-new-dtags", str(SOURCES / "bring.c")]
    assert execute([*shared, *own, "-o", str(made / "bring.so"), "-ldl"]).returncode == 0
    return made


@pytest.fixture(scope="session")
def program(built: Installation, folder: Path) -> Path:
    target = folder / f"program-{built.library.name}"
    options = ["-O1", "-pthread", "-Wall", "-Wextra", "-Werror"]
    command = [str(built.library.mpicc), *options, str(SOURCES / "program.c"), "-o", str(target)]
    assert execute([*command, "-ldl"]).returncode == 0
    return target


def run(
    launch: Launch, built: Installation, program: Path, mode: str, runtime: str, **env: str
) -> str:
    """Runs the program preloaded: it must pass. Returns what the library said."""
    bring = program.parent / "bring.so"
    variables = {"LD_PRELOAD": str(built.built.library_path), **FORCED, **env}
    words = [str(program), mode, str(bring), runtime]
    done = launch(built.library.name, 4, words, variables, timeout=TIME)
    assert (done.returncode, done.stdout) == (0, "passed\n")
    return str(done.stderr)


def served(log: str) -> set[str]:
    return set(re.findall(r"collforge: (\w+)@\S+ .* bytes: full_lane", log))


# ---- every variant -------------------------------------------------------------------------------


def verify(launch: Launch, built: Installation, folder: Path, layout: str, memory: str) -> None:
    """The timing driver verifies every variant of the layout on device memory."""
    made = manifest.load(built.home / "generated" / "manifest.json")
    at = layouts.from_name(layout)
    standard = [v for v in made.variants if not made.collective(v.collective).hybrid]
    cases = [case for v in standard for case in verification_cases(made, v, at, "small")]
    listed = folder / f"cases-{built.library.name}"
    output = folder / f"output-{built.library.name}"
    listed.write_text("".join(f"{case}\n" for case in cases))
    argv = [str(built.built.driver_path), "--cases", str(listed), "--output", str(output)]
    argv += ["--verify-only", "--memory", memory]
    variables = {"COLLFORGE_NODE_MAP": at.node_map, "LD_LIBRARY_PATH": str(folder / "stubs")}
    done = launch(built.library.name, at.size, argv, variables, timeout=600)
    assert done.returncode == 0
    assert f'"cases":{len(cases)}' in output.read_text().splitlines()[-1]


@pytest.mark.parametrize("layout", ["2x2", "1x4"])
@pytest.mark.parametrize("memory", ["device", "mixed"])
def test_every_variant(
    built: Installation, launch: Launch, folder: Path, layout: str, memory: str
) -> None:
    verify(launch, built, folder, layout, memory)


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["3+1", "cyclic:2x3"])
def test_every_variant_on_other_layouts(
    built: Installation, launch: Launch, folder: Path, layout: str
) -> None:
    verify(launch, built, folder, layout, "mixed")


def test_the_pages_fault(built: Installation, launch: Launch, folder: Path, tmp_path: Path) -> None:
    """What the tests stand on: a native call crashes."""
    listed = tmp_path / "cases"
    listed.write_text("bcast:native@1x2,bytes=4096\n")
    argv = [str(built.built.driver_path), "--cases", str(listed), "--output", "-"]
    argv += ["--verify-only", "--memory", "device"]
    variables = {"COLLFORGE_NODE_MAP": "2", "LD_LIBRARY_PATH": str(folder / "stubs")}
    done = launch(built.library.name, 2, argv, variables, timeout=TIME)
    assert done.returncode != 0
    assert '"record":"end"' not in done.stdout


# ---- runtimes that come and go -------------------------------------------------------------------


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_runtime_that_comes_late(
    built: Installation, launch: Launch, program: Path, runtime: str
) -> None:
    """By a library whose RUNPATH finds it, as without the preload; by then calls were settled."""
    log = run(launch, built, program, "late", runtime)
    assert served(log) == {"allreduce", "alltoallv"}
    assert log.count(STAGED) == 1


def test_a_runtime_that_another_thread_loads(
    built: Installation, launch: Launch, program: Path
) -> None:
    assert STAGED in run(launch, built, program, "thread", "libcuda.so.1")


def test_copies_that_fail_are_errors_of_the_rank(
    built: Installation, launch: Launch, program: Path
) -> None:
    run(launch, built, program, "broken", "libcuda.so.1")


def test_an_assertion_that_there_are_no_device_buffers(
    built: Installation, launch: Launch, program: Path
) -> None:
    """Open MPI keeps info that it does not know, MPICH does not: its communicators stay asked."""
    log = run(launch, built, program, "asserted", "libcuda.so.1")
    kept = "system,mpi:alloc_mem" if built.library.name == "openmpi" else ""
    assert f"kept: {kept}\n" in log


@pytest.mark.parametrize("mode", ["staged", "native"])
def test_some_ranks_have_a_runtime(
    built: Installation, launch: Launch, program: Path, mode: str
) -> None:
    """With COLLFORGE_GPU=native, where the MPI library accesses the pages, no rank serves a call."""
    env = {"COLLFORGE_GPU": mode}
    env.update({"STUB_ACCESSIBLE": "1"} if mode == "native" else {})
    log = run(launch, built, program, "early", "libcuda.so.1", **env)
    assert ("COLLFORGE_GPU=native: native collectives" in log) == (mode == "native")
    assert (served(log) == set()) == (mode == "native")
    assert ("copies: 0\n" in log) == (mode == "native")


def test_native_without_a_runtime_changes_nothing(
    built: Installation, launch: Launch, program: Path
) -> None:
    log = run(launch, built, program, "late", "libcuda.so.1", COLLFORGE_GPU="native")
    assert served(log) == {"allreduce", "alltoallv"}


def test_an_unknown_setting_is_named(built: Installation, launch: Launch, program: Path) -> None:
    log = run(launch, built, program, "early", "libcuda.so.1", COLLFORGE_GPU="natve")
    assert "COLLFORGE_GPU='natve' is none of staged, native; taking staged" in log


# ---- what it costs -------------------------------------------------------------------------------


def test_loading_leaves_by_a_jump(built: Installation) -> None:
    """So that the C library sees who has called."""
    for name in ("dlopen", "dlmopen"):
        command = ["objdump", "-d", f"--disassemble={name}", str(built.built.library_path)]
        text = execute(command).stdout
        assert re.search(r"jmp\s+\*%r\w+|\bbr\tx\d+", text), text
        assert len(re.findall(r"\bcall\b|\bblr?\t", text)) == 1, "only what counts the load"
