"""An example of a site's ReFrame configuration: a Slurm cluster with two MPI libraries.

Copy it, put in the names of your own partitions and modules, and run

    reframe -C your_site.py -c $(collforge reframe-path) -R -r       # correctness, guidelines
    collforge tune --config your_site.py --system cluster --mpi openmpi --layout 8x16

What Collforge needs of a configuration:

- An environment says in its ``extras`` which MPI library it is: {'mpi': 'openmpi'}. The variable
  COLLFORGE_MPI_OPENMPI holds the prefix that this library is installed in, COLLFORGE_MPI_MPICH that
  of the other one; the shell expands it, so that it can be a variable which the module sets.
- One partition for each MPI library: a launcher belongs to a partition, and a wrong launcher often
  starts p programs of one rank. (The checks fail then: they count processes.) Calling the
  partition as the library, `collforge tune --mpi openmpi` finds it as cluster:openmpi.
- ``extras`` {'layout': '8x16'} of a partition: 8 nodes with 16 ranks each, unless a check is told
  otherwise. Ranks must be placed consecutively, hence --distribution=block.
- Nodes to itself (--exclusive), or there is nothing to measure.

The scheduler here is ``squeue``, which needs no accounting; ``slurm`` needs sacct. With srun, an
MPI library needs its own PMI: with Slurm 22.05, Open MPI 4 pmix, MPICH 4 pmi2. Where srun knows
none that fits, use the library's mpirun (launcher ``mpirun``), which must be first in PATH then.
"""

from __future__ import annotations

_FOLDER = "${HOME}/collforge-reframe"

site_configuration = {
    "systems": [
        {
            "name": "cluster",
            "descr": "the cluster",
            "hostnames": ["login[0-9]+"],
            "modules_system": "nomod",  # "lmod" or "tmod4", with "modules" in the environments
            "prefix": _FOLDER,
            "partitions": [
                {
                    "name": "openmpi",
                    "scheduler": "squeue",
                    "launcher": "srun",
                    "access": ["--partition=compute", "--exclusive", "--distribution=block"],
                    "env_vars": [["SLURM_MPI_TYPE", "pmix"]],
                    "environs": ["openmpi"],
                    "max_jobs": 1,
                    "extras": {"layout": "8x16"},
                },
                {
                    "name": "mpich",
                    "scheduler": "squeue",
                    "launcher": "mpirun",
                    "access": ["--partition=compute", "--exclusive", "--distribution=block"],
                    "environs": ["mpich"],
                    "max_jobs": 1,
                    "extras": {"layout": "8x16"},
                },
            ],
        }
    ],
    "environments": [
        {
            "name": "openmpi",
            "env_vars": [["COLLFORGE_MPI_OPENMPI", "/opt/openmpi/4.1"]],
            "extras": {"mpi": "openmpi"},
        },
        {
            "name": "mpich",
            "env_vars": [
                ["COLLFORGE_MPI_MPICH", "/opt/mpich/4.0"],
                ["PATH", "/opt/mpich/4.0/bin:$PATH"],
            ],
            "extras": {"mpi": "mpich"},
        },
    ],
    "general": [{"report_file": f"{_FOLDER}/reports/run-{{sessionid}}.json"}],
    "logging": [{"handlers_perflog": []}],
}
