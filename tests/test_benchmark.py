"""The cases and summaries of `collforge bench`, without launches."""

from __future__ import annotations

import json
import re
import statistics
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import Launch

from collforge import units
from collforge.case import parse
from collforge.cases import timing_case
from collforge.db import Choice, Store, Winner
from collforge.errors import CollforgeError
from collforge.generator.manifest import Manifest
from collforge.layout import from_name
from collforge.place import Place
from collforge.toolchain import libraries
from collforge.tuner.cli import bench_tables, plots
from collforge.tuner.decide.plan import Goal
from collforge.tuner.native import algorithms, export
from collforge.tuner.run import benchmark, pictures
from collforge.tuner.run.benchmark import Known, Measured
from collforge.tuner.run.ingest import Cost
from collforge.variant import Variant, split_name

PLACE = Place("emulated", "openmpi", "Open MPI v4.1.4", "4x2")
CHAIN = "full_lane[lanes=0,lane_algorithm=chain,radix=0,segment_bytes={},window=4,node_phase={},overlap=no]"
NATIVE_PHASES, SHARED_PHASES = (CHAIN.format(4096, way) for way in ("native", "shared"))
PLAIN = CHAIN.replace("chain", "native").replace("window=4", "window=0").format(0, "native")


def variant(made: Manifest, name: str) -> Variant:
    family, _ = split_name(name)
    found = [v.fingerprint for v in made.variants_of("bcast") if v.family == family]
    return Variant.from_name("bcast", name, *found)


@pytest.fixture
def known(made: Manifest) -> Known:
    """Measurements of a broadcast of 1 MiB: chains are the fastest, and the one with shared memory wins."""
    problem = timing_case(made, "bcast", from_name("4x2"), 1 << 20)
    times = {"native": 4.0, PLAIN: 3.0, NATIVE_PHASES: 1.0, SHARED_PHASES: 0.5}
    launch = {variant(made, name): [seconds] for name, seconds in times.items()}
    won = variant(made, SHARED_PHASES)
    winner = Winner(PLACE, "", Choice(1 << 20, won, 8.0, 7.0, 9.0, 3), "2026-01-01T00:00:00Z")
    goal = Goal(from_name("4x2"), ("bcast",), (1 << 20,))
    return Known(made, goal, {problem.problem: [launch]}, {("bcast", 1 << 20): winner})


@pytest.mark.parametrize(("text", "variables"), [("MR:A=1 B='x y'", {"A": "1", "B": "x y"})])
def test_an_environment_is_read(text: str, variables: dict[str, str]) -> None:
    assert benchmark.Environment.parse(text) == benchmark.Environment("MR", variables)


@pytest.mark.parametrize("text", ["MR", "MR:", ":A=1", "M R:A=1", "MR:A", "MR:=1"])
def test_an_environment_without_a_name_or_a_value_is_an_error(text: str) -> None:
    with pytest.raises(CollforgeError, match="is not NAME:VARIABLE=VALUE"):
        benchmark.Environment.parse(text)


def test_seconds_have_three_digits() -> None:
    told = [units.format_seconds(one) for one in (1234.5, 0.113, 1.5e-3, 0.9996e-3, 2e-8)]
    assert told == ["1234 s", "113 ms", "1.50 ms", "1.00 ms", "0.0200 us"]


@pytest.mark.wide
def test_native_in_another_environment_is_a_candidate(collforge: Launch, tmp_path: Path) -> None:
    """It is measured in as many launches; a variable that breaks the launch shows that the ranks get it."""
    where = ["--system", "local", "--mpi", "openmpi", "--layout", "2x1"]
    words = [*where, "--tuned-only", "--launches", "2", "--samples", "2", "bcast@2x1,bytes=64"]
    path = tmp_path / "bench.json"
    other = ["--native-also", "other:OMPI_MCA_coll_tuned_use_dynamic_rules=1"]
    done = collforge("bench", *other, "--json", str(path), *words)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(path.read_text())["rows"]
    assert row["families"].keys() == {"native/other"}
    assert [len(launch) for launch in row["samples"]["native/other"]] == [2, 2]
    broken = collforge("bench", "--native-also", "broken:OMPI_MCA_coll=self", *words)
    assert broken.returncode != 0


