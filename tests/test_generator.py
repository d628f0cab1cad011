"""The generator: specs are checked, compositions are proven, and the C compiles clean with both libraries."""

from __future__ import annotations

import math
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from support import TOP

from collforge import case, layout
from collforge.errors import CollforgeError
from collforge.generator import catalogue, load, manifest, proof, render
from collforge.generator.expand import expand
from collforge.generator.model import Composition, Step, Variant
from collforge.generator.predicates import ExpressionError, parse
from collforge.generator.semantics import ProofError
from collforge.generator.window import Piece, RaceError

SPECS = load.load_specs()
VARIANTS = expand(SPECS)


def by_name(variants: list[Variant]) -> dict[str, Variant]:
    return {variant.name: variant for variant in variants}


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.name)
def test_every_composition_is_proven(variant: Variant) -> None:
    assert proof.prove(variant) >= 3


def test_two_families_serve_all_collectives() -> None:
    assert len(SPECS.standard) >= 16
    for name in ("full_lane", "hierarchical"):
        assert set(SPECS.families[name].compositions) == {one.name for one in SPECS.standard}


def test_one_family_serves_all_hybrid_collectives() -> None:
    assert len(SPECS.hybrid) == 8
    assert set(SPECS.families["hybrid"].compositions) == {one.name for one in SPECS.hybrid}


def without_step(variant: Variant, index: int) -> Variant:
    steps = variant.composition.steps
    kept = (*steps[:index], *steps[index + 1 :])
    return replace(variant, composition=Composition(kept, variant.composition.predicate))


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.name)
def test_a_missing_step_is_caught(variant: Variant) -> None:
    for index in range(len(variant.composition.steps)):
        with pytest.raises(ProofError, match=variant.name):
            proof.prove(without_step(variant, index))


@pytest.mark.parametrize(
    ("name", "index", "options", "why"),
    [
        # When a rank enters a reduction, other ranks of the node may still read the old contents.
        ("hybrid_allreduce", 1, {"to": "part"}, "rank 0 writes what rank 1 may use"),
        ("hybrid_reduce", 1, {"to": "part"}, "rank 0 writes what rank 1 may use"),
    ],
)
def test_a_race_in_a_piece_is_caught(
    name: str, index: int, options: dict[str, str], why: str
) -> None:
    variant = by_name(VARIANTS)[name]
    steps = list(variant.composition.steps)
    old = steps[index]
    steps[index] = Step(old.call, old.where, {**old.options, **options})
    broken = replace(variant, composition=Composition(tuple(steps), variant.composition.predicate))
    with pytest.raises(ProofError, match=why):
        proof.prove(broken)


CARRIERS_FOR_ALL = {"ranks": "carriers", "for": "all"}
ALL_FOR_CARRIERS = {"ranks": "all", "for": "carriers"}
CARRIERS_FOR_ROOT = {"ranks": "carriers", "for": "root"}


def with_waits(variant: Variant, old: dict[str, str], new: dict[str, str]) -> Variant:
    """The variant, with the keys ``new`` in its waits that have the keys ``old``."""
    steps = [
        replace(step, options={**step.options, **new})
        if step.call == "wait" and old.items() <= step.options.items()
        else step
        for step in variant.composition.steps
    ]
    assert steps != list(variant.composition.steps)
    return replace(variant, composition=Composition(tuple(steps), variant.composition.predicate))


@pytest.mark.parametrize(
    "name", [f"hybrid_{one}" for one in ("bcast", "scatter", "allgather", "gather")]
)
@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (CARRIERS_FOR_ALL, ALL_FOR_CARRIERS, "writes what rank|reads what rank|still reads"),
        (ALL_FOR_CARRIERS, CARRIERS_FOR_ALL, "is None, should be|may overwrite|may leave"),
        (CARRIERS_FOR_ALL, CARRIERS_FOR_ROOT, "the root is on another node|wait for root"),
    ],
)
def test_the_wrong_wait_is_caught(
    name: str, old: dict[str, str], new: dict[str, str], why: str
) -> None:
    """Races if carriers do not wait for all ranks, or ranks do not wait for the carriers."""
    with pytest.raises(ProofError, match=why):
        proof.prove(with_waits(by_name(VARIANTS)[name], old, new))


