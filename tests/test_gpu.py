"""Device buffers: every variant on memory that faults on access, by stubs of the GPU runtimes (tests/gpu)."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from conftest import Installation, Launch
from driver import read_records
from gpu import cases
from support import compile_once, execute, make_folder

from collforge import layout as layouts

SOURCES = Path(__file__).resolve().parent / "gpu"
# File -> compiler flags that make it from the stub.
RUNTIMES = {
    "libcuda.so.1": "-DCUDA",
    "libamdhip64.so.5": "-DHIP=5",
    "libamdhip64.so.6": "-DHIP=6",
    "libze_loader.so.1": "-DZE",
}
TIME = 120
either = pytest.mark.either
FORCED = {"COLLFORGE_NODE_MAP": "2", "COLLFORGE_FORCE": "*=full_lane", "COLLFORGE_VERBOSE": "2"}
STAGED = "device memory: variants run on copies in host memory"


@pytest.fixture(scope="session")
def folder() -> Path:
    """The folder of the stubs and of a library whose RUNPATH finds them."""
    made = make_folder("gpu")
    stubs = make_folder("gpu/stubs")
    shared = ["gcc", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-pthread"]
    for name, option in RUNTIMES.items():
        source = SOURCES / "stub.c"
        link(
            compile_once(name, [*shared, option, f"-Wl,-soname,{name}", source], source),
            stubs / name,
        )
    own = [*shared, f"-Wl,-rpath,{stubs}", "-Wl,--enable-new-dtags", SOURCES / "bring.c"]
    link(compile_once("bring", own, SOURCES / "bring.c"), made / "bring.so")
    return made


def link(file: Path, name: Path) -> None:
    """Gives a file another name, as other processes may at the same time."""
    own = name.with_name(f"{name.name}.{os.getpid()}")
    own.symlink_to(file)
    own.replace(name)


@pytest.fixture(scope="session")
def program(built: Installation, folder: Path) -> Path:
    source = SOURCES / "program.c"
    options = ["-O1", "-pthread", "-Wall", "-Wextra", "-Werror"]
    return compile_once("gpu", [built.library.mpicc, *options, source], source)


def run(
    launch: Launch, built: Installation, program: Path, modes: str, runtime: str, **env: str
) -> str:
    """Runs the program preloaded; it must pass. Returns the library's messages."""
    bring = make_folder("gpu") / "bring.so"
    variables = {"LD_PRELOAD": str(built.built.library_path), **FORCED, **env}
    words = [str(program), str(bring), runtime, *modes.split()]
    done = launch(built.library.name, 4, words, variables, timeout=TIME)
    assert (done.returncode, done.stdout) == (0, "passed\n")
    return str(done.stderr)


def served(log: str) -> set[str]:
    return set(re.findall(r"collforge: (\w+)@\S+ .* bytes: full_lane", log))


# ---- every variant -------------------------------------------------------------------------------


def calls(built: Installation, layout: str, all_points: bool) -> list[str]:
    return cases.calls(built.home / "generated" / "manifest.json", layout, all_points)


def verify(
    launch: Launch, built: Installation, folder: Path, chosen: list[str], memory: str
) -> None:
    """The timing driver verifies the cases on device memory; ``folder`` is this test's own."""
    at = layouts.from_name(chosen[0].split("@")[1].split(",bytes=")[0])
    listed, output = folder / "cases", folder / "output"
    listed.write_text("".join(f"{case}\n" for case in chosen))
    argv = [str(built.built.driver_path), "--cases", str(listed), "--output", str(output)]
    argv += ["--verify-only", "--memory", memory]
    stubs = str(make_folder("gpu/stubs"))
    variables = {"COLLFORGE_NODE_MAP": at.node_map, "LD_LIBRARY_PATH": stubs}
    if at.threads > 1:
        variables.update(OMP_NUM_THREADS=str(at.threads), COLLFORGE_THREAD_MULTIPLE="always")
    done = launch(built.library.name, at.size, argv, variables, timeout=600)
    assert done.returncode == 0
    *results, end = read_records(output.read_text())[1:]
    assert (end["cases"], end["failed"]) == (len(chosen), 0)
    assert all(result["verified"] for result in results if result["detail"] != "declined")


@either
@pytest.mark.usefixtures("folder")
def test_some_variants(built: Installation, launch: Launch, tmp_path: Path) -> None:
    verify(launch, built, tmp_path, calls(built, "2x2", all_points=False)[::8], "mixed")


