"""`collforge probe overlap`: the search for sizes, the program, its ReFrame check, ratios and diagnoses."""

from __future__ import annotations

import argparse
import ctypes
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import Installation, Launch
from support import execute

from collforge import papers
from collforge.errors import CollforgeError
from collforge.mpi_library import MpiLibrary
from collforge.papers.probes import overlap as probe
from collforge.papers.programs import overlap
from collforge.papers.programs.overlap import COLLECTIVES, DIAGNOSES, Impact, Pair, Times
from collforge.tuner.cli import plots

ALONE = Times(comm_ref=2e-3, comp_ref=2e-3, call=1e-4, comp=2e-3, wait=1.9e-3, total=4e-3)
"""One after the other."""
MICRO = 1e-6


class Goal(ctypes.Structure):
    """struct search_goal"""

    _fields_ = [
        ("seconds", ctypes.c_double),
        ("tolerance", ctypes.c_double),
        ("order", ctypes.c_double),
        ("first", ctypes.c_long),
        ("least", ctypes.c_long),
        ("most", ctypes.c_long),
        ("calls", ctypes.c_int),
    ]


class Size(ctypes.Structure):
    """struct search_found"""

    _fields_ = [
        ("size", ctypes.c_long),
        ("seconds", ctypes.c_double),
        ("calls", ctypes.c_int),
        ("converged", ctypes.c_bool),
    ]


COST = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_long, ctypes.c_void_p)
Cost = Callable[[int], float]
Search = Callable[..., tuple[Size, list[int]]]


@pytest.fixture(scope="module")
def search(tmp_path_factory: pytest.TempPathFactory) -> Search:
    """search(cost, seconds, most=, order=, calls=, tolerance=): what is found, and the sizes tried."""
    path = tmp_path_factory.mktemp("search") / "search.so"
    source = str(papers.PROGRAMS / "overlap_search.c")
    done = execute(["cc", "-shared", "-fPIC", "-O1", "-o", str(path), source, "-lm"])
    assert done.returncode == 0, done.stderr
    function = ctypes.CDLL(str(path)).search_size
    function.restype = Size
    function.argtypes = [ctypes.POINTER(Goal), COST, ctypes.c_void_p]

    def run(
        cost: Cost,
        seconds: float,
        most: int = 1 << 28,
        order: float = 1,
        calls: int = 24,
        tolerance: float = 0.1,
    ) -> tuple[Size, list[int]]:
        tried: list[int] = []

        def recorded(size: int, _: object) -> float:
            tried.append(size)
            return cost(size)

        goal = Goal(seconds, tolerance, order, min(1024, most), 1, most, calls)
        return function(ctypes.byref(goal), COST(recorded), None), tried

    return run


def latency(size: int) -> float:
    return 20 * MICRO + size * 1e-9


def protocols(size: int) -> float:
    """The time doubles at 64 KiB, as where a protocol changes."""
    return latency(size) * (2 if size >= 1 << 16 else 1)


def cubic(size: int) -> float:
    return MICRO + 1e-9 * size**3


def worse_in_the_middle(size: int) -> float:
    """Not monotonic."""
    return latency(size) * (1.5 if 10000 < size < 40000 else 1)


@pytest.mark.parametrize("cost", [latency, protocols, cubic, worse_in_the_middle])
@pytest.mark.parametrize("seconds", [50 * MICRO, 2e-3, 32e-3, 1.0])
def test_a_size_is_found_for_a_time(search: Search, cost: Cost, seconds: float) -> None:
    order = 3 if cost is cubic else 1
    found, tried = search(cost, seconds, order=order, most=1 << 34)
    assert found.converged and found.calls == len(tried) <= 20
    assert found.seconds == cost(found.size) == pytest.approx(seconds, rel=0.1)
    assert max(map(cost, tried)) < 20 * seconds + cost(1024)


def test_a_smooth_cost_is_interpolated(search: Search) -> None:
    """Halving takes five tries more."""
    found, _ = search(lambda size: latency(size) + 1e-16 * size**2, 2e-3, tolerance=1e-4)
    assert found.converged and found.calls <= 13


