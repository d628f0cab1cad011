"""The kernels of docs/papers.md: their versions agree on any placement, and their results are right."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from conftest import Installation, Launch
from slurm_commands import own_cluster
from support import execute, launch_local

from collforge.errors import CollforgeError
from collforge.papers.probes import kernels as probe
from collforge.papers.programs import kernels
from collforge.papers.programs.kernels import KERNELS, Line, versions
from collforge.reframe_checks.launches import Outcome

SECONDS = 60
RANKS = 4
NODES = ("2", "3,1", "map:0,1,0,1", "4")
# Sizes and iterations; the ranks of poisson get different numbers of rows.
ARGUMENTS = {"summa": ("48", "3"), "poisson": ("39", "60"), "bpmf": ("400", "4")}

each_kernel = pytest.mark.parametrize("kernel", KERNELS)


@dataclass(frozen=True)
class Programs:
    """All versions of all kernels, built for one MPI library."""

    mpi: str
    folder: Path
    known: dict[tuple[str, int], Line] = field(default_factory=dict)

    def run(
        self,
        kernel: str,
        version: str,
        ranks: int,
        *arguments: str,
        variables: Mapping[str, str] | None = None,
    ) -> Line:
        program = str(self.folder / f"{kernel}_{version}")
        done = launch_local(self.mpi, ranks, [program, *arguments], variables, SECONDS)
        assert done.returncode == 0, f"{program} {' '.join(arguments)}: {done.stderr}"
        (line,) = kernels.printed(kernel, done.stdout)
        assert (line.version, line.ranks) == (version, ranks)
        return line

    def plain(self, kernel: str, ranks: int = RANKS) -> Line:
        """The output of the version with MPI only, which is run once."""
        key = kernel, ranks
        if key not in self.known:
            self.known[key] = self.run(kernel, "mpi", ranks, *ARGUMENTS[kernel])
        return self.known[key]

    def hybrid(self, kernel: str, ranks: int, nodes: str) -> Line:
        variables = {"COLLFORGE_NODE_MAP": nodes}
        return self.run(kernel, "hybrid", ranks, *ARGUMENTS[kernel], variables=variables)


@pytest.fixture(scope="module")
def programs(built: Installation, tmp_path_factory: pytest.TempPathFactory) -> Programs:
    folder = tmp_path_factory.mktemp(built.library.name)
    for kernel in KERNELS:
        for version in versions(kernel):
            command = kernels.compile_command(
                str(built.library.mpicc), kernel, version, folder, built.built.library_path
            )
            assert execute(command).returncode == 0
    return Programs(built.library.name, folder)


def test_sizes_of_the_paper() -> None:
    sizes = {k: [kernels.paper_size(k, 16 * nodes, nodes) for nodes in (1, 4, 16)] for k in KERNELS}
    assert sizes == {"summa": [1024, 2048, 4096], "poisson": [256, 512, 1024], "bpmf": [0, 0, 0]}
    assert [kernels.paper_size("summa", ranks, 1) for ranks in (1, 2, 4, 6)] == [256, 512, 512, 768]


@each_kernel
@pytest.mark.parametrize("nodes", NODES)
def test_one_copy_per_node_makes_no_difference(programs: Programs, kernel: str, nodes: str) -> None:
    hybrid = programs.hybrid(kernel, RANKS, nodes)
    assert kernels.agree([programs.plain(kernel), hybrid])


@pytest.mark.parametrize("nodes", NODES)
def test_a_hybrid_allreduce_alone_makes_no_difference(programs: Programs, nodes: str) -> None:
    variables = {"COLLFORGE_NODE_MAP": nodes}
    words = ARGUMENTS["poisson"]
    one = programs.run("poisson", "allreduce", RANKS, *words, variables=variables)
    assert kernels.agree([programs.plain("poisson"), one])


@each_kernel
def test_threads_make_no_difference(programs: Programs, kernel: str) -> None:
    threads = {"OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "passive"}
    openmp = programs.run(kernel, "openmp", 2, *ARGUMENTS[kernel], variables=threads)
    assert kernels.agree([programs.plain(kernel), openmp])


@pytest.mark.parametrize(("ranks", "nodes"), [(6, "2"), (6, "map:0,1,2,1,0,2"), (8, "2")])
def test_grids_that_are_not_square(programs: Programs, ranks: int, nodes: str) -> None:
    wide = programs.plain("summa", ranks)
    assert kernels.agree([programs.plain("summa"), wide, programs.hybrid("summa", ranks, nodes)])


@each_kernel
def test_a_problem_that_cannot_be_cut_is_an_error(programs: Programs, kernel: str) -> None:
    program = str(programs.folder / f"{kernel}_hybrid")
    done = launch_local(programs.mpi, RANKS, [program, "7"], timeout=SECONDS)
    assert done.returncode == 2


# ---- right results -------------------------------------------------------------------------------


def mix(x: int) -> int:
    """splitmix64, as in kernel.h."""
    x = (x + 0x9E3779B97F4A7C15) % 2**64
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) % 2**64
    return x ^ (x >> 31)


def draw(seed: int, i: int, j: int) -> float:
    return float((mix((mix((mix(seed) + i) % 2**64) + j) % 2**64) >> 11) / 2**53)


def test_the_product_is_right(programs: Programs) -> None:
    n = 12
    each = range(n)
    a, b, weight = ([[draw(seed, i, j) for j in each] for i in each] for seed in range(3))
    product = [[sum(a[i][k] * b[k][j] for k in each) for j in each] for i in each]
    expected = sum(2 * weight[i][j] * product[i][j] for i in each for j in each)
    found = programs.run("summa", "hybrid", RANKS, str(n), "2").checksum
    assert math.isclose(found, expected, rel_tol=kernels.TOLERANCE)


def test_the_solution_is_right(programs: Programs) -> None:
    """After convergence, each point is the mean of its neighbours plus its source term."""
    n = 10
    inner = range(1, n + 1)
    u = [[0.0] * (n + 2) for _ in range(n + 2)]
    source = [[draw(0, i, j) / n / n for j in range(n + 1)] for i in range(n + 1)]
    for _ in range(1000):
        for i in inner:
            for j in inner:
                beside = u[i - 1][j] + u[i + 1][j] + u[i][j - 1] + u[i][j + 1]
                u[i][j] = 0.25 * (beside + source[i][j])
    expected = sum(draw(1, i, j) * u[i][j] for i in inner for j in inner)
    found = programs.run("poisson", "hybrid", RANKS, str(n), "10000").checksum
    assert math.isclose(found, expected, rel_tol=kernels.TOLERANCE)


# ---- lines of code, and the probe ----------------------------------------------------------------


@each_kernel
def test_sharing_takes_few_lines(kernel: str) -> None:
    mpi, hybrid = (kernels.source(kernel, version) for version in ("mpi", "hybrid"))
    assert 0 < kernels.added_lines(mpi, hybrid) <= kernels.MOST_ADDED


def test_comments_and_blank_lines_do_not_count(tmp_path: Path) -> None:
    before, after = tmp_path / "before.c", tmp_path / "after.c"
    before.write_text("/* one\n * comment */\nint a; /* and\n more */\n\nint b;\n")
    after.write_text("int a;\n// another\nint c; // here\nint d;\nint b;\n\n/**/\n")
    assert kernels.code_lines(before) == ["int a;", "int b;"]
    assert kernels.added_lines(before, after) == 2
    assert kernels.added_lines(after, before) == 0


@pytest.mark.parametrize(("sums", "alike"), [((1, 1 + 1e-12), True), ((1, 1 + 1e-6), False)])
def test_checksums_that_differ_are_found(sums: tuple[float, ...], alike: bool) -> None:
    assert kernels.agree(Line("mpi", 4, 0.1, 0.0, one) for one in sums) == alike
    assert not kernels.agree([Line("mpi", 4, 0.1, 0.0, math.nan)])


@pytest.mark.parametrize(
    ("kernel", "ranks", "nodes", "wanted", "size"),
    [
        ("summa", 4, 2, 0, 480),
        ("bpmf", 8, 4, 0, 8000),
        ("bpmf", 4, 3, 10, 12),
        ("poisson", 4, 3, 7, 7),
    ],
)
def test_sizes_that_all_versions_can_cut(
    kernel: str, ranks: int, nodes: int, wanted: int, size: int
) -> None:
    assert kernels.problem_size(kernel, ranks, nodes, wanted) == size


def test_a_row_has_one_number_a_launch() -> None:
    factors = {"mpi": 1.0, "hybrid": 0.5, "openmp": 2.0}
    lines = {
        version: [Line(version, 4, factor * seconds, 0.25, 1.0) for seconds in (1.0, 2.0)]
        for version, factor in factors.items()
    }
    rows = {row.version: row for row in probe.timings("summa", 48, lines)}
    hybrid = rows["hybrid"]
    assert (hybrid.seconds, hybrid.collectives) == ((0.5, 1.0), (0.25, 0.25))
    assert hybrid.computation == (0.25, 0.75)
    assert probe.over(rows["mpi"].seconds, hybrid.seconds)[0] == pytest.approx(0.5)
    assert probe.over((1.0,), (0.5,)) == (0.5, 0.5, 0.5), "one launch has no interval"
    lines["hybrid"][1] = replace(lines["hybrid"][1], checksum=1.1)
    with pytest.raises(CollforgeError, match="checksums differ"):
        probe.timings("summa", 48, lines)
    with pytest.raises(CollforgeError, match="exit code 3"):
        probe.line_of("summa", Outcome(3, 1.0, "summa mpi 4 1.0 0.5 1.0\n", ""))


def words_of(path: Path, system: str) -> list[str]:
    words = ["--system", system, "--layout", "2x2", "--size", "48", "--launches", "1"]
    return [*words, "--kernel", "poisson,summa", "--json", str(path)]


def check_rows(path: Path) -> None:
    rows = json.loads(path.read_text())["rows"]
    assert [(row["kernel"], row["version"], row["processes"]) for row in rows] == [
        (kernel, version, 2 if version == "openmp" else 4)
        for kernel in ("poisson", "summa")
        for version in versions(kernel)
    ]
    for row in rows:
        assert min(row["seconds"] + row["computation"] + row["collectives"]) > 0


@pytest.mark.slow
def test_the_probe(collforge: Launch, mpi: str, tmp_path: Path) -> None:
    path = tmp_path / "kernels.json"
    done = collforge("probe", "kernels", "--mpi", mpi, *words_of(path, "local"))
    assert done.returncode == 0, done.stderr
    check_rows(path)


@pytest.mark.either
@pytest.mark.emulated
def test_the_probes_in_a_queue(built: Installation, tmp_path: Path) -> None:
    """Versions on all ranks and on one of each node, as steps of one job; and the start of programs."""
    mpi, command = built.library.name, [sys.executable, "-m", "collforge", "probe"]
    with own_cluster() as cluster:
        for system in ("slurm", "slurm-mpirun"):
            path = tmp_path / f"{system}.json"
            words = [*command, "kernels", "--mpi", mpi, *words_of(path, system)]
            code, said = cluster.run("exec", "--", *words)
            assert code == 0, said
            check_rows(path)
        path = tmp_path / "startup.json"
        words = ["--system", "slurm", "--layout", "1x2,2x2", "--launches", "1", "--json", str(path)]
        code, said = cluster.run("exec", "--", *command, "startup", "--mpi", mpi, *words)
        assert code == 0, said
    rows = json.loads(path.read_text())["rows"]
    assert {(row["layout"], row["cores"]) for row in rows} == {("1x2", 2), ("2x2", 4)}
    assert min(min(row["costs"]) for row in rows) > 0
