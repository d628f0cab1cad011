"""Message rates of threads (Zambre et al., 2020, section 5)."""

from __future__ import annotations

import shlex
from pathlib import Path

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import (
    fixture,
    parameter,
    run_after,
    run_before,
    sanity_function,
    variable,
)
from reframe.core.exceptions import SanityError

from collforge.papers.programs import message_rate
from collforge.papers.programs.message_rate import CALLS, MODES, SIZES, Setting
from collforge.reframe_checks.driver_check import BuildPrograms, mpi_environments, mpi_name
from collforge.toolchain import libraries, vcis


class BuildProbe(BuildPrograms):
    """Builds the probe."""

    def compile_commands(self, mpicc: str, out: Path) -> list[list[str]]:
        return [message_rate.compile_command(mpicc, out / "message_rate")]


@rfm.simple_test
class MessageRate(rfm.RunOnlyRegressionTest):
    """Messages per second of all pairs of threads, or of processes, between two nodes."""

    mode = parameter(MODES, loggable=True)
    call = parameter(CALLS, loggable=True)
    vcis = parameter([1, 4], loggable=True)

    pairs = variable(int, value=2)
    """Threads of a rank, or pairs of processes."""

    seconds = variable(float, value=message_rate.SECONDS)
    """Approximate seconds of measuring per size."""

    time_limit = "10m"
    sourcesdir = None
    probe = fixture(BuildProbe, scope="environment")

    @run_after("init")
    def select_environments(self) -> None:
        self.valid_systems = ["*"]
        self.valid_prog_environs = mpi_environments()

    @run_before("run")
    def set_command(self) -> None:
        library = libraries.find(mpi_name(self.current_environ))
        most = vcis.most_vcis(library)
        self.skip_if(self.vcis > most, f"{library.name} starts with {most} interface")
        self.skip_if(self.mode == "everywhere" and self.vcis > 1, "processes have one each")
        setting = Setting(self.mode, self.call, self.pairs, self.vcis if most > 1 else 0)
        self.num_tasks = setting.ranks
        self.num_tasks_per_node = setting.ranks // 2
        self.num_cpus_per_task = setting.threads
        self.env_vars.update(setting.variables)
        self.executable = shlex.quote(str(Path(self.probe.stagedir, "message_rate")))
        self.executable_opts = setting.arguments(seconds=self.seconds)

    def rates(self) -> dict[int, float]:
        """The probe's output: bytes -> messages per second."""
        path = Path(self.stagedir, str(self.job.stdout))
        try:
            return message_rate.read(path.read_text(encoding="utf-8", errors="replace"))
        except ValueError as error:
            raise SanityError(f"the probe printed no rates: {error}") from error

    @sanity_function
    def check_rates(self) -> bool:
        if sorted(self.rates()) != sorted(SIZES) or min(self.rates().values()) <= 0:
            raise SanityError(f"the probe printed the rates {self.rates()}")
        return True

    @run_before("performance")
    def set_performance(self) -> None:
        for nbytes, rate in self.rates().items():
            self.perf_variables[f"rate_{nbytes}"] = sn.make_performance_function(
                sn.defer(rate), "messages/s"
            )
