"""Runs the cases of a job through ReFrame as a subprocess. The only result is ReFrame's report."""

from __future__ import annotations

import math
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from collforge import launch_log, reframe_checks
from collforge.case import Case
from collforge.errors import CollforgeError
from collforge.home import home
from collforge.layout import from_name
from collforge.reframe_checks import allocation
from collforge.reframe_checks.systems.simulated import KIND

# Seconds that a job may take beyond the estimate for its cases, for builds, launch and verification.
GRACE = 300.0


class JobError(CollforgeError):
    """ReFrame could not run the job; the message has the end of its output and the fix."""


@dataclass(frozen=True)
class Site:
    """Where jobs run: a system of a ReFrame configuration, and its environment of one MPI library."""

    system: str
    mpi: str
    config: Path = field(default_factory=lambda: reframe_checks.SETTINGS)
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of the ReFrame process, e.g. the rails of the emulated system."""

    @property
    def is_simulated(self) -> bool:
        """Whether times are those of a simulation, which another launch has again."""
        return self.system == KIND and self.config == reframe_checks.SETTINGS

    @property
    def is_queued(self) -> bool:
        """Whether jobs may wait in a queue before they start."""
        return self.config != reframe_checks.SETTINGS

    def is_allocated(self, layout: str) -> bool:
        """Whether this process is in an allocation of Slurm that has the nodes for a layout."""
        return self.is_queued and from_name(layout).launched.nodes <= allocation.nodes()


@dataclass(frozen=True)
class Job:
    """The cases of one launch, and how they are measured."""

    cases: Sequence[Case]
    layout: str
    samples: int
    max_seconds: float
    seed: int
    time_limit: float
    """The longest time expected; the job may take GRACE more."""
    verify_only: bool = False
    prune: bool = False
    """Whether clearly slower variants get fewer samples."""
    costs: bool = False
    in_a_row: int = 1
    """The least number of consecutive calls per sample, for collectives in which every rank waits for all
    others (allreduce, alltoall, ...)."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Further environment variables of the ranks."""
    drop_in_by: Path | None = None
    """A database: hybrid collectives are compared with the drop-in collective that it selects. None: native."""
    most_seconds: float = math.inf
    """The user's limit of the job's time."""

    @property
    def is_limited(self) -> bool:
        """Whether the time limit is the user's, which a job may reach without fault."""
        return self.most_seconds < self.time_limit + GRACE

    @property
    def scheduler_limit(self) -> int:
        """The time limit for the scheduler, in seconds."""
        return int(min(self.time_limit + GRACE, self.most_seconds))


def run_job(
    site: Site, job: Job, folder: Path, watch: Callable[[Path], None] | None = None
) -> Path:
    """Runs a job and returns the path of ReFrame's report.

    ``folder`` (new or empty) receives the cases, the report, and the stage and output files. ``watch`` is
    called a few times per second with the folder while the job runs. Raises JobError if ReFrame writes no
    report. Failed checks raise nothing; they are in the report.
    """
    folder.mkdir(parents=True, exist_ok=True)
    cases = folder / "cases.txt"
    cases.write_text("".join(f"{case}\n" for case in job.cases), encoding="utf-8")
    report = folder / "report.json"
    command = reframe_command(site, job, folder, cases, report)
    what = f"the job in {folder}; its first case is {job.cases[0]}"
    _run_reframe(site, command, folder, Watch(job.time_limit + 2 * GRACE, what, watch))
    return report


@dataclass(frozen=True)
class Watch:
    """The time limit of ReFrame, the job's name in messages, and the callback while it runs."""

    seconds: float
    what: str
    look: Callable[[Path], None] | None = None


@dataclass(frozen=True)
class Check:
    """A check of ReFrame: its name, with its parameter (``Kernel %kernel=summa``), and its file."""

    name: str
    file: Path


