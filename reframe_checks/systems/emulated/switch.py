"""Process 1 of an emulated cluster: builds it, runs one command on node 0 and ends with it.

It is a separate program, started by path, that uses only the standard library. It runs in new namespaces
(PID, mount, network, IPC, UTS); its network namespace is the switch to which the nodes are connected.
``launch.run`` starts it with one argument, the number of a socket. It reads a `Plan` from there, as one line
of JSON, and answers with one line: empty if the command was started, else the error. It exits when the other
end is closed.

Every process of the cluster is in its PID namespace, so the kernel kills them all when it exits.
The nodes are network, mount, IPC and UTS namespaces below its own.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

EXIT_SETUP_FAILED = 1


@dataclass(frozen=True)
class Plan:
    """The instructions for process 1."""

    directory: str
    """An existing directory, on which the cluster mounts its own file system."""
    files: dict[str, str]
    """Name below `directory` -> text."""
    scripts: dict[str, str]
    """As `files`, executable."""
    hosts: list[str]
    """The nodes; each has its files in a subdirectory of its name (see node.sh)."""
    command: list[str]
    """The command to run on the first node."""
    working_directory: str
    environment: dict[str, str]

    def to_json(self) -> str:
        """The plan as one line of JSON."""
        return json.dumps(dataclasses.asdict(self)) + "\n"


def main() -> int:
    control = socket.socket(fileno=int(sys.argv[1]))
    requests = control.makefile("r", encoding="utf-8")
    plan = Plan(**json.loads(requests.readline()))
    threading.Thread(target=_exit_at_end, args=(requests,), daemon=True).start()
    # Ctrl-C reaches all processes of the terminal, but only the process that started the cluster reacts.
    # (Not SIG_IGN, which the command would inherit.)
    signal.signal(signal.SIGINT, lambda *_: None)
    try:
        _build(plan)
        there = [*_on_node(plan, plan.hosts[0]), "env", f"--chdir={plan.working_directory}"]
        command = subprocess.Popen([*there, *plan.command], env=plan.environment)
    except (OSError, subprocess.SubprocessError) as error:
        # The standard error of a failed tool says more than the exception.
        said = getattr(error, "stderr", None) or str(error)
        control.sendall((" ".join(said.split()) + "\n").encode())
        return EXIT_SETUP_FAILED
    control.sendall(b"\n")
    return _exit_code(command.pid)


def _build(plan: Plan) -> None:
    """Builds the cluster. Raises OSError or CalledProcessError, the latter with its stderr."""
    directory = Path(plan.directory)
    _run("mount", "-t", "tmpfs", "tmpfs", plan.directory)
    (directory / "tmp").mkdir()
    for mode, files in ((0o644, plan.files), (0o755, plan.scripts)):
        for name, text in files.items():
            path = directory / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
            path.chmod(mode)
    for node in [_start_node(directory, host) for host in plan.hosts]:
        _await_ready(node)
    _run("ip", "-batch", str(directory / "switch.links"))
    _run("tc", "-batch", str(directory / "switch.shaping"))


def _start_node(directory: Path, host: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        ["unshare", "--net", "--mount", "--ipc", "--uts", str(directory / "node"), host],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def _await_ready(node: subprocess.Popen[str]) -> None:
    assert node.stdout is not None and node.stderr is not None
    if node.stdout.readline() != "ready\n":
        raise subprocess.CalledProcessError(node.wait(), node.args, stderr=node.stderr.read())


def _on_node(plan: Plan, host: str) -> list[str]:
    pid = (Path(plan.directory) / host / "pid").read_text(encoding="utf-8").strip()
    return ["nsenter", "--target", pid, "--net", "--uts", "--ipc", "--mount", "--"]


def _run(*command: str) -> None:
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, capture_output=True, text=True)


def _exit_code(pid: int) -> int:
    """Waits for the child `pid` and returns its exit code; process 1 also reaps orphans."""
    while True:
        ended, status = os.wait()
        if ended == pid:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def _exit_at_end(requests: Any) -> None:
    requests.read()
    os._exit(EXIT_SETUP_FAILED)


if __name__ == "__main__":
    sys.exit(main())
