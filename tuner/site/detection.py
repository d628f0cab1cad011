"""Makes ReFrame's configuration of a site from what this host shows: its queue, libraries and module system."""

from __future__ import annotations

import os
import re
import shutil
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from collforge.errors import CollforgeError, unknown
from collforge.mpi_library import MpiLibrary
from collforge.toolchain.process import outcome

SECONDS = 30
PMI = {"openmpi": ("pmix",), "mpich": ("pmi2", "pmix")}
"""Flavor -> the values of srun's --mpi that fit, the best first."""
NODES = 4
"""Of the default layout, if the partition has so many."""

TEMPLATE = '''\
"""ReFrame's configuration of {{ system }}, detected on {{ host }} by `collforge site detect`: look it through.

A partition for each MPI library, because a launcher belongs to a partition. Ranks must be placed
consecutively, on exclusive nodes. `layout`, nodes x ranks per node, is the default of --layout. MPI
libraries are known by the names that `collforge mpi list` shows.
"""

from collforge.reframe_checks.settings.slurm_example import logging

site_configuration = {
    "systems": [
        {
            "name": "{{ system }}",
            "hostnames": [{{ hosts | tojson }}],
            "modules_system": "{{ modules }}",
            "prefix": {{ folder | tojson }},
            "partitions": [
{%- for one in partitions %}
                {
                    "name": "{{ one.name }}",
                    "scheduler": "{{ scheduler }}",
                    "launcher": "{{ 'srun' if one.pmi else 'mpirun' }}",
                    "access": ["--partition={{ queue.name }}", "--exclusive", "--distribution=block"],
                    {%- if one.pmi %}
                    "env_vars": [["SLURM_MPI_TYPE", "{{ one.pmi }}"]],
                    {%- else %}
                    "env_vars": [["PATH", {{ (one.tools ~ ":$PATH") | tojson }}]],
                    {%- endif %}
                    "environs": ["{{ one.name }}"],
                    "max_jobs": 1,
                    "extras": {"layout": "{{ layout }}"},
                },
{%- endfor %}
            ],
        }
    ],
    "environments": [
{%- for one in partitions %}
        {"name": "{{ one.name }}", "extras": {"mpi": "{{ one.name }}"}},
{%- endfor %}
    ],
    "general": [{"report_file": {{ (folder ~ "/reports/run-{sessionid}.json") | tojson }}}],
    "storage": [{"enable": True, "sqlite_db_file": {{ (folder ~ "/results.db") | tojson }}}],
    "logging": [logging],
}
'''


@dataclass(frozen=True)
class Queue:
    """A partition of Slurm."""

    name: str
    nodes: int
    cores: int
    """Of a node."""

    @property
    def layout(self) -> str:
        return f"{min(NODES, self.nodes)}x{self.cores}"


def configuration(system: str, libraries: Sequence[MpiLibrary], queue: Queue, folder: Path) -> str:
    """The text of the file. ``folder``: for what ReFrame writes."""
    from jinja2 import Environment, StrictUndefined

    host = socket.gethostname()
    known = _pmi_of_srun()
    return (
        Environment(undefined=StrictUndefined, keep_trailing_newline=True)
        .from_string(TEMPLATE)
        .render(
            system=system,
            host=host,
            hosts=re.sub(r"\d+", "[0-9]+", re.escape(host)),
            modules=_modules_system(os.environ),
            folder=str(folder),
            scheduler="slurm" if outcome(["sacct", "-n"], SECONDS).returncode == 0 else "squeue",
            queue=queue,
            layout=queue.layout,
            partitions=[
                {
                    "name": one.name,
                    "pmi": next((pmi for pmi in PMI.get(one.flavor, ()) if pmi in known), ""),
                    "tools": one.mpirun.parent,
                }
                for one in libraries
            ],
        )
    )


def _pmi_of_srun() -> list[str]:
    said = outcome(["srun", "--mpi=list"], SECONDS)
    return re.findall(r"\w+", said.stdout + said.stderr)


def _modules_system(environment: Mapping[str, str]) -> str:
    if environment.get("LMOD_CMD"):
        return "lmod"
    return "tmod4" if environment.get("MODULES_CMD") else "nomod"


def find_queue(name: str | None) -> Queue:
    """The partition of this name, or Slurm's default one. Raises CollforgeError where no Slurm answers."""
    said = outcome(["sinfo", "--noheader", "--format=%P|%D|%X|%Y"], SECONDS)
    rows = [line.split("|") for line in said.stdout.split()]
    if shutil.which("sinfo") is None or said.returncode != 0 or not rows:
        raise CollforgeError(
            "no Slurm answers here (sinfo): this machine alone is --system local; for another scheduler, "
            "change a copy of reframe_checks/settings/slurm_example.py and name it by "
            "`collforge site set config FILE`"
        )
    queues = {
        one.rstrip("*"): Queue(
            one.rstrip("*"), max(1, _least(nodes)), _least(sockets) * _least(cores)
        )
        for one, nodes, sockets, cores in rows
    }
    default = next((one for one, *_ in rows if one.endswith("*")), rows[0][0]).rstrip("*")
    if name is not None and name not in queues:
        raise unknown("partition", name, queues)
    return queues[name or default]


def _least(text: str) -> int:
    """Slurm puts a + behind the least number of nodes that differ. 1 where it does not know ("n/a")."""
    return int(text.rstrip("+")) if text.rstrip("+").isdecimal() else 1
