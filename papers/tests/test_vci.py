"""The probes of threads and interfaces (VCIs), their programs, and the program halo."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from conftest import Installation, Launch
from slurm_commands import own_cluster
from support import PREFIXES, execute, launch_local

from collforge import papers
from collforge.papers.figures import rows
from collforge.papers.probes import message_rate as probe
from collforge.papers.probes import mini_apps, progress
from collforge.papers.probes.rounds import Rounds, last_words
from collforge.papers.programs import applications, message_rate
from collforge.papers.programs.message_rate import MODES_OF
from collforge.toolchain import vcis
from collforge.toolchain.build import OPENMP_FLAGS
from collforge.tuner.run.launches import KILLED, Outcome

THREADS = {"OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "passive"}
NO_STREAMS = "this MPI library has no streams (MPIX_Stream_create)"
Probe = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def measured(built: Installation, collforge: Launch, tmp_path: Path) -> Probe:
    """Runs a probe on this machine; its rows."""

    def measure(*words: str) -> list[dict[str, Any]]:
        found, plot = tmp_path / "found.json", tmp_path / "found.svg"
        options = ["--mpi", built.library.name, "--system", "local", "--json", str(found)]
        done = collforge("probe", *words, *options, "--plot", str(plot), timeout=300)
        assert done.returncode == 0, done.stderr
        assert plot.read_text().startswith("<?xml")
        return json.loads(found.read_text())["rows"]  # type: ignore[no-any-return]

    return measure


# ---- settings and doubts -------------------------------------------------------------------------


def test_what_is_compared() -> None:
    """One interface, and enough that each window has its own, though it takes two."""
    one = message_rate.settings(2, 1)
    assert [(s.mode, s.call, s.vcis) for s in one] == [
        (mode, call, int(mode in ("ser_comm", "par_comm")))
        for call in ("isend", "put")
        for mode in MODES_OF[call]
    ]
    several = message_rate.settings(2, 64, ["isend"])
    found = [(s.vcis, s.interfaces, s.sharing) for s in several if s.mode == "par_comm"]
    assert found == [(4, "a VCI each", 1), (1, "one VCI", 2)]
    (few,) = {s.vcis for s in message_rate.settings(4, 2) if s.mode == "par_comm"}
    assert few == 1, "two interfaces are too few for one each"


def test_how_many_threads_share_an_interface() -> None:
    found = message_rate.settings(4, 64, ["isend"], sharing=(1, 2, 4, 8))
    assert [s.sharing for s in found if s.mode == "par_comm"] == [1, 2, 4]


def test_of_put_free_each_time_of_computing() -> None:
    found = message_rate.settings(2, 1, ["put", "put_free"], computes=(1, 100))
    assert [s.computes for s in found if s.mode == "par_comm"] == [0, 1, 100]
    assert found[-1].arguments([8])[-2:] == ["100", "8"]


def test_layouts_and_variables() -> None:
    everywhere, _, threads, streams = message_rate.settings(4, 1, ["isend"])
    assert (everywhere.layout, threads.layout) == ("2x4", "2x1x4")
    assert streams.variables["MPIR_CVAR_CH4_RESERVE_VCIS"] == "4"
    polled = message_rate.settings(4, 1, ["polled"])[-1]
    assert polled.layout == "2x1x5" and polled.variables["MPIR_CVAR_CH4_RESERVE_VCIS"] == "5"


@pytest.mark.parametrize(
    ("system", "layout", "codes", "doubt"),
    [
        ("local", "2x1", [0, 0], ""),
        ("emulated", "512x2", [0, 0], "more threads than cores: 1024 on"),
        ("local", "2x1x512", [0], "more threads than cores: 1024 on"),
        ("slurm", "512x2", [0], "more threads than cores: 1024 on"),
        ("a-site", "512x2", [0], ""),
        ("local", "2x1", [0, 3], "1 of 2 launches failed: no such window"),
        ("local", "2x1", [KILLED, 0], "1 of 2 launches failed: killed after 9 s"),
    ],
)
def test_doubts(system: str, layout: str, codes: Sequence[int], doubt: str) -> None:
    args = argparse.Namespace(system=system, config=None)
    outcomes = [Outcome(code, 9.0, "", "-----\nno such window\nhelp\n") for code in codes]
    library: Any = None
    assert Rounds(library, args, Path(), []).doubt(layout, outcomes).startswith(doubt)
    assert bool(doubt) == bool(Rounds(library, args, Path(), []).doubt(layout, outcomes))


def test_the_words_of_a_failed_program() -> None:
    said = Outcome(
        7, 1.0, "", "----\n[node1:01335] *** An error occurred in MPI_Win_create\nhelp\n"
    )
    assert last_words(said) == "An error occurred in MPI_Win_create"
    assert last_words(Outcome(7, 1.0, "", " \n---\n")) == "exit status 7"
    waits = "srun: Job 2 step creation temporarily disabled, retrying (Requested nodes are busy)\n"
    waits += "srun: Step created for job 2\n"
    assert last_words(Outcome(1, 1.0, "", f"{waits}error: no room")) == "error: no room"
    ends = "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.\n"
    assert last_words(Outcome(7, 1.0, "", ends + said.err)) == "An error occurred in MPI_Win_create"
    assert last_words(Outcome(7, 1.0, "", ends)) == ends.strip()


def test_a_program_that_is_killed_is_a_finding() -> None:
    assert [progress.ends(Outcome(code, 9.0, "", "")) for code in (0, KILLED)] == [1, 0]
    assert math.isnan(progress.ends(Outcome(3, 0.1, "", ""))), "it says nothing of progress"


def test_waiting_for_ever_says_nothing_where_shared_progress_does_not_help() -> None:
    own = progress.Row("get", 4, "own", (0, 0, 0), "")
    for ended, doubted in (((0, 0, 0), True), ((0, 1, 1), False)):
        twin = progress.Row("get", 4, "shared", ended, "")
        both = [twin, own]
        assert [bool(progress.unlike(row, both).doubt) for row in both] == [False, doubted]


def test_interfaces_of_a_library(built: Installation) -> None:
    """Debian's libraries have one interface; a program that requests more would abort in MPI_Init."""
    assert vcis.most_vcis(built.library) == 1
    assert vcis.thread_settings(built.library, 1) == {}
    assert vcis.thread_settings(built.library, 4) == {"COLLFORGE_THREAD_MULTIPLE": "always"}


