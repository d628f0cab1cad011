"""/dev/shm with shared-memory windows: too little space, and files left by a killed job."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from conftest import Installation, Launch
from hazards.build import compiled, run_cases
from support import OPENMPI_OPTIONS

either = pytest.mark.either
RANKS = 4
SHARED = {"COLLFORGE_FORCE": "*=shared_window"}


@pytest.fixture(scope="module")
def own_shm() -> list[str]:
    """The command prefix that gives a command its own /dev/shm."""
    if subprocess.run(["unshare", "-m", "true"], check=False, timeout=60).returncode != 0:
        pytest.skip("needs the right to mount")
    script = 'mount -t tmpfs -o size=64m tmpfs /dev/shm; exec "$@"'
    return ["unshare", "-m", "sh", "-ec", script, "sh"]


@either
@pytest.mark.parametrize("kernel", ["this", "old"])
def test_little_room(built: Installation, launch: Launch, own_shm: list[str], kernel: str) -> None:
    """No signal and right results; one message for each communicator without a shared-memory window."""
    program = compiled(built, "small_shm", "-rdynamic")
    # Otherwise UCX's madvise would interpose the program's.
    env = {"LD_PRELOAD": str(built.built.library_path), "UCX_MEM_EVENTS": "no", **SHARED}
    env |= {"COLLFORGE_VERBOSE": "1"}  # otherwise a job warns only once
    env |= {"OLD_KERNEL": "1"} if kernel == "old" else {}
    done = launch(built.library.name, RANKS, [str(program)], env, timeout=60, before=own_shm)
    assert (done.returncode, done.stdout) == (0, "passed\n")
    lines = [line for line in done.stderr.splitlines() if "collforge: warning" in line]
    assert len(lines) == 3
    assert all("no room for a shared window" in line for line in lines)


def test_packages_that_ask_for_most_of_it(built: Installation, own_shm: list[str]) -> None:
    """Open MPI waits for ever if a twentieth more than what is asked for is not free."""
    found = {700: "all\n", 960: "none\n", 1001: "none\n"}
    cases = [f"hybrid_room {part}" for part in found]
    said = run_cases(built, RANKS, cases, {}, linked=True, before=own_shm)
    assert [one.out for one in said] == list(found.values())
    asked = ["bytes of shared memory are asked for" in one.err for one in said]
    assert asked == [False, True, True]


# ---- what is left --------------------------------------------------------------------------------


def kinds(folder: Path) -> Counter[str]:
    """The number of files in a folder by name without digits."""
    found = (path.relative_to(folder) for path in folder.rglob("*") if not path.is_dir())
    return Counter(re.sub(r"[0-9a-f]*\d[0-9a-f]*", "N", str(path)) for path in found)


def killed(
    built: Installation, own_shm: list[str], sessions: Path, env: dict[str, str]
) -> Counter[str]:
    """Kills all processes of a job in the middle of its calls; returns the files that it leaves."""
    mpi = built.library.name
    words = [f"mpirun.{mpi}", *(OPENMPI_OPTIONS.split() if mpi == "openmpi" else [])]
    words += ["-n", str(RANKS), "env", *(f"{name}={value}" for name, value in env.items())]
    words += [str(compiled(built, "killed"))]
    sessions.mkdir()
    started: set[int] = set()
    # The shell stays alive, so that its /dev/shm can be inspected.
    script = 'TMPDIR=$0 "$@" & echo rank $! $!; cat >/dev/null'
    with subprocess.Popen(
        [*own_shm, "sh", "-c", script, str(sessions), *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as shell:
        assert shell.stdout is not None
        try:
            for _ in range(RANKS + 1):
                word, *numbers = shell.stdout.readline().split()
                assert word == "rank"
                started.update(map(int, numbers))
            used = {"/dev/shm/" in Path(f"/proc/{one}/maps").read_text() for one in started}
            assert True in used
        finally:
            for process in sorted(started):
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
        return kinds(Path(f"/proc/{shell.pid}/root/dev/shm")) + kinds(sessions)


@either
def test_a_killed_job_leaves_what_it_leaves_natively(
    built: Installation, own_shm: list[str], tmp_path: Path
) -> None:
    native = killed(built, own_shm, tmp_path / "native", {})
    env = {"LD_PRELOAD": str(built.built.library_path), **SHARED}
    assert killed(built, own_shm, tmp_path / "served", env) == native
