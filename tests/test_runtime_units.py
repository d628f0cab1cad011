"""The parts of the C runtime that need no MPI_Init: texts, layouts, sizes, the handle table."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from stub_build import HERE, RUNTIME, Build, make_build
from support import LIBRARIES, execute

from collforge import layout


@pytest.fixture(scope="module")
def build() -> Build:
    return make_build(LIBRARIES[0], "units")


@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
def test_handle_table(tmp_path: Path, sanitizer: str) -> None:
    program = tmp_path / "table"
    command = [
        "gcc",
        "-std=c11",
        "-g",
        "-O1",
        f"-fsanitize={sanitizer}",
        f"-I{RUNTIME / 'src'}",
    ]
    command += ["-pthread", "-o", str(program), str(HERE / "c" / "table.c")]
    assert execute([*command, str(RUNTIME / "src" / "base" / "handle_table.c")]).returncode == 0
    assert execute([str(program)]).stdout == "passed\n"


def test_schedules_of_the_circulant_graph(tmp_path: Path) -> None:
    """For each number of ranks: a rank has what it sends, and gets each block once, in the optimal time."""
    program = tmp_path / "circulant"
    command = ["gcc", "-std=c11", "-g", "-fsanitize=address,undefined", f"-I{RUNTIME / 'src'}"]
    command += ["-o", str(program), str(HERE / "c" / "circulant.c")]
    assert execute([*command, str(RUNTIME / "src" / "lane" / "circulant.c")]).returncode == 0
    assert execute([str(program), "600"]).stdout == "passed\n"


def test_sizes_are_bucketed_exactly(build: Build) -> None:
    assert build.units("sizes") == ["passed"]


def test_sha256(build: Build) -> None:
    """All lengths of the last block, which holds the length or not."""
    lengths = [*range(200), 1000]
    expected = [hashlib.sha256(bytes(i % 256 for i in range(n))).hexdigest() for n in lengths]
    assert build.units("sha256", *map(str, lengths)) == expected


@pytest.mark.parametrize(
    ("trials", "said"),
    [
        ("1:2:1", (True, 2, 1, 6)),
        ("1:2:1 0:1:8 1:4:1", (True, 3, 1, 12)),
        ("1:2:1 0:1:8", (False, 1, 8, 6)),
        ("0:1:2 0:3:8 1:4:1", (False, 2, 5, 12)),
    ],
)
def test_a_job_says_what_most_of_its_communicators_said(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trials: str, said: tuple[object]
) -> None:
    """In the mean of those. As many against a variant as for it are against it."""
    monkeypatch.setenv("COLLFORGE_LEARN", str(tmp_path))
    build.units("learn", *trials.split())
    (file,) = tmp_path.iterdir()
    (one,) = json.loads(file.read_text())["verdicts"]
    seconds = (one[name] / 1e9 for name in ("native_ns", "variant_ns"))
    assert (one["kept"], *seconds, one["pairs"]) == said


def test_a_map_takes_little_memory(build: Build) -> None:
    """200 points of the map with 16 collectives at 6 sizes, and communicators of 12 sizes."""
    (line,) = build.units("memory", "200", "6", "12")
    of_map, with_rules = map(int, line.split())
    assert 0 < of_map < with_rules < 1_000_000, line


@pytest.mark.parametrize(
    ("collective", "text", "expected"),
    [
        ("bcast", "native", "native"),
        ("bcast", "hierarchical", "hierarchical"),
        ("bcast", "full_lane", "full_lane[lane_algorithm=native,segment_bytes=4096]"),
        (
            "allreduce",
            "full_lane[segment_bytes=0,lane_algorithm=ring]",
            "full_lane[lane_algorithm=ring,segment_bytes=0]",
        ),
        (
            "bcast",
            "full_lane[segment_bytes=77]",
            "full_lane[lane_algorithm=native,segment_bytes=77]",
        ),
        ("bcast", "full_lane[segment_bytes=63]", "error"),
        ("bcast", "full_lane[segment_bytes=-1]", "error"),
        ("bcast", "full_lane[segment_bytes=4294967296]", "error"),
        ("bcast", "full_lane[segment_bytes=]", "error"),
        ("bcast", "full_lane[segment_bytes=64,segment_bytes=64]", "error"),
        ("bcast", "full_lane[lane_algorithm=tree]", "error"),
        ("bcast", "full_lane[lanes=2]", "error"),
        ("bcast", "full_lane[lane_algorithm]", "error"),
        ("bcast", "full_lane[lane_algorithm=ring,]", "error"),
        ("bcast", "full_lane[lane_algorithm=ring", "error"),
        ("bcast", "full_lane[lane_algorithm=ring]x", "error"),
        ("bcast", "full_lane[]", "error"),
        ("bcast", "native[]", "error"),
        ("bcast", "", "error"),
        ("allreduce", "hierarchical", "error"),
        ("barrier", "native", "error"),
        ("ibcast", "hierarchical", "hierarchical"),
        ("ibcast", "failing", "error"),  # it cannot be suspended
    ],
)
def test_choice(build: Build, collective: str, text: str, expected: str) -> None:
    (line,) = build.units("choice", collective, text)
    assert line == expected or (expected == "error" and line.startswith("error: "))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("*=hierarchical", ["bcast hierarchical", "gather hierarchical"]),
        ("gather=native;*=hierarchical;", ["bcast hierarchical", "gather native"]),
        ("*=failing;bcast=hierarchical", ["bcast hierarchical"]),
        ("bcast=failing;bcast=hierarchical", ["bcast hierarchical"]),
        ("", []),
    ],
)
def test_force(build: Build, text: str, expected: list[str]) -> None:
    assert build.units("force", text) == expected


@pytest.mark.parametrize("text", ["bcast", "=native", "*=no", "no=native", ";", "bcast=native;x"])
def test_malformed_force_is_ignored_as_a_whole(build: Build, text: str) -> None:
    (line,) = build.units("force", text)
    assert line.startswith("error: ")


def nodes_of(ranks: int, text: str) -> list[int]:
    """The node of each rank with this COLLFORGE_NODE_MAP."""
    if text.startswith("map:"):
        return [int(node) for node in text[4:].split(",")]
    sizes = [int(size) for size in text.split(",")]
    sizes += [sizes[-1]] * ranks
    return [node for node, size in enumerate(sizes) for _ in range(size)][:ranks]


@pytest.mark.parametrize(
    ("ranks", "text", "name"),
    [
        (4, "2", "2x2"),
        (4, "1", "4x1"),
        (4, "9", "1x4"),
        (1, "map:0", "1x1"),
        (4, "3,1", "3+1"),
        (6, "3,1", "3+1+1+1"),
        (5, "2,2,1,7", "2+2+1"),
        (6, "map:0,1,0,1,0,1", "cyclic:2x3"),
        (6, "map:5,4,3,5,4,3", "cyclic:3x2"),
        (5, "map:0,1,0,1,0", "map:0.1.0.1.0"),
        (4, "map:3,1,1,3", "map:0.1.1.0"),
        (4, "map:3,3,0,0", "2x2"),
        (
            64,
            "map:" + ",".join(["0", "1", "1", "0"] * 16),
            "map:" + ".".join("0110" * 16),
        ),
        (66, "map:" + ",".join("010" * 22), "map#f134a526e0563d35"),
        (201, ",".join(["2", "1"] * 67), "map#4ed496bd7278f595"),
        (240, ",".join(["1", "3"] * 60), "+".join(["1", "3"] * 60)),
        (249, ",".join(["10", *["3", "1"] * 59, "3"]), "map#986ddf9bf2cc4f69"),
    ],
)
def test_layout_names(build: Build, ranks: int, text: str, name: str) -> None:
    """C and Python agree."""
    assert build.units("map", str(ranks), text) == [name]
    assert layout.from_nodes(nodes_of(ranks, text)).name == name


@pytest.mark.parametrize(
    ("text", "sockets", "name"),
    [
        ("4", "00110011", "2x4-packed"),
        ("4", "00000000", "2x4-packed"),
        ("4", "00010111", "2x4-packed"),
        ("4", "11001100", "2x4-packed"),
        ("4", "01010101", "2x4-cyclic"),
        ("4", "01230123", "2x4-cyclic"),
        ("4", "00110101", "2x4"),
        ("4", "01100110", "2x4"),
        ("4", "0011001-", "2x4"),
        ("map:0,1,0,1,0,1,0,1", "00001111", "cyclic:2x4-packed"),
        ("map:0,1,0,1,0,1,0,1", "00110011", "cyclic:2x4-cyclic"),
        ("3,1,1", "0100101", "3+1+1+1+1-cyclic"),
        ("3,1,1", "0010000", "3+1+1+1+1-packed"),
        ("1", "01010101", "8x1"),
    ],
)
def test_sockets_in_layout_names(build: Build, text: str, sockets: str, name: str) -> None:
    """``sockets``: that of each rank. C and Python agree on the name that results."""
    size = 7 if "3" in text else 8
    assert build.units("map", str(size), text, sockets) == [name]
    assert layout.from_name(name).name == name


WRONG_BLOCKS = ["0", "-1", "a", "2,", ",2", "2,,2", "2,0", "2 ", "2;2", "99999999999"]
WRONG_PLACEMENTS = ["", "0,1,0", "0,1,0,4", "0,1,0,1,0", "0,1,0,1,", "0.1.0.1"]


@pytest.mark.parametrize("text", [*WRONG_BLOCKS, *(f"map:{text}" for text in WRONG_PLACEMENTS)])
def test_malformed_node_maps(build: Build, text: str) -> None:
    assert build.units("map", "4", text) == ["error: map"]


@pytest.mark.parametrize(
    "nodes",
    [[0, 0, 1, 1], [0, 0, 0, 1, 1], [0, 1, 0, 1, 0, 1], [0, 1, 1, 0, 0], [0], [0, 1]],
)
def test_lanes(build: Build, nodes: list[int]) -> None:
    """C's orders agree with their definition."""
    members = [[r for r, node in enumerate(nodes) if node == n] for n in range(max(nodes) + 1)]
    expected = []
    for title, k in (("full", min(map(len, members))), ("single", 1)):
        shares = [ranks[lane::k] for lane in range(k) for ranks in members]
        order = [rank for share in shares for rank in share]
        lanes = [sum(map(len, shares[lane * len(members) :][: len(members)])) for lane in range(k)]
        expected.append(f"{title}: k {k} identity {int(order == sorted(order))}")
        expected.append("  order " + " ".join(map(str, order)))
        expected.append("  lane_size " + " ".join(map(str, lanes)))
        expected.append("  share_size " + " ".join(str(len(share)) for share in shares))
    text = "map:" + ",".join(map(str, nodes))
    assert build.units("lanes", str(len(nodes)), text)[1:] == expected