@pytest.mark.parametrize("name", ["hybrid_bcast", "hybrid_scatter"])
@pytest.mark.parametrize("new", [ALL_FOR_CARRIERS, {"ranks": "root", "for": "carriers"}])
def test_carriers_wait_for_the_root(name: str, new: dict[str, str]) -> None:
    """Races if the root is not a carrier and the carriers do not wait for it."""
    with pytest.raises(ProofError, match="reads what rank"):
        proof.prove(with_waits(by_name(VARIANTS)[name], CARRIERS_FOR_ROOT, new))


@pytest.mark.parametrize("name", ["shared_window_hybrid_bcast", "shared_window_hybrid_allgather"])
def test_who_waits_for_nobody_sees_nothing(name: str) -> None:
    with pytest.raises(ProofError, match=r"may lose what it stores|rank 1 may leave before rank 0"):
        proof.prove(with_waits(by_name(VARIANTS)[name], {}, {"ranks": "root"}))


def test_a_result_that_others_still_store() -> None:
    variant = by_name(VARIANTS)["shared_window_hybrid_allreduce"]
    *steps, last = variant.composition.steps
    assert last.call == "wait"
    broken = replace(variant, composition=Composition(tuple(steps), variant.composition.predicate))
    with pytest.raises(ProofError, match="rank 0 may lose what it stores to rank 1"):
        proof.prove(broken)


def piece() -> Piece:
    return Piece(2, {"all": [0, 1, 2], "carriers": [0], "root": [1]})


def test_what_the_root_has_stored_comes_by_way_of_a_carrier() -> None:
    made = piece()
    made.store(1, 0, [((1, 0),)])
    assert not made.may_read(2, 0)
    made.wait("all", "carriers")  # the carriers do not see the root's store yet
    assert not made.may_read(2, 0)
    made.wait("carriers", "root")
    made.wait("all", "carriers")
    assert made.may_read(2, 0)


def test_what_follows_a_wait_is_not_known_by_it() -> None:
    made = piece()
    made.wait("carriers", "all")
    made.read(2, [0])
    with pytest.raises(RaceError, match="rank 0 writes what rank 2 may use"):
        made.write(0, [0], [((0, 0),)])


def test_a_rank_that_leaves_before_the_others_have_come() -> None:
    made = piece()
    made.wait("carriers", "all")
    made.leave(meets=False)
    with pytest.raises(RaceError, match="rank 1 may leave before rank 0 has come"):
        made.leave(meets=True)
    made.wait("all", "carriers")
    made.leave(meets=True)


def test_a_rank_that_leaves_while_a_carrier_reads() -> None:
    made = piece()
    made.read(0, [1])
    with pytest.raises(RaceError, match="rank 1 may overwrite what rank 0 still reads"):
        made.leave(meets=False)


def test_a_rank_that_leaves_while_another_writes() -> None:
    """It writes the value that is there already, but the first rank may have changed it since."""
    made = piece()
    made.wait("all", "all")
    for rank in (0, 1, 2):
        made.write(rank, [0], [((0, 0),)])
    with pytest.raises(RaceError, match="rank 0 may lose what it stores to rank 1, which"):
        made.leave(meets=False)
    made.wait("all", "all")
    made.leave(meets=True)


def test_a_wrong_root_is_caught() -> None:
    variant = by_name(VARIANTS)["full_lane_reduce"]
    steps = list(variant.composition.steps)
    last = steps[-1]
    steps[-1] = Step(last.call, last.where, {**last.options, "root": "leader"})
    broken = replace(variant, composition=Composition(tuple(steps), variant.composition.predicate))
    with pytest.raises(ProofError, match=r"3\+1"):  # no rank of node 1 has the root's node rank
        proof.prove(broken)


def test_ranks_that_disagree_on_a_step_are_a_deadlock() -> None:
    variant = by_name(VARIANTS)["hierarchical_allgather"]
    steps = list(variant.composition.steps)
    bcast = steps[2]
    only_leaders = parse("node_rank == 0", ("node_rank",), "test")
    steps[2] = Step(bcast.call, only_leaders, bcast.options)
    broken = replace(variant, composition=Composition(tuple(steps), variant.composition.predicate))
    with pytest.raises(ProofError, match="deadlock"):
        proof.prove(broken)


