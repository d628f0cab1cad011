"""MPI libraries in prefixes beside Debian's two: they are tuned, and programs run their winners."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Launch
from support import PREFIXES, SHARED_HOME, TOP, execute

from collforge.db import Choice, Store
from collforge.home import home
from collforge.reframe_checks.mpirun import local_command
from collforge.reframe_checks.systems.emulated import ClusterSpec
from collforge.reframe_checks.systems.emulated.launch import mpirun
from collforge.toolchain import build, libraries
from collforge.variant import Variant

LIBRARIES = ("openmpi", "openmpi5", "mpich", "mpich5")
# Collectives in which each rank waits for all; a shared-memory window makes them about twice as fast.
COLLECTIVES = ("barrier", "allreduce")
PROGRAM = r"""
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    double sum = 0;
    int rank = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const double mine = rank + 1;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    printf("rank %d: %g\n", rank, sum);
    return sum != 3;
}
"""


@pytest.fixture(scope="module", autouse=True)
def _prefixes() -> Iterator[None]:
    """Names the libraries that `make prefixes` installs by their folders."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("mpich5", "openmpi5"):
            assert (PREFIXES / name / "bin" / "mpicc").exists(), "run `make prefixes`"
            patch.setenv(f"COLLFORGE_MPI_{name.upper()}", str(PREFIXES / name))
        yield


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory, collforge: Launch) -> Path:
    """A database in which all libraries were tuned; those without a winner because of noise, twice."""
    database = tmp_path_factory.mktemp("prefix") / "t.db"
    options = ["--system", "local", "--layout", "1x2", "--collective", ",".join(COLLECTIVES)]
    options += ["--sizes", "8", "--db", str(database)]
    left: set[str] = set(LIBRARIES)
    for launches in ("3", "6"):
        more = ["--mpi", ",".join(sorted(left)), "--launches", launches, "--budget", "110s"]
        assert collforge("tune", *options, *more, timeout=400).returncode == 0
        with Store(database) as store:
            left -= {w.place.mpi for w in store.winners() if not w.choice.variant.is_native}
        if not left:
            break
    return database


def run_program(mpi: str, database: Path, folder: Path, collforge: Launch) -> dict[str, str]:
    """Runs a program on two ranks with `collforge env`: collective -> the variant that ran."""
    lines = collforge("env", "--mpi", mpi, "--system", "local", "--db", str(database)).stdout
    program, source = folder / "program", folder / "program.c"
    source.write_text(PROGRAM)
    mpicc = str(libraries.find(mpi).mpicc)
    assert execute([mpicc, "-std=c11", "-o", str(program), str(source)]).returncode == 0
    script = f"{lines}export COLLFORGE_VERBOSE=2\nexec {shlex.quote(str(program))}"
    done = execute([*local_command(mpi, 2), "bash", "-c", script], timeout=60)
    assert done.returncode == 0
    assert sorted(done.stdout.split("\n"))[-2:] == ["rank 0: 3", "rank 1: 3"]
    return dict(re.findall(r"collforge: (\w+)@1x2, .*: (\S+)", done.stdout + done.stderr))


@pytest.mark.wide
@pytest.mark.parametrize("mpi", LIBRARIES)
def test_each_library_is_tuned_and_runs_its_winners(
    mpi: str, tuned: Path, tmp_path: Path, collforge: Launch
) -> None:
    with Store(tuned) as store:
        assert {place.mpi for place in store.places()} == set(LIBRARIES)
        (place,) = [place for place in store.places() if place.mpi == mpi]
        winners = {w.choice.variant.collective: w for w in store.winners(mpi=mpi)}
    assert place.mpi_version == libraries.find(mpi).first_line
    assert set(winners) <= set(COLLECTIVES)
    won = {name: w.choice.variant for name, w in winners.items() if not w.choice.variant.is_native}
    assert won, "two ranks in shared memory are about twice as fast"
    ran = run_program(mpi, tuned, tmp_path, collforge)
    assert {name: ran.get(name) for name in won} == {name: v.name for name, v in won.items()}