@pytest.mark.wide
@pytest.mark.parametrize("layout", ["2x2", "1x4", "2x2x2"])
@pytest.mark.parametrize("memory", ["mixed", pytest.param("device", marks=pytest.mark.slow)])
@pytest.mark.usefixtures("folder")
def test_every_variant(
    built: Installation, launch: Launch, tmp_path: Path, layout: str, memory: str
) -> None:
    verify(launch, built, tmp_path, calls(built, layout, all_points=False), memory)


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["2x2", "3+1", "cyclic:2x3"])
@pytest.mark.usefixtures("folder")
def test_every_point_of_every_variant(
    built: Installation, launch: Launch, tmp_path: Path, layout: str
) -> None:
    verify(launch, built, tmp_path, calls(built, layout, all_points=True), "mixed")


@either
def test_the_pages_fault(built: Installation, launch: Launch, folder: Path, tmp_path: Path) -> None:
    """The precondition of these tests: a native call on such memory crashes."""
    listed = tmp_path / "cases"
    listed.write_text("bcast:native@1x2,bytes=4096\n")
    argv = [str(built.built.driver_path), "--cases", str(listed), "--output", "-"]
    argv += ["--verify-only", "--memory", "device"]
    variables = {"COLLFORGE_NODE_MAP": "2", "LD_LIBRARY_PATH": str(folder / "stubs")}
    done = launch(built.library.name, 2, argv, variables, timeout=TIME)
    assert done.returncode != 0
    assert '"record":"end"' not in done.stdout


# ---- runtimes that come and go -------------------------------------------------------------------


@either
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_runtime_that_comes_late(
    built: Installation, launch: Launch, program: Path, runtime: str
) -> None:
    """A library loads the GPU runtime by its RUNPATH, as without the preload, after calls have been decided."""
    log = run(launch, built, program, "late", runtime)
    assert served(log) == {"allreduce", "alltoallv"}
    assert log.count(STAGED) == 1


@either
def test_memory_of_a_pool(built: Installation, launch: Launch, program: Path) -> None:
    """Neither the memory nor the calling thread has a context."""
    assert STAGED in run(launch, built, program, "late", "libcuda.so.1", STUB_POOL="1")


@either
def test_a_runtime_that_another_thread_loads(
    built: Installation, launch: Launch, program: Path
) -> None:
    """Then what the program asserts of its buffers, and copies that fail, which are errors of the rank."""
    assert STAGED in run(launch, built, program, "thread asserted broken", "libcuda.so.1")


@either
@pytest.mark.parametrize("mode", ["stage", "native"])
def test_some_ranks_have_a_runtime(
    built: Installation, launch: Launch, program: Path, mode: str
) -> None:
    """With COLLFORGE_GPU=native, for MPI libraries that can access device memory, no rank serves a call."""
    env = {"COLLFORGE_GPU": mode}
    env.update({"STUB_ACCESSIBLE": "1"} if mode == "native" else {})
    log = run(launch, built, program, "early", "libcuda.so.1", **env)
    assert ("COLLFORGE_GPU=native: native collectives" in log) == (mode == "native")
    assert (served(log) == set()) == (mode == "native")
    assert ("copies: 0\n" in log) == (mode == "native")


@either
def test_native_without_a_runtime_changes_nothing(
    built: Installation, launch: Launch, program: Path
) -> None:
    log = run(launch, built, program, "late", "libcuda.so.1", COLLFORGE_GPU="native")
    assert served(log) == {"allreduce", "alltoallv"}


@either
def test_an_unknown_setting_is_named(built: Installation, launch: Launch, program: Path) -> None:
    log = run(launch, built, program, "early", "libcuda.so.1", COLLFORGE_GPU="natve")
    assert "COLLFORGE_GPU='natve' is none of stage, native; taking stage" in log


# ---- what it costs -------------------------------------------------------------------------------


def test_loading_leaves_by_a_jump(built: Installation) -> None:
    """dlopen must be called by a tail jump, so that the C library sees the original caller."""
    for name in ("dlopen", "dlmopen"):
        command = ["objdump", "-d", f"--disassemble={name}", str(built.built.library_path)]
        text = execute(command).stdout
        assert re.search(r"jmp\s+\*%r\w+|\bbr\tx\d+", text), text
        assert len(re.findall(r"\bcall\b|\bblr?\t", text)) == 1, "only what counts the load"
