"""The C runtime under MPI programs: communicators, settings, the shared library and its Makefile."""

from __future__ import annotations

import csv
import os
import re
import shutil
from pathlib import Path

import pytest
from stub_build import STUB, Build, make_build
from support import LIBRARIES, also_wrapped, execute, offered

from collforge.generator import load

WRAPPED = {"MPI_Bcast", "MPI_Allreduce", "MPI_Gather"}


@pytest.fixture(scope="module", params=LIBRARIES)
def build(request: pytest.FixtureRequest) -> Build:
    return make_build(str(request.param), "program")


@pytest.mark.parametrize(
    ("ranks", "text", "names"),
    [
        (4, "2", ["2x2", "2x2"]),
        (4, "3,1", ["3+1", "1+3"]),
        (6, "map:0,1,0,1,0,1", ["cyclic:2x3", "cyclic:2x3"]),
        (5, "2,2,1", ["2+2+1", "1+2+2"]),
        (4, "map:0,1,1,0", ["map:0.1.1.0", "map:0.1.1.0"]),
        (4, "", ["1x4", "1x4"]),
    ],
)
def test_layouts(build: Build, ranks: int, text: str, names: list[str]) -> None:
    done = build.program(ranks, "layouts", COLLFORGE_NODE_MAP=text)
    # Different ranks print the lines, so their order is undefined.
    assert sorted(done.out) == sorted(f"layout {name}" for name in names)
    assert done.log == []


def test_freed_and_reused_handles(build: Build) -> None:
    build.program(2, "handles", COLLFORGE_NODE_MAP="1", COLLFORGE_FORCE="*=hierarchical")


def test_communicators_of_several_threads(build: Build) -> None:
    build.program(2, "threads", COLLFORGE_NODE_MAP="1", COLLFORGE_FORCE="*=full_lane")


def test_errors_reach_the_users_handler(build: Build) -> None:
    force = "bcast=failing;allreduce=full_lane"
    done = build.program(2, "errors", COLLFORGE_NODE_MAP="1", COLLFORGE_FORCE=force)
    assert done.log == []


# ---- settings -----------------------------------------------------------------------------------


@pytest.mark.parametrize("node_map", ["2", "3,1", "map:0,1,0,1"])
def test_forced_variants_run(build: Build, node_map: str) -> None:
    force = "*=full_lane;gather=hierarchical"
    runs, log = build.runs(COLLFORGE_NODE_MAP=node_map, COLLFORGE_FORCE=force)
    assert runs > 0
    assert log == []


def test_native_order_keeps_reductions_native(build: Build) -> None:
    variables = {"COLLFORGE_NODE_MAP": "2", "COLLFORGE_FORCE": "allreduce=full_lane"}
    assert build.runs(**variables)[0] > 0
    assert build.runs(**variables, COLLFORGE_NATIVE_ORDER="1") == (0, [])
    variables["COLLFORGE_FORCE"] = "*=full_lane"
    assert build.runs(**variables, COLLFORGE_NATIVE_ORDER="1")[0] > 0, "bcast applies no op"


@pytest.mark.either
@pytest.mark.parametrize("disable", ["1", "yes"])
def test_disabled(build: Build, disable: str) -> None:
    variables = {"COLLFORGE_FORCE": "*=hierarchical", "COLLFORGE_DB": "/nonexistent"}
    variables.update(COLLFORGE_NODE_MAP="2", COLLFORGE_VERBOSE="x", COLLFORGE_DISABLE=disable)
    assert build.runs(**variables) == (0, [])


@pytest.mark.either
@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"COLLFORGE_FORCE": "bcast=tree"}, ["COLLFORGE_FORCE", "tree"]),
        ({"COLLFORGE_VERBOSE": "3"}, ["COLLFORGE_VERBOSE", "3"]),
        (
            {"COLLFORGE_NODE_MAP": "x", "COLLFORGE_FORCE": "*=hierarchical"},
            ["COLLFORGE_NODE_MAP"],
        ),
        (
            {
                "COLLFORGE_FORCE": "x",
                "COLLFORGE_VERBOSE": "x",
                "COLLFORGE_DB": "/nonexistent",
            },
            ["COLLFORGE_VERBOSE"],
        ),
    ],
)
def test_malformed_settings_give_one_warning(
    build: Build, variables: dict[str, str], words: list[str]
) -> None:
    runs, log = build.runs(**{"COLLFORGE_NODE_MAP": "2", **variables})
    assert runs == 0
    assert len(log) == 1
    assert all(word in log[0] for word in ["warning", *words])


def test_world_rank_0_decides_for_all(build: Build) -> None:
    program = [str(build.folder / "program"), "results"]
    tuned = ["env", "COLLFORGE_FORCE=*=hierarchical", "COLLFORGE_NODE_MAP=1", *program]
    native = ["env", "COLLFORGE_DISABLE=1", "COLLFORGE_NODE_MAP=2", *program]
    for first, second, expected in ((tuned, native, True), (native, tuned, False)):
        done = build.launch(1, *first, ":", "-n", "2", *second)
        assert done.code == 0
        assert (re.match(r"runs [1-9]", done.out[-1]) is not None) == expected