@pytest.mark.parametrize(
    ("cost", "seconds", "most"),
    [
        (latency, 5 * MICRO, 1 << 20),  # below the latency
        (latency, 1.0, 1 << 20),  # above the memory
        (lambda size: 1e-3 if size < 5000 else 9e-3, 3e-3, 1 << 20),  # in a gap
        (lambda size: 1e-3, 3e-3, 1 << 20),
        (lambda size: 1e-3, 3e-3, 1),
    ],
)
def test_a_time_that_no_size_takes(search: Search, cost: Cost, seconds: float, most: int) -> None:
    found, tried = search(cost, seconds, most)
    assert not found.converged and len(tried) <= 24
    assert all(1 <= size <= most for size in tried)
    best = min(abs(math.log(cost(size) / seconds)) for size in tried)
    assert abs(math.log(found.seconds / seconds)) == pytest.approx(best)
    assert found.seconds == cost(found.size)


def test_a_time_that_was_disturbed_is_forgotten(search: Search) -> None:
    """The first size takes a thousand times as long as it should, so the right ones seem too large."""
    numbers: Iterator[int] = iter(range(100))
    found, _ = search(lambda size: latency(size) * (1000 if next(numbers) < 1 else 1), 2e-3)
    assert found.converged


def test_the_number_of_tries_is_bounded(search: Search) -> None:
    numbers: Iterator[int] = iter(range(10**6))
    found, tried = search(lambda size: 1.0 if next(numbers) % 2 else 1e-6, 1e-3, calls=1000)
    assert not found.converged and len(tried) <= 64


def test_ratios() -> None:
    assert overlap.overhead(ALONE) == pytest.approx(1)
    assert overlap.slowdown(ALONE) == overlap.communication(ALONE) == pytest.approx(1)
    assert overlap.hidden(ALONE) == pytest.approx(0)
    assert overlap.osu(ALONE) == overlap.imb(ALONE) == pytest.approx(0)
    perfect = replace(ALONE, wait=0.0, call=0.0, total=2e-3)
    assert overlap.overhead(perfect) == overlap.communication(perfect) == 0
    assert overlap.hidden(perfect) == 1 and overlap.osu(perfect) == overlap.imb(perfect) == 100
    longer = replace(perfect, comm_ref=8e-3, wait=6e-3, total=8e-3)
    assert overlap.overhead(longer) == 0 and overlap.communication(longer) == 0.75
    assert overlap.hidden(longer) == pytest.approx(1)
    impact = Impact(1e-3, (1.0, 2.0, 9.0), (3.0, 3.0, 1.0))
    assert overlap.mpi_impact(impact) == 1.5


@pytest.mark.parametrize(
    ("total", "comp", "pure", "percent"),
    [
        (665.10, 424.78, 412.18, 41.70),
        (1226.44, 706.79, 681.85, 23.79),
        (2098.49, 1888.42, 1832.79, 88.54),
        (851.56, 663.64, 643.58, 70.80),
    ],
)
def test_the_formula_of_osu(total: float, comp: float, pure: float, percent: float) -> None:
    """Figures 11 and 12 of the paper, in microseconds."""
    times = Times(pure, comp, 0, comp, 0, total)
    assert overlap.osu(times) == pytest.approx(percent, abs=0.01)


@pytest.mark.parametrize(
    ("total", "pure", "cpu", "percent"),
    [(2281.20, 1888.82, 2052.86, 80.89), (981.55, 790.55, 803.90, 76.24)],
)
def test_the_formula_of_imb(total: float, pure: float, cpu: float, percent: float) -> None:
    """Figure 13."""
    assert overlap.imb(Times(pure, cpu, 0, cpu, 0, total)) == pytest.approx(percent, abs=0.01)


MADE_UP = {
    overlap.OVERLAP: replace(ALONE, wait=5e-5, total=2.15e-3),
    overlap.NO_PROGRESSION: ALONE,
    overlap.SLOWDOWN: replace(ALONE, comp=6e-3, wait=0.0, total=6.1e-3),
    overlap.CONTENTION: replace(ALONE, comp=5e-3, wait=2.5e-3, total=7.6e-3),
    overlap.PARTIAL: replace(ALONE, wait=9e-4, total=3e-3),
    overlap.IMPRECISE: replace(ALONE, comm_ref=9e-3),
}


