"""The map of winners and the guard under the preload: random programs on communicators that nobody measured."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Installation, Launch
from hazards.build import compiled
from preloaded import with_winners
from support import TOP, execute

from collforge.db import PREDICTED, Choice, MapPoint, Result, RunRecord, Store
from collforge.generator.manifest import Manifest
from collforge.layout import from_name
from collforge.place import Place
from collforge.toolchain import build
from collforge.tuner.cli import main
from collforge.tuner.decide import layout_map, profile
from collforge.tuner.probes import guard
from collforge.variant import Variant

POINTS = ("1x2", "1x4", "2x1", "3x1", "2x2", "3x2")
SIZES = (1, 64, 1024, 16384)


def variants(made: Manifest, collective: str, layout: str = "2x2") -> list[Variant]:
    """The first and the last point of every variant that applies there."""
    found: dict[Variant, None] = {}
    where = from_name(layout)
    for entry in made.variants_of(collective):
        if not entry.applies(made.facts(collective, where, 1024)):
            continue
        points = entry.points(where.facts())
        for point in (points[0], points[-1]):
            found[Variant.from_name(collective, entry.name(point), entry.fingerprint)] = None
    return list(found)


def rows(made: Manifest) -> Iterator[MapPoint]:
    """At every point and size another variant, whether it is fast or slow there."""
    for collective in made.collectives:
        if collective.sized != "block" or collective.hybrid:
            continue
        cells = [(name, size) for name in POINTS for size in SIZES]
        for turn, (name, size) in enumerate(cells):
            own = variants(made, collective.name, name)
            if not own:
                continue
            nodes, ranks = map(int, name.split("x"))
            yield MapPoint(nodes, ranks, size, own[turn % len(own)], 2.0, 1.5, PREDICTED, ("9x9",))


def write(path: Path, built: Installation, made: Manifest) -> Path:
    place = Place("here", built.library.name, built.library.first_line, "9x9")
    with Store(path) as store:
        found = list(rows(made))
        proofs = tuple(Result(v, "problem", 8, True) for v in {row.variant for row in found})
        time = "2026-01-01T00:00:00Z"
        store.record_run(RunRecord("uuid", place, 9, 81, time, "", "", (), 0, proofs))
        store.replace_map(place, found)
    return path


@pytest.fixture(scope="module")
def database(built: Installation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("map") / "db", built, build.read_manifest())


JOBS = [
    (ranks, nodes, threads)
    for ranks, nodes in [(4, "2"), (4, "3,1"), (6, "map:0,1,2,0,1,2"), (5, "1,2,2")]
    for threads in (1, 2)
]


@pytest.mark.parametrize("job", JOBS, ids=str)
@pytest.mark.parametrize("programs", [15, pytest.param(650, marks=pytest.mark.slow)])
def test_random_programs_under_the_guard(
    built: Installation,
    launch: Launch,
    database: Path,
    seed: int,
    job: tuple[int, str, int],
    programs: int,
) -> None:
    ranks, nodes, threads = job
    program = compiled(built, "trials")
    after = "0.0001" if ranks == 5 else "0"
    env = with_winners(
        built,
        database,
        COLLFORGE_NODE_MAP=nodes,
        COLLFORGE_GUARD="reductions",
        COLLFORGE_GUARD_AFTER=after,
    )
    words = [str(program), str(seed), str(programs), str(threads)]
    done = launch(built.library.name, ranks, words, env, timeout=1800 if programs > 100 else 120)
    assert (done.returncode, done.stdout) == (0, "passed\n"), words
    verdicts = re.findall(r"guard: \w+@.*: (kept|dropped)$", done.stderr, re.MULTILINE)
    # Open MPI makes no hidden communicators while other threads may make some (connect.c): all is native.
    can_serve = threads == 1 or built.library.flavor != "openmpi"
    assert len(verdicts) > (5 if after == "0" else 0) if can_serve else not verdicts


@pytest.mark.parametrize(
    ("case", "guard", "verdicts"),
    [("errors", "reductions", 0), ("hides", "reductions", 0), ("sizes", "1", 2), ("sums", "1", 0)],
)
@pytest.mark.parametrize("after", ["0", ""])
def test_calls_on_trial(
    built: Installation,
    launch: Launch,
    database: Path,
    case: str,
    guard: str,
    verdicts: int,
    after: str,
) -> None:
    """Errors are reported once, each size has a trial of its own, and sums have none.

    Nor has a program that calls for less time than trials wait for, unless told otherwise.
    """
    variables = {"COLLFORGE_GUARD": guard, "COLLFORGE_GUARD_AFTER": after}
    env = with_winners(built, database, MALLOC_PERTURB_="165", **variables)
    verdicts = verdicts if after else 0
    words = [str(compiled(built, "trial_cases")), case]
    done = launch(built.library.name, 4, words, env, timeout=120)
    assert (done.returncode, done.stdout) == (0, "passed\n"), done.stderr
    assert (
        len(re.findall(r"guard: \w+@.*: (?:kept|dropped)$", done.stderr, re.MULTILINE)) == verdicts
    )


def test_waiting_for_a_late_root_is_no_part_of_a_trial(
    built: Installation, launch: Launch, database: Path
) -> None:
    env = with_winners(built, database)
    words = [str(compiled(built, "trial_cases")), "late"]
    done = launch(built.library.name, 4, words, env, timeout=120)
    assert (done.returncode, done.stdout) == (0, "passed\n"), done.stderr
    found = re.findall(
        r"took (\S+) s, native (\S+) s: (?:kept|dropped)$", done.stderr, re.MULTILINE
    )
    assert len(found) == 1
    assert all(float(seconds) < 0.015 for seconds in found[0]), "the root is late by 20 ms"


@pytest.mark.parametrize(
    ("guard", "again"), [("0", []), ("1", ["bcast"]), ("reductions", ["allreduce", "bcast"])]
)
def test_measured_winners_are_tried_again(
    built: Installation, launch: Launch, tmp_path: Path, guard: str, again: list[str]
) -> None:
    """After many calls, once for each collective. COLLFORGE_FORCE has no re-tests."""
    made = build.read_manifest()
    place = Place("here", built.library.name, built.library.first_line, "2x2")
    with Store(tmp_path / "db") as store:
        chosen = {name: variants(made, name)[0] for name in ("bcast", "allreduce")}
        proofs = tuple(Result(v, f"{name}@2x2", 8, True) for name, v in chosen.items())
        time = "2026-01-01T00:00:00Z"
        store.record_run(RunRecord("uuid", place, 2, 4, time, "", "", (), 0, proofs))
        for name, variant in chosen.items():
            store.replace_winners(place, name, [Choice(4, variant, 2.0, 1.9, 2.1, 3)])
    env = with_winners(built, tmp_path / "db", COLLFORGE_GUARD=guard)
    words = [str(compiled(built, "trial_cases")), "many"]
    for forced in (False, True):
        if forced:
            env["COLLFORGE_FORCE"] = f"*={chosen['bcast'].family}"
        done = launch(built.library.name, 4, words, env, timeout=120)
        assert (done.returncode, done.stdout) == (0, "passed\n"), done.stderr
        verdicts = re.findall(r"guard: (\w+)@.*: (?:kept|dropped)$", done.stderr, re.MULTILINE)
        assert sorted(verdicts) == ([] if forced else again)


@pytest.mark.parametrize(("nodes", "served"), [("2", True), ("map:0,1,0,1", False)])
def test_prefix_reductions_follow_the_map_on_consecutive_ranks(
    built: Installation, launch: Launch, database: Path, nodes: str, served: bool
) -> None:
    env = with_winners(built, database, COLLFORGE_NODE_MAP=nodes, COLLFORGE_VERBOSE="2")
    words = [str(compiled(built, "trial_cases")), "scans"]
    done = launch(built.library.name, 4, words, env, timeout=120)
    assert (done.returncode, done.stdout) == (0, "passed\n"), done.stderr
    (line,) = re.findall(r"scan@.*2x2, 64 to 76 bytes: (\S+)", done.stderr)
    assert (line != "native") == served


@pytest.mark.parametrize("grid", [(2, 2), (1, 4), (3, 2)], ids=str)
def test_a_program_with_rows_and_columns(
    built: Installation, launch: Launch, database: Path, tmp_path: Path, grid: tuple[int, int]
) -> None:
    """examples/pencil_fft.c checks its result."""
    program = tmp_path / "pencil_fft"
    source = TOP / "examples" / "pencil_fft.c"
    words = [str(built.library.mpicc), "-O2", "-o", str(program), str(source), "-lm"]
    assert execute(words).returncode == 0
    rows, columns = grid
    env = with_winners(built, database, COLLFORGE_PROFILE=str(tmp_path / "calls.csv"))
    words = [str(program), "16" if rows != 3 else "8", str(rows), str(columns), "20"]
    done = launch(built.library.name, rows * columns, words, env, timeout=120)
    if rows == 3:  # 3 does not divide 8
        assert done.returncode != 0
        return
    assert done.returncode == 0 and done.stdout.startswith("right"), done.stderr
    verdicts = re.findall(r"guard: alltoall@(\S+): .*(kept|dropped)$", done.stderr, re.MULTILINE)
    assert rows == 1 or "2x1" in {layout for layout, _ in verdicts}
    found = profile.read([tmp_path / "calls.csv"])
    told = [verdict for _, verdict in verdicts].count("dropped")
    assert sum(row.dropped for row in found.rows) == told


def slow_and_fast(built: Installation, made: Manifest, path: Path) -> dict[str, Variant]:
    """A database in which, on 2x2, bcast and allgather have a variant slower and one faster than native."""
    place = Place("local", built.library.name, built.library.first_line, "2x2")
    slow = {}
    with Store(path) as store:
        for number in range(2):
            results = []
            for collective in ("bcast", "allgather"):
                problem = f"{collective}@2x2,bytes=8192,type=double"
                fast, slow[collective] = variants(made, collective)[:2]
                for variant, ms in ((Variant(collective), 2), (fast, 1), (slow[collective], 6)):
                    results.append(Result(variant, problem, 8192, True, "", (ms * 1e-3,) * 4))
            time = "2026-01-01T00:00:00Z"
            store.record_run(
                RunRecord(str(number), place, 2, 4, time, "", "", (), 0, tuple(results))
            )
    return slow


def test_the_probe_tries_the_slowest_variants(built: Installation, tmp_path: Path) -> None:
    made = build.read_manifest()
    slow = slow_and_fast(built, made, tmp_path / "db")
    place = Place("local", built.library.name, built.library.first_line, "2x2")
    found = guard.find_slowest(tmp_path / "db", made, place, 4096)
    assert {name: variant for name, (variant, _) in found.items()} == slow
    assert [round(1 / ratio, 6) for _, ratio in found.values()] == [3, 3]
    words = ["probe", "guard", "--system", "local", "--layout", "2x2", "--mpi", built.library.name]
    words += ["--db", str(tmp_path / "db"), "--launches", "1", "--json", str(tmp_path / "json")]
    assert main.main(words) == 0
    rows = json.loads((tmp_path / "json").read_text())["rows"]
    assert {row["what"] for row in rows} == {"bcast", "allgather"}
    assert all("3.0 times the time of native" in row["note"] for row in rows)


def test_the_map_is_timed_where_nobody_measured(built: Installation, tmp_path: Path) -> None:
    """The map knows 2x2, where the fast variants win; 2x2 itself has no winners."""
    made = build.read_manifest()
    slow_and_fast(built, made, tmp_path / "db")
    place = Place("local", built.library.name, built.library.first_line, "2x2")
    with Store(tmp_path / "db") as store:
        store.replace_map(place, layout_map.points(layout_map.read_sources(store, made, place)))
    words = ["probe", "unmeasured", "--system", "local", "--layout", "2x2,3+1", "--per", "block"]
    words += ["--mpi", built.library.name, "--collective", "bcast,allgather", "--sizes", "8KiB"]
    words += ["--db", str(tmp_path / "db"), "--launches", "1", "--json", str(tmp_path / "json")]
    assert main.main([*words, "--samples", "3"]) == 0
    rows = json.loads((tmp_path / "json").read_text())["rows"]
    assert [(row["layout"], row["collective"]) for row in rows] == [
        (name, collective) for name in ("2x2", "3+1") for collective in ("bcast", "allgather")
    ]
    assert all(row["variant"] != "native" for row in rows)
