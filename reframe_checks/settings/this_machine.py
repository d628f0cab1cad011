"""ReFrame's configuration of the systems that need no cluster.

``local``
    This machine. The ranks of a job pretend to be on several nodes (COLLFORGE_NODE_MAP).
``emulated``
    Nodes and links emulated by namespaces and traffic shaping. The environment sets the links:
    COLLFORGE_RAILS (2), COLLFORGE_RATE (100mbit), COLLFORGE_RAIL_MODEL (tied).
``simulated``
    A machine in SimGrid, whose name COLLFORGE_SIMULATED has (simulated).

Each has a partition for every MPI library. ReFrame writes all files below `home()`/reframe.
"""

from __future__ import annotations

import os
from typing import Any

from collforge.home import home, make_folder
from collforge.reframe_checks import launchers
from collforge.reframe_checks.settings import slurm_example
from collforge.reframe_checks.systems.emulated import ClusterSpec
from collforge.reframe_checks.systems.simulated import KIND, Machine
from collforge.toolchain import libraries, simgrid

_FOLDER = make_folder(home() / "reframe")
_CLUSTER = ClusterSpec(
    rails=int(os.environ.get("COLLFORGE_RAILS") or ClusterSpec.rails),
    rate=os.environ.get("COLLFORGE_RATE") or ClusterSpec.rate,
    rail_model=os.environ.get("COLLFORGE_RAIL_MODEL") or ClusterSpec.rail_model,
)
_MACHINE = Machine.of_system(os.environ.get("COLLFORGE_SIMULATED") or KIND) or Machine()


def _partition(mpi: str, launcher: str, **extras: object) -> dict[str, Any]:
    return {
        "name": mpi,
        "scheduler": "local",
        "launcher": launcher,
        "environs": [mpi],
        "max_jobs": 1,
        "extras": extras,
    }


_LOCAL = {
    "name": "local",
    "descr": "this machine, its ranks on pretend nodes",
    "hostnames": [".*"],
    "prefix": str(_FOLDER),
    "partitions": [
        _partition(mpi, launchers.local(mpi), layout="2x2", pretend_nodes=True)
        for mpi in libraries.known_names()
    ],
}

_EMULATED = {
    "name": "emulated",
    "descr": "a cluster of namespaces and shaped links on this machine",
    "hostnames": [],
    "prefix": str(_FOLDER),
    "partitions": [
        _partition(
            mpi,
            launchers.emulated(mpi, _CLUSTER.rails, _CLUSTER.rate, _CLUSTER.rail_model),
            layout="4x2",
            places_ranks=True,
            rails=_CLUSTER.rails,
            rate=_CLUSTER.rate,
            rail_model=_CLUSTER.rail_model,
        )
        for mpi in libraries.known_names()
    ],
}

_SIMULATED = {
    "name": KIND,
    "descr": "a large cluster, simulated by SimGrid",
    "hostnames": [],
    "prefix": str(_FOLDER),
    "partitions": [
        _partition(
            mpi,
            launchers.simulated(mpi, _MACHINE),
            layout=_MACHINE.layout,
            pretend_nodes=True,
            one_process=True,
        )
        for mpi in simgrid.RULES
    ],
}

site_configuration = {
    "systems": [_LOCAL, _EMULATED, _SIMULATED],
    "environments": [
        {"name": mpi, "extras": {"mpi": mpi}} for mpi in (*libraries.known_names(), *simgrid.RULES)
    ],
    "general": [{"report_file": str(_FOLDER / "reports" / "run-{sessionid}.json")}],
    "storage": [{"enable": True, "sqlite_db_file": str(_FOLDER / "results.db")}],
    "logging": [
        {
            **slurm_example.logging,
            "handlers": [
                {
                    "type": "file",
                    "name": str(_FOLDER / "reframe.log"),
                    "level": "debug",
                    "format": "[%(asctime)s] %(levelname)s: %(check_info)s: %(message)s",
                    "append": False,
                }
            ],
        }
    ],
}
