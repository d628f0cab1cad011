"""Whether this machine can emulate a cluster."""

from __future__ import annotations

import os
import shutil
import subprocess

from collforge.reframe_checks.systems.emulated import network
from collforge.reframe_checks.systems.emulated.spec import FLAVORS, ClusterError

# Tool -> Debian package.
_TOOLS = {
    "ip": "iproute2",
    "tc": "iproute2",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "setpriv": "util-linux",
    "mount": "mount",
    "hostname": "hostname",
}
_FLAVOR_TOOLS = {"mpich": {"gcc": "gcc"}}
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PROBE_SECONDS = 10.0


def check(flavor: str | None = None) -> None:
    """Checks that clusters can run here, with an MPI library of this flavor if one is given.

    Raises ClusterError for the first thing that is missing: a tool, the privilege to make
    namespaces, or the kernel's traffic shaping.
    """
    if flavor is not None and flavor not in FLAVORS:
        raise ClusterError(
            f"a cluster cannot be emulated for this MPI library: its mpirun is none of {' or '.join(FLAVORS)}"
        )
    _check_tools({**_TOOLS, **_FLAVOR_TOOLS.get(flavor or "", {})})
    namespaces = _probe(["true"])
    if namespaces is not None:
        raise ClusterError(
            f"not allowed to make namespaces, which the emulated cluster consists of "
            f"({namespaces}): run as root (in a container: --privileged), or use --system local"
        )
    shaping = _probe(["sh", "-c", f"echo {network.shape('lo', '1mbit')} | tc -batch -"])
    if shaping is not None:
        raise ClusterError(
            f"this kernel cannot limit the rate of a link ({shaping}): load the module with "
            f"`modprobe sch_tbf`, or use --system local"
        )


def namespace_command() -> list[str]:
    """The command prefix that runs a program as process 1 of a cluster's namespaces.

    If the command dies, the kernel kills process 1 and all processes in its PID namespace. If the
    thread that started the command dies, the kernel kills the command.
    """
    command = ["setpriv", "--pdeathsig", "KILL", "unshare", "--fork", "--kill-child", "--pid"]
    command += ["--mount-proc", "--mount", "--net", "--ipc", "--uts"]
    if os.geteuid() != 0:
        command.append("--map-root-user")
    return [*command, "--"]


def system_path(path: str | None) -> str:
    """`path` followed by the system's directories; a user's PATH often lacks those of ip and tc."""
    return f"{path}:{_SYSTEM_PATH}" if path else _SYSTEM_PATH


def _check_tools(tools: dict[str, str]) -> None:
    path = system_path(os.environ.get("PATH"))
    missing = [tool for tool in tools if shutil.which(tool, path=path) is None]
    if missing:
        packages = " ".join(sorted({tools[tool] for tool in missing}))
        raise ClusterError(f"not found: {', '.join(missing)}; run `apt-get install {packages}`")


def _probe(command: list[str]) -> str | None:
    """The error when `command` runs in new namespaces; None if there is none."""
    environment = {**os.environ, "PATH": system_path(os.environ.get("PATH")), "LC_ALL": "C"}
    environment.pop("LD_PRELOAD", None)
    done = subprocess.run(
        [*namespace_command(), *command],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_PROBE_SECONDS,
        check=False,
    )
    if done.returncode == 0:
        return None
    return " ".join(done.stderr.split()) or f"exit code {done.returncode}"
