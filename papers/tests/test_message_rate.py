"""The probe of message rates and its ReFrame check; the MPI+OpenMP program `halo`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import Installation, Launch
from support import execute, launch_local
from test_reframe import run_checks

from collforge import papers
from collforge.papers.probes import message_rate as probe
from collforge.papers.probes.message_rate import Rate
from collforge.papers.programs import applications, message_rate
from collforge.papers.programs.message_rate import CALLS, MODES, SIZES, Setting
from collforge.toolchain import vcis

THREADS = {"OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "passive"}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("call", CALLS)
def test_the_probe(built: Installation, tmp_path: Path, mode: str, call: str) -> None:
    program = tmp_path / "message_rate"
    command = message_rate.compile_command(str(built.library.mpicc), program)
    assert execute(command).returncode == 0
    setting = Setting(mode, call, 2)
    words = [str(program), *setting.arguments([8, 4096], 0.02)]
    done = launch_local(built.library.name, setting.ranks, words, THREADS)
    assert done.returncode == 0
    rates = message_rate.read(done.stdout)
    assert list(rates) == [8, 4096] and min(rates.values()) > 0


def test_what_is_compared() -> None:
    one = message_rate.settings(2, 1)
    assert one == [Setting(mode, call, 2) for call in CALLS for mode in MODES]
    several = message_rate.settings(2, 64)
    assert {setting.vcis for setting in several if setting.mode != "everywhere"} == {1, 2, 4}
    assert Setting("everywhere", "put", 2) in several


def test_the_gain_is_that_of_the_best_number_of_interfaces() -> None:
    rates = [
        Rate(Setting("par_comm", "isend", 2, number), 8, rate, rate, rate)
        for number, rate in ((1, 1e6), (2, 3e6), (4, 2e6))
    ]
    assert probe.gain(rates, 8) == 3
    assert probe.gain(rates[1:], 8) == 1
    assert probe.gain(rates, 64) == 1


def test_interfaces_of_a_library(built: Installation) -> None:
    """Debian's libraries have one interface; a program that requests more would abort in MPI_Init."""
    assert vcis.most_vcis(built.library) == 1
    assert vcis.thread_settings(built.library, 1) == {}
    assert vcis.thread_settings(built.library, 4) == {"COLLFORGE_THREAD_MULTIPLE": "always"}


@pytest.fixture(scope="module")
def programs(built: Installation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(built.library.name)
    command = applications.compile_command(str(built.library.mpicc), "halo", folder)
    assert execute(command).returncode == 0
    return folder


@pytest.mark.parametrize("ranks", [1, 2, 4, 6])
def test_halos_are_the_same_over_any_communicators(
    built: Installation, programs: Path, ranks: int
) -> None:
    lines = []
    for way in ("serial", "parallel", "funneled"):
        command = [str(programs / "halo"), way, "24", "30"]
        done = launch_local(built.library.name, ranks, command, THREADS)
        lines += applications.printed("halo", done.stdout)
    processes = [str(programs / "halo"), "everywhere", "24", "30", "2"]
    done = launch_local(built.library.name, 2 * ranks, processes, {"OMP_NUM_THREADS": "1"})
    if ranks in (1, 2):  # as many rows of ranks as MPI_Dims_create makes of the threaded ones
        lines += applications.printed("halo", done.stdout)
    assert len(lines) == 3 + (ranks in (1, 2)) and len({line.checksum for line in lines}) == 1


def test_the_checks(tmp_path: Path, mpi: str) -> None:
    session = run_checks(
        tmp_path, f"local:{mpi}", "^MessageRate", checks=papers.CHECKS, seconds=0.01
    )
    assert session.code == 0, session.said
    assert len(session.tests) == 2 * len(MODES) * len(CALLS)
    passed = [test for test in session.tests if test["result"] == "pass"]
    assert len(passed) == len(MODES) * len(
        CALLS
    )  # with one interface there are no further settings
    assert all(len(test["perfvalues"]) == len(SIZES) for test in passed)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--pairs", "0"], "give numbers from 1 to 64"),
        (["--pairs", "1,x"], "give numbers from 1 to 64"),
        (["--sizes", "2MiB"], "at most 1048576 bytes"),
    ],
)
def test_what_cannot_be_measured(collforge: Launch, words: list[str], said: str) -> None:
    done = collforge("probe", "message-rate", "--mpi", "mpich", *words)
    assert done.returncode == 2 and said in done.stderr


@pytest.mark.slow
@pytest.mark.emulated
def test_over_pairs_between_nodes(collforge: Launch, mpi: str, tmp_path: Path) -> None:
    """One size: the picture is over pairs."""
    plot = tmp_path / "rates.svg"
    words = ["--system", "emulated", "--pairs", "1,2", "--sizes", "8", "--launches", "1"]
    done = collforge("probe", "message-rate", "--mpi", mpi, *words, "--plot", str(plot))
    assert done.returncode == 0, done.stderr
    assert "everywhere, 2 pairs" in done.stdout and "<!-- pairs -->" in plot.read_text()


@pytest.mark.slow
def test_targets_that_compute(collforge: Launch, mpi: str, tmp_path: Path) -> None:
    """They free their windows after 1 ms."""
    found = tmp_path / "rates.json"
    words = ["--calls", "put,put@1", "--pairs", "2", "--sizes", "8", "--launches", "1"]
    done = collforge("probe", "message-rate", "--mpi", mpi, *words, "--json", str(found))
    assert done.returncode == 0, done.stderr
    rows = json.loads(found.read_text())["rows"]
    assert [(row["setting"]["call"], row["setting"]["mode"]) for row in rows] == [
        (call, mode) for call in ("put", "put@1") for mode in MODES
    ]
    for waits, frees in zip(rows[:3], rows[3:]):
        assert frees["over_waiting"] == pytest.approx(frees["rate"] / waits["rate"])
        assert waits["over_waiting"] == 1


@pytest.mark.slow
def test_the_command(collforge: Launch, mpi: str, tmp_path: Path) -> None:
    plot = tmp_path / "rates.svg"
    done = collforge("probe", "message-rate", "--mpi", mpi, "--launches", "1", "--plot", str(plot))
    assert done.returncode == 0
    assert "par_comm" in done.stdout and "it has one interface" in done.stdout
    assert plot.read_text().startswith("<?xml")
