"""`collforge probe overlap`: the programs, ratios and diagnoses, and what is doubted."""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from conftest import Installation, Launch
from support import execute

from collforge import layout
from collforge.errors import CollforgeError
from collforge.mpi_library import MpiLibrary
from collforge.papers import figures
from collforge.papers.figures import drawing, rows
from collforge.papers.probes import overlap as probe
from collforge.papers.programs import overlap
from collforge.papers.programs.overlap import (
    COLLECTIVES,
    DIAGNOSES,
    RATIOS,
    Impact,
    Pair,
    Place,
    Times,
)
from collforge.tuner.cli import plots
from collforge.tuner.run.pictures import TablePicture

ALONE = Times(comm_ref=2e-3, comp_ref=2e-3, call=1e-4, comp=2e-3, wait=1.9e-3, total=4e-3)
"""One after the other."""


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
    assert overlap.mpi_impact(Impact((1.0, 2.0, 9.0), (3.0, 3.0, 1.0))) == 1.5


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
    return Pair(collective, *sizes, 4096, *sizes, converged, **series)


GOOD_PLACE = Place(spare=0, started=1, apart=False)


def evaluated(
    pairs: list[list[Pair]], place: Place = GOOD_PLACE, progress: str = probe.BASIC
) -> probe.Found:
    """Of launches, with impacts of 1.0, 1.1, 1.2, ..."""
    launches = [
        [place, Impact((1.0,), (1 + 0.1 * number,)), *each] for number, each in enumerate(pairs)
    ]
    settings = probe.Settings((), [2000], (), 1, 3, (), layout.from_name("2x1"), {})
    return probe.evaluate("made up", {progress: launches}, settings)


def test_a_sentence_for_each_collective(tmp_path: Path) -> None:
    """Points with very different times do not count; launches are summarised by medians."""
    far = replace(MADE_UP[overlap.OVERLAP], comp_ref=64e-3, comp=64e-3, total=64.2e-3)
    pairs = [pair("bcast", ALONE), pair("bcast", far, False), pair("reduce", far)]
    slower = [pair("bcast", replace(ALONE, total=4.4e-3)), *pairs[1:]]
    found = evaluated([pairs, slower, slower])
    assert [one.diagnosis for one in found.points] == [overlap.NO_PROGRESSION] + [
        overlap.OVERLAP
    ] * 2
    said = found.remark().splitlines()
    assert said[0].startswith("Ibcast, basic: no progression in 1 of 1 points, the communication")
    assert said[1].startswith("Ireduce, basic: overlap in 1 of 1 points")
    assert "1.10 of the time in a program without MPI" in said[2]
    assert said[3].startswith("1 of 3 points are doubtful: no size takes")
    assert found.table().row_count == 3
    plots.draw(found.picture(), tmp_path / "map.svg")
    text = (tmp_path / "map.svg").read_text()
    assert "Ireduce" in text and "communication (ms)" in text


def test_a_row_for_each_ratio_has_a_number_of_each_launch() -> None:
    slower = replace(ALONE, total=4.4e-3)
    found = evaluated([[pair("bcast", times)] for times in (ALONE, slower, slower)])
    impact, *others = found.rows
    assert (impact.ratio, impact.values, impact.computation_ms) == ("impact", (1.0, 1.1, 1.2), 2.0)
    assert [row.ratio for row in others] == [*RATIOS, "bytes"]
    assert {(row.collective, row.communication_ms, row.computation_ms) for row in others} == {
        ("bcast", 2.0, 2.0)
    }
    values = {row.ratio: row.values for row in others}
    assert values["overhead"] == pytest.approx((1.0, 1.2, 1.2))
    assert values["bytes"] == (4096,) * 3 and not any(row.doubt for row in found.rows)


def test_the_table_beside_the_formula_of_osu() -> None:
    """A column's interval is that of its own unit: milliseconds scatter by 30 here, the overhead by nothing."""
    launches = []
    for factor in (1, 30, 60):
        times = Times(**{name: factor * value for name, value in vars(ALONE).items()})
        launches.append([pair("bcast", times), pair("reduce", times)])
    document = msgspec.json.encode({"rows": evaluated(launches).rows})
    found = rows.read(msgspec.json.decode(document), "2x1")
    drawn = figures.find("overlap", "11").picture
    assert drawn is not None
    table = drawing.draw(drawn, {"Open MPI": found})
    assert isinstance(table, TablePicture)
    heading, bcast, _ = table.panels["Open MPI"]
    cells = dict(zip(heading, bcast))
    assert heading[1:4] == ["both, ms", "computation alone, ms", "communication alone, ms"]
    assert (cells["OSU %"], cells["overhead"]) == ("0", "1") and "(" in cells["both, ms"]


