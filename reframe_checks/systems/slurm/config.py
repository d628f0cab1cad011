"""Slurm's configuration, and the plan of the emulated cluster that runs it."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from collforge.reframe_checks.systems import emulated
from collforge.reframe_checks.systems.emulated import ClusterError, ClusterSpec, launch, network
from collforge.reframe_checks.systems.emulated.preflight import system_path
from collforge.reframe_checks.systems.emulated.switch import Plan

SYSTEMS = {"slurm": "srun", "slurm-mpirun": "mpirun"}
"""The systems of settings/slurm_cluster.py, and what launches their ranks."""

RANK_VARIABLE = "COLLFORGE_RANK"
"""In the environment of the cluster's commands: the command prefix of each rank (job_rank.sh)."""

PMI = {"openmpi": "pmix", "mpich": "pmi2"}
"""Flavor of an MPI library -> the value of srun's --mpi. Another one starts singletons, or none."""

DEFAULTS = launch.OPENMPI_DEFAULTS
"""Environment variables of the cluster's commands, unless the caller sets them."""

_PACKAGES = {
    "munged": "munge",
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "sbatch": "slurm-client",
}
_PACKAGE = Path(__file__).parent

# The sockets below it have names of up to 41 bytes; a path of a socket has 107 at most.
_LONGEST_PATH = 66

# Debian's slurmd ends where it has to find out the version of control groups itself.
_CGROUP = "CgroupPlugin=cgroup/v1\n"

# Processes are found by their parents, because the nodes have no control groups. Nothing binds ranks to cores,
# which the nodes share. PMIx writes files to TmpFS, under names that are the same on all nodes.
# `config_overrides`: a node may have more cores here than the machine has. A rank that crashes ends its step:
# else the others would wait for it, and the queue for them.
_SLURM = """\
ClusterName=collforge
SlurmctldHost={controller}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={directory}/munge.socket
StateSaveLocation={directory}/state
SlurmdSpoolDir={directory}/spool.%n
TmpFS={directory}/tmp
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/slurmd.%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=batch_sched_delay=0
MpiDefault=pmix
KillOnBadExit=1
SlurmdParameters=config_overrides
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
LaunchParameters=mpir_use_nodeaddr
ReturnToService=2
NodeName={hosts} CPUs={cores} State=UNKNOWN
PartitionName=compute Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def check() -> None:
    """Checks that a Slurm cluster can run here. Raises ClusterError with the fix for what is missing."""
    path = system_path(os.environ.get("PATH"))
    missing = [tool for tool in _PACKAGES if shutil.which(tool, path=path) is None]
    if missing:
        packages = " ".join(_PACKAGES[tool] for tool in missing)
        raise ClusterError(
            f"not found: {', '.join(missing)}; run `apt-get install --no-install-recommends {packages}`"
        )
    if os.geteuid() != 0:
        raise ClusterError("Slurm's daemons change users and groups: run as root")
    emulated.check()


def make_plan(spec: ClusterSpec, folder: Path, env: Mapping[str, str]) -> Plan:
    """The plan of a cluster of ``spec.nodes`` nodes, each with as many cores as it has ranks in the layout.

    Its command, on the first node, writes one line to its standard output when all nodes are idle, ``ready``;
    if a daemon ends before, the reason and the end of the daemon's log. Creates the directory in `folder`.
    """
    directory = launch.make_directory(folder)
    if len(str(directory)) > _LONGEST_PATH:
        raise ClusterError(
            f"{directory} is too long for sockets: set XDG_CACHE_HOME to a shorter path"
        )
    launch.build_mpich_progress(folder)
    words = [str(directory / "controller"), *spec.hosts]
    plan = launch.plan_command(spec, directory, words, env)
    configuration = _SLURM.format(
        controller=spec.hosts[0],
        directory=directory,
        hosts=",".join(spec.hosts),
        cores=spec.placed.node_sizes[0],
    )
    return replace(
        plan,
        working_directory="/",
        files={**plan.files, "slurm.conf": configuration, "cgroup.conf": _CGROUP},
        scripts={
            **plan.scripts,
            **{name: launch.script(_PACKAGE, name) for name in ("controller", "job_rank")},
        },
    )


def variables(spec: ClusterSpec, directory: Path) -> dict[str, str]:
    """The environment variables of the cluster's commands, but for PATH."""
    library = str(launch.mpich_progress(directory.parent))
    rank = [str(directory / "job_rank"), library, *launch.rank_words(spec, directory)]
    return {
        "SLURM_CONF": str(directory / "slurm.conf"),
        # With Slurm's other algorithms 1 to 3 % of Open MPI 4's launches crash in MPI_Init on busy cores.
        "SLURM_PMIX_FENCE": "ring",
        "TMPDIR": str(directory / "tmp"),
        RANK_VARIABLE: shlex.join(rank),
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_oob_tcp_if_include": network.MANAGEMENT_DEVICE,
    }
