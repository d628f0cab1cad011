"""Shared fixtures: the real runtime of each MPI library, and launches with a time limit."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

import pytest
from support import LIBRARIES, SEED, SHARED_HOME, execute, launch_local, mark_wide

from collforge.generator import manifest
from collforge.generator.manifest import Manifest
from collforge.mpi_library import MpiLibrary
from collforge.toolchain import build, libraries


@dataclass(frozen=True)
class Installation:
    """The runtime and driver built for one MPI library, below `home`."""

    library: MpiLibrary
    built: build.Built
    home: Path


Launch = Callable[..., "subprocess.CompletedProcess[str]"]


def pytest_report_header() -> str:
    return f"seed: {SEED} (again: COLLFORGE_TEST_SEED={SEED})"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark_wide(items)


@pytest.fixture
def seed() -> int:
    """The seed of this run, COLLFORGE_TEST_SEED or a fixed one; the report's header shows it."""
    return SEED


@pytest.fixture(scope="session", autouse=True)
def _own_environment() -> Iterator[None]:
    """Hides the user's environment variables from the tests; all output goes to one shared home."""
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith("COLLFORGE_") and not name.startswith("COLLFORGE_MPI_"):
                patch.delenv(name)
        patch.delenv("LD_PRELOAD", raising=False)
        patch.setenv("COLLFORGE_HOME", str(SHARED_HOME))
        patch.setenv("COLLFORGE_SITE", str(SHARED_HOME / "site.ini"))
        # Short programs would have no trials else.
        patch.setenv("COLLFORGE_GUARD_AFTER", "0")
        patch.setenv("WERROR", "-Werror")
        # Ranks with two threads have fewer cores than threads.
        patch.setenv("OMP_WAIT_POLICY", "passive")
        patch.setenv("OMPI_ALLOW_RUN_AS_ROOT", "1")
        patch.setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
        yield


@pytest.fixture(scope="session", params=LIBRARIES)
def mpi(request: pytest.FixtureRequest) -> str:
    """Each MPI library in turn. A missing one fails the test: `make setup` installs both."""
    return str(request.param)


def some(values: Sequence[Any], fast: int = 1) -> list[Any]:
    """Parameters of a test, of which the fast tier has the first ones only."""
    sets = [one if isinstance(one, tuple) else (one,) for one in values]
    return [*values[:fast], *(pytest.param(*one, marks=pytest.mark.wide) for one in sets[fast:])]


@functools.cache
def install(mpi: str) -> Installation:
    """The real runtime and driver for `mpi`, built if out of date, once for each process."""
    library = libraries.find(mpi)
    return Installation(library, build.build(library, SHARED_HOME), SHARED_HOME)


@pytest.fixture(scope="session")
def built(mpi: str) -> Installation:
    return install(mpi)


@pytest.fixture(scope="session")
def made() -> Manifest:
    """Of what is built, so that it is never older than the specs."""
    return manifest.load(build.generated_folder(install("openmpi").home) / "manifest.json")


@pytest.fixture(scope="session")
def launch() -> Launch:
    """launch(mpi, ranks, argv, env={}, timeout=120, before=[]): see support.launch_local."""
    return launch_local


@pytest.fixture(scope="session")
def collforge() -> Launch:
    """collforge(*arguments, cwd=None, timeout=120): runs the command as a process."""

    def run(
        *arguments: str, timeout: float = 120, cwd: Path | None = None, **env: str
    ) -> subprocess.CompletedProcess[str]:
        variables = [f"{name}={value}" for name, value in env.items()]
        command = ["env", *variables, sys.executable, "-m", "collforge", *arguments]
        return execute(command, timeout=timeout, cwd=cwd)

    return run


@pytest.fixture(scope="module")
def site_database(made: Manifest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a site has measured, without having measured."""
    from invented_tunings import Tuning

    return Tuning(made).store(tmp_path_factory.mktemp("site") / "db", pattern="node.*")


@pytest.fixture
def make(made: Manifest, tmp_path: Path) -> Callable[..., Any]:
    """Makes an asgi.Server, `private` or not."""
    from asgi import Server

    return lambda private=False: Server(tmp_path / "fleet.db", made, private)
