"""A Slurm cluster that stands until it is taken down: the folder with its state, `up`, `enter` and `down`."""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import platformdirs

from collforge.reframe_checks.systems.emulated import ClusterError, ClusterSpec
from collforge.reframe_checks.systems.emulated.preflight import system_path
from collforge.reframe_checks.systems.slurm import config

_KEEPER = "collforge.reframe_checks.systems.slurm.keeper"
_LOCK, _STATE = "lock", "state.json"
_UP_ALREADY = "a Slurm cluster is up already: `collforge cluster down` removes it"
_NONE_UP = "no Slurm cluster is up: `collforge cluster up --slurm` starts one"
_DOWN_SECONDS = 60.0


def folder() -> Path:
    """The folder for all files of the cluster. A running keeper holds the lock in it."""
    return Path(platformdirs.user_cache_dir("collforge"), "slurm").absolute()


def up(spec: ClusterSpec) -> None:
    """Starts a cluster and returns when all its nodes are idle.

    Raises ClusterError if one is up or cannot be started; then, as after any other exception, nothing is left.
    """
    config.check()
    if _keeper(folder()) is not None:
        raise ClusterError(_UP_ALREADY)
    keeper = subprocess.Popen(
        [sys.executable, "-m", _KEEPER, json.dumps(dataclasses.asdict(spec))],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert keeper.stdout is not None
    try:
        said = ""
        for line in keeper.stdout:
            if line == "ready\n":
                return
            said += line
        keeper.wait()
    except BaseException:
        keeper.terminate()
        keeper.wait()
        raise
    raise ClusterError(said.strip() or "the cluster's first process ended early")


def enter(command: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """The command line and the environment that run `command` on the first node, in this working directory.

    If the command line is ended by a signal, the command gets SIGTERM. Raises ClusterError if no cluster is up.
    """
    there = folder()
    try:
        state = json.loads((there / _STATE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        state = None
    if state is None or _keeper(there) is None:
        raise ClusterError(_NONE_UP)
    spec = ClusterSpec(**state["spec"])
    directory = there / "cluster"
    process = f"/proc/{state['process']}/ns"
    words = ["nsenter", *(f"--{kind}={process}/{kind}" for kind in ("net", "uts", "ipc"))]
    words += [f"--mount={process}/mnt", f"--pid={process}/pid_for_children", "--"]
    words += ["setpriv", "--pdeathsig", "TERM", str(directory / "agent"), spec.hosts[0]]
    words += ["exec", shlex.join(["env", f"--chdir={Path.cwd()}", *command])]
    environment = {**config.DEFAULTS, **os.environ, **config.variables(spec, directory)}
    return words, {**environment, "PATH": system_path(os.environ.get("PATH"))}


def check_entered() -> None:
    """Raises ClusterError if this process does not run by `enter`."""
    if config.RANK_VARIABLE not in os.environ:
        raise ClusterError(
            "the system is the Slurm cluster: run the command on it, `collforge cluster exec -- collforge ...`"
        )


def down() -> bool:
    """Removes the cluster, or what a killed one left. Returns whether there was anything.

    Raises ClusterError if the keeper does not end, or if this process runs by `enter`.
    """
    if config.RANK_VARIABLE in os.environ:
        raise ClusterError("this command runs on the cluster itself: leave it first")
    there = folder()
    if not there.exists():
        return False
    deadline = time.monotonic() + _DOWN_SECONDS
    asked = None
    while (keeper := _keeper(there)) is not None:
        if keeper and keeper != asked:
            with suppress(ProcessLookupError):  # it has just ended
                os.kill(keeper, signal.SIGTERM)
            asked = keeper
        if time.monotonic() > deadline:
            raise ClusterError(f"process {keeper}, which keeps the cluster, does not end: kill it")
        time.sleep(0.05)
    shutil.rmtree(there, ignore_errors=True)
    return True


@contextmanager
def held(there: Path) -> Iterator[None]:
    """Creates the folder and holds its lock; at the end of the block the folder is gone.

    Raises ClusterError if another process holds the lock.
    """
    there.mkdir(parents=True, exist_ok=True)
    with (there / _LOCK).open("a", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ClusterError(_UP_ALREADY) from None
        lock.truncate(0)  # of a killed keeper
        lock.write(str(os.getpid()))
        lock.flush()
        try:
            yield
        finally:
            shutil.rmtree(there, ignore_errors=True)


def write_state(there: Path, spec: ClusterSpec, process: int) -> None:
    """Stores what `enter` needs: the spec, and the parent of the cluster's process 1."""
    text = json.dumps({"process": process, "spec": dataclasses.asdict(spec)})
    (there / _STATE).write_text(text, encoding="utf-8")


def _keeper(there: Path) -> int | None:
    """The process that holds the lock of the folder; 0 if it has not said its number yet; None: none."""
    try:
        with (there / _LOCK).open(encoding="utf-8") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return int(lock.read() or 0)
    except FileNotFoundError:
        pass
    return None