@pytest.mark.parametrize("name", DIAGNOSES)
def test_diagnoses(name: str) -> None:
    assert overlap.diagnose(MADE_UP[name]) == name
    slow_call = MADE_UP[name]
    slow_call = replace(slow_call, call=slow_call.wait, wait=slow_call.call)
    assert overlap.diagnose(slow_call) == name


def test_times_that_contradict_each_other_are_no_overlap() -> None:
    """The computation alone was slower than beside communication, which took its whole time in MPI_Wait."""
    times = replace(ALONE, comp_ref=36e-3, comp=32e-3, wait=3e-3, total=36e-3)
    assert overlap.overhead(times) == 0 and overlap.diagnose(times) == overlap.IMPRECISE


def pair(collective: str, times: Times, converged: bool = True) -> Pair:
    series = {name: (0.5 * value, value, 3 * value) for name, value in vars(times).items()}
    sizes = (times.comm_ref, times.comp_ref)
    return Pair(collective, *sizes, 4096, 64, *sizes, converged, converged, **series)


def test_a_sentence_for_each_collective(tmp_path: Path) -> None:
    """Points with very different times do not count; launches are summarised by medians."""
    far = replace(MADE_UP[overlap.OVERLAP], comp_ref=64e-3, comp=64e-3, total=64.2e-3)
    rows = [pair("bcast", ALONE), pair("bcast", far, False), pair("reduce", far)]
    slower = [pair("bcast", replace(ALONE, total=4.4e-3)), *rows[1:]]
    impacts = [Impact(1e-3, (1.0,), (after,)) for after in (1.0, 1.1, 1.3)]
    found = probe.evaluate("made up", [[i, *r] for i, r in zip(impacts, (rows, slower, slower))])
    assert [row.diagnosis for row in found.rows] == [overlap.NO_PROGRESSION] + [overlap.OVERLAP] * 2
    first = found.rows[0]
    assert (first.least, first.overhead, first.most) == pytest.approx((1.0, 1.2, 1.2))
    assert len(first.samples) == 3 and first.samples[0]["total"] == (2e-3, 4e-3, 12e-3)
    said = found.remark().splitlines()
    assert said[0].startswith("Ibcast: no progression in 1 of 1 points, the communication runs in")
    assert said[1].startswith("Ireduce: overlap in 1 of 1 points")
    assert said[2].endswith("1.10 of the time before") and said[3].startswith("1 of 3 points")
    assert found.table().row_count == 3
    plots.draw(found.picture(), tmp_path / "map.svg")
    text = (tmp_path / "map.svg").read_text()
    assert "Ireduce" in text and "communication (ms)" in text


def test_the_scale_of_maps() -> None:
    """Blue below 0, green at 0, yellow at 1, red above."""

    def channels(value: float) -> tuple[int, ...]:
        return tuple(bytes.fromhex(plots.SCALE[value][1:]))

    assert list(plots.SCALE) == sorted(plots.SCALE)
    red, green, blue = channels(-1.0)
    assert blue > max(red, green)
    red, green, blue = channels(0.0)
    assert green > max(red, blue)
    red, green, blue = channels(1.0)
    assert min(red, green) > 2 * blue
    red, green, blue = channels(2.0)
    assert red > 2 * max(green, blue)


def arguments(**options: object) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    probe.add_arguments(parser)
    args = parser.parse_args([])
    vars(args).update(system="local", **options)
    return args


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"times": "2,none"}, "milliseconds"),
        ({"times": ""}, "milliseconds"),
        ({"times": "nan"}, "milliseconds"),
        ({"times": "1e9"}, "milliseconds"),
        ({"collective": "bcast,brodcast"}, "brodcast"),
        ({"layout": "1x1"}, "two ranks"),
        ({"repetitions": 0}, "--repetitions"),
        ({"threads": -1}, "--threads"),
        ({"threads": 3, "cores": 2}, "--cores 2"),
        ({"progress": "thread"}, "Open MPI 4 and 5 have no thread"),
    ],
)
def test_what_cannot_be_measured_is_refused(options: dict[str, object], words: str) -> None:
    library = MpiLibrary("openmpi", Path("mpicc"), Path("mpirun"), "Open MPI v4.1.4", True)
    with pytest.raises(CollforgeError, match=words):
        probe.run(library, arguments(**options))


