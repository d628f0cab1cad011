"""The runtime under the address, undefined-behaviour and thread sanitizers, and for leaks.

The MPI libraries are not instrumented; accesses of the runtime and the variants are checked.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from conformance.build import compile_program as compile_conformance
from conftest import Installation, Launch
from support import MEMORY_SANITIZERS, SEED, execute, make_folder, serves

from collforge import runtime
from collforge.generator import load

# tests/faults and test_runtime_units.py have the small ones of `make test`.
pytestmark = pytest.mark.wide

C = Path(__file__).resolve().parent / "c"
RUNTIME = Path(runtime.__file__).parent
FIRST = "full_lane"
OTHERS = sorted(load.load_specs().standard_families.keys() - {FIRST})
CHECKS = ["data", "signatures", "in_place", "insignificant", "irregular", "operations", "bits"]
CHECKS += ["communicators", "handles", "barrier", "messages", "state", "attributes"]
# Open MPI 4.1.4's allreduce with a negative lower bound (tests/conformance/defects.c).
RING_BEFORE_ITS_BUFFER = "ompi_coll_base_allreduce_intra_ring"
# The state of one communicator takes more than a kilobyte, so a leak of it exceeds this limit.
MOST_BYTES_PER_CYCLE = 16.0


def make_library(built: Installation, flags: str, folder: str, source: Path = RUNTIME) -> Path:
    """The library, built with sanitizer flags beside the ordinary one."""
    out = make_folder(folder)
    command = ["flock", str(out), "make", "-s", "-j2", "-C", str(source)]
    command += [f"MPICC={built.library.mpicc}"]
    command += [f"GENERATED={built.home / 'generated'}", f"OUT={out}", "VERSION=0"]
    command += [f"CFLAGS=-O1 {flags}", f"LDFLAGS={flags}", str(out / "libcollforge.so")]
    done = execute(command, timeout=300)
    assert done.returncode == 0, done.stderr
    return out / "libcollforge.so"


def sanitizer(name: str) -> str:
    """The path of a sanitizer's library, which must be loaded before all others."""
    command = ["gcc", f"-print-file-name=lib{name}.so"]
    return subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=60
    ).stdout.strip()


def compile_program(built: Installation, name: str, folder: Path) -> Path:
    target = folder / name
    flags = [
        "-std=c11",
        "-D_DEFAULT_SOURCE",
        "-O1",
        "-g",
        "-pthread",
        "-Wall",
        "-Wextra",
        "-Werror",
    ]
    command = [str(built.library.mpicc), *flags, str(C / f"{name}.c"), "-o", str(target)]
    assert execute(command).returncode == 0
    return target


def variables(preload: list[str], family: str, nodes: str) -> Mapping[str, str]:
    return {
        "LD_PRELOAD": ":".join(preload),
        "COLLFORGE_FORCE": f"*={family}",
        "COLLFORGE_NODE_MAP": nodes,
    }


def on_several_nodes(family: str) -> bool:
    return serves(load.load_specs().families[family], "3+1")


each_family = pytest.mark.parametrize(
    "family", [FIRST, *(pytest.param(name, marks=pytest.mark.slow) for name in OTHERS)]
)


@pytest.mark.either
@each_family
def test_conformance_under_address_and_undefined_behaviour_sanitizers(
    built: Installation, launch: Launch, tmp_path: Path, family: str
) -> None:
    """The conformance program's checks; the library's own defects are suppressed by name."""
    library = make_library(built, MEMORY_SANITIZERS, f"asan-{built.library.name}")
    program = compile_conformance(str(built.library.mpicc), tmp_path)
    suppressions = tmp_path / "suppressions"
    suppressions.write_text(f"interceptor_via_fun:{RING_BEFORE_ITS_BUFFER}\n")
    preload = [sanitizer("asan"), sanitizer("ubsan"), str(library)]
    options = {
        "detect_leaks": "0",  # the MPI libraries leak; another test counts leaks
        "verify_asan_link_order": "0",
        "suppressions": str(suppressions),
    }
    env = {
        **variables(preload, family, "3,1" if on_several_nodes(family) else "4"),
        "COLLFORGE_SPLIT_OPS": "1",  # or the libraries' own defects with ops of the program show
        "ASAN_OPTIONS": ":".join(f"{name}={value}" for name, value in options.items()),
    }
    done = launch(built.library.name, 4, [str(program), *CHECKS], env=env, timeout=280)
    assert "ERROR: AddressSanitizer" not in done.stderr
    assert "runtime error" not in done.stderr
    found = re.search(r"conformance: (\d+) checks, (\d+) calls, 0 failures", done.stdout)
    assert found and int(found[1]) == len(CHECKS) and int(found[2]) > 10000
    assert done.returncode == 0


