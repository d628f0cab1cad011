"""An example of a site's ReFrame configuration: a Slurm cluster with two MPI libraries.

Copy it, put in the names of your own partitions and modules, and run

    reframe -C your_site.py -c $(collforge reframe-path) -R -r       # correctness, guidelines
    collforge tune --config your_site.py --system cluster --mpi openmpi --layout 8x16

What Collforge needs of a configuration:

- An environment names its MPI library in ``extras``: {'mpi': 'openmpi'}. The variable
  COLLFORGE_MPI_OPENMPI has the installation prefix of Open MPI, COLLFORGE_MPI_MPICH that of MPICH.
  The shell expands the value, so it may be a variable that the module sets.
- There is one partition for each MPI library, because a launcher belongs to a partition, and a wrong
  launcher often starts p programs of one rank. (The checks count processes and then fail.) If the
  partition has the library's name, `collforge tune --mpi openmpi` finds it as cluster:openmpi.
- ``extras`` {'layout': '8x16'} of a partition gives the default layout, 8 nodes with 16 ranks each.
  Ranks must be placed consecutively, hence --distribution=block.
- Jobs need exclusive nodes (--exclusive); otherwise they measure the neighbours.

Results are kept in ReFrame's database and, as CSV, below perflogs: for `reframe --performance-compare`
and for dashboards.

The scheduler here is ``squeue``, which needs no accounting; ``slurm`` needs sacct. With srun, an
MPI library needs its own PMI: with Slurm 22.05, pmix for Open MPI 4 and pmi2 for MPICH 4. If srun
has none that fits, use the library's mpirun (launcher ``mpirun``), which must then be first in PATH.
"""

from __future__ import annotations

from pathlib import Path

_FOLDER = str(Path("~/collforge-reframe").expanduser())

# One line for each performance variable, below a line of names: CSV with | between the columns.
_COLUMNS = [
    *("check_job_completion_time", "version", "check_system", "check_partition", "check_environ"),
    *("check_display_name", "check_num_tasks", "check_perf_var", "check_perf_value"),
    *("check_perf_unit", "check_perf_ref", "check_perf_lower_thres", "check_perf_upper_thres"),
    *("check_perf_result", "check_result"),
]

logging = {
    "perflog_multiline": True,
    "handlers_perflog": [
        {
            "type": "filelog",
            "prefix": "%(check_system)s/%(check_partition)s",
            "level": "info",
            "format": "|".join(f"%({name})s" for name in _COLUMNS),
            "datefmt": "%FT%T%:z",
            "append": True,
        }
    ],
}

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
    "storage": [{"enable": True, "sqlite_db_file": f"{_FOLDER}/results.db"}],
    "logging": [logging],
}
