"""Irregular all-to-alls of 1100 ranks, the threads of one process (tests/c/many.c)."""

from __future__ import annotations

from pathlib import Path

from conftest import install
from stub_build import HERE, link_alone
from support import execute

from collforge.toolchain import build

RANKS, NODES = 1100, 37
INT = 4


def kept(on_node: int, on_lane: int, targets: int) -> int:
    """Bytes of a carrier of so many ranks on its lane, of which so many are on its node."""
    return INT * (6 * RANKS + on_node * on_lane + targets * RANKS + 8 * on_node)


def test_no_rank_has_the_sizes_of_all_pairs(tmp_path: Path) -> None:
    """The program checks all results; here, what a rank keeps of the sizes (docs/design/runtime.md)."""
    made = install("mpich")
    folder = made.built.library_path.parent
    program = link_alone(
        folder, build.generated_folder(made.home), [HERE / "c" / "many.c"], tmp_path
    )
    done = execute([str(program), str(RANKS), str(NODES)], timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    *lines, end = done.stdout.splitlines()
    assert (len(lines), end) == (RANKS, "passed")
    nodes: dict[int, list[tuple[int, int]]] = {}
    for line in lines:
        node, one_lane, many_lanes = map(int, line.split())
        nodes.setdefault(node, []).append((one_lane, many_lanes))
    assert len(nodes) == NODES and len({len(node) for node in nodes.values()}) > 1
    for node in nodes.values():
        one_lane, many_lanes = zip(*node)
        n = len(node)
        assert one_lane == (kept(n, RANKS, n), *[kept(n, 0, 0)] * (n - 1))
        assert sum(many_lanes) == sum(one_lane) and max(many_lanes) < 14 * INT * RANKS