def test_verbose_names_each_decision_once(build: Build) -> None:
    settings = {"COLLFORGE_NODE_MAP": "2", "COLLFORGE_VERBOSE": "2"}
    _, log = build.runs(COLLFORGE_FORCE="allreduce=full_lane", **settings)
    choice = "full_lane[lane_algorithm=native,segment_bytes=4096]"
    assert log.count(f"collforge: allreduce@2x2, 363 to 430 bytes: {choice}") == 1
    assert log.count("collforge: bcast@2x2, 363 to 430 bytes: native") == 1


@pytest.mark.either
def test_profile_counts_the_calls_of_the_job(build: Build, tmp_path: Path) -> None:
    path = tmp_path / "profile.csv"
    runs, log = build.runs(COLLFORGE_PROFILE=str(path), COLLFORGE_NODE_MAP="2")
    assert (runs, log) == (0, [])
    with path.open(newline="") as file:
        rows = {
            (r["collective"], r["layout"], int(r["bytes_from"])): r for r in csv.DictReader(file)
        }
    assert rows["bcast", "2x2", 363]["calls"] == "4"
    assert rows["bcast", "2x2", 363]["bytes_to"] == "430"
    assert rows["allreduce", "2x2", 0]["calls"] == "1"
    # Communicators without world rank 0 count, too: MPI_COMM_SELF of four ranks, and two halves of two.
    assert rows["allreduce", "1x1", 39]["calls"] == "4"
    assert rows["bcast", "2x1", 39]["calls"] == "4"
    assert [rows["bcast", name, 39]["communicators"] for name in ("2x1",)] == ["2"]
    assert {name: rows[name, "2x2", 363]["origin"] for name in ("bcast",)} == {"bcast": "world"}
    # All ranks' times count; the job's is longer than those of its collectives.
    job = rows.pop(("job", "2x2", 0))
    seconds = [float(row["seconds"]) for row in rows.values()]
    assert all(one > 0 for one in seconds)
    assert sum(seconds) < float(job["seconds"])
    assert all(0 <= float(row["waited"]) <= float(row["seconds"]) for row in rows.values())


@pytest.mark.either
def test_profile_that_cannot_be_written(build: Build, tmp_path: Path) -> None:
    _, log = build.runs(COLLFORGE_PROFILE=str(tmp_path / "no" / "profile"))
    assert len(log) == 1
    assert "COLLFORGE_PROFILE" in log[0]


@pytest.mark.either
def test_profile_into_a_pipe_that_nobody_reads(build: Build, tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    _, log = build.runs(COLLFORGE_PROFILE=str(path), COLLFORGE_NODE_MAP="2")
    assert len(log) == 1
    assert "COLLFORGE_PROFILE" in log[0]


# ---- the library and its Makefile ---------------------------------------------------------------


def test_exported_symbols(build: Build) -> None:
    lines = execute(["nm", "-D", "--defined-only", str(build.library)]).stdout.splitlines()
    expected = WRAPPED | also_wrapped(build.mpi)
    # The stub has no collectives of collforge_hybrid.h.
    functions = [one.function for one in load.load_specs().hybrid]
    generated = {name for function in functions for name in (function, f"{function}_init")}
    assert generated < offered()
    assert {line.split()[2] for line in lines} == expected | (offered() - generated)


def test_preloaded_under_an_unmodified_program(build: Build, tmp_path: Path) -> None:
    (tmp_path / "hello.c").write_text(
        "#include <mpi.h>\n#include <stdio.h>\nint main(void) {\nint rank, sum = 0;\n"
        "MPI_Init(NULL, NULL);\nMPI_Comm_rank(MPI_COMM_WORLD, &rank);\n"
        "MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);\n"
        'printf("%d\\n", sum);\nreturn MPI_Finalize();\n}\n'
    )
    program = str(tmp_path / "hello")
    assert execute([f"mpicc.{build.mpi}", f"{program}.c", "-o", program]).returncode == 0
    variables = {"COLLFORGE_NODE_MAP": "1", "COLLFORGE_FORCE": "*=full_lane"}
    variables.update(LD_PRELOAD=str(build.library), COLLFORGE_VERBOSE="2")
    done = build.launch(2, program, **variables)
    assert (done.code, done.out) == (0, ["1", "1"])
    assert any("allreduce@2x1, 4 to 4 bytes: full_lane" in line for line in done.log)


@pytest.mark.wide
@pytest.mark.either
def test_makefile_follows_the_generated_files(build: Build, tmp_path: Path) -> None:
    generated = tmp_path / "generated"
    shutil.copytree(STUB, generated)
    (generated / "variants").mkdir()
    extra = generated / "variants" / "extra.c"
    extra.write_text('extern int extra;\nint extra __attribute__((visibility("default"))) = 1;\n')
    other = Build(build.mpi, tmp_path / "out", build.version, "-O0")

    def symbols() -> str:
        assert other.make(generated) == 0
        assert other.make(generated, "-q") == 0
        return execute(["nm", "-D", "--defined-only", str(other.library)]).stdout

    assert " extra" in symbols()
    extra.write_text(extra.read_text().replace("extra", "added"))
    assert " added" in symbols()
    extra.unlink()
    assert " added" not in symbols()
    assert other.make(generated, "-q", "CFLAGS=-DSOMETHING") == 1
