"""The process that stands for a running Slurm cluster: ``python -m`` with the spec as one argument of JSON.

It is started by `standing.up`, holds the lock of the cluster's folder, and writes one line to its standard
output: ``ready``, or the error. SIGTERM makes it remove all that it made. If it is killed, the kernel removes
the cluster, and `standing.down` the folder.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from types import FrameType

from collforge.reframe_checks.systems.emulated import ClusterError, ClusterSpec, launch
from collforge.reframe_checks.systems.slurm import config, standing


def main() -> int:
    signal.signal(signal.SIGTERM, _end)
    spec = ClusterSpec(**json.loads(sys.argv[1]))
    folder = standing.folder()
    try:
        with standing.held(folder):
            plan = config.make_plan(spec, folder, os.environ)
            with launch.cluster(plan) as process:
                standing.write_state(folder, spec, process.pid)
                return process.wait()
    except ClusterError as error:
        print(error)
    return 1


def _end(_: int, __: FrameType | None) -> None:
    # Once only: a second signal must not stop the removal.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(0)


if __name__ == "__main__":
    sys.exit(main())