def rules(build: Build, *winners: str) -> dict[int, str]:
    lines = build.units("rules", *winners)
    return {int(size): choice.partition("[")[0] for size, choice in map(str.split, lines)}


def test_forced_choice_goes_before_winners_of_its_collective(build: Build) -> None:
    found = rules(build, "*:1:hierarchical", "2x2:1024:full_lane")
    assert set(found.values()) == {"hierarchical"}


def test_no_rules_where_native_is_best(build: Build) -> None:
    for winner in ("4x1:64:hierarchical", "2x2:64:native"):
        assert build.units("rules", winner) == ["none"]
    assert build.units("rules", "2x2:64:hierarchical", "2x2x4:64:native") == ["none"]


@pytest.mark.parametrize(
    ("layout", "ranks"),
    [
        ("4x2", [8]),
        ("4x2x16", [8]),
        ("cyclic:3x5", [15]),
        ("cyclic:3x5x2", [15]),
        ("3+1+7", [11]),
        ("3+1x4", [4]),
        ("map:0.1.1.0.12", [5]),
        ("map:0.1x2", [2]),
        ("map#0123456789abcdef", [*range(1, 100)]),
        ("*", [*range(1, 100)]),
    ],
)
def test_no_layout_is_made_for_sizes_that_nobody_tuned(
    build: Build, layout: str, ranks: list[int]
) -> None:
    assert [int(line) for line in build.units("ranks", layout)] == ranks