def run_check(
    site: Site, check: Check, settings: Mapping[str, object], folder: Path, seconds: float = 0.0
) -> str:
    """Runs a check that writes lines to the file of its variable `lines`; returns these lines.

    ``seconds``: the expected time of the program. If the launch ended early, lines are missing. Raises JobError
    as run_job does.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lines = folder / "lines.jsonl"
    settings = {**settings, "lines": lines, "time_limit": f"{int(seconds + 2 * GRACE)}s"}
    command = _reframe(site, check, settings, folder, folder / "report.json")
    _run_reframe(site, command, folder, Watch(seconds + GRACE, f"the launch in {folder}"))
    return lines.read_text(encoding="utf-8") if lines.exists() else ""


def _run_reframe(site: Site, command: list[str], folder: Path, watch: Watch) -> None:
    """Runs ReFrame until it ends. Raises JobError if there is no folder/report.json then."""
    # ReFrame's database is for its own sessions, by which a site compares its nights.
    # Absolute, because ReFrame runs in another folder.
    own = {"COLLFORGE_HOME": str(home()), "RFM_ENABLE_RESULTS_STORAGE": "no"}
    env = {**os.environ, **site.variables, **own}
    with (
        (folder / "reframe.out").open("w", encoding="utf-8") as out,
        _child(command, env, out.fileno()) as process,
    ):
        limit = math.inf if site.is_queued else time.monotonic() + watch.seconds
        try:
            while process.poll() is None:
                if math.isinf(limit) and any(folder.glob(f"stage/**/{launch_log.FILE}")):
                    limit = time.monotonic() + watch.seconds  # the wait in the queue does not count
                if time.monotonic() > limit:
                    raise JobError(f"took too long: {watch.what}")
                if watch.look:
                    watch.look(folder)
                time.sleep(0.25)
        except BaseException:
            (
                folder / launch_log.CANCELLED
            ).touch()  # for a job that was submitted just now: it ends at once
            raise
    if not (folder / "report.json").exists():
        words = (folder / "reframe.out").read_text(encoding="utf-8", errors="replace")
        tail = "\n".join(words.strip().splitlines()[-8:])
        raise JobError(f"ReFrame left no report (see {folder / 'reframe.out'}):\n{tail}")


def reframe_command(site: Site, job: Job, folder: Path, cases: Path, report: Path) -> list[str]:
    """The command line of ReFrame for a measuring job."""
    settings = {
        "cases": cases,
        "layout": job.layout,
        "samples": job.samples,
        "max_seconds": job.max_seconds,
        "seed": job.seed,
        "time_limit": f"{job.scheduler_limit}s",
        "verify_only": job.verify_only,
        "prune": job.prune,
        "costs": job.costs,
        "in_a_row": job.in_a_row,
        **({"drop_in_by": job.drop_in_by} if job.drop_in_by else {}),
        **({"environment": _words(job.variables)} if job.variables else {}),
    }
    return _reframe(site, MEASURE, settings, folder, report)


def _words(variables: Mapping[str, str]) -> str:
    return shlex.join(f"{name}={value}" for name, value in variables.items())


def _reframe(
    site: Site, check: Check, settings: Mapping[str, object], folder: Path, report: Path
) -> list[str]:
    # If this process is killed, ReFrame must end too, so that its job does not disturb the next tuner's.
    command = ["setpriv", "--pdeathsig", "TERM"] if shutil.which("setpriv") else []
    command += [sys.executable, "-c", _START, str(folder)]
    # Only one file, because loading all checks takes longer than ReFrame itself.
    name, _, _ = check.name.partition(" ")
    command += ["-C", str(site.config), "-c", str(check.file)]
    # ReFrame compares without blanks.
    command += ["--system", f"{site.system}:{site.mpi}", "-n", f"^{check.name.replace(' ', '')}"]
    command += ["--prefix", str(folder), "--report-file", str(report)]
    command += ["--exec-policy", "serial", *STRICT, "-r"]
    layout = settings.get("layout")
    if layout and site.is_allocated(str(layout)):
        settings = {**settings, "in_allocation": True}
    for variable, value in settings.items():
        command += ["-S", f"{name}.{variable}={value}"]
    return command


MEASURE = Check("MeasureCases", reframe_checks.CHECKS / "measure.py")

STRICT = ["--warn-as-error"] if sys.version_info >= (3, 10) else []
"""Options of the `reframe` command; Python 3.9 has ReFrame 4.9, which lacks this one."""

_START = (
    "import sys, tempfile; tempfile.tempdir = sys.argv.pop(1); sys.argv[0] = 'reframe'; "
    "from reframe.frontend.cli import main; sys.exit(main())"
)
"""Before ReFrame reads its settings, it logs to a temporary file, which it leaves; this names the folder."""


@contextmanager
def _child(
    command: list[str], env: Mapping[str, str], out: int
) -> Iterator[subprocess.Popen[bytes]]:
    """Starts a process in its own process group, which is ended when the block is left in any way."""
    process = subprocess.Popen(
        command,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        for number, patience in ((signal.SIGINT, 20.0), (signal.SIGKILL, 10.0)):
            if process.poll() is not None:
                break
            os.killpg(process.pid, number)
            try:
                process.wait(patience)
            except subprocess.TimeoutExpired:
                continue
