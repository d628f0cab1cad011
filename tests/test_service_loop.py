"""The whole loop on the Slurm cluster: agents of two sites fill an empty service, jobs run tuned and come back.

Everything is on the cluster's first node, the service too: nothing leaves the cluster.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from asgi import add_token
from conftest import install
from slurm_commands import Commands, own_cluster, run_night, slow_down

from collforge.reframe_checks.mpirun import PRELOAD
from collforge.reframe_checks.systems import slurm
from collforge.service.store import ServiceStore
from collforge.tuner.site import proposals

SYSTEM = "slurm"
LAYOUT = "2x2"
SIZE = 262144
PORT = 8643
SERVER = f"http://127.0.0.1:{PORT}"
LIBRARIES = ("openmpi", "mpich")

PROGRAM = r"""
#include <mpi.h>
#include <stdlib.h>

/* CALLS of bcast, gather or allgather of a size, by the second word. */
int main(int argc, char **argv) {
    const int calls = atoi(argv[1]), bytes = atoi(argv[3]);
    int size, rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    char *send = calloc(bytes, 1), *receive = calloc(size, bytes);
    for (int i = 0; i < calls; i++) {
        if (argv[2][0] == 'b')
            MPI_Bcast(send, bytes, MPI_CHAR, 0, MPI_COMM_WORLD);
        else if (argv[2][0] == 'g')
            MPI_Gather(send, bytes, MPI_CHAR, receive, bytes, MPI_CHAR, 0, MPI_COMM_WORLD);
        else
            MPI_Allgather(send, bytes, MPI_CHAR, receive, bytes, MPI_CHAR, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
"""

CONFIG = """
from collforge.reframe_checks.settings.slurm_cluster import site_configuration as own

site_configuration = own  # ReFrame looks for an assignment
site_configuration["logging"][0]["handlers_perflog"].append({
    "type": "httpjson", "url": "%s/api/v1/findings", "level": "info",
    "extra_headers": {"Authorization": "Bearer %s"},
})
"""
"""As docs/service.md says."""


@dataclass(frozen=True)
class Fleet:
    """A cluster with a service, whose database is `path`, and the files of its two sites in a folder."""

    cluster: Commands
    folder: Path
    secret: str

    @property
    def path(self) -> Path:
        return self.folder / "fleet.db"

    def collforge(self, *words: str | Path, code: int = 0) -> str:
        """A command on the cluster's first node."""
        process = self.cluster.start(
            *("exec", "--", sys.executable, "-m", "collforge", *map(str, words)),
            env={"COLLFORGE_TOKEN": self.secret},
        )
        try:
            said, _ = process.communicate(timeout=400)
        finally:
            process.kill()
        print(said)
        assert process.returncode == code, said
        return said

    def agent(self, mpi: str, *more: str) -> str:
        words = ["agent", "--once", "--server", SERVER, "--system", SYSTEM, "--mpi", mpi]
        words += ["--layout", LAYOUT, "--db", str(self.folder / f"{mpi}.db"), "--budget", "60s"]
        words += ["--name", f"agent of {mpi}", "--output", str(self.folder / f"{mpi}.txt")]
        choice = ["--collective", "bcast,allgather", "--sizes", str(SIZE), "--launches", "3"]
        return self.collforge(*words, *more, "--", *choice)

    def job(self, mpi: str, tasks: int, words: str, **env: str) -> str:
        """A program with the library before it, on both nodes; what it says."""
        variables = {
            "COLLFORGE_DB": str(self.folder / f"{mpi}.txt"),
            "COLLFORGE_START_TIMEOUT": "60",  # Slurm's PMI-2 does not tell
            "COLLFORGE_VERBOSE": "1",
            **env,
        }
        script = self.folder / "job.sh"
        lines = [f"export {name}={value}" for name, value in variables.items()]
        library = install(mpi).built.library_path
        start = f"exec ${slurm.RANK_VARIABLE} sh -c '{PRELOAD}' {library}"
        script.write_text("\n".join([*lines, f"{start} {self.folder / mpi} {words}", ""]))
        launcher = ["srun", f"--mpi={slurm.PMI[mpi]}", "--nodes=2", f"--ntasks={tasks}"]
        launcher += ["--distribution=block", "sh", str(script)]
        code, said = self.cluster.run("exec", "--", *launcher)
        print(said)
        assert code == 0, said
        return said

    def decided(self) -> None:
        """Waits until the service has decided what was pushed."""
        end = time.monotonic() + 60
        while True:
            with ServiceStore(self.path, create=False) as store:
                if not store.pending():
                    return
            assert time.monotonic() < end
            time.sleep(0.5)

    def tasks(self) -> Mapping[str, str]:
        """Reason of each entry -> its state."""
        with ServiceStore(self.path, create=False) as store:
            return {one.reason: one.state for one in store.tasks(100)}


def served(said: str) -> int:
    found = re.search(r"variants served (\d+) of \d+ calls", said)
    return int(found[1]) if found else 0


@contextmanager
def serving(cluster: Commands, path: Path) -> Iterator[None]:
    words = ["serve", "--db", str(path), "--port", str(PORT)]
    process = cluster.start("exec", "--", sys.executable, "-m", "collforge", *words)
    try:
        assert process.stdout
        line = process.stdout.readline()
        assert SERVER in line, line
        yield
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    (tmp_path / "program.c").write_text(PROGRAM)
    for mpi in LIBRARIES:
        compiler = str(install(mpi).library.mpicc)
        words = [compiler, "-O1", "-o", str(tmp_path / mpi), str(tmp_path / "program.c")]
        subprocess.run(words, check=True, timeout=60)
    secret = add_token(tmp_path / "fleet.db", "push", SYSTEM)
    with own_cluster() as cluster, serving(cluster, tmp_path / "fleet.db"):
        yield Fleet(cluster, tmp_path, secret)


@pytest.mark.wide
@pytest.mark.emulated
def test_the_whole_loop(fleet: Fleet) -> None:
    for mpi in LIBRARIES:
        assert "nothing was measured with this MPI library" in fleet.agent(mpi)
        # All of them, or half of them where the winner is still on trial.
        assert served(fleet.job(mpi, 4, f"8 bcast {SIZE}")) >= 4, "jobs run tuned"

    # A profile makes the queue measure what it calls.
    mpi = "openmpi"
    profile = fleet.folder / "calls.csv"
    fleet.job(mpi, 4, f"10 gather {SIZE}", COLLFORGE_PROFILE=str(profile))
    push = ["push", "--server", SERVER, "--system", SYSTEM, "--db", fleet.folder / f"{mpi}.db"]
    fleet.collforge(*push, "--profile", f"gathering={profile}")
    said = fleet.agent(mpi)
    assert f"--collective gather --sizes {SIZE}" in said, said
    assert fleet.tasks()[proposals.PROFILE] == "done"
    fleet.decided()
    with ServiceStore(fleet.path, create=False) as store:
        problems = {one.problem for place in store.places() for one in store.measurements(place)}
    assert any(one.startswith(f"gather@{LAYOUT},bytes={SIZE}") for one in problems)

    # A job's verdicts come back: on 2+1, which nobody measured.
    (fleet.folder / "learnt").mkdir()
    trial = {"COLLFORGE_LEARN": str(fleet.folder / "learnt"), "COLLFORGE_GUARD_AFTER": "0"}
    said = fleet.job(mpi, 3, f"24 bcast {SIZE}", **trial)
    verdict = re.search(r"guard: bcast@2\+1: .*(kept|dropped)", said)
    assert verdict, said
    fleet.collforge(*push, "--learnt", fleet.folder / "learnt")
    with ServiceStore(fleet.path, create=False) as store:
        (place,) = store.job_places()
        ((job,), learnt) = store.jobs(place), store.learnt(place)
    assert [one.kept for one in job.verdicts] == [verdict[1] == "kept"]
    assert [one.confirmed for one in learnt] == ([] if verdict[1] == "kept" else [False])

    # A rail slowed beyond the intervals of so short a tuning is a regression, and measured again.
    # That half the rate is found, too: test_nights.py.
    winners = fleet.folder / "winners.json"
    fleet.collforge(*("winners", "--db", fleet.folder / f"{mpi}.db", "--json", winners))
    settings = fleet.folder / "settings.py"
    settings.write_text(CONFIG % (SERVER, fleet.secret))
    slow_down(fleet.cluster, mbit=20)
    night = run_night(fleet.cluster, winners, fleet.folder, settings=settings)
    assert night.findings, night.said
    with ServiceStore(fleet.path, create=False) as store:
        assert store.findings(SYSTEM, failed=True)
        before = len(store.runs())
    said = fleet.agent(mpi)
    assert "slower than they were" in said
    assert fleet.tasks()[proposals.REGRESSION] == "done"
    with ServiceStore(fleet.path, create=False) as store:
        assert len(store.runs()) > before