def test_hybrid_collectives_under_address_and_undefined_behaviour_sanitizers(
    built: Installation, launch: Launch, tmp_path: Path
) -> None:
    library = make_library(built, MEMORY_SANITIZERS, f"asan-{built.library.name}").parent
    program = tmp_path / "hybrid_calls"
    command = [str(built.library.mpicc), "-std=c11", "-D_POSIX_C_SOURCE=200809L", "-O1", "-g"]
    command += [*MEMORY_SANITIZERS.split(), f"-I{RUNTIME / 'include'}", str(C / "hybrid_calls.c")]
    command += ["-o", str(program), f"-L{library}", "-lcollforge", f"-Wl,-rpath,{library}"]
    assert execute(command).returncode == 0
    env = {
        "COLLFORGE_NODE_MAP": "map:0,1,0,0,1",
        "ASAN_OPTIONS": "detect_leaks=0:verify_asan_link_order=0",
    }
    for words in (("results", SEED), ("order", SEED, 300), ("errors",), ("requests",)):
        argv = [str(program), *map(str, words)]
        done = launch(built.library.name, 5, argv, env=env, timeout=240)
        assert (done.returncode, done.stdout) == (0, "passed\n"), words
        assert "ERROR: AddressSanitizer" not in done.stderr and "runtime error" not in done.stderr


@each_family
def test_no_leak_in_ten_thousand_communicators(
    built: Installation, launch: Launch, tmp_path: Path, family: str
) -> None:
    """Each communicator has three hidden ones, because the ranks are not consecutive."""
    program = compile_program(built, "cycles", tmp_path)
    nodes = "map:0,1,0" if on_several_nodes(family) else "3"
    env = variables([str(built.built.library_path)], family, nodes)
    done = launch(built.library.name, 3, [str(program), "10000"], env=env, timeout=240)
    assert done.returncode == 0
    found = re.search(r"cycles 10000 wrong 0 bytes-per-cycle (-?[\d.]+)", done.stdout)
    assert found and float(found[1]) < MOST_BYTES_PER_CYCLE


@pytest.fixture(scope="module")
def racing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The path of the runtime's sources without the lock of the list of communicators."""
    copy = Path(shutil.copytree(RUNTIME, tmp_path_factory.mktemp("racing") / "runtime"))
    source = copy / "src" / "comm" / "comm.c"
    text, locks = re.subn(
        r"\(void\)pthread_mutex_(un)?lock\(&list\.mutex\);", "", source.read_text()
    )
    assert locks >= 4
    source.write_text(text)
    return copy


def run_threads(
    built: Installation, launch: Launch, library: Path, folder: Path
) -> subprocess.CompletedProcess[str]:
    program = compile_program(built, "threads", folder)
    env = {
        **variables([sanitizer("tsan"), str(library)], "full_lane", "2"),
        # After a race on the list of communicators a rank may walk it forever.
        "TSAN_OPTIONS": "ignore_noninstrumented_modules=1:halt_on_error=1",
    }
    return launch(built.library.name, 3, [str(program)], env=env, timeout=240)


def only_openmpi(built: Installation) -> None:
    if built.library.name == "mpich":
        pytest.skip("Debian's MPICH 4.0.2 crashes under the thread sanitizer with any program")


def test_threads_do_not_race(built: Installation, launch: Launch, tmp_path: Path) -> None:
    only_openmpi(built)
    library = make_library(built, "-fsanitize=thread", f"tsan-{built.library.name}")
    done = run_threads(built, launch, library, tmp_path)
    assert "wrong 0" in done.stdout
    assert "ThreadSanitizer" not in done.stderr
    assert done.returncode == 0


def test_a_missing_lock_would_be_found(
    built: Installation, launch: Launch, tmp_path: Path, racing: Path
) -> None:
    only_openmpi(built)
    folder = f"racing-{built.library.name}"
    # Of an earlier run, whose copy of the sources pytest has removed.
    shutil.rmtree(make_folder(folder))
    library = make_library(built, "-fsanitize=thread", folder, racing)
    done = run_threads(built, launch, library, tmp_path)
    assert "data race" in done.stderr