def test_times_are_read() -> None:
    assert probe.parse_times("8, 0.5,2,2") == [500, 2000, 8000]
    assert probe.time_limit(arguments(), [2000, 8000, 32000]) < 1800


@pytest.fixture(scope="module")
def program(built: Installation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp(built.library.name) / "overlap"
    done = execute(overlap.compile_command(str(built.library.mpicc), path))
    assert done.returncode == 0, done.stderr
    return path


def test_every_collective_and_pair_of_times_is_measured(
    program: Path, built: Installation, launch: Launch, tmp_path: Path
) -> None:
    """Three ranks, on fewer cores, and so little memory that not all times can be reached."""
    out = tmp_path / "lines"
    words = [str(program), str(out), "3", "100001", ",".join(COLLECTIVES), "200,400"]
    done = launch(built.library.name, 3, words, {"OMP_NUM_THREADS": "1"}, timeout=110)
    assert done.returncode == 0, done.stderr
    impact, *pairs = overlap.read(out.read_text())
    assert isinstance(impact, Impact) and impact.target == pytest.approx(400 * MICRO)
    assert len(impact.before) == len(impact.after) == 3
    found = [
        (p.collective, round(p.comm_target * 1e6), round(p.comp_target * 1e6))
        for p in pairs
        if isinstance(p, Pair)
    ]
    targets = (200, 400)
    assert found == [(name, i, j) for name in COLLECTIVES for i in targets for j in targets]
    assert overlap.expected(COLLECTIVES, (200, 400)) == 1 + len(pairs)
    for one in pairs:
        assert isinstance(one, Pair)
        assert 8 <= one.bytes <= 100001 and one.order >= 2
        assert one.comm_converged == (abs(one.comm_found / one.comm_target - 1) <= 0.1)
        for name in vars(ALONE):
            series = getattr(one, name)
            assert len(series) == 3 and min(series) >= 0
        assert all(total >= comp > 0 for total, comp in zip(one.total, one.comp))


@pytest.mark.parametrize(
    "words",
    [
        ["0", "1000", "bcast", "200"],
        ["1001", "1000", "bcast", "200"],
        ["1", "0", "bcast", "200"],
        ["1", "1000", "bcast,", "200"],
        ["1", "1000", "bcas", "200"],
        ["1", "1000", "bcast", "200,"],
        ["1", "1000", "bcast", "99999999999"],
        ["1", "1000", "bcast"],
    ],
)
def test_wrong_arguments_end_the_program(program: Path, tmp_path: Path, words: list[str]) -> None:
    """Before MPI_Init: no launcher is needed."""
    assert execute([str(program), str(tmp_path / "x"), *words], timeout=30).returncode == 2


@pytest.mark.slow
def test_overlap_is_measured_and_drawn(
    built: Installation, collforge: Launch, tmp_path: Path
) -> None:
    """On this machine, through ReFrame."""
    words = ["--mpi", built.library.name, "--system", "local", "--launches", "1", "--threads", "1"]
    words += ["--collective", "bcast,alltoall", "--times", "0.2,0.5", "--repetitions", "3"]
    files = {name: tmp_path / f"overlap.{name}" for name in ("json", "plot.svg")}
    options = [f"--{name.partition('.')[0]}={path}" for name, path in files.items()]
    done = collforge("probe", "overlap", *words, *options, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "Ibcast: " in done.stdout and "IMB's" in done.stdout
    rows = json.loads(files["json"].read_text())["rows"]
    assert len(rows) == 2 * 4 and {row["diagnosis"] for row in rows} <= set(DIAGNOSES)
    assert "computation (ms)" in files["plot.svg"].read_text()


@pytest.mark.slow
def test_mpich_runs_with_its_progress_thread(
    program: Path, built: Installation, launch: Launch, tmp_path: Path
) -> None:
    if built.library.flavor != "mpich":
        pytest.skip("Open MPI has none")
    words = [str(program), str(tmp_path / "lines"), "2", "100000", "allreduce", "200"]
    env = {"OMP_NUM_THREADS": "1", "MPICH_ASYNC_PROGRESS": "1"}
    done = launch("mpich", 2, words, env, timeout=110)
    assert done.returncode == 0, done.stderr
    assert len(overlap.read((tmp_path / "lines").read_text())) == 2