@pytest.mark.parametrize("name", ["full_lane_allreduce", "hierarchical_scan"])
def test_order_matters_where_ranks_are_not_consecutive(name: str) -> None:
    """Without the step that permutes data to node order, the proof fails with the wrong cell."""
    variant = by_name(VARIANTS)[name]
    permute, *rest = variant.composition.steps
    never = Step(permute.call, parse("node < 0", ("node",), "test"), permute.options)
    composition = Composition((never, *rest), variant.composition.predicate)
    with pytest.raises(ProofError, match="cyclic"):
        proof.prove(replace(variant, composition=composition))


@pytest.fixture
def specs_copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(load.SPECS, tmp_path / "specs"))


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("collectives/bcast.toml", "summary =", "sumary =", "bcast.toml.*summary"),
        (
            "collectives/bcast.toml",
            '"root", "root"]',
            '"root", "rot"]',
            "bcast.toml: signature",
        ),
        ("collectives/scan.toml", '"rank + 1"', '"rnk + 1"', "scan.toml.*last.*rnk"),
        (
            "collectives/scan.toml",
            "[result]",
            "[result]\nmore = 1",
            "scan.toml.*unknown key 'more'",
        ),
        ("families/full_lane.toml", "[bcast]", "[bcats]", "full_lane.toml.*bcats"),
        (
            "families/full_lane.toml",
            'call = "scatter"',
            'call = "scater"',
            "full_lane.toml.*scater",
        ),
        (
            "families/full_lane.toml",
            'to = "slice"',
            'to = "slic"',
            "full_lane.toml.*slic",
        ),
        ("families/full_lane.toml", 'split = "slices", ', "", "full_lane.toml.*split"),
        ("families/full_lane.toml", "nodes > 1", "noods > 1", "full_lane.toml.*noods"),
        ("algorithms/chain.toml", "calls =", "call =", "chain.toml.*calls"),
        ("roles.toml", 'type = "MPI_Op"', 'type = "MPI_Opp"', r"roles.toml.*\[op\].*type"),
        ("roles.toml", '["recvbuf"]', '["sendbuf"]', r"roles.toml.*sendbuf.*const void"),
    ],
)
def test_spec_errors_name_file_and_key(
    specs_copy: Path, file: str, old: str, new: str, message: str
) -> None:
    path = specs_copy / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(CollforgeError, match=message):
        load.load_specs(specs_copy)


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        (
            "algorithms/scatter_allgather.toml",
            "8192,",
            "8193,",
            "scatter_all.*'segment_bytes'.*'values'.*chain",
        ),
        (
            "families/full_lane.toml",
            "[buffers]",
            '[[parameter]]\nname = "window"\nsummary = ""\nvalues = [1]\nminimum = 1\n\n[buffers]',
            "full_lane.toml.*'window'",
        ),
    ],
)
def test_parameters_of_one_name_mean_one_thing(
    specs_copy: Path, file: str, old: str, new: str, message: str
) -> None:
    path = specs_copy / file
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(CollforgeError, match=message):
        expand(load.load_specs(specs_copy))


def test_expressions_allow_nothing_but_arithmetic() -> None:
    for text in ("__import__('os')", "a.b", "[1]", "f(1)", "'x'", "1 <", "1 < 2 < 3"):
        with pytest.raises(ExpressionError):
            parse(text, ("a",), "test")


def test_expressions_mean_the_same_in_c(tmp_path: Path) -> None:
    """Python and C agree on every expression of the specs, over all small values."""
    texts = {
        "b if a == 2 else a + b * 3 - 1",
        "a > 1 and (b > 1 or not a == 3)",
        "(a + 7) % 5 * (b + 1)",
        "(a * 9 + b) // 4",
        "a != b or a >= 2 and b <= 1",
    }
    names = {"a": "a", "b": "b"}
    lines, expected = [], []
    for text in sorted(texts):
        expression = parse(text, tuple(names), "test")
        for a in range(4):
            for b in range(4):
                call = f"{{int a = {a}, b = {b};"
                lines.append(f'{call} printf("%d\\n", (int)({expression.to_c(names)})); }}')
                expected.append(str(int(expression.evaluate({"a": a, "b": b}))))
    source = tmp_path / "e.c"
    source.write_text("#include <stdio.h>\nint main(void) {\n" + "\n".join(lines) + "\n}\n")
    subprocess.run(["gcc", "-o", tmp_path / "e", source], check=True, timeout=60)
    run = subprocess.run([tmp_path / "e"], capture_output=True, text=True, check=True, timeout=60)
    assert run.stdout.split() == expected


