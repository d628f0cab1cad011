"""Helpers of the tests: processes with a time limit, and local launches."""

from __future__ import annotations

import functools
import json
import os
import re
import signal
import subprocess
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from collforge.generator.model import Family
from collforge.generator.proof import applies
from collforge.layout import from_name
from collforge.reframe_checks.systems.emulated import launch as emulated_launch
from collforge.toolchain import libraries

TOP = Path(__file__).resolve().parent.parent
PREFIXES = TOP / ".venv" / "mpi"
"""The folder in which `make prefixes` installs MPI libraries, each in a folder of its name."""

SHARED_HOME = TOP / "build" / "test-home"
# Fixed, so that the verdict on one tree never changes; nightly runs set another one.
SEED = int(os.environ.get("COLLFORGE_TEST_SEED", "20261126"))
LIBRARIES = ("mpich", "openmpi")
OPENMPI_OPTIONS = (
    "--oversubscribe --bind-to none --mca pml ob1 --mca btl vader,self --mca mpi_yield_when_idle 1"
)
OPENMPI_SPAWN = OPENMPI_OPTIONS.replace("vader,self", "vader,self,tcp --mca btl_tcp_if_include lo")
"""Options for spawned processes: the two worlds cannot communicate by shared memory."""

_ALSO_WRAPPED = (
    *("MPI_Comm_free", "MPI_Comm_disconnect", "MPI_Comm_set_info", "MPI_Comm_dup_with_info"),
    *("PMPI_Comm_free", "PMPI_Comm_disconnect", "MPI_Op_create", "dlopen", "dlmopen"),
    *("PMPI_Comm_set_info", "PMPI_Comm_dup_with_info"),
    *("MPI_Init", "MPI_Init_thread", "PMPI_Init", "PMPI_Init_thread", "MPI_Query_thread"),
    *("MPI_Finalize", "PMPI_Finalize"),
)
_MAKERS = (
    *("Comm_dup", "Comm_split", "Comm_split_type", "Comm_create", "Comm_create_group"),
    *("Intercomm_merge", "Cart_create", "Cart_sub", "Graph_create"),
)
_REQUESTS = ("Start", "Startall", "Request_free")


def also_wrapped(flavor: str) -> set[str]:
    """The functions that the library wraps, other than collectives."""
    own = ["MPI_Comm_idup"] if flavor == "openmpi" else ["MPI_Session_init", "MPI_Waitall"]
    own += [f"MPI_{name}" for name in (*_MAKERS, *_REQUESTS)]
    return {*_ALSO_WRAPPED, *own, *(f"P{name}" for name in own)}


MEMORY_SANITIZERS = "-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer"


def mark_wide(items: Iterable[pytest.Item]) -> None:
    """Marks what tests marked `either` do with the MPI library that was not drawn for them.

    It is `wide`, or `slow` where the test is `wide` already. The draw is by the test's name, so it is the same
    in every run. `either("mpich")` takes that one.
    """
    names = {item.nodeid for item in items}
    for item in items:
        marker = item.get_closest_marker("either")
        parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
        name = re.sub(r"\b(mpich|openmpi)\b-?", "", item.nodeid)
        named = marker.args if marker else ()
        drawn = LIBRARIES.index(named[0]) if named else zlib.crc32(name.encode()) % 2
        taken, other = LIBRARIES[drawn], LIBRARIES[1 - drawn]
        has_both = other in parameters and item.nodeid.replace(other, taken) in names
        if has_both and marker:
            is_wide = item.get_closest_marker("wide") is not None
            item.add_marker(pytest.mark.slow if is_wide else pytest.mark.wide)


def mostly_wide(cases: Iterable[str], *fast: str) -> list[Any]:
    """Parameters of a test, of which only ``fast`` run in `make test`."""
    return [pytest.param(case, marks=[] if case in fast else pytest.mark.wide) for case in cases]


@functools.cache
def _versions(compiler: str) -> str:
    """The version of a compiler, and of the MPI library if it is a wrapper's."""
    behind = [libraries.find(mpi).version for mpi in LIBRARIES if compiler.endswith(f".{mpi}")]
    return "\0".join([execute([compiler, "--version"]).stdout, *behind])


def compile_once(
    name: str, command: Sequence[str | Path], *needed: Path, also: Sequence[str | Path] = ()
) -> Path:
    """The program that ``command`` makes; it runs if the command, its compiler or a file ``needed`` is new.

    Several processes may ask for the same program at once. ``also``: words without effect on the program.
    """
    words = [str(word) for word in command]
    setting = "\0".join([*words, _versions(words[0])])
    text = setting.encode() + b"".join(path.read_bytes() for path in needed)
    target = make_folder("programs") / f"{name}-{zlib.crc32(text):08x}"
    if not target.exists():
        own = target.with_name(f"{target.name}.{os.getpid()}")
        assert execute([*words, *map(str, also), "-o", str(own)]).returncode == 0
        own.replace(target)
    return target