# ---- the probes ----------------------------------------------------------------------------------


def test_message_rates(measured: Probe) -> None:
    """Of all calls and modes; a mode that the library lacks says so."""
    calls = ",".join(message_rate.CALLS)
    words = ["--calls", calls, "--sizes", "8,4096", "--launches", "1", "--layout", "2x3"]
    found = measured("message-rate", *words, "--pairs", "2", "--computes", "20")
    assert [(row["setting"]["call"], row["setting"]["mode"]) for row in found[::2]] == [
        (call, mode) for call in message_rate.CALLS for mode in MODES_OF[call]
    ]
    for row in rows.read({"rows": found}, ""):
        (rate,) = row.quantities["rates"]
        if row.keys["setting.mode"] == "streams":
            assert math.isnan(rate) and NO_STREAMS in row.doubt
        else:
            assert rate > 0
            assert not row.doubt or "more threads than cores" in row.doubt


@pytest.mark.slow
@pytest.mark.emulated
def test_a_target_that_computes(collforge: Launch, tmp_path: Path) -> None:
    """Between nodes puts need the software of the target, so the burst takes as long as it computes."""
    found = tmp_path / "found.json"
    words = ["--calls", "put_free", "--computes", "1,1000", "--sizes", "8", "--launches", "1"]
    words += ["--system", "emulated", "--layout", "2x1", "--json", str(found)]
    done = collforge("probe", "message-rate", "--mpi", "mpich", *words, timeout=300)
    assert done.returncode == 0, done.stderr
    found_rows = json.loads(found.read_text())["rows"]
    rates = {row["setting"]["computes"]: row["rates"][0] for row in found_rows}
    assert rates[1000] < 0.6 * rates[1]


def test_the_mini_applications(measured: Probe) -> None:
    """EBMS and BSPMM check their results, and the probe those of the stencils."""
    found = measured("mini-apps", "--launches", "1", "--layout", "2x2", "--sizes", "512")
    modes = ["everywhere", "ser_comm", "par_comm"]
    settings = [row["setting"] for row in found]
    assert [(s["app"], s["mode"], s["ordering"]) for s in settings] == [
        *[("stencil", mode, "") for mode in (modes[0], "funneled", *modes[1:], "streams")],
        *[("ebms", mode, "") for mode in modes],
        *[("bspmm", mode, order) for mode in modes for order in mini_apps.ORDERINGS],
    ]
    for row in found:
        assert set(row["parts"]) == set(mini_apps.PARTS[row["setting"]["app"]])
        if row["setting"]["mode"] == "streams":
            assert NO_STREAMS in row["doubt"]
        else:
            total = sum(samples[0] for samples in row["parts"].values())
            assert row["microseconds"] == [pytest.approx(total)] and total > 0


def test_programs_that_need_progress_on_all_interfaces(measured: Probe) -> None:
    found = measured("progress", "--launches", "1")
    assert [(row["program"], row["vcis"], row["ends"]) for row in found] == [
        ("ssend", 1, [1]),
        ("get", 1, [1]),
    ]


@pytest.mark.parametrize("program", ["ssend", "get"])
def test_without_shared_progress_messages_wait_for_ever(tmp_path: Path, program: str) -> None:
    """On one node, where a get is a copy."""
    binary = compiled(papers.PROGRAMS / "shared_progress.c", tmp_path)
    assert start([binary, program], {vcis.VARIABLE: "4"}, 20) == 0
    alone = start([binary, program], {vcis.VARIABLE: "4", **progress.OWN}, 8)
    assert (alone == 0) == (program == "get")


@pytest.mark.slow
def test_the_start_by_interfaces(measured: Probe) -> None:
    """Debian's libraries have one interface."""
    found = measured("vcis", "--launches", "2", "--layout", "2x1")
    assert [(row["call"], row["vcis"]) for row in found] == [("init", 1), ("finalize", 1)]
    assert all(len(row["seconds"]) == 2 and min(row["seconds"]) > 0 for row in found)