@pytest.mark.parametrize(
    ("times", "words"),
    [
        (replace(ALONE, total=1e-3), "overhead below 0"),
        (replace(ALONE, comm_ref=0.2, call=0.0, wait=0.001, total=0.003), "more than 32 times"),
        (replace(ALONE, comp=1.5e-3), "faster beside communication"),
        (replace(ALONE, wait=0.1, total=0.102), "communication above 30"),
    ],
)
def test_ratios_that_cannot_be_are_doubted(times: Times, words: str) -> None:
    """Those that once certified a paper's finding by the smallest cell of all, -99."""
    assert words in evaluated([[pair("bcast", times)]] * 3).points[0].doubt


def test_points_that_were_not_found_or_not_in_time_are_doubted() -> None:
    missed = evaluated([[pair("bcast", ALONE, one)] for one in (True, False, True)])
    assert "no size takes" in missed.points[0].doubt
    assert missed.rows[1].doubt == missed.points[0].doubt and not missed.rows[0].doubt
    drifted = msgspec.structs.replace(pair("bcast", ALONE), comp_target=0.9e-3)
    assert "not within 2 times" in evaluated([[drifted]] * 3).points[0].doubt
    short = msgspec.structs.replace(pair("bcast", ALONE), total=(4e-3, 4e-3))
    late = evaluated([[pair("bcast", ALONE)], [short]])
    assert "too few starts" in late.points[0].doubt


@pytest.mark.parametrize(
    ("progress", "place", "words"),
    [
        (probe.BASIC, Place(-1, 1, False), "more threads compute"),
        (probe.BASIC, Place(0, 0, False), ""),
        (probe.THREAD, Place(0, 0, False), "started no thread"),
        (probe.THREAD, Place(0, 1, False), ""),
        (probe.FREE, Place(0, 1, False), "no core is free"),
        (probe.FREE, Place(1, 1, False), ""),
        (probe.DEDICATED, Place(1, 1, False), "no core of its own"),
        (probe.DEDICATED, Place(1, 1, True), ""),
    ],
)
def test_cores_that_are_not_those_of_the_deployment_are_doubted(
    progress: str, place: Place, words: str
) -> None:
    for row in evaluated([[pair("bcast", ALONE)]] * 3, place, progress).rows:
        assert words in row.doubt and bool(words) == bool(row.doubt)


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
        ({"launches": 0}, "--launches"),
        ({"memory": "much"}, "much"),
        ({"progress": "thread"}, "Open MPI 4 and 5 have no thread"),
        ({"progress": "basic,threads"}, "threads"),
    ],
)
def test_what_cannot_be_measured_is_refused(options: dict[str, object], words: str) -> None:
    library = MpiLibrary("openmpi", Path("mpicc"), Path("mpirun"), "Open MPI v4.1.4", True)
    with pytest.raises(CollforgeError, match=words):
        probe.run(library, arguments(**options))


def test_a_core_that_is_to_be_free_must_be_there() -> None:
    library = MpiLibrary("mpich", Path("mpicc"), Path("mpirun"), "MPICH Version: 4", True)
    with pytest.raises(CollforgeError, match="4x1x2"):
        probe.checked(library, arguments(progress="basic,dedicated", layout="4x1"))
    args = arguments(progress="dedicated", layout="400x1x3")
    with pytest.raises(CollforgeError, match="needs 1200 cores"):
        probe.checked(library, args)
    args.system, args.layout = "a cluster", "4x1x3"
    settings = probe.checked(library, args)
    one = settings.launch(library, probe.DEDICATED, Path("/folder"))
    assert one.words[:5] == ["/folder/overlap_alone", "10", "128000", "/folder/overlap", "1"]
    assert one.variables["OMP_NUM_THREADS"] == "2" and one.layout == "4x1x3"


