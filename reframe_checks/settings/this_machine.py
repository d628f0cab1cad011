"""ReFrame's configuration of the two systems that need no cluster.

``local``
    This machine. The ranks of a job pretend to be on several nodes (COLLFORGE_NODE_MAP), in any layout.
``emulated``
    Nodes and rails made of namespaces and shaped links (collforge.reframe_checks.systems.emulated). The environment
    sets the rails: COLLFORGE_RAILS (2), COLLFORGE_RATE (100mbit), COLLFORGE_RAIL_MODEL (tied).

Each has a partition for every MPI library, which is found by collforge.runtime.libraries.
"""

import os

from collforge.reframe_checks import launchers
from collforge.reframe_checks.systems.emulated import MPI_LIBRARIES, ClusterSpec
from collforge.runtime import libraries
from collforge.runtime.home import home, make_folder

_folder = make_folder(home() / "reframe")

_cluster = ClusterSpec(
    rails=int(os.environ.get("COLLFORGE_RAILS") or ClusterSpec.rails),
    rate=os.environ.get("COLLFORGE_RATE") or ClusterSpec.rate,
    rail_model=os.environ.get("COLLFORGE_RAIL_MODEL") or ClusterSpec.rail_model,
)
_rails = {
    "rails": _cluster.rails,
    "rate": _cluster.rate,
    "rail_model": _cluster.rail_model,
}


def _partition(mpi, launcher, extras):
    return {
        "name": mpi,
        "scheduler": "local",
        "launcher": launcher,
        "environs": [mpi],
        "max_jobs": 1,
        "extras": extras,
    }


def _system(name, descr, partitions):
    return {
        "name": name,
        "descr": descr,
        "hostnames": [".*"] if name == "local" else [],
        "prefix": str(_folder),
        "partitions": partitions,
    }


site_configuration = {
    "systems": [
        _system(
            "local",
            "this machine, its ranks on pretend nodes",
            [
                _partition(mpi, launchers.local(mpi), {"pretend_nodes": True, "layout": "2x2"})
                for mpi in libraries.known_names()
            ],
        ),
        _system(
            "emulated",
            "a cluster of namespaces and shaped links on this machine",
            [
                _partition(mpi, launchers.emulated(mpi, **_rails), {"layout": "4x2", **_rails})
                for mpi in MPI_LIBRARIES
            ],
        ),
    ],
    "environments": [{"name": mpi, "extras": {"mpi": mpi}} for mpi in libraries.known_names()],
    "general": [
        {
            "report_file": str(_folder / "reports" / "run-{sessionid}.json"),
            "remote_detect": False,
            "topology_prefix": str(_folder / "topology"),
        }
    ],
    "storage": [{"enable": False}],
    "logging": [
        {
            "handlers": [
                {
                    "type": "file",
                    "name": str(_folder / "reframe.log"),
                    "level": "debug",
                    "format": "[%(asctime)s] %(levelname)s: %(check_info)s: %(message)s",
                    "append": False,
                }
            ],
            "handlers$": [
                {"type": "stream", "name": "stdout", "level": "info", "format": "%(message)s"}
            ],
            "handlers_perflog": [],
        }
    ],
}
