"""The emulated cluster: the commands that build it, and real clusters where they may run."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from conftest import some
from support import assert_nothing_left, marked_processes, network_namespaces

from collforge.layout import from_name
from collforge.mpi_library import MpiLibrary
from collforge.reframe_checks.systems.emulated import (
    FLAVORS,
    RAIL_MODELS,
    TIMEOUT_EXIT_CODE,
    ClusterError,
    ClusterSpec,
    check,
    launch,
    network,
    preflight,
    run,
)
from collforge.toolchain import vcis
from collforge.toolchain.libraries import find

SECONDS = 40.0

RUNNER = """
import json, sys
from pathlib import Path
from collforge.reframe_checks.systems.emulated import ClusterSpec, run
from collforge.toolchain.libraries import find
mpi, command, options, timeout, cache = json.loads(sys.argv[1])
sys.exit(run(ClusterSpec(**options), find(mpi), command, timeout=timeout, cache_dir=Path(cache)))
"""

PROGRAM = r"""
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int rank, size, sum, shared_size;
    char host[64] = "";
    MPI_Comm shared;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &shared);
    MPI_Comm_size(shared, &shared_size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    gethostname(host, sizeof host);
    printf("rank %d %d %d %d %s\n", rank, size, sum, shared_size, host);
    fflush(stdout);
    if (argc > 1 && strcmp(argv[1], "kill") == 0 && rank == 5) {
        raise(SIGKILL);
    }
    if (argc > 1) {
        sleep(600);
    }
    MPI_Finalize();
    return 0;
}
"""


# --- the specification ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "fix"),
    [
        ({"layout": "251x1"}, "give 1 to 250 nodes"),
        ({"layout": "map:0.1.1.0"}, "--system local"),
        ({"rails": 0}, "give 1 to 16 rails"),
        ({"rails": 17}, "give 1 to 16 rails"),
        ({"rate": "100"}, "100mbit"),
        ({"rate": "fast"}, "100mbit"),
        ({"rate": "0mbit"}, "100mbit"),
        ({"rate": "1mbit burst 1"}, "100mbit"),
        ({"rail_model": "bonded"}, "give tied or hashed"),
    ],
)
def test_bad_value_is_an_error_that_names_the_fix(options: dict[str, object], fix: str) -> None:
    with pytest.raises(ClusterError, match=fix):
        ClusterSpec(**options)  # type: ignore[arg-type]


def test_sizes_of_a_spec() -> None:
    spec = ClusterSpec("3x2", rate="2.5Gbit")
    assert spec.ranks == 6
    assert spec.hosts == ("node0", "node1", "node2")
    assert spec.bits_per_second == 2.5e9


# --- the network's commands -----------------------------------------------------------------------


def devices_of(lines: list[str], word: str) -> list[str]:
    """The word after `word` in each line that has it."""
    return [words[words.index(word) + 1] for words in map(str.split, lines) if word in words]


@pytest.mark.parametrize("model", RAIL_MODELS)
def test_every_rail_is_shaped_at_both_ends_and_nothing_else(model: str) -> None:
    spec = ClusterSpec("3x2", rails=2, rail_model=model)
    assert devices_of(network.node_shaping(spec), "dev") == ["eth0", "eth1"]
    ports = {f"r{rail}n{node}" for rail in range(2) for node in range(3)}
    assert set(devices_of(network.switch_shaping(spec), "dev")) == ports
    for line in network.node_shaping(spec) + network.switch_shaping(spec):
        assert line.endswith("root tbf rate 100mbit burst 16kb latency 400ms")


def test_a_send_fits_into_the_burst_of_a_rail() -> None:
    """Otherwise the token bucket would cut it into packets, on the cores that the ranks need."""
    spec = ClusterSpec()
    (largest,) = map(int, set(devices_of(network.node_links(spec, 0), "gso_max_size")))
    (burst,) = {
        int(text.removesuffix("kb")) for text in devices_of(network.node_shaping(spec), "burst")
    }
    packets = -(-largest // 1448)
    assert largest + packets * 66 <= burst * 1024


def test_switch_has_a_port_for_every_cable() -> None:
    spec = ClusterSpec("3x2", rails=2)
    cables = [
        line for node in range(3) for line in network.node_links(spec, node) if "peer" in line
    ]
    assert all(line.endswith("netns 1") for line in cables)
    ports = [line for line in network.switch_links(spec) if "master" in line]
    assert sorted(devices_of(cables, "name")) == sorted(devices_of(ports, "set"))
    assert sorted(set(devices_of(ports, "master"))) == ["mgmt", "rail0", "rail1"]


def test_names_and_addresses_are_unique_and_fit() -> None:
    spec = ClusterSpec("250x2", rails=16, rail_model="hashed")
    lines = [line for node in range(spec.nodes) for line in network.node_links(spec, node)]
    addresses = [line.split()[2] for line in lines if line.startswith("address add")]
    assert len(addresses) == len(set(addresses)) == 250 * 18
    assert max(map(len, devices_of(lines, "name"))) <= 15  # the kernel's limit


def test_hashed_rails_route_to_every_other_node_over_all_rails() -> None:
    spec = ClusterSpec("3x2", rails=2, rail_model="hashed")
    routes = [line for line in network.node_links(spec, 1) if line.startswith("route")]
    assert routes == [
        f"route add 10.254.0.{n} src 10.254.0.2 "
        f"nexthop via 10.0.0.{n} dev eth0 nexthop via 10.1.0.{n} dev eth1"
        for n in (1, 3)
    ]
    assert network.node_sysctls(spec)["net/ipv4/fib_multipath_hash_policy"] == "1"
    assert network.rail_devices(spec) == ("bond", 1)


def test_tied_rails_have_no_routes() -> None:
    spec = ClusterSpec(rails=3)
    assert not [line for line in network.node_links(spec, 0) if "route" in line]
    assert network.rail_devices(spec) == ("eth", 3)


# --- the command line -----------------------------------------------------------------------------


def library(flavor: str) -> MpiLibrary:
    """An MPI library in its own prefix, under its own name."""
    version = {"openmpi": "Open MPI v4.1.4", "mpich": "MPICH Version: 4.0.2"}[flavor]
    prefix = Path("/opt", flavor, "bin")
    return MpiLibrary("mine", prefix / "mpicc", prefix / "mpirun", version, True)


def test_mpirun_places_ranks_consecutively() -> None:
    spec = ClusterSpec("2x3")
    openmpi = launch.mpirun(spec, library("openmpi"), Path("agent"))
    mpich = launch.mpirun(spec, library("mpich"), Path("agent"))
    assert openmpi[0] == "/opt/openmpi/bin/mpirun" and mpich[0] == "/opt/mpich/bin/mpirun"
    assert "node0:3,node1:3" in openmpi and "node0:3,node1:3" in mpich
    assert openmpi[-2:] == ["-np", "6"] and mpich[-2:] == ["-n", "6"]
    fifth = replace(library("openmpi"), version="Open MPI v5.0.11, package: x")
    assert "plm_rsh_agent" in openmpi
    assert "plm_ssh_agent" in launch.mpirun(spec, fifth, Path("agent"))


def test_mpirun_places_ranks_on_unequal_nodes_and_in_turn() -> None:
    for mpi in ("openmpi", "mpich"):
        assert "node0:3,node1:1" in launch.mpirun(ClusterSpec("3+1"), library(mpi), Path("agent"))
    in_turn = ClusterSpec("cyclic:2x3")
    openmpi = launch.mpirun(in_turn, library("openmpi"), Path("agent"))
    mpich = launch.mpirun(in_turn, library("mpich"), Path("agent"))
    assert openmpi[openmpi.index("--map-by") + 1] == "node" and "node0:3,node1:3" in openmpi
    assert "node0:1,node1:1" in mpich and mpich[-2:] == ["-n", "6"]


def test_preloads_reach_the_ranks_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "build_mpich_progress", lambda _: Path("/progress.so"))
    env = {"LD_PRELOAD": "/lib/a.so", "COLLFORGE_X": "1", "OMPI_MCA_btl": "tcp,self"}
    for mpi, preload in (("openmpi", "/lib/a.so"), ("mpich", "/progress.so:/lib/a.so")):
        plan = launch.make_plan(ClusterSpec(), library(mpi), ["./a.out", "x y"], env, tmp_path)
        assert plan.command[-4:] == ["env", f"LD_PRELOAD={preload}", "./a.out", "x y"]
        assert "LD_PRELOAD" not in plan.environment
        assert plan.environment["COLLFORGE_X"] == "1"
        assert plan.environment["OMPI_MCA_btl"] == "tcp,self"  # the caller's value takes precedence


def test_several_interfaces_go_through_ofi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "build_mpich_progress", lambda _: Path("/progress.so"))
    for env, expected in (
        ({}, None),
        ({vcis.VARIABLE: "3"}, "ofi"),
        ({vcis.VARIABLE: "3", "MPIR_CVAR_CH4_NETMOD": "ucx"}, "ucx"),
    ):
        plan = launch.make_plan(ClusterSpec(), library("mpich"), ["true"], env, tmp_path)
        assert plan.environment.get("MPIR_CVAR_CH4_NETMOD") == expected
    fifth = replace(library("mpich"), version="MPICH Version: 5.0.2")
    plan = launch.make_plan(ClusterSpec(), fifth, ["true"], {}, tmp_path)
    assert plan.environment["MPIR_CVAR_CH4_NETMOD"] == "ofi"


# --- missing requirements -------------------------------------------------------------------------


def test_missing_tool_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda tool, **_: None if tool == "tc" else tool)
    with pytest.raises(ClusterError, match="not found: tc; run `apt-get install iproute2`"):
        check()


def test_missing_privilege_offers_the_local_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda tool, **_: tool)
    monkeypatch.setattr(preflight, "namespace_command", lambda: ["false"])
    with pytest.raises(ClusterError, match=r"not allowed to make namespaces.*--system local"):
        check()


def test_kernel_without_shaping_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda tool, **_: tool)
    monkeypatch.setattr(preflight, "_probe", lambda words: None if words == ["true"] else "no tbf")
    with pytest.raises(ClusterError, match=r"cannot limit the rate.*no tbf.*modprobe sch_tbf"):
        check()


def test_unknown_library_is_an_error() -> None:
    with pytest.raises(ClusterError, match="none of openmpi or mpich"):
        check("other")


def test_directory_with_spaces_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="XDG_CACHE_HOME"):
        launch.make_plan(ClusterSpec(), library("openmpi"), ["true"], {}, tmp_path / "a b")


# --- real clusters --------------------------------------------------------------------------------


@dataclass
class Runner:
    """A process that runs a cluster, with methods to find all its processes and namespaces."""

    mpi: str
    command: list[str]
    cache: Path
    options: dict[str, object] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    timeout: float = SECONDS
    mark: str = field(default_factory=lambda: f"CLUSTER_TEST={uuid.uuid4().hex}")

    def __post_init__(self) -> None:
        name, value = self.mark.split("=")
        arguments = [self.mpi, self.command, self.options, self.timeout, str(self.cache)]
        # A shell starts background processes with SIGINT ignored, which child processes inherit.
        self.process = subprocess.Popen(
            ["env", "--default-signal=INT", sys.executable, "-c", RUNNER, json.dumps(arguments)],
            env={**os.environ, **self.env, name: value},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def finish(self) -> tuple[int, str]:
        """Waits for the end; returns exit code and output."""
        output, _ = self.process.communicate(timeout=SECONDS + 20)
        return self.process.returncode, output

    def await_ranks(self, number: int) -> None:
        """Returns when `number` ranks have reported that they run."""
        assert self.process.stdout is not None
        seen = 0
        while seen < number:
            line = self.process.stdout.readline()
            assert line, "ended before all ranks ran"
            seen += line.startswith("rank")

    def processes(self) -> list[Path]:
        """The processes of the cluster, including the runner."""
        return marked_processes(self.mark)

    def namespaces(self) -> set[str]:
        """The network namespaces of the cluster."""
        return network_namespaces(self.processes())

    def assert_nothing_left(self, namespaces: set[str] | None = None) -> None:
        """Asserts that no process and none of `namespaces` exist."""
        assert_nothing_left(self.mark, namespaces or set())


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(params=FLAVORS)
def mpi(request: pytest.FixtureRequest) -> Iterator[str]:
    name: str = request.param
    try:
        check(name)
    except ClusterError as error:
        pytest.skip(f"no emulated cluster here: {error}")
    if shutil.which(f"mpicc.{name}") is None:
        pytest.skip(f"mpicc.{name} is not installed")
    yield name


@pytest.fixture
def program(mpi: str, cache: Path) -> str:
    binary = cache / f"program.{mpi}"
    if not binary.exists():
        source = cache / "program.c"
        source.write_text(PROGRAM, encoding="utf-8")
        build = [f"mpicc.{mpi}", str(source), "-o", str(binary)]
        subprocess.run(build, check=True, timeout=SECONDS)
    return str(binary)


@pytest.mark.either
@pytest.mark.emulated
@pytest.mark.parametrize("model", some(RAIL_MODELS))
def test_ranks_are_where_they_belong(mpi: str, program: str, cache: Path, model: str) -> None:
    runner = Runner(mpi, [program], cache, {"rail_model": model})
    code, output = runner.finish()
    assert code == 0, output
    ranks = sorted(line for line in output.splitlines() if line.startswith("rank"))
    assert ranks == [f"rank {rank} 8 28 2 node{rank // 2}" for rank in range(8)]
    runner.assert_nothing_left()


@pytest.mark.either
@pytest.mark.emulated
@pytest.mark.parametrize("layout", some(["3+1", "1+2+1", "cyclic:2x2", "cyclic:3x2"]))
def test_nodes_of_unequal_size_and_ranks_in_turn(
    mpi: str, program: str, cache: Path, layout: str
) -> None:
    runner = Runner(mpi, [program], cache, {"layout": layout})
    code, output = runner.finish()
    assert code == 0, output
    at = from_name(layout)
    found = sorted(line.split() for line in output.splitlines() if line.startswith("rank"))
    got = [(words[1], words[2], words[4], words[5]) for words in found]
    assert got == [
        (str(rank), str(at.size), str(at.node_sizes[node]), f"node{node}")
        for rank, node in enumerate(at.node_of)
    ]
    runner.assert_nothing_left()


@pytest.mark.wide
@pytest.mark.emulated
def test_variables_and_private_directories_of_a_rank(mpi: str, cache: Path) -> None:
    script = (
        'touch /dev/shm/$(hostname) "$TMPDIR/$(hostname)";'
        'echo "rank $(ls -d /dev/shm/node*) $(cd "$TMPDIR"; ls -d node*) $PWD'
        " $COLLFORGE_X,$OMP_X,$OMPI_MCA_x_y,$MPIR_CVAR_X,${LD_PRELOAD##*:}"
        ' $UCX_NET_DEVICES $OMPI_MCA_btl_tcp_if_include $FI_TCP_IFACE"'
    )
    env = {"COLLFORGE_X": "1 '2", "OMP_X": "3", "OMPI_MCA_x_y": "4", "MPIR_CVAR_X": "5"}
    env["LD_PRELOAD"] = "libm.so.6"
    runner = Runner(mpi, ["sh", "-c", script], cache, {"layout": "2x2"}, env)
    code, output = runner.finish()
    assert code == 0, output
    ranks = sorted(line for line in output.splitlines() if line.startswith("rank"))
    got = "1 '2,3,4,5,libm.so.6"
    assert ranks == [
        f"rank /dev/shm/node{node} node{node} {Path.cwd()} {got} eth{rail} eth{rail} eth{rail}"
        for node in (0, 1)
        for rail in (0, 1)
    ]
    assert not list(Path("/dev/shm").glob("node[01]"))


@pytest.mark.wide
@pytest.mark.emulated
def test_exit_code_is_passed_on(mpi: str, cache: Path) -> None:
    runner = Runner(mpi, ["sh", "-c", "exit 3"], cache, {"layout": "2x2"})
    code, output = runner.finish()
    assert code == 3, output
    runner.assert_nothing_left()


@pytest.mark.wide
@pytest.mark.emulated
def test_killed_rank_ends_the_run(mpi: str, program: str, cache: Path) -> None:
    runner = Runner(mpi, [program, "kill"], cache)
    code, output = runner.finish()
    assert code not in (0, TIMEOUT_EXIT_CODE), output
    runner.assert_nothing_left()


@pytest.mark.either
@pytest.mark.emulated
@pytest.mark.parametrize("number", some([signal.SIGKILL, signal.SIGINT, signal.SIGTERM]))
def test_signal_to_the_runner_leaves_nothing(
    mpi: str, program: str, cache: Path, number: signal.Signals
) -> None:
    runner = Runner(mpi, [program, "wait"], cache)
    runner.await_ranks(8)
    namespaces = runner.namespaces()
    assert len(namespaces) == 5  # the switch's and four nodes'
    runner.process.send_signal(number)
    code, output = runner.finish()
    assert code == -number, output
    runner.assert_nothing_left(namespaces)


@pytest.mark.wide
@pytest.mark.emulated
def test_killed_mpirun_leaves_nothing(mpi: str, program: str, cache: Path) -> None:
    runner = Runner(mpi, [program, "wait"], cache)
    runner.await_ranks(8)
    words = f"{find(mpi).mpirun}\0"
    [mpirun] = [path for path in runner.processes() if cmdline(path).startswith(words)]
    os.kill(int(mpirun.name), signal.SIGKILL)
    code, output = runner.finish()
    assert code == 128 + signal.SIGKILL, output
    runner.assert_nothing_left()


def cmdline(process: Path) -> str:
    try:
        return (process / "cmdline").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


@pytest.mark.wide
@pytest.mark.emulated
def test_two_clusters_at_once(mpi: str, program: str, cache: Path) -> None:
    runners = [Runner(mpi, [program, "wait"], cache, {"layout": "2x2"}) for _ in range(2)]
    for runner in runners:
        runner.await_ranks(4)
    assert not runners[0].namespaces() & runners[1].namespaces()
    runners[0].process.kill()
    runners[0].finish()
    runners[0].assert_nothing_left()
    assert len(runners[1].namespaces()) == 3
    runners[1].process.kill()
    runners[1].finish()
    runners[1].assert_nothing_left()


@pytest.mark.wide
@pytest.mark.emulated
def test_time_limit(mpi: str, program: str, cache: Path) -> None:
    runner = Runner(mpi, [program, "wait"], cache, {"layout": "2x2"}, timeout=2.5)
    code, output = runner.finish()
    assert code == TIMEOUT_EXIT_CODE
    assert "the time limit of 2.5 s is over" in output
    runner.assert_nothing_left()


@pytest.mark.either
@pytest.mark.emulated
def test_missing_command_is_an_error(mpi: str, cache: Path) -> None:
    with pytest.raises(ClusterError, match=r"no such command: \./missing"):
        run(ClusterSpec(), find(mpi), ["./missing"], cache_dir=cache)