@pytest.mark.emulated
def test_in_a_queue(mpi: str, tmp_path: Path) -> None:
    """Two nodes of a Slurm cluster. Nothing fails but windows of Open MPI, which has none between nodes."""
    found = tmp_path / "found.json"
    with own_cluster() as cluster:
        for words in (
            ["message-rate", "--calls", "isend", "--pairs", "1,2", "--sizes", "8"],
            ["mini-apps", "--sizes", "512"],
            ["progress"],
            ["vcis"],
        ):
            options = ["--mpi", mpi, "--system", "slurm", "--launches", "1", "--json", str(found)]
            options += [] if words == ["progress"] else ["--layout", "2x2"]
            start = ["exec", "--", sys.executable, "-m", "collforge", "probe", *words, *options]
            code, said = cluster.run(*start)
            assert code == 0, said
            stored = json.loads(found.read_text())["rows"]
            doubts = {row["doubt"] for row in stored if "streams" not in str(row)}
            refused = {one for one in doubts if "An error occurred in MPI_Win_" in one}
            assert not any("failed" in one for one in doubts - refused), said
            assert bool(refused) <= (mpi == "openmpi"), said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["message-rate", "--pairs", "0"], "give numbers from 1 to 63"),
        (["message-rate", "--pairs", "1,x"], "give numbers from 1 to 63"),
        (["message-rate", "--sizes", "2MiB"], "at most 1048576 bytes"),
        (["message-rate", "--calls", "bsend"], "unknown call"),
        (["message-rate", "--layout", "1x4"], "messages need two nodes, e.g. 2x4"),
        (["mini-apps", "--layout", "1x2"], "give two nodes or more"),
        (["mini-apps", "--sizes", "4MiB"], "at most 1000000 bytes"),
        (["mini-apps", "--app", "life"], "unknown application"),
    ],
)
def test_what_cannot_be_measured(collforge: Launch, words: list[str], said: str) -> None:
    done = collforge("probe", *words, "--mpi", "mpich", "--system", "local")
    assert done.returncode == 2 and said in done.stderr
    assert "Traceback" not in done.stderr


def test_pairs_up_to_those_of_the_layout() -> None:
    args = argparse.Namespace(layout="2x6", system="local", pairs="all")
    assert probe.parse_pairs(args, ["isend"]) == [1, 2, 4, 6]
    assert probe.parse_pairs(args, ["polled"]) == [1, 2, 4, 5], "the receiver needs a core, too"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (papers.PROGRAMS / "message_rate.c", ["streams", "isend", "2", "0.01", "0", "8"]),
        (papers.KERNELS / "halo.c", ["streams", "24"]),
    ],
)
def test_streams(tmp_path: Path, source: Path, words: Sequence[str]) -> None:
    binary = compiled(source, tmp_path)
    assert start([binary, *words], {message_rate.STREAMS_VARIABLE: "8"}, 60) == 0


def compiled(source: Path, folder: Path) -> str:
    """By MPICH 5, which has several interfaces, and streams."""
    binary = str(folder / source.stem)
    mpicc = str(PREFIXES / "mpich5" / "bin" / "mpicc")
    done = execute([mpicc, *OPENMP_FLAGS, "-o", binary, str(source), "-lm"])
    assert done.returncode == 0, done.stderr
    return binary


def start(words: Sequence[str], variables: Mapping[str, str], seconds: int) -> int:
    """The code of two ranks under MPICH 5, that of timeout(1) if they take longer."""
    mpirun = str(PREFIXES / "mpich5" / "bin" / "mpirun")
    settings = [f"{name}={value}" for name, value in {**THREADS, **variables}.items()]
    return execute(
        ["env", *settings, "timeout", str(seconds), mpirun, "-n", "2", *words]
    ).returncode


# ---- the stencil ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def programs(built: Installation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(built.library.name)
    command = applications.compile_command(str(built.library.mpicc), "halo", folder)
    assert execute(command).returncode == 0
    return folder


@pytest.mark.parametrize("ranks", [1, 2, 4, 6])
@pytest.mark.parametrize("threads", [1, 6])
def test_halos_are_the_same_over_any_communicators(
    built: Installation, programs: Path, ranks: int, threads: int
) -> None:
    """And by processes in the place of threads; six workers of a node are two rows of three."""
    lines = []
    variables = {**THREADS, "OMP_NUM_THREADS": str(threads)}
    for way in ("serial", "parallel", "funneled"):
        command = [str(programs / "halo"), way, "24", "30"]
        done = launch_local(built.library.name, ranks, command, variables)
        lines += applications.printed("halo", done.stdout)
    workers = 6 if ranks == 1 else 2
    processes = [str(programs / "halo"), "everywhere", "24", "30", str(workers)]
    alone = {"OMP_NUM_THREADS": "1"}
    done = launch_local(built.library.name, workers * ranks, processes, alone)
    lines += applications.printed("halo", done.stdout)
    assert len(lines) == 4 and len({line.checksum for line in lines}) == 1