@pytest.mark.wide
@pytest.mark.either
@pytest.mark.parametrize("mpi", ["openmpi", "mpich"])
def test_natives_own_algorithms_are_candidates(mpi: str, collforge: Launch, tmp_path: Path) -> None:
    """Each that runs on three ranks has samples, also allreduce's with the number of one that fails.

    The database keeps the fastest.
    """
    path, database = tmp_path / "bench.json", tmp_path / "db"
    with Store(database):
        pass
    where = ["--system", "local", "--mpi", mpi, "--layout", "3x1"]
    cases = ["allgather@3x1,bytes=64", "allreduce@3x1,bytes=64"]
    words = [*where, "--launches", "1", "--samples", "2", *cases]
    asked = ["--tuned-only", "--native-algorithms", "--json", str(path), *words]
    done = collforge("bench", *asked, "--db", str(database), timeout=280)
    assert done.returncode == 0, done.stderr
    file = algorithms.tuning_file(libraries.find(mpi), tmp_path, 3)
    best = {}
    for row in json.loads(path.read_text())["rows"]:
        titles = file.algorithms[row["collective"]].values()
        found = {name for name in row["samples"] if name.startswith("native/")}
        assert found == {f"native/algorithm[{title}]" for title in titles}
        assert len(found) > 2
        medians = {name: statistics.median(row["samples"][name][0]) for name in found}
        best[row["collective"]] = min(medians.items(), key=lambda one: one[1])
    assert "was not measured" not in done.stdout
    with Store(database) as store:
        kept = {one.collective: one for one in store.native_best()}
    told = {name: (f"native/algorithm[{one.algorithm}]", one.seconds) for name, one in kept.items()}
    assert told == best and {one.bytes for one in kept.values()} == {64}


def test_an_algorithm_that_failed_is_told() -> None:
    problem = parse("allreduce:native@4x1,bytes=8")
    other = benchmark.Environment("algorithm", {}, {"allreduce": "ring", "bcast": "chain"})
    seen = Measured({problem.problem: [{other.renamed(Variant("allreduce")): [1.0]}]}, {})
    none = Measured({problem.problem: [{Variant("allreduce"): [1.0]}]}, {})
    assert algorithms.not_measured([other], [problem], seen) == []
    assert algorithms.not_measured([other], [problem], none) == [
        "native/algorithm[ring] of allreduce"
    ]


@pytest.mark.wide
def test_an_exported_file_is_a_candidate(collforge: Launch, tmp_path: Path) -> None:
    path, rules = tmp_path / "bench.json", tmp_path / "rules.conf"
    where = ["--system", "local", "--mpi", "openmpi", "--layout", "2x1"]
    words = [*where, "--launches", "1", "--samples", "2"]
    asked = ["--tuned-only", "--exported", str(rules), "--json", str(path), *words]
    missing = collforge("bench", *asked, "bcast@2x1,bytes=64")
    assert missing.returncode == 2 and "there is no file" in missing.stderr
    for wrong in ('{"this is": "of MPICH"}', export.openmpi_rules(3, {"bcast": {64: 6}})):
        rules.write_text(wrong)
        refused = collforge("bench", *asked, "bcast@2x1,bytes=64")
        assert refused.returncode == 2 and "has no rules of openmpi for 2 ranks" in refused.stderr
    rules.write_text(export.openmpi_rules(2, {"bcast": {64: 6}}))
    unshown = collforge("bench", "--steps", *asked[1:], "bcast@2x1,bytes=64")
    assert unshown.returncode == 2 and "do not go with" in unshown.stderr
    done = collforge("bench", *asked, "bcast@2x1,bytes=64")
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(path.read_text())["rows"]
    assert row["families"].keys() == {"native/exported"}


def test_the_best_known_point_of_every_family_is_measured(known: Known) -> None:
    problem = timing_case(known.made, "bcast", known.goal.layout, 1 << 20)
    names = benchmark.usual_variants(known, problem)
    assert names[0] == SHARED_PHASES
    assert NATIVE_PHASES not in names, "not the best of its family"
    families = {split_name(name)[0] for name in names}
    assert families == {entry.family for entry in known.entries(problem)}
    unknown = timing_case(known.made, "bcast", known.goal.layout, 8)
    assert PLAIN in benchmark.usual_variants(known, unknown), "the first point, where none is known"


def test_sizes_in_between_are_served_as_in_the_runtime(known: Known) -> None:
    """test_serving.py tests the rule itself."""
    names = {}
    tie = Choice(1 << 14, Variant("bcast"), 1.0, 1.0, 1.0, 3, "tie")
    chain = Choice(4096, variant(known.made, NATIVE_PHASES), 2.0, 1.5, 2.5, 3)
    for choice in (chain, tie):
        names["bcast", choice.bytes] = Winner(PLACE, "", choice, "2026-01-01T00:00:00Z")
    some = Known(known.made, known.goal, {}, names)

    def tuned(nbytes: int, collective: str = "bcast") -> str | None:
        found = some.tuned(timing_case(known.made, collective, known.goal.layout, nbytes))
        return found.name if found else None

    assert [tuned(size) for size in (3444, 3445, 8191, 8192)] == [
        *(None, NATIVE_PHASES, NATIVE_PHASES, "native")
    ]
    assert tuned(4096, "ibcast") == NATIVE_PHASES, "a nonblocking form without winners of its own"


def test_winners_of_older_variants_are_none(known: Known) -> None:
    older = Variant.from_name("bcast", SHARED_PHASES, "older")
    choice = Choice(1 << 20, older, 2.0, 1.5, 2.5, 3)
    names = {("bcast", 1 << 20): Winner(PLACE, "", choice, "2026-01-01T00:00:00Z")}
    problem = timing_case(known.made, "bcast", known.goal.layout, 1 << 20)
    assert Known(known.made, known.goal, {}, names).tuned(problem) is None


