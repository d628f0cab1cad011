"""Fortran programs under the preloaded library: mpif.h, `use mpi` and `use mpi_f08`."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from conftest import Installation, Launch
from preloaded import made, preload, profiled, tuned
from support import (
    also_wrapped,
    compile_once,
    execute,
    make_folder,
    mostly_wide,
    offered,
    run_native,
)

from collforge.generator import load, manifest
from collforge.generator.in_c import fortran
from collforge.generator.in_c.large import has_large_form
from collforge.generator.model import Collective

SOURCES = Path(__file__).parent / "fortran"
RANKS = 4
either = pytest.mark.either
wide = pytest.mark.wide
INTERFACES = {"mpif.h": 1, "use mpi": 2, "use mpi_f08": 3}
LARGE_COUNTS = {"mpich"}  # the libraries whose mpi_f08 has large counts
# With implicit interfaces, two calls with buffers of different types are an error by default.
COMPILE = ["-O1", "-w", "-fallow-argument-mismatch"]


@pytest.fixture(scope="module")
def collectives() -> list[Collective]:
    return load.load_specs().standard


def compile_fortran(mpi: str, interface: str, *options: str) -> Path:
    # A folder of each process: the modules that the compiler writes there have the same names.
    folder = make_folder(f"fortran/{os.getpid()}")
    defines = [f"-DINTERFACE={INTERFACES[interface]}"]
    if interface == "use mpi_f08" and mpi in LARGE_COUNTS:
        defines.append("-DLARGE_COUNTS")
    sources = [SOURCES / name for name in ("checks.F90", "collectives.F90")]
    command = [f"mpif90.{mpi}", *COMPILE, *defines, *options, *sources]
    return compile_once("fortran", command, *sources, SOURCES / "interface.h", also=["-J", folder])


def compile_c(source: str, target: Path, *options: str) -> Path:
    command = ["gcc", "-Wall", "-Wextra", "-Werror", *options, str(SOURCES / source)]
    assert execute([*command, "-o", str(target), "-ldl"]).returncode == 0
    return target


@pytest.fixture(scope="module", params=INTERFACES)
def program(request: pytest.FixtureRequest, mpi: str) -> Path:
    return compile_fortran(mpi, str(request.param))


@pytest.mark.parametrize(
    "family",
    [
        *mostly_wide(["full_lane", "hierarchical"], "full_lane"),
        pytest.param("native", marks=either),
    ],
)
def test_each_call_is_decided_once_and_right(
    mpi: str,
    built: Installation,
    program: Path,
    family: str,
    launch: Launch,
    tmp_path: Path,
    collectives: list[Collective],
) -> None:
    variables = preload(built, tmp_path / "profile", family)
    # With MPI_THREAD_MULTIPLE under Open MPI, the runtime makes communicators for MPI_COMM_WORLD only.
    threads = ["MPI_Init_thread"] if family == "native" else []
    done = launch(mpi, RANKS, [str(program), *threads], variables)
    assert done.returncode == 0
    calls = made(done.stdout)
    assert set(calls) == {collective.name for collective in collectives}
    assert profiled(tmp_path / "profile") == calls
    if family != "native":
        known = manifest.load(built.home / "generated" / "manifest.json")
        served = {variant.collective for variant in known.variants if variant.family == family}
        assert served <= tuned(done.stderr, family)


@wide
def test_the_program_is_right_without_us(mpi: str, program: Path) -> None:
    done = run_native(mpi, RANKS, [str(program)])
    assert done.returncode == 0
    assert made(done.stdout)


@either
@pytest.mark.parametrize("interface", INTERFACES)
def test_loaded_by_a_program_that_knows_nothing_of_fortran(
    mpi: str, built: Installation, interface: str, launch: Launch, tmp_path: Path
) -> None:
    library = compile_fortran(mpi, interface, "-shared", "-fPIC", "-DLIBRARY")
    loader = compile_c("load.c", tmp_path / "load")
    variables = preload(built, tmp_path / "profile", "full_lane")
    argv = [str(loader), str(library), "check_collectives"]
    done = launch(mpi, RANKS, argv, variables)
    assert done.returncode == 0
    assert profiled(tmp_path / "profile") == made(done.stdout)


@either
@pytest.mark.parametrize("loaded", ["linked", "loaded"])
def test_routines_that_are_not_the_mpi_librarys_stay_what_they_are(
    built: Installation, loaded: str, tmp_path: Path
) -> None:
    shared = ["-shared", "-fPIC"]
    serial = compile_c("serial.c", tmp_path / "libserial.so", *shared)
    rpath = f"-Wl,--no-as-needed,-rpath,{tmp_path}"
    solver = compile_c("solver.c", tmp_path / "libsolver.so", *shared, rpath, str(serial))
    links = [rpath, str(solver)] if loaded == "linked" else []
    loader = compile_c("load.c", tmp_path / "load", *links)
    preloaded = ["env", f"LD_PRELOAD={built.built.library_path}"]
    done = execute([*preloaded, str(loader), str(solver), "solve"])
    assert (done.returncode, done.stdout) == (0, "init 71 barrier 72\n")


def has_mpi_4(mpi: str) -> bool:
    probe = execute(["sh", "-c", f"echo MPI_VERSION | mpicc.{mpi} -E -P -include mpi.h -"])
    return int(probe.stdout.split()[-1]) >= 4


def persistent(mpi: str, collectives: list[Collective]) -> set[str]:
    """The functions that make persistent requests, and PMPI's."""
    prefix, forms = ("MPI", ["", "_c"]) if has_mpi_4(mpi) else ("MPIX", [""])
    return {
        f"{profiling}{prefix}_{one.name.capitalize()}_init{form}"
        for one in collectives
        for form in forms
        for profiling in ("", "P")
        if not form or has_large_form(one)
    }


def test_exported_symbols(mpi: str, built: Installation, collectives: list[Collective]) -> None:
    command = ["nm", "-D", "--defined-only", str(built.built.library_path)]
    lines = execute(command).stdout.splitlines()
    expected = also_wrapped(built.library.flavor) | offered()
    expected |= {collective.function for collective in collectives}
    expected |= {f"MPI_I{collective.name}" for collective in collectives}
    expected |= {f"{r.name}_f" for r in fortran.hybrid_routines(load.load_specs().hybrid)}
    expected.add("collforge_hybrid_get_f")
    expected |= fortran.exported(collectives, built.library.flavor)
    if has_mpi_4(mpi):
        large = [one for one in collectives if has_large_form(one)]
        expected |= {f"{one.function}_c" for one in large}
        expected |= {f"MPI_I{one.name}_c" for one in large}
    expected |= persistent(mpi, collectives)
    assert {line.split()[2] for line in lines} == expected


def test_needs_no_fortran_library(built: Installation) -> None:
    out = execute(["readelf", "-d", str(built.built.library_path)]).stdout
    needed = re.findall(r"NEEDED.*\[(.*)\]", out)
    assert needed
    assert [name for name in needed if "fort" in name or "mpifh" in name] == []
