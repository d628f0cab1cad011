"""The map of winners and the guard under the preload: random programs on communicators that nobody measured."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from conftest import Installation, Launch
from hazards.build import Said, compiled, pass_cases
from preloaded import with_winners
from support import TOP

from collforge.case import parse
from collforge.db import PREDICTED, Choice, MapPoint, Result, RunRecord, Store, Verdict
from collforge.generator.manifest import Manifest
from collforge.layout import from_name
from collforge.place import Place
from collforge.toolchain import build
from collforge.tuner.cli import main
from collforge.tuner.decide import layout_map, profile
from collforge.tuner.probes import guard, trials
from collforge.tuner.probes.unmeasured import Found, Row
from collforge.variant import Variant

POINTS = ("1x2", "1x4", "2x1", "3x1", "2x2", "3x2")
either = pytest.mark.either
wide = pytest.mark.wide
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
    for collective in (*made.collectives, *made.forms):
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


# Ranks, node map, threads.
JOBS = [(4, "2", 1), (4, "3,1", 2), (6, "map:0,1,2,0,1,2", 1), (5, "1,2,2", 1)]
MORE_JOBS = [(4, "2", 2), (4, "3,1", 1), (6, "map:0,1,2,0,1,2", 2), (5, "1,2,2", 2)]
VERDICT = re.compile(r"guard: (\w+)@.*: (?:kept|dropped)$", re.MULTILINE)


def started(built: Installation) -> dict[str, str]:
    """Variants serve nonblocking calls; MPICH 4.0.2 has no hook for their progress."""
    own = {"COLLFORGE_PROGRESS": "thread"} if built.library.flavor == "mpich" else {}
    return {"COLLFORGE_NONBLOCKING": "1", **own}


@pytest.mark.parametrize(
    ("job", "programs"),
    [
        *(pytest.param(job, 15, id=str(job)) for job in JOBS),
        *(pytest.param(job, 15, id=str(job), marks=wide) for job in MORE_JOBS),
        *(pytest.param(job, 650, marks=pytest.mark.slow) for job in [*JOBS, *MORE_JOBS]),
    ],
)
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
    if threads == 1:
        words.append("started")
        env |= started(built)
    done = launch(built.library.name, ranks, words, env, timeout=1800 if programs > 100 else 120)
    assert (done.returncode, done.stdout) == (0, "passed\n"), words
    verdicts = VERDICT.findall(done.stderr)
    # Open MPI makes no hidden communicators while other threads may make some (connect.c): all is native.
    can_serve = threads == 1 or built.library.flavor != "openmpi"
    assert len(verdicts) > (5 if after == "0" else 0) if can_serve else not verdicts
    assert threads > 1 or any(name.startswith("i") for name in verdicts)


def on_trial(built: Installation, database: Path, cases: Sequence[str], **more: str) -> list[Said]:
    env = with_winners(built, database, MALLOC_PERTURB_="165", **more)
    return pass_cases(built, 4, [f"trial_cases {case}" for case in cases], env)


@pytest.mark.parametrize(
    ("guard", "cases"), [("reductions", ["errors", "hides"]), ("1", ["sizes", "sums", "truncates"])]
)
@pytest.mark.parametrize("after", ["0", ""])
def test_calls_on_trial(
    built: Installation, database: Path, guard: str, cases: list[str], after: str
) -> None:
    """Errors are reported once, each size has a trial of its own, and sums have none. An error on one rank of
    a trial does not hang the others.

    Nor has a program that calls for less time than trials wait for, unless told otherwise.
    """
    said = on_trial(built, database, cases, COLLFORGE_GUARD=guard, COLLFORGE_GUARD_AFTER=after)
    found = [len(VERDICT.findall(one.err)) for one in said]
    trials = {"sizes": 2, "truncates": 4} if after else {}
    assert found == [trials.get(case, 0) for case in cases]


def test_an_error_on_one_rank_of_a_nonblocking_trial(built: Installation, database: Path) -> None:
    env = started(built)
    (said,) = on_trial(built, database, ["itruncates"], COLLFORGE_GUARD_AFTER="0", **env)
    assert VERDICT.findall(said.err) == ["iscatter"] * 4


def test_waiting_for_a_late_root_is_no_part_of_a_trial(built: Installation, database: Path) -> None:
    (said,) = on_trial(built, database, ["late"])
    found = re.findall(r"took (\S+) s, native (\S+) s: (?:kept|dropped)$", said.err, re.MULTILINE)
    assert len(found) == 1
    assert all(float(seconds) < 0.015 for seconds in found[0]), "the root is late by 20 ms"


@either
@pytest.mark.parametrize(
    ("guard", "forced", "again"),
    [
        pytest.param("0", False, [], marks=wide),
        pytest.param("1", False, ["bcast"], marks=wide),
        ("reductions", False, ["allreduce", "bcast"]),
        ("reductions", True, []),
    ],
)
def test_measured_winners_are_tried_again(
    built: Installation, tmp_path: Path, guard: str, forced: bool, again: list[str]
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
    more = {"COLLFORGE_FORCE": f"*={chosen['bcast'].family}"} if forced else {}
    (said,) = on_trial(built, tmp_path / "db", ["many"], COLLFORGE_GUARD=guard, **more)
    assert sorted(VERDICT.findall(said.err)) == again


@either
@pytest.mark.parametrize(("nodes", "served"), [("2", True), ("map:0,1,0,1", False)])
def test_prefix_reductions_follow_the_map_on_consecutive_ranks(
    built: Installation, database: Path, nodes: str, served: bool
) -> None:
    more = {"COLLFORGE_NODE_MAP": nodes, "COLLFORGE_VERBOSE": "2"}
    (said,) = on_trial(built, database, ["scans"], **more)
    (line,) = re.findall(r"scan@.*2x2, 64 to 76 bytes: (\S+)", said.err)
    assert (line != "native") == served


@either
@pytest.mark.parametrize("grid", [(2, 2), (1, 4), (3, 2)], ids=str)
def test_a_program_with_rows_and_columns(
    built: Installation, launch: Launch, database: Path, tmp_path: Path, grid: tuple[int, int]
) -> None:
    """examples/pencil_fft.c checks its result."""
    program = compiled(built, str(TOP / "examples" / "pencil_fft"), "-lm")
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


def map_of_2x2(built: Installation, path: Path) -> None:
    """The map of that database, in which the fast variants win; 2x2 itself has no winners."""
    made = build.read_manifest()
    slow_and_fast(built, made, path)
    place = Place("local", built.library.name, built.library.first_line, "2x2")
    with Store(path) as store:
        store.replace_map(place, layout_map.points(layout_map.read_sources(store, made, place)))


@wide
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


def test_what_trials_tell_of_winners() -> None:
    """Verdicts on another variant or size do not count; a winner without one counts as kept."""
    lane, other = (Variant("bcast", family, "", family) for family in ("full_lane", "flat"))
    said = [(lane, 8192, True), (lane, 8192, False), (lane, 4096, False), (other, 8192, False)]
    found = [Verdict("2x2", one, size, 1.0, 1.0, 3, False, kept) for one, size, kept in said]
    at = {size: parse(f"bcast:native@2x2,bytes={size}") for size in (4096, 8192, 16384)}
    shares = trials.dropped(found, [(one, lane) for one in at.values()])
    assert shares == {at[4096].problem: 1.0, at[8192].problem: 0.5}
    rows = [
        Row("2x2", "bcast", 8192, "full_lane", ratio, ratio, ratio, None, dropped)
        for ratio, dropped in ((4.0, 0.0), (0.25, 1.0), (0.25, 0.5), (0.25, None))
    ]
    cells = [list(column.cells)[-1] for column in Found("", rows, 2).table().columns]
    assert cells[1:] == ["4", "4", "0.50", "0.25", "25.0%", "", "0.84", "62.5%"]


@wide
def test_the_map_is_timed_where_nobody_measured(built: Installation, tmp_path: Path) -> None:
    map_of_2x2(built, tmp_path / "db")
    words = ["probe", "unmeasured", "--system", "local", "--layout", "2x2,3+1", "--per", "block"]
    words += ["--mpi", built.library.name, "--collective", "bcast,allgather", "--sizes", "8KiB"]
    words += ["--db", str(tmp_path / "db"), "--launches", "1", "--json", str(tmp_path / "json")]
    assert main.main([*words, "--samples", "3", "--trials", "1"]) == 0
    rows = json.loads((tmp_path / "json").read_text())["rows"]
    assert {row["dropped"] for row in rows} <= {0, 1}
    assert [(row["layout"], row["collective"]) for row in rows] == [
        (name, collective) for name in ("2x2", "3+1") for collective in ("bcast", "allgather")
    ]
    assert all(row["variant"] != "native" for row in rows)
