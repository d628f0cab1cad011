"""Run an MPI program on an emulated cluster."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import platformdirs

from collforge.mpi_library import MpiLibrary
from collforge.reframe_checks.systems.emulated import network
from collforge.reframe_checks.systems.emulated.preflight import (
    check,
    namespace_command,
    system_path,
)
from collforge.reframe_checks.systems.emulated.spec import (
    TIMEOUT_EXIT_CODE,
    ClusterError,
    ClusterSpec,
)
from collforge.reframe_checks.systems.emulated.switch import Plan
from collforge.toolchain import preload, vcis

_PACKAGE = Path(__file__).parent
_MPICH_PROGRESS = _PACKAGE / "mpich_progress.c"

# Ranks share few cores, so they yield while they wait. No device may bypass the emulated links between nodes.
# The caller's own values take precedence.
OPENMPI_DEFAULTS = {
    "OMPI_MCA_pml": "ob1",
    "OMPI_MCA_btl": "tcp,vader,self",
    "OMPI_MCA_mpi_yield_when_idle": "1",
}

# Time limits, far longer than needed even on a busy machine.
_BUILD_SECONDS = 120.0
_TEARDOWN_SECONDS = 30.0


def run(
    spec: ClusterSpec,
    mpi: MpiLibrary,
    command: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    timeout: float | None = None,
    cache_dir: Path | None = None,
) -> int:
    """Build the cluster, run `command` as an MPI program on all its ranks, tear it down.

    The command has the caller's working directory, standard streams and files, except that each node
    has its own /dev/shm, /etc/hosts, /sys and TMPDIR. The ranks get all variables of `env` (default:
    the caller's). LD_PRELOAD is set for the ranks only, not for mpirun. `cache_dir` (default: the
    user's cache directory) keeps compiled helpers.

    Returns mpirun's exit code, 128 + number if it ended by a signal, or TIMEOUT_EXIT_CODE after
    `timeout` seconds. Raises ClusterError if this machine cannot run such a cluster. In all cases, and
    after any other exception, the cluster is gone on return. If this process is killed, the kernel
    removes the cluster.
    """
    check(mpi.flavor)
    environment = dict(os.environ if env is None else env)
    _check_command(command, environment)
    cache_dir = cache_dir or Path(platformdirs.user_cache_dir("collforge"), "emulated")
    plan = make_plan(spec, mpi, command, environment, cache_dir.absolute())
    with cluster(plan) as process:
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            print(f"collforge: the time limit of {timeout:g} s is over: stopped", file=sys.stderr)
            code = TIMEOUT_EXIT_CODE
    return code if code >= 0 else 128 - code


@contextmanager
def cluster(plan: Plan) -> Iterator[subprocess.Popen[bytes]]:
    """Builds a cluster and starts the plan's command on its first node; at the end of the block all is gone.

    Yields the parent of the cluster's process 1, which ends with the command and has its exit code. It is in
    the cluster's namespaces, except that only its children are in the PID namespace. Raises ClusterError if
    the cluster cannot be built.
    """
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            switch = [sys.executable, "-I", "-S", str(_PACKAGE / "switch.py")]
            process = subprocess.Popen(
                [*namespace_command(), *switch, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env=_own_environment(),
            )
        try:
            _build(ours, plan)
            yield process
        finally:
            _tear_down(process, ours)


def make_plan(
    spec: ClusterSpec,
    mpi: MpiLibrary,
    command: Sequence[str],
    env: Mapping[str, str],
    cache_dir: Path,
) -> Plan:
    """The plan of a cluster that runs an MPI program. Creates `cache_dir` and its files."""
    directory = make_directory(cache_dir)
    rank = [*rank_words(spec, directory)]
    preloaded = [env["LD_PRELOAD"]] if env.get("LD_PRELOAD") else []
    if mpi.flavor == "mpich":
        preloaded.insert(0, str(build_mpich_progress(cache_dir)))
    if preloaded:
        rank += ["env", f"LD_PRELOAD={':'.join(preloaded)}"]
    words = [*mpirun(spec, mpi, directory / "agent"), *rank, *command]
    return plan_command(spec, directory, words, {**defaults(mpi, env), **env})


def make_directory(cache_dir: Path) -> Path:
    """Creates the directory on which a cluster mounts its file system, in its own mount namespace."""
    directory = cache_dir / "cluster"
    if any(character.isspace() for character in str(directory)):
        raise ClusterError(
            f"Open MPI cannot start programs from {str(directory)!r}: "
            f"set XDG_CACHE_HOME to a directory without spaces in its name"
        )
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ClusterError(f"{error}: set XDG_CACHE_HOME to a directory of yours") from error
    return directory


def rank_words(spec: ClusterSpec, directory: Path) -> list[str]:
    """The command prefix that ties an MPI process to its rail, or to the device of hashed rails."""
    return [str(directory / "rank"), *map(str, network.rail_devices(spec))]


def plan_command(
    spec: ClusterSpec, directory: Path, command: Sequence[str], env: Mapping[str, str]
) -> Plan:
    """The plan of a cluster that runs `command` on its first node, without LD_PRELOAD."""
    environment = {**env, "PATH": system_path(env.get("PATH")), "TMPDIR": str(directory / "tmp")}
    environment.pop("LD_PRELOAD", None)
    return Plan(
        directory=str(directory),
        files=_files(spec),
        scripts={name: script(_PACKAGE, name) for name in ("node", "agent", "rank")},
        hosts=list(spec.hosts),
        command=list(command),
        working_directory=str(Path.cwd()),
        environment=environment,
    )


def script(package: Path, name: str) -> str:
    """The text of a shell script in the folder of a package."""
    return (package / f"{name}.sh").read_text(encoding="utf-8")


def defaults(mpi: MpiLibrary, env: Mapping[str, str]) -> Mapping[str, str]:
    """Default variables for the ranks; the caller's values take precedence."""
    if mpi.flavor == "openmpi":
        return OPENMPI_DEFAULTS
    # Through UCX, MPICH 5.0.2 cannot connect several ranks of a node here, nor several interfaces.
    several = env.get(vcis.VARIABLE, "1") != "1" or mpi.short_version.startswith("MPICH 5")
    return {"MPIR_CVAR_CH4_NETMOD": "ofi"} if several else {}


def uses_one_rail(mpi: MpiLibrary) -> bool:
    """Whether a library's ranks send on one rail, whichever they are tied to.

    Through libfabric's TCP, MPICH 5.0.2 moves no more over two rails than over one (`collforge probe lanes`).
    """
    return defaults(mpi, {}).get("MPIR_CVAR_CH4_NETMOD") == "ofi"


def mpirun(spec: ClusterSpec, mpi: MpiLibrary, agent: Path) -> list[str]:
    """The library's mpirun and its options, for ranks placed as in the layout.

    `agent` is called as ssh would be, to run commands on other nodes.
    """
    in_turn = not spec.placed.consecutive
    sizes = spec.placed.node_sizes
    # MPICH starts again at the first host when all slots are taken.
    slots = [1] * spec.nodes if in_turn and mpi.flavor == "mpich" else sizes
    hosts = ",".join(f"{host}:{size}" for host, size in zip(spec.hosts, slots))
    if mpi.flavor == "mpich":
        options = ["-launcher", "rsh", "-launcher-exec", str(agent)]
        options += ["-iface", network.MANAGEMENT_DEVICE, "-hosts", hosts, "-n", str(spec.ranks)]
        return [str(mpi.mpirun), *options]
    # From Open MPI 5 on, PRRTE is the launcher; it has its own parameters.
    ours, kind = (
        ("--mca", "rsh")
        if mpi.version.startswith(("Open MPI v3", "Open MPI v4"))
        else ("--prtemca", "ssh")
    )
    options = ["--allow-run-as-root", ours, "plm", kind, ours, f"plm_{kind}_agent", str(agent)]
    if kind == "rsh":
        options += ["--mca", "oob_tcp_if_include", network.MANAGEMENT_DEVICE]
    else:
        options += ["--prtemca", "prte_if_include", network.MANAGEMENT_DEVICE]
    options += ["--bind-to", "none"]
    options += ["--map-by", "node" if in_turn else "slot", "--host", hosts, "-np", str(spec.ranks)]
    return [str(mpi.mpirun), *options]


def _files(spec: ClusterSpec) -> dict[str, str]:
    files = {
        "hosts": network.hosts_file(spec),
        "switch.links": _text(network.switch_links(spec)),
        "switch.shaping": _text(network.switch_shaping(spec)),
    }
    sysctls = [f"{key} {value}" for key, value in network.node_sysctls(spec).items()]
    for node, host in enumerate(spec.hosts):
        files[f"{host}/sysctls"] = _text(sysctls)
        files[f"{host}/links"] = _text(network.node_links(spec, node))
        files[f"{host}/shaping"] = _text(network.node_shaping(spec))
    return files


def _text(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _check_command(command: Sequence[str], env: Mapping[str, str]) -> None:
    if not command:
        raise ClusterError("no command to run: give one, for example `-- ./a.out`")
    if shutil.which(command[0], path=env.get("PATH")) is None:
        raise ClusterError(
            f"no such command: {command[0]}; give the path of a program that may be executed"
        )


def _own_environment() -> dict[str, str]:
    """The environment of the cluster's process 1 (not a rank)."""
    environment = {**os.environ, "PATH": system_path(os.environ.get("PATH"))}
    environment.pop("LD_PRELOAD", None)
    return environment


def _build(control: socket.socket, plan: Plan) -> None:
    """Lets process 1 execute `plan`; returns when the command runs. Raises ClusterError."""
    control.settimeout(_BUILD_SECONDS)
    try:
        control.sendall(plan.to_json().encode())
        with control.makefile("r", encoding="utf-8") as answers:
            answer = answers.readline()
    except OSError as error:
        answer = str(error)
    if answer != "\n":
        reason = answer.strip() or "its first process ended early"
        raise ClusterError(f"cannot build the cluster: {reason}; use --system local instead")


def _tear_down(process: subprocess.Popen[bytes], control: socket.socket) -> None:
    """Ends the cluster if it still runs; returns when all its processes are gone.

    Process 1 exits when the control socket is closed. Its parent, `process`, waits until the kernel has
    ended all other processes. Do not kill `process` instead: nothing would wait then.
    """
    control.close()
    try:
        process.wait(_TEARDOWN_SECONDS)
    finally:
        process.kill()
        process.wait()


def mpich_progress(cache_dir: Path) -> Path:
    """The path of the library preloaded into MPICH's ranks (mpich_progress.c)."""
    return preload.library(_MPICH_PROGRESS, cache_dir)


def build_mpich_progress(cache_dir: Path) -> Path:
    """The same; the library is compiled if needed."""
    compiler, packages = ["gcc", "-std=c11"], "gcc libc6-dev"
    return preload.build(compiler, _MPICH_PROGRESS, cache_dir, packages, ClusterError)
