"""What the tests share: the real runtime built for each MPI library, and launches with a time limit."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

import pytest

from collforge.reframe_checks.systems import emulated
from collforge.runtime import build, libraries

TOP = Path(__file__).resolve().parent.parent
SHARED_HOME = TOP / "build" / "test-home"
SEED = int(os.environ.get("COLLFORGE_TEST_SEED", random.SystemRandom().randrange(2**31)))
OPENMPI_OPTIONS = "--oversubscribe --mca pml ob1 --mca btl vader,self --mca mpi_yield_when_idle 1"


@dataclass(frozen=True)
class Installation:
    """The runtime and driver built for one MPI library, below `home`."""

    library: libraries.MpiLibrary
    built: build.Built
    home: Path


Launch = Callable[..., "subprocess.CompletedProcess[str]"]


def pytest_report_header() -> str:
    return f"seed: {SEED} (again: COLLFORGE_TEST_SEED={SEED})"


@pytest.fixture
def seed() -> int:
    """The seed of this run, from COLLFORGE_TEST_SEED or drawn; the header of the report shows it."""
    return SEED


@pytest.fixture(scope="session", autouse=True)
def _own_environment() -> Iterator[None]:
    """No variable of the user's shell changes a result; everything made goes to one shared home."""
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith("COLLFORGE_") and not name.startswith("COLLFORGE_MPI_"):
                patch.delenv(name)
        patch.delenv("LD_PRELOAD", raising=False)
        patch.setenv("COLLFORGE_HOME", str(SHARED_HOME))
        patch.setenv("OMPI_ALLOW_RUN_AS_ROOT", "1")
        patch.setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
        yield


@pytest.fixture(scope="session", params=sorted(libraries.DEBIAN_PACKAGES))
def mpi(request: pytest.FixtureRequest) -> str:
    """Each MPI library in turn. One that is not installed fails the test: `make setup` installs both."""
    return str(request.param)


@pytest.fixture(scope="session")
def built(mpi: str) -> Installation:
    """The real runtime and driver for `mpi`; only what is stale is built."""
    library = libraries.find(mpi)
    return Installation(library, build.build(library, SHARED_HOME), SHARED_HOME)


@pytest.fixture(scope="session")
def launch() -> Launch:
    """launch(mpi, ranks, argv, env={}, timeout=120): runs argv on this machine, cores or not.

    Returns the finished process with its output as text. At the limit everything started is killed
    and subprocess.TimeoutExpired is raised.
    """
    return launch_local


def launch_local(
    mpi: str,
    ranks: int,
    argv: Sequence[str],
    env: Mapping[str, str] | None = None,
    timeout: float = 120,
) -> subprocess.CompletedProcess[str]:
    variables = dict(env or {})
    if mpi == "mpich":
        # MPICH polls without yielding: with more ranks than cores each call would cost scheduler ticks.
        preload = [str(emulated.launch._build_mpich_progress(make_folder("emulated")))]
        preload += [variables["LD_PRELOAD"]] if "LD_PRELOAD" in variables else []
        variables["LD_PRELOAD"] = ":".join(preload)
    options = OPENMPI_OPTIONS.split() if mpi == "openmpi" else []
    # Only the ranks get the variables: a preload is not meant for mpirun.
    ranks_env = ["env", *(f"{name}={value}" for name, value in variables.items())]
    command = [f"mpirun.{mpi}", *options, "-n", str(ranks), *ranks_env, *argv]
    return execute(command, timeout=timeout)


def make_folder(name: str) -> Path:
    folder = SHARED_HOME / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def execute(
    command: Sequence[str], *, timeout: float = 120, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs a command in a process group of its own, which is killed when the time is over."""
    with subprocess.Popen(
        command,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            out, err = process.communicate(timeout=timeout)
        except BaseException:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
    print(out, err, sep="\n")
    return subprocess.CompletedProcess(list(command), process.returncode, out, err)


@pytest.fixture(scope="session")
def collforge() -> Launch:
    """collforge(*arguments, cwd=None, timeout=120): runs the command in a process of its own."""

    def run(*arguments: str, timeout: float = 120, cwd: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
        variables = [f"{name}={value}" for name, value in env.items()]
        command = ["env", *variables, sys.executable, "-m", "collforge", *arguments]
        return execute(command, timeout=timeout, cwd=cwd)

    return run