@pytest.mark.parametrize(
    "name",
    ["4x2", "3+1", "1+1+1", "cyclic:2x3", "map:0.1.1.0", "4x2x8", "3+1x2", "map:0.1.0x3"],
)
def test_layout_names_round_trip(name: str) -> None:
    assert layout.from_name(layout.from_name(name).name) == layout.from_name(name)


def test_layout_names_are_canonical() -> None:
    assert layout.from_name("2+2").name == "2x2"
    assert layout.from_name("map:5.5.7.7").name == "2x2"
    assert layout.from_name("map:0.1.0.1").name == "cyclic:2x2"
    assert layout.from_name("2+2x1").name == "2x2"
    assert layout.from_name("map:0.1.0.1x2").name == "cyclic:2x2x2"
    assert layout.from_name("4x1x2").threads == layout.from_name("4x1x2").facts()["threads"] == 2
    with pytest.raises(layout.LayoutError, match="NODESxRANKS"):
        layout.from_name("4by2")


def test_case_strings_round_trip() -> None:
    text = (
        "allreduce:full_lane[lane_algorithm=chain,segment_bytes=4096]@4x2,bytes=262144,"
        "type=double,op=sum,in_place,seed=7"
    )
    read = case.parse(text)
    assert str(read) == text
    assert read.problem == "allreduce@4x2,bytes=262144,type=double,op=sum,in_place,seed=7"
    assert case.parse(read.problem) == read.by("native")
    for wrong in (
        "allreduce",
        "allreduce:native@4x2",
        "a:b@4x2,bytes=1,colour=red",
        text + ",,",
    ):
        with pytest.raises(CollforgeError, match=r"case string|option"):
            case.parse(wrong)


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("generated")
    render.generate(out)
    return out


def test_the_catalogue_is_that_of_the_specs() -> None:
    page = TOP / "docs" / "catalogue.md"
    assert page.read_text() == catalogue.catalogue(SPECS), "run make catalogue"


def test_generation_is_reproducible_and_touches_nothing_unchanged(
    generated: Path,
) -> None:
    before = {path: path.stat().st_mtime_ns for path in generated.rglob("*") if path.is_file()}
    stale = generated / "variants" / "gone_family_bcast.c"
    stale.write_text("")
    render.generate(generated)
    after = {path: path.stat().st_mtime_ns for path in generated.rglob("*") if path.is_file()}
    assert before == after
    assert not stale.exists()


def test_the_manifest_round_trips(generated: Path) -> None:
    read = manifest.load(generated / "manifest.json")
    assert read.to_json() == (generated / "manifest.json").read_text()
    assert {(v.family, v.collective) for v in read.variants} == {
        (v.family.name, v.collective.name) for v in VARIANTS
    }
    (generated.parent / "other.json").write_text('{"schema": 99}')
    with pytest.raises(CollforgeError, match="collforge generate"):
        manifest.load(generated.parent / "other.json")


def test_points_leave_out_what_has_no_meaning(generated: Path) -> None:
    read = manifest.load(generated / "manifest.json")
    (bcast,) = [v for v in read.variants_of("bcast") if v.family == "full_lane"]
    facts = layout.from_name("4x2").facts()
    spots = bcast.points(facts)
    (offered,) = [p.values for p in bcast.parameters if p.name == "lane_algorithm"]
    known = [SPECS.algorithms[str(name)] for name in offered if name != "native"]
    each = [math.prod(len(p.searched(facts)) for p in algorithm.parameters) for algorithm in known]
    overlapping = sum(n for n, algorithm in zip(each, known) if algorithm.pipelined)
    assert len(spots) == 2 * (1 + sum(each)) + overlapping
    assert max(each) > 1 and overlapping
    native = {"lanes": 0, "lane_algorithm": "native", "radix": 0, "segment_bytes": 0, "window": 0}
    for phase in ("native", "shared"):
        assert {**native, "node_phase": phase, "overlap": "no"} in spots


