"""The kernels of docs/papers.md: their versions agree on any placement, and their results are right."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from conftest import Installation, Launch
from support import execute, launch_local
from test_reframe import run_checks

from collforge import papers
from collforge.papers.probes import kernels as probe
from collforge.papers.programs import kernels
from collforge.papers.programs.kernels import KERNELS, Line, versions

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


def test_sizes_of_the_paper_grow_with_the_nodes() -> None:
    sizes = {k: [kernels.paper_size(k, nodes) for nodes in (1, 4, 16)] for k in KERNELS}
    assert sizes == {"summa": [1024, 2048, 4096], "poisson": [256, 512, 1024], "bpmf": [0, 0, 0]}


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


# ---- lines of code, and the check ----------------------------------------------------------------


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


def test_times_over_the_mpi_version() -> None:
    lines = [
        Line(version, 4, factor * seconds, 0.5, 1.0)
        for seconds in (1.0, 2.0)
        for version, factor in (("mpi", 1.0), ("hybrid", 0.5), ("openmp", 2.0))
    ]
    rows = {row.version: row for row in probe.timings("summa", lines)}
    assert {v: round(row.over_mpi, 9) for v, row in rows.items()} == {
        "mpi": 1.0,
        "openmp": 2.0,
        "hybrid": 0.5,
    }
    assert rows["hybrid"].samples == (0.5, 1.0) and rows["hybrid"].seconds == 0.75
    (one,) = [row for row in probe.timings("summa", lines[:3]) if row.version == "hybrid"]
    assert one.over_mpi_low == one.over_mpi_high == 0.5, "one launch has no interval"


@pytest.mark.slow
def test_the_probe(collforge: Launch, mpi: str, tmp_path: Path) -> None:
    path = tmp_path / "kernels.json"
    words = ["--system", "local", "--layout", "2x1", "--size", "48", "--launches", "1"]
    words += ["--kernel", "poisson,summa", "--json", str(path)]
    done = collforge("probe", "kernels", "--mpi", mpi, *words)
    assert done.returncode == 0, done.stderr
    rows = json.loads(path.read_text())["rows"]
    assert [(row["kernel"], row["version"]) for row in rows] == [
        (kernel, version) for kernel in ("poisson", "summa") for version in versions(kernel)
    ]
    assert min(row["seconds"] for row in rows) > 0


@pytest.mark.slow
def test_the_check_reports_all_versions(tmp_path: Path, mpi: str) -> None:
    settings = {"size": 48, "iterations": 2, "launches": 1}
    session = run_checks(tmp_path, f"local:{mpi}", "^Kernel", checks=papers.CHECKS, **settings)
    assert session.code == 0, session.said
    assert len(session.tests) == len(KERNELS)
    for test in session.tests:
        found = {key.split(":")[-1]: value[0] for key, value in test["perfvalues"].items()}
        named = versions(re.search(r"kernel=(\w+)", test["display_name"])[1])  # type: ignore[index]
        values = {f"{version}_{value}" for version in named for value in ("seconds", "lines")}
        assert set(found) == {"added_lines", *values}
        assert found["hybrid_lines"] <= found["mpi_lines"] + kernels.MOST_ADDED
        assert min(found.values()) > 0