@pytest.mark.wide
@pytest.mark.parametrize("mpi", LIBRARIES)
def test_a_library_runs_no_winners_of_another(
    mpi: str, tuned: Path, tmp_path: Path, collforge: Launch
) -> None:
    """A library without winners runs native, even if another one of its flavour has winners."""
    database = Path(shutil.copy(tuned, tmp_path / "t.db"))
    with Store(database) as store:
        (place,) = [place for place in store.places() if place.mpi == mpi]
        for collective in COLLECTIVES:
            native = Choice(8, Variant(collective), 1.0, 1.0, 1.0, 3)
            store.replace_winners(place, collective, [native])
    ran = run_program(mpi, database, tmp_path, collforge)
    assert ran == dict.fromkeys(COLLECTIVES, "native")


@pytest.mark.parametrize("prefix", ["mpich5", "openmpi5"])
def test_a_prefix_has_the_kind_of_its_library(prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLLFORGE_MPI_TOY", str(PREFIXES / prefix))
    toy, known = libraries.find("toy"), libraries.find(prefix)
    assert (toy.flavor, toy.version) == (known.flavor, known.version)
    assert local_command("toy", 2) == local_command(prefix, 2)
    spec, agent = ClusterSpec(), Path("agent")
    assert mpirun(spec, toy, agent) == mpirun(spec, known, agent)


@pytest.mark.wide
@pytest.mark.parametrize("prefix", ["mpich5", "openmpi5"])
def test_a_prefix_under_another_name_needs_no_edit(
    prefix: str, monkeypatch: pytest.MonkeyPatch, collforge: Launch
) -> None:
    """The library is built for and launched, its records are stored, and mpi4py finds its build."""
    monkeypatch.setenv("COLLFORGE_MPI_TOY", str(PREFIXES / prefix))
    toy = libraries.find("toy")
    wanted = ["--family", "shared_window", "--collective", "barrier", "--layout", "1x2"]
    done = collforge("verify", "--mpi", "toy", *wanted, timeout=400)
    assert "toy 1x2: 2 cases, 2 verified" in done.stdout, done.stderr
    monkeypatch.setenv("MPI4PY_MPIABI", toy.flavor)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(PREFIXES / prefix / "lib"))
    program = "from collforge.hybrid import find_library; print(find_library().parent)"
    folder = Path(execute([*local_command("toy", 1), sys.executable, "-c", program]).stdout.strip())
    assert folder.parent == SHARED_HOME
    assert (folder / "built-with").read_text() == toy.version


@pytest.mark.wide
def test_a_session_of_one_rank_before_mpi_init(tmp_path: Path) -> None:
    """Open MPI 5 commits its keys then; a rank without notice once waited where the others did not.

    Natively, MPICH 5 crashes.
    """
    mpi = "openmpi5"
    library = libraries.find(mpi)
    built = build.build(library, home())
    program, source = tmp_path / "program", TOP / "tests" / "hazards" / "session_first.c"
    include = f"-I{TOP / 'tests' / 'hazards'}"
    assert execute([str(library.mpicc), include, "-o", str(program), str(source)]).returncode == 0
    for who in ("first", "second", "all"):
        env = {
            "LD_PRELOAD": str(built.library_path),
            "COLLFORGE_FORCE": "*=full_lane",
            "COLLFORGE_NODE_MAP": "2",
            "COLLFORGE_START_TIMEOUT": "20",
            "COLLFORGE_VERBOSE": "2",
        }
        words = ["env", *(f"{name}={value}" for name, value in env.items()), str(program), who]
        done = execute([*local_command(mpi, 4), *words], timeout=60)
        assert (done.returncode, done.stdout) == (0, "passed\n"), done.stderr
        assert "allreduce@2x2, 4 to 4 bytes: full_lane" in done.stderr