@pytest.mark.parametrize(
    ("version", "variables"),
    [
        ("MPICH Version: 4.0.2", {"MPICH_ASYNC_PROGRESS": "1"}),
        ("Intel(R) MPI Library 2021.9", {"I_MPI_ASYNC_PROGRESS": "1"}),
        ("MVAPICH2 Version: 2.3.7", {}),
    ],
)
def test_the_variables_of_a_progress_thread(version: str, variables: dict[str, str]) -> None:
    library = MpiLibrary("it", Path("mpicc"), Path("mpirun"), version, True)
    assert probe.progress_thread(library) == variables


def test_times_are_read() -> None:
    assert probe.parse_times("8, 0.5,2,2") == [500, 2000, 8000]


def test_every_figure_takes_less_than_ten_minutes() -> None:
    """By the expected seconds of the launches, and a fifth more for starts that are late."""
    for figure in figures.read().values():
        if figure.paper == "overlap" and figure.words:
            parser = argparse.ArgumentParser()
            parser.add_argument("probe", nargs=2)
            probe.add_arguments(parser)
            args = parser.parse_args([*figure.words, "--layout", figure.layout])
            args.system = "a cluster"
            library = MpiLibrary("it", Path("mpicc"), Path("mpirun"), "MPICH Version: 4", True)
            settings = probe.checked(library, args)
            launches = args.launches * len(settings.deployments)
            assert 1.2 * launches * settings.seconds < 600, figure.name