def run_native(
    mpi: str, ranks: int, argv: Sequence[str], timeout: float = 120
) -> subprocess.CompletedProcess[str]:
    """As launch_local without variables, but once for each program, arguments and MPI library.

    A success is kept in the tests' home, for all processes and later runs.
    """
    setting = (libraries.find(mpi).version, OPENMPI_OPTIONS, ranks, argv)
    key = zlib.crc32(repr(setting).encode() + Path(argv[0]).read_bytes())
    kept = make_folder("native") / f"{key:08x}.json"
    if not kept.exists():
        done = launch_local(mpi, ranks, argv, timeout=timeout)
        if done.returncode != 0:
            return done
        own = kept.with_name(f"{kept.name}.{os.getpid()}")
        own.write_text(json.dumps([done.returncode, done.stdout, done.stderr]))
        own.replace(kept)
    return subprocess.CompletedProcess(list(argv), *json.loads(kept.read_text()))


def launch_local(
    mpi: str,
    ranks: int,
    argv: Sequence[str],
    env: Mapping[str, str] | None = None,
    timeout: float = 120,
    before: Sequence[str] = (),
) -> subprocess.CompletedProcess[str]:
    """Runs argv with ``ranks`` ranks on this machine, whatever its number of cores.

    `before`: a command prefix before the launcher. Returns the finished process with its output as text.
    After ``timeout`` seconds, all processes are killed and subprocess.TimeoutExpired is raised.
    """
    return launch_groups(mpi, [(ranks, env or {})], argv, before=before, timeout=timeout)


def launch_groups(
    mpi: str,
    groups: Sequence[tuple[int, Mapping[str, str]]],
    argv: Sequence[str],
    *options: str,
    openmpi: str = OPENMPI_OPTIONS,
    before: Sequence[str] = (),
    timeout: float = 120,
) -> subprocess.CompletedProcess[str]:
    """As launch_local, for groups of ranks with different variables. ``options``: mpirun's."""
    own = openmpi.split() if mpi == "openmpi" else []
    words: list[str] = []
    for ranks, env in groups:
        variables = dict(env)
        if mpi == "mpich":
            # MPICH polls without yielding, so with too few cores each call would take scheduler ticks.
            preload = [str(emulated_launch.build_mpich_progress(make_folder("emulated")))]
            preload += [variables["LD_PRELOAD"]] if "LD_PRELOAD" in variables else []
            variables["LD_PRELOAD"] = ":".join(preload)
        # Only the ranks get the variables, so that mpirun is not preloaded.
        ranks_env = ["env", *(f"{name}={value}" for name, value in variables.items())]
        words += [":"] if words else []
        words += ["-n", str(ranks), *ranks_env, *argv]
    return execute([*before, f"mpirun.{mpi}", *own, *options, *words], timeout=timeout)


def mpi4py_variables(mpi: str) -> dict[str, str]:
    """The variables under which mpi4py's wheel takes Debian's MPI library of this name."""
    if mpi != "mpich":
        return {"MPI4PY_MPIABI": mpi}
    folder = make_folder("mpi4py-mpich")
    found = execute(["gcc", "-print-file-name=libmpich.so.12"]).stdout.strip()
    link = folder / f"{os.getpid()}"
    link.symlink_to(Path(found).resolve())
    link.replace(folder / "libmpi.so.12")  # the name that the wheel loads
    return {"MPI4PY_MPIABI": mpi, "LD_LIBRARY_PATH": str(folder)}


def openmp_library() -> str:
    """gcc's OpenMP runtime. If it is preloaded, programs without OpenMP have threads, too."""
    return execute(["gcc", "-print-file-name=libgomp.so.1"]).stdout.strip()


def offered() -> set[str]:
    """The functions that the public headers declare."""
    headers = "".join(path.read_text() for path in (TOP / "runtime" / "include").glob("*.h"))
    return set(re.findall(r"^COLLFORGE_PUBLIC [^;(]*?(collforge_\w+)\(", headers, re.MULTILINE))


def make_folder(name: str) -> Path:
    folder = SHARED_HOME / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def execute(
    command: Sequence[str], *, timeout: float = 120, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs a command in its own process group, which is killed after ``timeout`` seconds."""
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
        except BaseException as error:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):  # what it was doing
                print(
                    *(
                        text.decode(errors="replace")
                        for text in (error.stdout, error.stderr)
                        if text
                    )
                )
            raise
    print(out, err, sep="\n")
    return subprocess.CompletedProcess(list(command), process.returncode, out, err)


def marked_processes(mark: str) -> list[Path]:
    """The processes, as folders of /proc, whose environment has ``mark``, a ``NAME=value``."""
    return [path for path in Path("/proc").glob("[0-9]*") if mark in _environ(path)]


def network_namespaces(processes: Iterable[Path]) -> set[str]:
    """The network namespaces of these processes other than this process's own."""
    return {_net(path) for path in processes} - {_net(Path("/proc/self")), ""}


def assert_nothing_left(mark: str, namespaces: set[str]) -> None:
    """Asserts that no marked process and none of the namespaces exist. Killed processes get time to end.

    A process that ends has no environment any more, but still its namespace.
    """

    def left() -> set[str]:
        return network_namespaces(Path("/proc").glob("[0-9]*")) & namespaces

    deadline = time.monotonic() + 20
    while (marked_processes(mark) or left()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert marked_processes(mark) == []
    assert not left()


def _environ(process: Path) -> str:
    try:
        return (process / "environ").read_bytes().decode(errors="replace")
    except OSError:
        return ""


def _net(process: Path) -> str:
    try:
        return str((process / "ns" / "net").readlink())
    except OSError:
        return ""


def serves(family: Family, layout: str) -> bool:
    """Whether a family has a variant of any collective that applies on a layout."""
    at = from_name(layout)
    return any(applies(composition, at) for composition in family.compositions.values())
