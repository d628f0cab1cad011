"""Irregular collectives of 1100 ranks, the threads of one process (tests/c/many.c)."""

from __future__ import annotations

import re
from pathlib import Path

from conftest import install
from stub_build import HERE, link_alone
from support import execute

from collforge.toolchain import build

RANKS, NODES = 1100, 37
INT = 4


def kept(on_node: int, on_lane: int, targets: int) -> int:
    """Bytes of a carrier of so many ranks on its lane, of which so many are on its node."""
    return INT * (4 * RANKS + on_node * on_lane + targets * RANKS + 8 * on_node)


def test_no_rank_has_the_sizes_of_all_pairs(tmp_path: Path) -> None:
    """The program checks all results; here, what a rank keeps of the sizes (docs/design/runtime.md)."""
    made = install("mpich")
    folder = made.built.library_path.parent
    program = link_alone(
        folder, build.generated_folder(made.home), [HERE / "c" / "many.c"], tmp_path
    )
    done = execute([str(program), str(RANKS), str(NODES)], timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    found = re.fullmatch(
        r"node (\d+)\nfull_lane (\d+) (\d+)\nhierarchical (\d+) (\d+)\npassed\n", done.stdout
    )
    assert found, done.stdout
    on_node, by_lane, node_by_lane, by_leader, node_by_leader = map(int, found.groups())
    assert by_leader == kept(on_node, RANKS, on_node)
    assert node_by_leader == node_by_lane == by_leader + (on_node - 1) * kept(on_node, 0, 0)
    assert by_lane < 12 * INT * RANKS