@pytest.fixture(scope="module")
def folder(built: Installation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With both programs."""
    path = tmp_path_factory.mktemp(built.library.name)
    for command in overlap.compile_commands(str(built.library.mpicc), path):
        done = execute(command)
        assert done.returncode == 0, done.stderr
    return path


def test_the_computation_alone_is_without_mpi(folder: Path) -> None:
    """No MPI library is loaded into it, though one compiler wrapper made both."""
    found = {
        name: "libmpi" in execute(["ldd", str(folder / name)]).stdout for name in overlap.SOURCES
    }
    assert found == {"overlap": True, "overlap_alone": False}


def test_the_computation_alone_becomes_the_program_with_mpi(folder: Path) -> None:
    """In its place, so on its cores; the order that it has found is handed over."""
    words = [str(folder / "overlap_alone"), "3", "200", "/usr/bin/env"]
    done = execute(words, timeout=30)
    order, products, seconds = done.stdout.partition("OVERLAP_ALONE=")[2].split()[:3]
    assert int(order) >= 2 and products == "3" and 0 < float(seconds) < 1


def test_every_collective_and_pair_of_times_is_measured(
    folder: Path, built: Installation, launch: Launch
) -> None:
    """Three ranks, on fewer cores, and so little memory that not all times can be reached."""
    words = overlap.words(folder, False, 3, 100001, COLLECTIVES, (200, 400))
    done = launch(built.library.name, 3, words, {"OMP_NUM_THREADS": "1"}, timeout=110)
    assert done.returncode == 0, done.stderr
    place, impact, *pairs = overlap.read("a warning\n" + done.stdout)
    assert isinstance(place, Place) and (place.spare >= 0) == (len(os.sched_getaffinity(0)) >= 3)
    assert isinstance(impact, Impact) and len(impact.without) == len(impact.with_) == 3
    found = [
        (p.collective, round(p.comm_target * 1e6), round(p.comp_target * 1e6))
        for p in pairs
        if isinstance(p, Pair)
    ]
    targets = (200, 400)
    assert found == [(name, i, j) for name in COLLECTIVES for i in targets for j in targets]
    assert overlap.expected(COLLECTIVES, targets) == 2 + len(pairs)
    for one in pairs:
        assert isinstance(one, Pair)
        assert 8 <= one.bytes <= 100001
        near = [one.comm_found / one.comm_target, one.comp_found / one.comp_target]
        assert one.converged == all(abs(ratio - 1) <= 0.1 for ratio in near)
        for name in vars(ALONE):
            series = getattr(one, name)
            assert 1 <= len(series) <= 3 and min(series) >= 0
        assert all(total >= comp > 0 for total, comp in zip(one.total, one.comp))


def test_a_size_is_measured_beside_a_computation_that_takes_as_long(
    folder: Path, built: Installation, launch: Launch
) -> None:
    words = overlap.words(folder, False, 3, 1, ("reduce", "alltoall"), (200,), (4096, 65536))
    done = launch(built.library.name, 2, words, {"OMP_NUM_THREADS": "1"}, timeout=110)
    assert done.returncode == 0, done.stderr
    pairs = [one for one in overlap.read(done.stdout) if isinstance(one, Pair)]
    assert [(p.collective, p.bytes) for p in pairs] == [
        (name, size) for name in ("reduce", "alltoall") for size in (4096, 65536)
    ]
    assert all(one.comm_target == one.comp_target == one.comm_found for one in pairs)


@pytest.mark.parametrize("cores", [1, 2])
def test_the_threads_of_mpi_are_bound_to_the_core_that_is_left(
    folder: Path, built: Installation, launch: Launch, cores: int
) -> None:
    """One rank, so its cores are its own. Beside other tests, MPICH's thread loses its core while it
    has MPI's lock: a call then takes 0.2 s, and the times, which nobody asks for here, minutes."""
    allowed = sorted(os.sched_getaffinity(0))[:cores]
    if len(allowed) < cores:
        pytest.skip("this machine has one core")
    words = overlap.words(folder, True, 1, 1000, ("bcast",), (200,), (8,))
    env = {"OMP_NUM_THREADS": "1", "MPICH_ASYNC_PROGRESS": "1"}
    words = ["timeout", "20", "taskset", "-c", ",".join(map(str, allowed)), *words]
    done = launch(built.library.name, 1, words, env, timeout=110)
    assert done.returncode in (0, 124), done.stderr
    place = overlap.read(done.stdout)[0]
    assert isinstance(place, Place) and place.started > 0
    assert (place.spare, place.apart) == (cores - 1, cores > 1)


@pytest.mark.parametrize(
    "words",
    [
        ["0", "0", "1000", "bcast", "200"],
        ["0", "1001", "1000", "bcast", "200"],
        ["0", "1", "0", "bcast", "200"],
        ["0", "1", "1000", "bcast,", "200"],
        ["0", "1", "1000", "bcas", "200"],
        ["0", "1", "1000", "bcast", "200,"],
        ["0", "1", "1000", "bcast", "99999999999"],
        ["0", "1", "1000", "bcast", "words", "200"],
        ["0", "1", "1000", "bcast"],
    ],
)
def test_wrong_arguments_end_the_program(folder: Path, words: list[str]) -> None:
    """Before MPI_Init: no launcher is needed."""
    program = str(folder / "overlap")
    alone = ["env", "OVERLAP_ALONE=10 1 1e-3"]
    assert execute([*alone, program, *words], timeout=30).returncode == 2
    assert execute([program, "0", "1", "1000", "bcast", "200"], timeout=30).returncode == 2
    assert execute([str(folder / "overlap_alone"), "1", "0", program]).returncode == 2


@pytest.mark.slow
def test_overlap_is_measured_and_drawn(
    built: Installation, collforge: Launch, tmp_path: Path
) -> None:
    """On this machine, in one job of ReFrame; with and without variants and progress threads, in turn."""
    words = ["--mpi", built.library.name, "--system", "local", "--launches", "2", "--layout", "2x1"]
    words += ["--collective", "bcast,alltoall", "--times", "0.2,0.5", "--repetitions", "3"]
    deployments = ["basic", "thread"][: 2 if built.library.flavor == "mpich" else 1]
    deployments += [f"{one}{probe.VARIANTS}" for one in ("basic", "thread")]
    words += ["--progress", "basic,thread", "--force", "*=full_lane"]
    files = {name: tmp_path / f"overlap.{name}" for name in ("json", "plot.svg")}
    options = [f"--{name.partition('.')[0]}={path}" for name, path in files.items()]
    done = collforge("probe", "overlap", *words, *options, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "Ibcast, basic: " in done.stdout and "IMB's" in done.stdout
    found = json.loads(files["json"].read_text())["rows"]
    assert len(found) == len(deployments) * (1 + 2 * 4 * (len(RATIOS) + 1))
    assert {row["progress"] for row in found} == set(deployments)
    # A thread that MPI_Init has started is there.
    wrong = {row["progress"] for row in found if "started no thread" in row["doubt"]}
    assert not wrong
    assert all(len(row["values"]) == 2 for row in found)
    assert "computation (ms)" in files["plot.svg"].read_text()
