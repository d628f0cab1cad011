"""Base classes of the checks: the build of the timing driver, and a test that launches it on a layout.

An environment of a site's configuration is used if it has ``extras`` {'mpi': NAME}, or is itself
called NAME, where `collforge build --mpi NAME` works. A partition may have the ``extras``

- ``layout``: the default layout of checks on the partition, e.g. '8x16';
- ``places_ranks``: True where the launcher has an attribute ``layout``, for unequal nodes and cyclic ranks;
- ``pretend_nodes``: True where all ranks are on one machine and pretend to be on several nodes;
- ``one_process``: True where the launcher loads the program itself, once for all ranks.
"""

from __future__ import annotations

import shlex
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import reframe as rfm
from reframe.core.builtins import fixture, run_after, run_before, sanity_function, variable
from reframe.core.exceptions import PipelineError, SanityError
from reframe.core.runtime import runtime
from reframe.utility import typecheck as typ

from collforge import records
from collforge.errors import CollforgeError
from collforge.home import home
from collforge.layout import Layout, from_name
from collforge.records import Output
from collforge.reframe_checks import allocation, results
from collforge.reframe_checks.mpirun import on_sockets
from collforge.toolchain import libraries, vcis
from collforge.toolchain.build import built_paths

CASES = "cases.txt"
DEFAULT_LAYOUT = "2x2"


def mpi_name(environment: object) -> str:
    """The MPI library that an environment stands for; '' if none."""
    named = environment.extras.get("mpi", "")  # type: ignore[attr-defined]
    name = environment.name  # type: ignore[attr-defined]
    return str(named or (name if name in libraries.known_names() else ""))


def mpi_environments() -> list[str]:
    """The names of the current system's environments that stand for an MPI library."""
    partitions = runtime().system.partitions
    return sorted({e.name for p in partitions for e in p.environs if mpi_name(e)})


def layout_on(partition: Any, name: str) -> Layout:
    """A layout by name; by default the partition's. Raises CollforgeError if there is no such layout."""
    return from_name(name or str(partition.extras.get("layout", DEFAULT_LAYOUT)))


def place(check: Any, at: Layout, job: Any = None) -> dict[str, str]:
    """Sets the task counts of a job, by default those of the check, and its launcher, for a layout.

    Returns the environment variables that the ranks need. Raises PipelineError for a layout that the partition
    cannot have.
    """
    extras, launcher = check.current_partition.extras, check.job.launcher
    counts = check if job is None else job
    counts.num_tasks = at.size
    counts.num_cpus_per_task = at.threads if at.threads > 1 else None
    if at.sockets and extras.get("places_ranks"):
        raise PipelineError(f"layout {at.name}: the nodes of this cluster share their sockets")
    if extras.get("pretend_nodes"):
        launcher.sockets, launcher.layout = at.sockets, at.placement
        counts.num_tasks_per_node = None
        return {"COLLFORGE_NODE_MAP": at.node_map}
    if not at.regular and not extras.get("places_ranks"):
        raise PipelineError(
            f"layout {at.name} cannot be had on {check.current_partition.fullname}, "
            "which fills nodes evenly, one after the other; use NODESxRANKS (4x2), or "
            "--system local, where nodes are pretended"
        )
    counts.num_tasks_per_node = at.node_sizes[0] if at.regular else None
    if extras.get("places_ranks"):
        launcher.layout = "" if at.regular else at.placement
    return {}


def scale_tags(layout: str) -> set[str]:
    """The layout's scale on each partition, as EESSI's test suite calls it: 1_node, 2_nodes, 1cpn_2nodes.

    The last has one rank a node. ReFrame selects by tags before it knows the partition.
    """
    tags = set()
    for partition in runtime().system.partitions:
        with suppress(CollforgeError):  # the set-up says it
            job = layout_on(partition, layout).launched
            nodes = 1 if partition.extras.get("pretend_nodes") else job.nodes
            is_single = max(job.node_sizes) == 1
            many = f"1cpn_{nodes}nodes" if is_single else f"{nodes}_nodes"
            tags.add("1_node" if nodes == 1 else many)
    return tags


class BuildDriver(rfm.CompileOnlyRegressionTest):
    """Builds the runtime and the timing driver for the environment's MPI library, if out of date."""

    build_system: Any = "CustomBuild"
    build_time_limit = "20m"
    sourcesdir = None

    @run_before("compile")
    def set_commands(self) -> None:
        words = [
            sys.executable,
            "-m",
            "collforge",
            "build",
            "--mpi",
            mpi_name(self.current_environ),
        ]
        self.build_system.commands = [shlex.join(words)]