def test_where_native_cannot_serve_the_first_variant_does(made: Manifest) -> None:
    """A hybrid collective for which no variant was measured often enough."""
    at = from_name("1x2")
    native = Choice(8, Variant("hybrid_bcast"), 1.0, 1.0, 1.0, 3)
    winner = Winner(PLACE, "", native, "2026-01-01T00:00:00Z")
    known = Known(made, Goal(at, ("hybrid_bcast",), (8,)), {}, {("hybrid_bcast", 8): winner})
    tuned = known.tuned(timing_case(made, "hybrid_bcast", at, 8))
    assert tuned and tuned.family == "hybrid" and tuned.fingerprint


def test_steps_are_added_one_by_one(known: Known) -> None:
    problem = timing_case(known.made, "bcast", known.goal.layout, 1 << 20)
    assert benchmark.stages(known, problem) == {
        "plain": PLAIN,
        "lane algorithm": NATIVE_PHASES,
        "node phases": SHARED_PHASES,
        "tuned": SHARED_PHASES,
    }
    one_node = Goal(from_name("1x2"), ("bcast",), (8,))
    assert benchmark.stages(Known(known.made, one_node), problem) == {}


def test_a_row_has_ratios_the_limit_and_costs(known: Known) -> None:
    problem = timing_case(known.made, "bcast", known.goal.layout, 1 << 20)
    won, native = variant(known.made, SHARED_PHASES), Variant("bcast")
    key = problem.problem
    costs = {
        (key, native): [Cost(2.0, 0), Cost(4.0, 0), Cost(8.0, 0)],
        (key, won): [Cost(1.0, 512), Cost(2.0, 4096), Cost(3.0, 512)],
    }
    row = benchmark.make_row(replace(known, rate=25e6), problem, Measured(known.history, costs))
    assert (row.native, row.tuned) == (4.0, SHARED_PHASES)
    assert row.ratio == pytest.approx(8.0)
    assert row.families == {"full_lane": row.ratio}
    assert row.limit == pytest.approx((1 << 20) / 25e6)
    assert row.of_limit == pytest.approx(row.limit / 0.5)
    assert row.native_of_limit == pytest.approx(row.limit / 4.0)
    assert (row.cpu_ratio, row.tuned_memory) == (0.5, 4096)
    bare = benchmark.make_row(known, problem, Measured(known.history, {}))
    assert (row.neighbour, row.over_neighbour) == ("", None), (
        "nothing is stored beside the only size"
    )
    assert (bare.limit, bare.of_limit, bare.cpu_ratio, bare.tuned_memory) == (None,) * 4


@pytest.mark.parametrize("rate", [25e6, None])
def test_tables_name_variants_shortly_and_explain_them(
    known: Known, capsys: pytest.CaptureFixture[str], rate: float | None
) -> None:
    problem = timing_case(known.made, "bcast", known.goal.layout, 1 << 20)
    row = benchmark.make_row(replace(known, rate=rate), problem, Measured(known.history, {}))
    bench_tables.print_each([row], "here", "native")
    shown = capsys.readouterr().out
    names = dict(re.findall(r"^(full_lane\.\d) += (\S+)$", shown, re.MULTILINE))
    assert set(names.values()) == {PLAIN, NATIVE_PHASES, SHARED_PHASES}
    cells = re.findall(r"│ bcast +│ 1 MiB │ (\S+) +│ +\S+ │ +(\S+) │", shown)
    ratios = {names.get(name, name): float(ratio) for name, ratio in cells}
    assert ratios == pytest.approx(
        {"native": 1.0, **{n: row.variants[n] for n in names.values()}}, 0.01
    )
    # Without a terminal, the table is as wide as its columns need.
    families = {f"family_number_{number}": 1.23 for number in range(9)}
    bench_tables.print_rows([replace(row, families=families)], "here", "native")
    shown = capsys.readouterr().out
    assert f"full_lane.1 = {SHARED_PHASES}" in shown and "…" not in shown
    assert ("limit" in shown) == (rate is not None)


def test_a_plot_has_a_panel_for_each_title(tmp_path: Path) -> None:
    line = pictures.Line("native", "o-", [(1024, 1e-3), (4096, 2e-3)])
    picture = pictures.LinePicture({"bcast": [line], "reduce": [line]})
    plots.draw(picture, tmp_path / "two.svg")
    plots.draw(pictures.LinePicture({}), tmp_path / "none.png")
    text = (tmp_path / "two.svg").read_text()
    assert "<!-- bcast -->" in text and "<!-- reduce -->" in text
    assert (tmp_path / "none.png").stat().st_size > 0


@pytest.mark.parametrize(
    ("nbytes", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (3 << 30, "3 GiB")]
)
def test_sizes_in_three_digits(nbytes: int, text: str) -> None:
    assert units.format_about(nbytes) == text