@pytest.mark.parametrize(
    ("at", "expected"), [("2x2", [2]), ("3x2", [2, 3]), ("4x2", [2, 3, 4]), ("5x1", [2, 3, 4, 8])]
)
def test_of_values_that_are_alike_the_first_is_searched(
    generated: Path, at: str, expected: list[int]
) -> None:
    read = manifest.load(generated / "manifest.json")
    (gather,) = [v for v in read.variants_of("gather") if v.family == "full_lane"]
    (radix,) = [p for p in gather.parameters if p.name == "radix"]
    assert list(radix.searched(layout.from_name(at).facts())) == expected


@pytest.mark.parametrize(
    ("at", "expected"), [("4x2", {0}), ("2x4", {0, 2, 3}), ("9x9", {0, *range(2, 9)})]
)
def test_fewer_lanes_are_searched_where_there_are_more(
    generated: Path, at: str, expected: set[int]
) -> None:
    read = manifest.load(generated / "manifest.json")
    for entry in read.variants:
        if entry.family == "full_lane":
            points = entry.points(layout.from_name(at).facts())
            assert {point["lanes"] for point in points} == expected


def test_what_means_nothing_here_is_not_searched(generated: Path) -> None:
    """Lane algorithms on one node, and threads with one thread per process."""
    read = manifest.load(generated / "manifest.json")
    found = {(v.family, v.collective): v for v in read.variants}

    def values(key: tuple[str, str], name: str, at: str) -> set[object]:
        points = found[key].points(layout.from_name(at).facts())
        return {point[name] for point in points}

    assert values(("hybrid", "hybrid_bcast"), "lane_algorithm", "1x4") == {"native"}
    assert "chain" in values(("hybrid", "hybrid_bcast"), "lane_algorithm", "2x2")
    assert values(("rank_shift", "bcast"), "carrier", "4x1") == {"nonblocking", "exchange"}
    assert "threads" in values(("rank_shift", "bcast"), "carrier", "4x1x2")
    assert values(("thread_split", "bcast"), "threads", "4x1x4") == {0, 2, 3}


@pytest.mark.parametrize(("total", "expected"), [(8, 1), (1024, 1), (5000, 4), (10**9, 9)])
def test_segments_as_large_as_the_data_are_one_point(
    generated: Path, total: int, expected: int
) -> None:
    read = manifest.load(generated / "manifest.json")
    facts = {**layout.from_name("4x2").facts(), "bytes": total, "total_bytes": total}
    for entry in read.variants:
        (domain,) = [p for p in entry.parameters if p.name == "segment_bytes"] or [None]
        if domain is not None:
            found = {point["segment_bytes"] for point in entry.points(facts)} - {0}
            assert len(found) == expected
            assert max(domain.values) in found, "it stands for all that are not smaller"


def test_every_number_of_lanes_is_proven() -> None:
    for variant in VARIANTS:
        if variant.family.name == "full_lane":
            assert list(proof.lane_numbers(variant, layout.from_name("2x3"))) == [0, 1, 2]
            roots = 8 if variant.collective.rooted else 1
            orders = 2 if variant.collective.has_op else 1
            assert proof.prove(variant, ["2x4"]) == 4 * roots * orders


@pytest.mark.either
@pytest.mark.parametrize("mpi", ["openmpi", "mpich"])
def test_generated_c_compiles_clean(generated: Path, tmp_path: Path, mpi: str) -> None:
    runtime = Path(load.__file__).parents[1] / "runtime"
    includes = [f"-I{runtime / sub}" for sub in ("include", "src", "bench")]
    sources = sorted(generated.rglob("*.c"))
    wrappers = len(list(generated.glob("wrappers*.c")))
    assert len(sources) == len(VARIANTS) + wrappers + 5
    flags = [
        "-std=c11",
        "-O2",
        "-Wall",
        "-Wextra",
        "-Wmissing-prototypes",
        "-Werror",
        "-fPIC",
        "-c",
    ]
    command = [f"mpicc.{mpi}", *flags, *includes, f"-I{generated}", *map(str, sources)]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=300)