class DriverLaunch(rfm.RunOnlyRegressionTest):
    """Runs case strings through the timing driver, which must be built; all launches are in one job.

    A derived check overrides `case_strings`.
    """

    layout = variable(str, value="")
    """A layout's name, e.g. 4x2. Default: the partition's."""

    samples = variable(int, value=7)
    """Rounds of each problem."""

    max_seconds = variable(float, value=10.0)
    """Time limit for sampling one problem."""

    seed = variable(int, value=7)
    """Seed of the inputs and of the order of variants in a round."""

    prune = variable(typ.Bool, value=False)
    """Whether clearly slower cases get fewer samples."""

    costs = variable(typ.Bool, value=False)
    """Whether to measure processor time and memory, too."""

    in_a_row = variable(int, value=1)
    """The least number of consecutive calls per sample, for collectives in which every rank waits for all."""

    drop_in_by = variable(str, value="")
    """A database: hybrid collectives are compared with the drop-in one that it selects. Default: native."""

    environment = variable(str, value="")
    """Further environment variables of the ranks: ``NAME=VALUE NAME=VALUE``."""

    in_allocation = variable(typ.Bool, value=False)
    """Whether to launch in the allocation in which ReFrame runs (allocation.py), instead of submitting a job.
    One test after the other only, so with ReFrame's execution policy `serial`."""

    launches = variable(int, value=1)
    """Number of consecutive launches of the driver. Several launches write one file each."""

    verify_only = variable(typ.Bool, value=False)
    """Whether to verify without timing."""

    time_limit = "30m"
    sourcesdir = None
    tags: set[str]

    def case_strings(self) -> list[str]:
        """The case strings to run; called before the run, when partition and layout are known."""
        raise NotImplementedError

    @run_after("init")
    def select_environments(self) -> None:
        self.valid_systems = ["*"]
        self.valid_prog_environs = mpi_environments()
        self.tags = self.tags | scale_tags(self.layout)

    @run_after("init")
    def stay_in_allocation(self) -> None:
        self.local = self.in_allocation

    @run_after("setup")
    def set_layout(self) -> None:
        try:
            self.rank_layout = layout_on(self.current_partition, self.layout)
        except CollforgeError as error:
            raise PipelineError(str(error)) from error
        if self.in_allocation:
            self.job.launcher = self.current_partition.launcher_type()
        threads = self.rank_layout.threads
        # Also 1: with COLLFORGE_PROGRESS the MPI library has MPI_THREAD_MULTIPLE, and the driver OpenMP.
        self.env_vars["OMP_NUM_THREADS"] = str(threads)
        if threads > 1:
            library = libraries.find(mpi_name(self.current_environ))
            self.env_vars.update(vcis.thread_settings(library, threads))
        self.env_vars.update(place(self, self.rank_layout.launched))
        if not self.current_partition.extras.get("pretend_nodes"):
            name = self.current_partition.launcher_type.registered_name
            flavor = libraries.find(mpi_name(self.current_environ)).flavor
            self.job.launcher.options += on_sockets(name, flavor, self.rank_layout.launched)

    @run_before("run")
    def enter_allocation(self) -> None:
        if self.in_allocation:
            self.prerun_cmds = allocation.commands(self.rank_layout.launched)

    @run_before("run")
    def set_command(self) -> None:
        cases = self.case_strings()
        self.skip_if(not cases, f"there is nothing to run on layout {self.rank_layout.name}")
        Path(self.stagedir, CASES).write_text(
            "".join(f"{case}\n" for case in cases), encoding="utf-8"
        )
        self.executable = shlex.quote(
            str(built_paths(mpi_name(self.current_environ), home()).driver_path)
        )
        self.env_vars.update(word.split("=", 1) for word in shlex.split(self.environment))
        if self.drop_in_by:
            self.env_vars["COLLFORGE_DB"] = self.drop_in_by
            self.env_vars["COLLFORGE_SYSTEM"] = self.current_system.name
        self.executable_opts = ["--cases", CASES, "--output", self._output("$launch")]
        self.executable_opts += ["--seed", str(self.seed)]
        self.executable_opts += ["--drop-in"] if self.drop_in_by else []
        if self.verify_only:
            self.executable_opts.append("--verify-only")
        else:
            self.executable_opts += ["--samples", str(self.samples)]
            self.executable_opts += ["--in-a-row", str(self.in_a_row)]
            self.executable_opts += ["--max-seconds", str(self.max_seconds)]
        if self.rank_layout.job:
            self.executable_opts += ["--parts", self.rank_layout.placement]
        self.executable_opts += ["--sockets"] if self.rank_layout.sockets else []
        self.executable_opts += ["--prune"] if self.prune else []
        self.executable_opts += ["--costs"] if self.costs else []
        if self.launches > 1:
            self.prerun_cmds += [f"for launch in {' '.join(self._numbers())}; do"]
            self.postrun_cmds = ["done"]
        self.keep_files = [CASES, *(self._output(number) for number in self._numbers())]

    def _numbers(self) -> list[str]:
        return [str(number + 1) for number in range(self.launches)]

    def _output(self, number: str) -> str:
        return f"results.{number}.jsonl" if self.launches > 1 else records.FILE

    @property
    def outputs(self) -> list[Output]:
        """The outputs of the launches in the stage directory."""
        return [records.read(Path(self.stagedir, self._output(n))) for n in self._numbers()]

    @sanity_function
    def check_launches(self) -> bool:
        for output in self.outputs:
            fault = self.fault(output)
            if fault:
                raise SanityError(fault + self._last_words())
        return True

    def fault(self, output: Output) -> str:
        """Why the output of a launch cannot be trusted; '' if it can."""
        return results.fault(output, self.rank_layout.launched.size, self.rank_layout.name)

    def _last_words(self) -> str:
        """Collforge's own lines on the job's standard error, or its last lines if there are none."""
        path = Path(self.stagedir, str(self.job.stderr))
        text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        said = [line for line in lines if line.startswith("collforge")][:2] or lines[-3:]
        return f" ({' | '.join(said)})" if said else ""


class DriverCheck(DriverLaunch):
    """A DriverLaunch that builds the driver first if it is out of date."""

    driver = fixture(BuildDriver, scope="environment")
