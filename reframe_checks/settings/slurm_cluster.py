"""ReFrame's configuration of the Slurm cluster on this machine, for commands by `collforge cluster exec`.

``slurm``
    Jobs launch their ranks by srun, with the PMI of each MPI library.
``slurm-mpirun``
    Jobs launch their ranks by the mpirun of each MPI library.
"""

from __future__ import annotations

from typing import Any

from collforge.home import home
from collforge.reframe_checks import launchers
from collforge.reframe_checks.settings import this_machine
from collforge.reframe_checks.systems.slurm import SYSTEMS
from collforge.toolchain import libraries


def _system(name: str, launcher: str) -> dict[str, Any]:
    return {
        "name": name,
        "descr": f"a Slurm cluster on this machine, ranks launched by {launcher}",
        "hostnames": [],
        "prefix": str(home() / "reframe"),
        "partitions": [
            {
                "name": mpi,
                "scheduler": "squeue",
                "launcher": launchers.slurm(mpi, launcher),
                "access": ["--exclusive", "--distribution=block"],
                "environs": [mpi],
                "max_jobs": 1,
            }
            for mpi in libraries.known_names()
        ],
    }


site_configuration = {
    **this_machine.site_configuration,
    "systems": [_system(name, launcher) for name, launcher in SYSTEMS.items()],
}
